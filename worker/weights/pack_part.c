#include "worker/weights/pack_part.h"

#include <stdlib.h>
#include <string.h>

#include "worker/weights/panel.h"

static struct br_pack_part vector_part(uint64_t at, const struct br_tensor *a, const struct br_tensor *b,
                                       const struct br_tensor *c)
{
    const struct br_tensor *all[] = {a, b, c};
    struct br_pack_part part = {.kind = BR_PART_VECTOR, .k = 1, .steps = 1, .at = at};
    for (int i = 0; i < BR_PART_TENSORS && all[i]; i++) {
        part.tensor[part.n_tensors] = all[i];
        part.rows[part.n_tensors++] = all[i]->elements;
        part.step_bytes += 4 * all[i]->elements;
    }
    return part;
}

static struct br_pack_part matrix_part(const struct br_packer *p, uint64_t at, const struct br_tensor *t, uint64_t rows,
                                       uint64_t k)
{
    return (struct br_pack_part){.kind = BR_PART_PANELS,
                                 .tensor = {t},
                                 .n_tensors = 1,
                                 .rows = {rows},
                                 .k = k,
                                 .k_padded = k,
                                 .steps = (rows + BR_PANEL - 1) / BR_PANEL,
                                 .step_bytes = br_panel_bytes(k, BR_PANEL, p->layout.numeric),
                                 .at = at};
}

static struct br_pack_part qkv_part(const struct br_packer *p, const struct br_layer_tensors *t)
{
    const struct br_model_shape *s = &p->layout.shape;
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    struct br_pack_part part = matrix_part(p, p->layout.layer.qkv, t->q, q, s->hidden);
    part.tensor[1] = t->k;
    part.tensor[2] = t->v;
    part.rows[1] = part.rows[2] = kv;
    part.n_tensors = 3;
    part.steps = (q + 2 * kv + BR_PANEL - 1) / BR_PANEL;
    return part;
}

static struct br_pack_part gate_up_part(const struct br_packer *p, const struct br_layer_tensors *t)
{
    const struct br_model_shape *s = &p->layout.shape;
    struct br_pack_part part = matrix_part(p, p->layout.layer.gate_up, t->gate, s->ffn, s->hidden);
    part.kind = BR_PART_GATE_UP;
    part.tensor[1] = t->up;
    part.rows[1] = s->ffn;
    part.n_tensors = 2;
    part.steps = (2ull * p->layout.ffn_padded + BR_PANEL - 1) / BR_PANEL;
    return part;
}

/* One or two parts: the index, the panels. */
static uint32_t linears_parts(const struct br_packer *p, uint32_t layer, enum br_matrix matrix, uint64_t at,
                              struct br_pack_part *out)
{
    struct br_pack_part part = {.set = br_packer_linears(p, layer, matrix), .format = p->layout.format[matrix]};
    uint64_t index = br_quant_index_bytes(&part.format, part.set.k_padded);
    uint32_t n = 0;
    part.at = at;
    if (index) {
        part.kind = BR_PART_INDEX;
        part.steps = 1;
        part.step_bytes = index;
        out[n++] = part;
    }
    part.kind = BR_PART_LINEARS;
    part.steps = br_quant_panels(&part.set);
    part.step_bytes = br_matrix_bytes(part.set.k_padded, BR_PANEL, p->layout.numeric, &part.format) - index;
    part.at = at + index;
    out[n++] = part;
    return n;
}

/* The matrix as it is, or as what stands for it in a quantised model. */
static uint32_t matrix_parts(const struct br_packer *p, const struct br_layer_tensors *t, enum br_matrix matrix,
                             const struct br_pack_part *dense, struct br_pack_part *out)
{
    if (p->linears)
        return linears_parts(p, (uint32_t)(t - p->layers), matrix, dense->at, out);
    *out = *dense;
    return 1;
}

