#include "worker/weights/layout.h"

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

uint64_t br_panel_bytes(uint64_t k, uint64_t n, enum br_numeric numeric)
{
    uint64_t columns = round_up(n, BR_PANEL);
    return numeric == BR_NUMERIC_BF16 ? columns * round_up(k, 2) * 2 : columns * k * 4;
}

uint64_t br_matrix_bytes(uint64_t k, uint64_t n, enum br_numeric numeric, const struct br_matrix_format *format)
{
    if (!format->code)
        return br_panel_bytes(k, n, numeric);
    return br_quant_index_bytes(format, k) + (n + BR_PANEL - 1) / BR_PANEL * br_quant_panel_at(format, k).bytes;
}

void br_layout_matrix_size(const struct br_model_layout *m, enum br_matrix matrix, uint64_t *k, uint64_t *n)
{
    const struct br_model_shape *s = &m->shape;
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    const uint64_t sizes[BR_MATRICES][2] = {[BR_MATRIX_QKV] = {s->hidden, q + 2 * kv},
                                            [BR_MATRIX_O] = {q, s->hidden},
                                            [BR_MATRIX_GATE_UP] = {s->hidden, 2ull * m->ffn_padded},
                                            [BR_MATRIX_DOWN] = {m->ffn_padded, s->hidden}};
    *k = sizes[matrix][0];
    *n = sizes[matrix][1];
}

/* Takes `bytes` at the end of the unit and returns where they begin. */
static uint64_t place(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;
    *end = round_up(at + bytes, 64);
    return at;
}

static uint64_t place_matrix(const struct br_model_layout *m, enum br_matrix matrix, uint64_t *end)
{
    uint64_t k, n;
    br_layout_matrix_size(m, matrix, &k, &n);
    return place(end, br_matrix_bytes(k, n, m->numeric, &m->format[matrix]));
}

static void layer_layout(struct br_model_layout *m)
{
    const struct br_model_shape *s = &m->shape;
    struct br_layer_offsets *o = &m->layer;
    uint64_t qkv_n = (uint64_t)(s->heads + 2 * s->kv_heads) * s->head_dim, end = 0;
    o->attn_norm = place(&end, 4ull * s->hidden);
    o->qkv = place_matrix(m, BR_MATRIX_QKV, &end);
    o->qkv_bias = s->qkv_bias ? place(&end, 4 * round_up(qkv_n, BR_PANEL)) : UINT64_MAX;
    o->q_norm = s->qk_norm ? place(&end, 4ull * s->head_dim) : UINT64_MAX;
    o->k_norm = s->qk_norm ? place(&end, 4ull * s->head_dim) : UINT64_MAX;
    o->o = place_matrix(m, BR_MATRIX_O, &end);
    o->mlp_norm = place(&end, 4ull * s->hidden);
    o->gate_up = place_matrix(m, BR_MATRIX_GATE_UP, &end);
    o->down = place_matrix(m, BR_MATRIX_DOWN, &end);
    o->bytes = end;
}

void br_model_layout_init(struct br_model_layout *m, const struct br_model_shape *shape, enum br_numeric numeric,
                          const struct br_matrix_format *formats)
{
    uint64_t elt = numeric == BR_NUMERIC_BF16 ? 2 : 4, end = 0;
    *m = (struct br_model_layout){.shape = *shape, .numeric = numeric, .units = shape->layers + 2};
    m->ffn_padded = (uint32_t)round_up(shape->ffn, 32);
    for (int i = 0; formats && i < BR_MATRICES; i++)
        m->format[i] = formats[i];
    m->embed_bytes = round_up(shape->tied ? br_panel_bytes(shape->hidden, shape->vocab, numeric)
                                          : (uint64_t)shape->vocab * shape->hidden * elt,
                              64);
    layer_layout(m);
    m->final_norm = place(&end, 4ull * shape->hidden);
    m->head = shape->tied ? UINT64_MAX : place(&end, br_panel_bytes(shape->hidden, shape->vocab, numeric));
    m->last_bytes = end;
    m->kv_block_bytes = br_kv_block_bytes(shape, numeric);
}

uint64_t br_layout_unit_bytes(const struct br_model_layout *m, uint32_t unit)
{
    if (unit == 0)
        return m->embed_bytes;
    return unit == m->units - 1 ? m->last_bytes : m->layer.bytes;
}

uint64_t br_layout_total_bytes(const struct br_model_layout *m)
{
    return m->embed_bytes + m->layer.bytes * m->shape.layers + m->last_bytes;
}
