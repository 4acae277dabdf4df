#include "worker/weights/image_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/buf.h"
#include "cost/shape_limits.h"

uint32_t br_image_header_bytes(uint32_t units)
{
    size_t bytes = sizeof(struct br_image_header) + units * sizeof(struct br_image_unit);
    return (uint32_t)((bytes + 4095) / 4096 * 4096);
}

void br_image_header_fill(struct br_image_header *h, const struct br_model_layout *layout)
{
    uint64_t at = br_image_header_bytes(layout->units);
    h->magic = BR_IMAGE_MAGIC;
    h->layout_version = BR_LAYOUT_VERSION;
    h->header_bytes = (uint32_t)at;
    h->shape_bytes = sizeof h->shape;
    h->units = layout->units;
    h->numeric = layout->numeric;
    memcpy(&h->shape, &layout->shape, sizeof h->shape);
    memcpy(h->format, layout->format, sizeof h->format);
    for (uint32_t i = 0; i < layout->units; i++) {
        h->unit[i].offset = at;
        h->unit[i].bytes = br_layout_unit_bytes(layout, i);
        at += (h->unit[i].bytes + 63) / 64 * 64;
    }
    h->file_bytes = at;
}

uint64_t br_image_header_checksum(const struct br_image_header *h)
{
    uint64_t parts[] = {XXH3_64bits(h, offsetof(struct br_image_header, checksum)),
                        XXH3_64bits(h->unit, h->units * sizeof h->unit[0])};
    return XXH3_64bits(parts, sizeof parts);
}

/* What the header says of itself, before its table may be touched. */
static int header_check_sizes(const struct br_image_header *h, uint64_t file_bytes, struct br_err *err)
{
    if (file_bytes < sizeof *h || h->magic != BR_IMAGE_MAGIC)
        return br_err_set(err, BR_ECORRUPT, "%" PRIu64 " bytes, not a weight image", file_bytes);
    if (h->commit != BR_IMAGE_COMMIT)
        return br_err_set(err, BR_ECORRUPT, "not committed: the process that built it did not finish");
    if (h->layout_version != BR_LAYOUT_VERSION || h->shape_bytes != sizeof h->shape)
        return br_err_set(err, BR_ECORRUPT, "layout version %u, shape of %u bytes; this program uses %d and %zu",
                          h->layout_version, h->shape_bytes, BR_LAYOUT_VERSION, sizeof h->shape);
    if (h->units < 3 || h->units > BR_SHAPE_MAX_LAYERS + 2 || h->header_bytes != br_image_header_bytes(h->units))
        return br_err_set(err, BR_ECORRUPT, "header of %u bytes for %u units", h->header_bytes, h->units);
    if (h->file_bytes != file_bytes || file_bytes < h->header_bytes)
        return br_err_set(err, BR_ECORRUPT, "%" PRIu64 " bytes, its header says %" PRIu64, file_bytes, h->file_bytes);
    if (h->checksum != br_image_header_checksum(h))
        return br_err_set(err, BR_ECORRUPT, "header checksum is wrong");
    return 0;
}

int br_image_header_check(const struct br_image_header *h, uint64_t file_bytes, struct br_model_layout *layout,
                          struct br_err *err)
{
    struct br_image_header *expected;
    int rc = header_check_sizes(h, file_bytes, err);
    if (rc)
        return rc;
    if ((h->numeric != BR_NUMERIC_BF16 && h->numeric != BR_NUMERIC_F32) || h->shape.layers + 2 != h->units)
        return br_err_set(err, BR_ECORRUPT, "numeric %u, %u layers, %u units", h->numeric, h->shape.layers, h->units);
    if ((rc = br_model_shape_check(&h->shape, err)))
        return rc;
    for (int i = 0; i < BR_MATRICES; i++)
        if (!br_matrix_format_valid(&h->format[i]))
            return br_err_set(err, BR_ECORRUPT, "matrix %d of a layer has an unknown format", i);
    br_model_layout_init(layout, &h->shape, (enum br_numeric)h->numeric, h->format);
    expected = br_calloc(1, h->header_bytes);
    br_image_header_fill(expected, layout);
    for (uint32_t i = 0; i < h->units && !rc; i++)
        if (h->unit[i].offset != expected->unit[i].offset || h->unit[i].bytes != expected->unit[i].bytes)
            rc = br_err_set(err, BR_ECORRUPT, "unit %u lies at %" PRIu64 ", its shape says %" PRIu64, i,
                            h->unit[i].offset, expected->unit[i].offset);
    if (!rc && expected->file_bytes != file_bytes)
        rc = br_err_set(err, BR_ECORRUPT, "%" PRIu64 " bytes, its shape says %" PRIu64, file_bytes,
                        expected->file_bytes);
    free(expected);
    return rc;
}