static uint32_t layer_parts(const struct br_packer *p, const struct br_layer_tensors *t, struct br_pack_part *out)
{
    const struct br_model_shape *s = &p->layout.shape;
    const struct br_layer_offsets *at = &p->layout.layer;
    struct br_pack_part qkv = qkv_part(p, t), gate_up = gate_up_part(p, t);
    struct br_pack_part o = matrix_part(p, at->o, t->o, s->hidden, (uint64_t)s->heads * s->head_dim);
    struct br_pack_part down = matrix_part(p, at->down, t->down, s->hidden, s->ffn);
    uint32_t n = 0;
    down.k_padded = p->layout.ffn_padded;
    down.step_bytes = br_panel_bytes(p->layout.ffn_padded, BR_PANEL, p->layout.numeric);
    out[n++] = vector_part(at->attn_norm, t->attn_norm, NULL, NULL);
    n += matrix_parts(p, t, BR_MATRIX_QKV, &qkv, out + n);
    if (s->qkv_bias)
        out[n++] = vector_part(at->qkv_bias, t->q_bias, t->k_bias, t->v_bias);
    if (s->qk_norm) {
        out[n++] = vector_part(at->q_norm, t->q_norm, NULL, NULL);
        out[n++] = vector_part(at->k_norm, t->k_norm, NULL, NULL);
    }
    n += matrix_parts(p, t, BR_MATRIX_O, &o, out + n);
    out[n++] = vector_part(at->mlp_norm, t->mlp_norm, NULL, NULL);
    n += matrix_parts(p, t, BR_MATRIX_GATE_UP, &gate_up, out + n);
    return n + matrix_parts(p, t, BR_MATRIX_DOWN, &down, out + n);
}

static struct br_pack_part embedding_part(const struct br_packer *p)
{
    const struct br_model_shape *s = &p->layout.shape;
    struct br_pack_part part = matrix_part(p, 0, p->embed, s->vocab, s->hidden);
    if (s->tied)
        return part;
    part.kind = BR_PART_ROWS;
    part.steps = s->vocab;
    part.step_bytes = s->hidden * (p->layout.numeric == BR_NUMERIC_BF16 ? 2ull : 4ull);
    return part;
}

uint32_t br_pack_parts(const struct br_packer *p, uint32_t unit, struct br_pack_part parts[BR_UNIT_PARTS])
{
    const struct br_model_shape *s = &p->layout.shape;
    if (unit == 0) {
        parts[0] = embedding_part(p);
        return 1;
    }
    if (unit < p->layout.units - 1)
        return layer_parts(p, &p->layers[unit - 1], parts);
    parts[0] = vector_part(p->layout.final_norm, p->final_norm, NULL, NULL);
    if (!s->tied)
        parts[1] = matrix_part(p, p->layout.head, p->head, s->vocab, s->hidden);
    return s->tied ? 1 : 2;
}

/* The rows of tensor i that columns [begin, end) of the part come from; base: columns of the tensors before it. */
static struct br_pack_range range_of(const struct br_pack_part *part, uint32_t i, uint64_t base, uint64_t begin,
                                     uint64_t end)
{
    struct br_pack_range range = {.tensor = part->tensor[i]};
    uint64_t from = begin > base ? begin - base : 0, to = end > base ? end - base : 0;
    uint64_t row_bytes = part->k * br_tensor_element_bytes(range.tensor->dtype);
    range.row = from < part->rows[i] ? from : part->rows[i];
    range.rows = (to < part->rows[i] ? to : part->rows[i]) - range.row;
    range.at = range.row * row_bytes;
    range.bytes = range.rows * row_bytes;
    return range;
}

uint32_t br_pack_ranges(const struct br_pack_part *part, uint64_t first, uint64_t n,
                        struct br_pack_range ranges[BR_PART_TENSORS])
{
    uint64_t per_step = part->kind == BR_PART_PANELS    ? BR_PANEL
                        : part->kind == BR_PART_GATE_UP ? BR_PANEL / 2
                        : part->kind == BR_PART_VECTOR  ? UINT64_MAX / 2
                                                        : 1;
    uint64_t base = 0;
    for (uint32_t i = 0; i < part->n_tensors; i++) {
        ranges[i] = range_of(part, i, base, first * per_step, (first + n) * per_step);
        if (part->kind != BR_PART_GATE_UP)
            base += part->rows[i];
    }
    return part->n_tensors;
}

struct panel_source {
    const struct br_pack_part *part;
    struct br_pack_range ranges[BR_PART_TENSORS];
    const unsigned char *const *at;
};

/* Row `row` of tensor i, if there is one. */
static struct br_panel_row source_row(const struct panel_source *src, uint32_t i, uint64_t row)
{
    const struct br_pack_range *range = &src->ranges[i];
    struct br_panel_row out = {.dtype = range->tensor->dtype};
    if (row >= range->row && row < range->row + range->rows)
        out.at = src->at[i] + (row - range->row) * src->part->k * br_tensor_element_bytes(out.dtype);
    return out;
}

