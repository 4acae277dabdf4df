#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "worker/weights/gguf.h"
#include "worker/weights/quant.h"

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Heads of a tensor whose rows are interleaved; 0: not one of those. */
static uint32_t heads_of(const struct br_tensor *t, const struct br_gguf_info *info)
{
    if (!info->interleaved || strncmp(t->name, "model.layers.", 13) != 0)
        return 0;
    if (ends_with(t->name, ".q_proj.weight") || ends_with(t->name, ".q_proj.bias"))
        return info->heads;
    if (ends_with(t->name, ".k_proj.weight") || ends_with(t->name, ".k_proj.bias"))
        return info->kv_heads ? info->kv_heads : info->heads;
    return 0;
}

/* Embedding and head are not multiplied with as blocks. */
static bool becomes_f32(const struct br_tensor *t)
{
    return br_quant_block_kind(t->dtype_name) && t->rank == 2 &&
           (strcmp(t->name, "model.embed_tokens.weight") == 0 || strcmp(t->name, "lm_head.weight") == 0);
}

static uint64_t lines(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int copy_bytes(const struct br_tensor *t, const struct br_gguf_info *info, uint64_t *bytes, struct br_err *err)
{
    uint32_t heads = heads_of(t, info);
    *bytes = becomes_f32(t) ? lines(t->elements * 4) : heads ? lines(t->bytes) : 0;
    if (heads && t->shape[0] % (2ull * heads))
        return br_err_set(err, BR_ECORRUPT, "%s: tensor %s: %" PRIu64 " rows are no whole number of %u heads", t->file,
                          t->name, t->shape[0], heads);
    return 0;
}

/* Row 2i + j of a head is row j * half + i of Hugging Face's. */
static void rows_restore(struct br_tensor *t, uint32_t heads, unsigned char *out)
{
    uint64_t row_bytes = t->bytes / t->shape[0], per_head = t->shape[0] / heads, half = per_head / 2;
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t row = 0; row < per_head; row++)
            memcpy(out + (h * per_head + row % 2 * half + row / 2) * row_bytes,
                   t->data + (h * per_head + row) * row_bytes, row_bytes);
    t->data = out;
}

static int dequantise(struct br_tensor *t, unsigned char *out, struct br_err *err)
{
    struct br_quant_source src;
    struct br_quant_row row;
    int rc = br_quant_of_blocks(t, &src, err);
    if (rc)
        return rc;
    br_quant_row_init(&row, &src.format, src.k);
    for (uint64_t n = 0; n < src.n; n++)
        br_quant_row_values(&src, n, &row, (float *)(void *)(out + n * src.k * 4));
    br_quant_row_free(&row);
    t->data = out;
    t->bytes = t->elements * 4;
    t->dtype = BR_TENSOR_F32;
    snprintf(t->dtype_name, sizeof t->dtype_name, "F32");
    return 0;
}

int br_gguf_adapt(struct br_tensor_table *table, const struct br_gguf_info *info, unsigned char **copies,
                  struct br_err *err)
{
    uint64_t total = 0, bytes;
    unsigned char *at;
    int rc = 0;
    *copies = NULL;
    for (size_t i = 0; i < table->n && !rc; i++, total += bytes)
        rc = copy_bytes(&table->tensors[i], info, &bytes, err);
    if (rc || !total)
        return rc;
    if (!(at = *copies = aligned_alloc(64, total)))
        return br_err_set(err, BR_ENOMEM, "no memory for %" PRIu64 " bytes of embedding, head, q and k", total);
    for (size_t i = 0; i < table->n && !rc; i++) {
        struct br_tensor *t = &table->tensors[i];
        copy_bytes(t, info, &bytes, err);
        if (becomes_f32(t))
            rc = dequantise(t, at, err);
        else if (bytes)
            rows_restore(t, heads_of(t, info), at);
        at += bytes;
    }
    return rc;
}
