/* What works on one row at a time: embedding, norm, rotary embedding with the write into KV blocks. Per element type.
 */

#ifndef BRIAREUS_WORKER_DEVICE_CPU_ROWS_H
#define BRIAREUS_WORKER_DEVICE_CPU_ROWS_H
/* 1 / sqrt(mean of squares + eps); the sum in four interleaved chains. */
static float inverse_rms(const float *x, uint32_t width, float eps)
{
    VF sum[4] = {v_set(0), v_set(0), v_set(0), v_set(0)};
    uint32_t j = 0;
    for (; j + 64 <= width; j += 64)
        for (int c = 0; c < 4; c++) {
            VF v = v_load(x + j + 16 * c);
            sum[c] = v_fma(v, v, sum[c]);
        }
    for (int c = 0; j < width; j += 16, c++) {
        VF v = v_load_n(x + j, at_most_16(width - j));
        sum[c] = v_fma(v, v, sum[c]);
    }
    float total = v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
    return 1.0f / sqrtf(total / (float)width + eps);
}

static void norm_in_place(float *x, const float *weight, uint32_t width, float eps)
{
    VF scale = v_set(inverse_rms(x, width, eps));
    for (uint32_t j = 0; j < width; j += 16) {
        uint32_t n = at_most_16(width - j);
        v_store_n(x + j, v_mul(v_mul(v_load_n(x + j, n), scale), v_load_n(weight + j, n)), n);
    }
}

/* Rotates pairs (d, d + head_dim/2) by the angles of one position and scales. */
static void rotate(float *x, const float *cos_sin, uint32_t head_dim, float scale)
{
    uint32_t half = head_dim / 2;
    for (uint32_t d = 0; d < half; d += 16) {
        uint32_t n = at_most_16(half - d);
        VF a = v_load_n(x + d, n), b = v_load_n(x + half + d, n), by = v_set(scale);
        VF c = v_load_n(cos_sin + d, n), s = v_load_n(cos_sin + half + d, n);
        v_store_n(x + d, v_mul(by, v_sub(v_mul(a, c), v_mul(b, s))), n);
        v_store_n(x + half + d, v_mul(by, v_add(v_mul(b, c), v_mul(a, s))), n);
    }
}
#endif

static void FN(norm_row)(const float *in, const float *weight, uint32_t width, float eps, void *out)
{
    VF scale = v_set(inverse_rms(in, width, eps));
    uint32_t stride = (uint32_t)br_act_stride(width, CELL_ELTS == 2 ? BR_NUMERIC_BF16 : BR_NUMERIC_F32) / sizeof(ELT);
    for (uint32_t j = 0; j < stride; j += 16) {
        uint32_t n = j < width ? at_most_16(width - j) : 0;
        FN(elt_store)((ELT *)out + j, v_mul(v_mul(v_load_n(in + j, n), scale), v_load_n(weight + j, n)));
    }
}

/* A column of the head's panels. */
static void FN(embed_column)(const char *panels, uint32_t id, uint32_t hidden, float *out)
{
    size_t cells = (hidden + CELL_ELTS - 1) / CELL_ELTS;
    const char *column = panels + (id / BR_PANEL * cells * BR_PANEL + id % BR_PANEL) * 4;
    ELT cell[16];
    for (uint32_t j = 0; j < hidden; j += 16) {
        memset(cell, 0, sizeof cell);
        for (uint32_t i = 0; i < 16 && j + i < CELL_ELTS * cells; i += CELL_ELTS)
            memcpy(cell + i, column + (size_t)(j + i) / CELL_ELTS * 4 * BR_PANEL, 4);
        v_store(out + j, FN(elt_load)(cell));
    }
}

static void FN(embed_row)(const struct br_embed_op *op, uint32_t row)
{
    uint32_t id = (uint32_t)((const int32_t *)cpu_at(op->batch.ids))[row];
    float *out = (float *)((char *)cpu_at(op->out) + row * br_f32_stride(op->hidden));
    const ELT *table = cpu_at(op->weights);
    if (op->panels) {
        FN(embed_column)((const char *)table, id, op->hidden, out);
        return;
    }
    for (uint32_t j = 0; j < op->hidden; j += 16)
        v_store(out + j, FN(elt_load_n)(table + (size_t)id * op->hidden + j, at_most_16(op->hidden - j)));
}