/* Column `column` of tensors whose rows are joined. */
static struct br_panel_row joined_row(const struct panel_source *src, uint64_t column)
{
    for (uint32_t i = 0; i < src->part->n_tensors; i++) {
        if (column < src->part->rows[i])
            return source_row(src, i, column);
        column -= src->part->rows[i];
    }
    return (struct br_panel_row){0};
}

static void panels_pack(const struct panel_source *src, enum br_numeric numeric, uint64_t first, uint64_t n,
                        unsigned char *out)
{
    struct br_panel_row rows[BR_PANEL];
    const uint64_t half = BR_PANEL / 2;
    for (uint64_t panel = first; panel < first + n; panel++) {
        for (uint64_t r = 0; r < BR_PANEL; r++)
            rows[r] = src->part->kind == BR_PART_PANELS ? joined_row(src, panel * BR_PANEL + r)
                                                        : source_row(src, r >= half, panel * half + r % half);
        out = br_panel_pack(rows, src->part->k, src->part->k_padded, numeric, out);
    }
}

void br_pack_steps(const struct br_packer *p, const struct br_pack_part *part, uint64_t first, uint64_t n,
                   const unsigned char *const at[BR_PART_TENSORS], unsigned char *out)
{
    struct panel_source src = {.part = part, .at = at};
    if (part->kind == BR_PART_INDEX) {
        br_quant_pack_index(&part->set, out, part->step_bytes);
        return;
    }
    if (part->kind == BR_PART_LINEARS) {
        br_quant_pack(&part->set, &part->format, p->layout.numeric, first, n, out);
        return;
    }
    br_pack_ranges(part, first, n, src.ranges);
    if (part->kind == BR_PART_ROWS) {
        br_values_convert(at[0], part->tensor[0]->dtype, n * part->k, p->layout.numeric, out);
    } else if (part->kind == BR_PART_VECTOR) {
        for (uint32_t i = 0; i < part->n_tensors; out += 4 * part->rows[i++])
            br_values_to_f32(at[i], part->tensor[i]->dtype, part->rows[i], out);
    } else {
        panels_pack(&src, p->layout.numeric, first, n, out);
    }
}

/* Bytes [from, to) of the tensors of a set, one behind the other. */
static void set_hash(const struct br_linear_set *set, uint64_t from, uint64_t to, XXH3_state_t *state)
{
    const struct br_tensor *t[BR_QUANT_TENSORS];
    for (uint32_t part = 0; part < set->parts; part++) {
        int n = br_linear_tensors(set->part[part], t);
        for (int i = 0; i < n; i++) {
            uint64_t bytes = t[i]->bytes, begin = from < bytes ? from : bytes, end = to < bytes ? to : bytes;
            if (begin < end)
                XXH3_64bits_update(state, t[i]->data + begin, end - begin);
            if (from == 0)
                XXH3_64bits_update(state, t[i]->name, strlen(t[i]->name));
            from -= begin;
            to -= end;
        }
    }
}

static uint64_t set_bytes(const struct br_linear_set *set)
{
    const struct br_tensor *t[BR_QUANT_TENSORS];
    uint64_t bytes = 0;
    for (uint32_t part = 0; part < set->parts; part++) {
        int n = br_linear_tensors(set->part[part], t);
        for (int i = 0; i < n; i++)
            bytes += t[i]->bytes;
    }
    return bytes;
}

uint64_t br_pack_linears_hash(const struct br_pack_part *part, uint64_t first, uint64_t n)
{
    uint64_t bytes = set_bytes(&part->set), each = (bytes + part->steps - 1) / part->steps, sum;
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        abort();
    XXH3_64bits_reset(state);
    set_hash(&part->set, first * each, (first + n) * each, state);
    sum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return sum;
}

void br_pack_gaps(const struct br_packer *p, uint32_t unit, unsigned char *out)
{
    struct br_pack_part parts[BR_UNIT_PARTS];
    uint32_t n = br_pack_parts(p, unit, parts);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t end = parts[i].at + parts[i].steps * parts[i].step_bytes;
        uint64_t next = i + 1 < n ? parts[i + 1].at : br_layout_unit_bytes(&p->layout, unit);
        memset(out + end, 0, next - end);
    }
}
