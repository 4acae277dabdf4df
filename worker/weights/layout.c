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

/* Takes `bytes` at the end of the unit and returns where they begin. */
static uint64_t place(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;
    *end = round_up(at + bytes, 64);
    return at;
}

static void layer_layout(struct br_model_layout *m)
{
    const struct br_model_shape *s = &m->shape;
    struct br_layer_offsets *o = &m->layer;
    uint64_t qkv_n = (uint64_t)(s->heads + 2 * s->kv_heads) * s->head_dim, end = 0;
    o->attn_norm = place(&end, 4ull * s->hidden);
    o->qkv = place(&end, br_panel_bytes(s->hidden, qkv_n, m->numeric));
    o->qkv_bias = s->qkv_bias ? place(&end, 4 * round_up(qkv_n, BR_PANEL)) : UINT64_MAX;
    o->q_norm = s->qk_norm ? place(&end, 4ull * s->head_dim) : UINT64_MAX;
    o->k_norm = s->qk_norm ? place(&end, 4ull * s->head_dim) : UINT64_MAX;
    o->o = place(&end, br_panel_bytes((uint64_t)s->heads * s->head_dim, s->hidden, m->numeric));
    o->mlp_norm = place(&end, 4ull * s->hidden);
    o->gate_up = place(&end, br_panel_bytes(s->hidden, 2ull * m->ffn_padded, m->numeric));
    o->down = place(&end, br_panel_bytes(m->ffn_padded, s->hidden, m->numeric));
    o->bytes = end;
}

void br_model_layout_init(struct br_model_layout *m, const struct br_model_shape *shape, enum br_numeric numeric)
{
    uint64_t elt = numeric == BR_NUMERIC_BF16 ? 2 : 4, end = 0;
    *m = (struct br_model_layout){.shape = *shape, .numeric = numeric, .units = shape->layers + 2};
    m->ffn_padded = (uint32_t)round_up(shape->ffn, 32);
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
