/* Image files: made, mapped, closed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "worker/weights/image_books.h"
#include "worker/weights/memory.h"

/* The cache lies in a folder that others may write to (/dev/shm): take only what is ours alone. */
static int file_open(const char *path, uint64_t *bytes, struct br_err *err)
{
    struct stat sb;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW), rc = 0;
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

static struct br_weight_image *image_alloc(const char *path, int fd, const unsigned char *map, uint64_t bytes)
{
    struct br_weight_image *image = br_calloc(1, sizeof *image);
    image->books = br_calloc(1, sizeof *image->books);
    image->books->fd = fd;
    pthread_mutex_init(&image->books->lock, NULL);
    image->map = map;
    image->map_bytes = bytes;
    snprintf(image->path, sizeof image->path, "%s", path);
    return image;
}

static int image_describe(struct br_weight_image *image, struct br_err *err)
{
    const struct br_image_header *h = (const struct br_image_header *)(const void *)image->map;
    int rc = br_image_header_check(h, image->map_bytes, &image->layout, err);
    if (rc)
        return rc;
    image->books->header = (void *)br_memory_map(image->books->fd, 0, h->header_bytes, true);
    if (!image->books->header)
        return br_err_errno(err, BR_ENOMEM, "mapping %u bytes", h->header_bytes);
    image->unit_offset = br_calloc(h->units, sizeof *image->unit_offset);
    image->books->uses = br_calloc(h->units, sizeof *image->books->uses);
    for (uint32_t i = 0; i < h->units; i++)
        image->unit_offset[i] = h->unit[i].offset;
    return 0;
}

int image_map(const char *path, struct br_weight_image **out, struct br_err *err)
{
    uint64_t bytes = 0;
    unsigned char *map;
    int rc, fd = file_open(path, &bytes, err);
    if (fd < 0)
        return br_err_wrap(err, "%s", path);
    map = bytes ? br_memory_map(fd, 0, bytes, false) : NULL;
    if (!map) {
        close(fd);
        return br_err_set(err, bytes ? BR_ENOMEM : BR_ECORRUPT, "%s: cannot map %" PRIu64 " bytes", path, bytes);
    }
    br_memory_spread(map, bytes);
    *out = image_alloc(path, fd, map, bytes);
    rc = image_describe(*out, err);
    if (!rc)
        return 0;
    br_weight_image_close(*out);
    *out = NULL;
    return br_err_wrap(err, "%s", path);
}

static void header_write(struct br_image_header *h, const struct br_weight_source *source)
{
    br_image_header_fill(h, &source->packer.layout, source->config_hash);
    h->checksum = br_image_header_checksum(h);
    h->stamp = source->stamp;
    __atomic_store_n(&h->commit, BR_IMAGE_COMMIT, __ATOMIC_RELEASE);
}

static int file_make(int fd, const struct br_weight_source *source, struct br_err *err)
{
    uint32_t head = br_image_header_bytes(source->packer.layout.units);
    uint64_t bytes = br_image_file_bytes(&source->packer.layout);
    struct br_image_header *h;
    int rc;
    if (ftruncate(fd, (off_t)bytes) < 0)
        return br_err_errno(err, errno == EFBIG || errno == ENOSPC ? BR_ENOMEM : BR_EIO, "making it %" PRIu64 " bytes",
                            bytes);
    h = (void *)br_memory_map(fd, 0, head, true);
    if (!h)
        return br_err_errno(err, BR_ENOMEM, "mapping %u bytes", head);
    rc = br_memory_populate(fd, 0, h, head, err);
    if (!rc)
        header_write(h, source);
    br_memory_unmap(h, head);
    return rc;
}

int image_create(const char *path, const struct br_weight_source *source, struct br_err *err)
{
    char tmp[520];
    int fd, rc;
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    unlink(tmp); /* of a builder that died: the caller holds the lock */
    fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return br_err_errno(err, BR_EIO, "%s", tmp);
    rc = file_make(fd, source, err);
    close(fd);
    if (rc == 0 && rename(tmp, path) < 0)
        rc = br_err_errno(err, BR_EIO, "rename");
    if (rc) {
        unlink(tmp);
        return br_err_wrap(err, "%s", tmp);
    }
    return 0;
}

void image_join(struct br_weight_image *image, struct br_weight_store *store, const char *dir)
{
    image->books->store = store;
    image->books->dir = dir ? br_strdup(dir) : NULL;
    pthread_mutex_lock(&store->lock);
    image->books->next = store->images;
    store->images = image;
    pthread_mutex_unlock(&store->lock);
}

static void image_leave(struct br_weight_image *image)
{
    struct br_weight_store *store = image->books->store;
    struct br_weight_image **at = &store->images;
    pthread_mutex_lock(&store->lock);
    while (store->running)
        pthread_cond_wait(&store->changed, &store->lock);
    while (*at != image)
        at = &(*at)->books->next;
    *at = image->books->next;
    pthread_mutex_unlock(&store->lock);
}

void br_weight_image_close(struct br_weight_image *image)
{
    struct br_image_books *b;
    if (!image)
        return;
    b = image->books;
    if (!b) {
        free(image->outline);
        free(image);
        return;
    }
    if (b->store)
        image_leave(image);
    br_weight_source_close(b->source);
    if (b->header)
        br_memory_unmap(b->header, b->header->header_bytes);
    br_memory_unmap(image->map, image->map_bytes);
    close(b->fd);
    if (b->own_store)
        br_weight_store_close(b->store);
    pthread_mutex_destroy(&b->lock);
    free(b->uses);
    free(b->dir);
    free(b);
    free(image->unit_offset);
    free(image);
}
