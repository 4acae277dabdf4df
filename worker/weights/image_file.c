#include "worker/weights/image_file.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/buf.h"
#include "cost/shape_limits.h"
#include "worker/weights/memory.h"

/* From here on a unit begins on a huge page: it wastes at most a fifth of itself. */
enum { HUGE_UNIT_BYTES = 8 << 20 };

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static uint32_t states_at(uint32_t units)
{
    return (uint32_t)round_up(sizeof(struct br_image_header) + units * sizeof(struct br_image_unit), 64);
}

uint32_t br_image_header_bytes(uint32_t units)
{
    return (uint32_t)round_up(states_at(units) + units * sizeof(struct br_image_state), BR_PAGE);
}

void br_image_header_fill(struct br_image_header *h, const struct br_model_layout *layout, uint64_t config_hash)
{
    uint64_t at = br_image_header_bytes(layout->units);
    h->magic = BR_IMAGE_MAGIC;
    h->layout_version = BR_LAYOUT_VERSION;
    h->header_bytes = (uint32_t)at;
    h->shape_bytes = sizeof h->shape;
    h->units = layout->units;
    h->numeric = layout->numeric;
    h->tp_size = 1;
    h->states_at = states_at(layout->units);
    h->config_hash = config_hash;
    memcpy(&h->shape, &layout->shape, sizeof h->shape);
    memcpy(h->format, layout->format, sizeof h->format);
    for (uint32_t i = 0; i < layout->units; i++) {
        h->unit[i].bytes = br_layout_unit_bytes(layout, i);
        h->unit[i].offset = round_up(at, h->unit[i].bytes >= HUGE_UNIT_BYTES ? BR_HUGE_PAGE : BR_PAGE);
        at = h->unit[i].offset + round_up(h->unit[i].bytes, BR_PAGE);
    }
    h->file_bytes = at;
}

uint64_t br_image_file_bytes(const struct br_model_layout *layout)
{
    struct br_image_header *h = br_calloc(1, br_image_header_bytes(layout->units));
    uint64_t bytes;
    br_image_header_fill(h, layout, 0);
    bytes = h->file_bytes;
    free(h);
    return bytes;
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
    if (h->units < 3 || h->units > BR_SHAPE_MAX_LAYERS + 2 || h->header_bytes != br_image_header_bytes(h->units) ||
        h->states_at != states_at(h->units))
        return br_err_set(err, BR_ECORRUPT, "header of %u bytes for %u units", h->header_bytes, h->units);
    if (h->file_bytes != file_bytes || file_bytes < h->header_bytes)
        return br_err_set(err, BR_ECORRUPT, "%" PRIu64 " bytes, its header says %" PRIu64, file_bytes, h->file_bytes);
    if (h->tp_size != 1 || h->tp_rank != 0)
        return br_err_set(err, BR_ECORRUPT, "part %u of %u of the model", h->tp_rank, h->tp_size);
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
    br_image_header_fill(expected, layout, h->config_hash);
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

static uint64_t seal_of(uint64_t checksum, uint64_t content)
{
    uint64_t parts[] = {BR_IMAGE_MAGIC, checksum, content};
    return XXH3_64bits(parts, sizeof parts);
}

bool br_image_state_known(const struct br_image_state *s, uint64_t *checksum, uint64_t *content)
{
    *checksum = atomic_load(&s->checksum);
    *content = atomic_load(&s->content);
    return atomic_load(&s->seal) == seal_of(*checksum, *content);
}

void br_image_state_note(struct br_image_state *s, uint64_t checksum, uint64_t content)
{
    atomic_store(&s->checksum, checksum);
    atomic_store(&s->content, content);
    atomic_store(&s->seal, seal_of(checksum, content));
}
