#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/buf.h"
#include "worker/weights/image.h"

static uint64_t whole_lines(double bytes)
{
    return ((uint64_t)ceil(bytes) + 63) / 64 * 64;
}

/* What a layout says of a shape; how it computes does not matter here. */
static struct br_model_shape shape_of(const struct br_model_entry *entry, uint32_t vocab)
{
    const struct br_model_size *size = &entry->footprint.size;
    return (struct br_model_shape){.hidden = size->hidden,
                                   .ffn = size->ffn,
                                   .layers = size->layers,
                                   .heads = size->heads,
                                   .kv_heads = size->kv_heads,
                                   .head_dim = size->head_dim,
                                   .vocab = vocab,
                                   .max_positions = entry->context,
                                   .tied = size->tied,
                                   .bos = -1};
}

/* Embedding and head in 16 bits, as in every format; everything else is spread over the layers. */
static void units_size(struct br_model_layout *m, const struct br_footprint *f)
{
    double embed = 2 * (f->size.tied ? f->head_params : f->embedding_params);
    double last = 2 * (f->size.tied ? 0 : f->head_params) + 2.0 * f->size.hidden;
    m->embed_bytes = whole_lines(embed);
    m->last_bytes = whole_lines(last);
    m->layer.bytes = whole_lines((f->weight_bytes - embed - last) / f->size.layers);
}

static uint64_t key_of(const struct br_model_entry *entry)
{
    return XXH3_64bits(entry->name, strlen(entry->name));
}

void br_weight_image_outline(const struct br_model_entry *entry, uint32_t tensor_parallel, uint32_t vocab,
                             int32_t first_id, uint32_t n_ids, struct br_weight_image **out)
{
    struct br_weight_image *image = br_calloc(1, sizeof *image);
    struct br_model_layout *m = &image->layout;
    const struct br_footprint *f = &entry->footprint;
    uint32_t heads = f->size.kv_heads, held = (heads + tensor_parallel - 1) / tensor_parallel * tensor_parallel;
    image->outline = br_calloc(1, sizeof *image->outline);
    *image->outline = (struct br_model_outline){*f, key_of(entry), first_id, n_ids};
    m->shape = shape_of(entry, vocab);
    m->numeric = BR_NUMERIC_BF16;
    m->units = m->shape.layers + 2;
    m->outline = image->outline;
    m->kv_block_bytes = whole_lines(BR_KV_BLOCK_TOKENS * f->kv_bytes_per_token * held / heads);
    units_size(m, f);
    *out = image;
}