static void FN(to_elements)(ELT *out, const float *x, uint32_t n)
{
    for (uint32_t j = 0; j < n; j += 16)
        FN(elt_store_n)(out + j, v_load_n(x + j, at_most_16(n - j)), at_most_16(n - j));
}

/* Puts one position's K (cells of 64-byte vectors, one lane a position) or V into its block. */
static void FN(put_key)(char *block, uint32_t slot, const ELT *k, uint32_t head_dim)
{
    for (uint32_t c = 0; c < head_dim / CELL_ELTS; c++)
        memcpy(block + ((size_t)c * BR_KV_BLOCK_TOKENS + slot) * 4, k + (size_t)c * CELL_ELTS, 4);
}

static void FN(put_value)(char *block, uint32_t slot, const ELT *v, uint32_t head_dim)
{
    ELT *out = (ELT *)block + (size_t)(slot / CELL_ELTS) * head_dim * CELL_ELTS + slot % CELL_ELTS;
    for (uint32_t d = 0; d < head_dim; d++)
        out[(size_t)d * CELL_ELTS] = v[d];
}

struct FN(rope) {
    const struct br_rope_op *op;
    const float *cos_sin;
    float *x;
    ELT *elements;
};

/* One head of q or k: norm, rotation, rounding into r->elements. */
static void FN(rope_head)(const struct FN(rope) * r, const float *in, br_devptr norm, float scale)
{
    uint32_t head_dim = r->op->head_dim;
    memcpy(r->x, in, head_dim * sizeof *in);
    if (norm)
        norm_in_place(r->x, cpu_at(norm), head_dim, r->op->eps);
    rotate(r->x, r->cos_sin, head_dim, scale);
    FN(to_elements)(r->elements, r->x, head_dim);
}

static char *FN(row_block)(const struct br_rope_op *op, uint32_t row, uint32_t pos)
{
    uint32_t index = ((const uint32_t *)cpu_at(op->batch.row_item))[row];
    const struct br_batch_item *item = (const struct br_batch_item *)cpu_at(op->batch.item) + index;
    return cpu_at(((const br_devptr *)cpu_at(op->batch.table))[item->table + pos / BR_KV_BLOCK_TOKENS]);
}

static void FN(rope_row)(const struct br_rope_op *op, uint32_t row, void *scratch)
{
    uint32_t head_dim = op->head_dim, pos = ((const uint32_t *)cpu_at(op->batch.pos))[row];
    uint32_t width = (op->heads + 2 * op->kv_heads) * head_dim, slot = pos % BR_KV_BLOCK_TOKENS;
    const float *in = (const float *)((const char *)cpu_at(op->qkv) + row * br_f32_stride(width));
    ELT *q = (ELT *)((char *)cpu_at(op->q) + row * br_act_stride(op->heads * head_dim, op->numeric));
    char *block = FN(row_block)(op, row, pos);
    struct FN(rope) r = {op, (const float *)cpu_at(op->cos_sin) + (size_t)pos * head_dim, scratch,
                         (ELT *)((float *)scratch + BR_MAX_HEAD_DIM)};
    for (uint32_t h = 0; h < op->heads; h++, in += head_dim) {
        FN(rope_head)(&r, in, op->q_norm, 1.0f / sqrtf((float)head_dim));
        memcpy(q + (size_t)h * head_dim, r.elements, head_dim * sizeof(ELT));
    }
    for (uint32_t h = 0; h < op->kv_heads; h++, in += head_dim) {
        char *k = block + br_kv_offset(op->layer, h, op->kv_heads, head_dim, op->numeric);
        FN(rope_head)(&r, in, op->k_norm, 1);
        FN(put_key)(k, slot, r.elements, head_dim);
        FN(to_elements)(r.elements, in + (size_t)op->kv_heads * head_dim, head_dim);
        FN(put_value)(k + (size_t)BR_KV_BLOCK_TOKENS * head_dim * sizeof(ELT), slot, r.elements, head_dim);
    }
}