static int units_verify(const struct br_image_header *h, struct br_err *err)
{
    for (uint32_t i = 0; i < h->units; i++) {
        uint64_t sum = XXH3_64bits((const unsigned char *)h + h->unit[i].offset, h->unit[i].bytes);
        if (sum != h->unit[i].checksum)
            return br_err_set(err, BR_ECORRUPT, "unit %u: checksum %016" PRIx64 ", header says %016" PRIx64, i, sum,
                              h->unit[i].checksum);
    }
    return 0;
}

/* The cache lies in a folder that others may write to (/dev/shm): take only what is ours alone. */
static int file_open(const char *path, uint64_t *bytes, struct br_err *err)
{
    struct stat sb;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc = 0;
    if (fd < 0)
        return br_err_errno(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "open");
    if (fstat(fd, &sb) < 0)
        rc = br_err_errno(err, BR_EIO, "stat");
    else if (!S_ISREG(sb.st_mode) || sb.st_uid != geteuid() || (sb.st_mode & 077))
        rc = br_err_set(err, BR_EINVAL, "mode %04o, owner %u: must be a file of mode 0600 owned by user %u",
                        sb.st_mode & 07777u, sb.st_uid, geteuid());
    if (rc) {
        close(fd);
        return rc;
    }
    *bytes = (uint64_t)sb.st_size;
    return fd;
}

static struct br_weight_image *image_create(const char *path, const struct br_image_header *h, uint64_t bytes)
{
    struct br_weight_image *image = br_calloc(1, sizeof *image);
    image->map = (const unsigned char *)h;
    image->map_bytes = bytes;
    snprintf(image->path, sizeof image->path, "%s", path);
    return image;
}

int br_image_map(const char *path, bool verify, struct br_weight_image **out, struct br_err *err)
{
    struct br_weight_image *image;
    const struct br_image_header *h;
    uint64_t bytes = 0;
    int rc, fd = file_open(path, &bytes, err);
    if (fd < 0)
        return br_err_wrap(err, "%s", path);
    h = bytes ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (h == MAP_FAILED)
        return br_err_set(err, bytes ? BR_ENOMEM : BR_ECORRUPT, "%s: cannot map %" PRIu64 " bytes", path, bytes);
    image = image_create(path, h, bytes);
    rc = br_image_header_check(h, bytes, &image->layout, err);
    if (!rc && verify)
        rc = units_verify(h, err);
    if (rc) {
        br_weight_image_close(image);
        return br_err_wrap(err, "%s", path);
    }
    image->key = h->key;
    image->unit_offset = br_calloc(h->units, sizeof *image->unit_offset);
    for (uint32_t i = 0; i < h->units; i++)
        image->unit_offset[i] = h->unit[i].offset;
    *out = image;
    return 0;
}

int br_weight_image_attach(const char *path, struct br_weight_image **out, struct br_err *err)
{
    return br_image_map(path, true, out, err);
}

void br_weight_image_close(struct br_weight_image *image)
{
    if (!image)
        return;
    if (image->map)
        munmap((void *)image->map, image->map_bytes);
    free(image->unit_offset);
    free(image->outline);
    free(image);
}
