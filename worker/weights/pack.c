#include "worker/weights/pack.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "worker/weights/convert.h"
#include "worker/weights/panel.h"

/* A matrix of the checkpoint, [n][k]. */
struct matrix {
    const struct br_tensor *tensor;
    uint64_t n, k;
};

static struct br_panel_row matrix_row(const struct matrix *m, uint64_t n)
{
    struct br_panel_row row = {0};
    if (n < m->n) {
        row.dtype = m->tensor->dtype;
        row.at = m->tensor->data + n * m->k * br_tensor_element_bytes(row.dtype);
    }
    return row;
}

/* Columns of parts[0], then those of parts[1], ...; all have the same k. */
static void pack_joined(const struct matrix *parts, int n_parts, uint64_t k_padded, enum br_numeric numeric,
                        unsigned char *out)
{
    struct br_panel_row rows[BR_PANEL];
    uint64_t total = 0, column = 0, taken = 0; /* taken: columns of the parts already passed */
    int part = 0;
    for (int i = 0; i < n_parts; i++)
        total += parts[i].n;
    while (column < total) {
        for (int r = 0; r < BR_PANEL; r++, column++) {
            while (part < n_parts && column - taken >= parts[part].n)
                taken += parts[part++].n;
            rows[r] = part < n_parts ? matrix_row(&parts[part], column - taken) : (struct br_panel_row){0};
        }
        out = br_panel_pack(rows, parts[0].k, k_padded, numeric, out);
    }
}

static void pack_gate_up(const struct matrix *gate, const struct matrix *up, uint64_t ffn_padded,
                         enum br_numeric numeric, unsigned char *out)
{
    struct br_panel_row rows[BR_PANEL];
    for (uint64_t first = 0; first < ffn_padded; first += BR_PANEL / 2) {
        for (uint64_t r = 0; r < BR_PANEL / 2; r++) {
            rows[r] = matrix_row(gate, first + r);
            rows[r + BR_PANEL / 2] = matrix_row(up, first + r);
        }
        out = br_panel_pack(rows, gate->k, gate->k, numeric, out);
    }
}

static unsigned char *pack_vector(const struct br_tensor *t, unsigned char *out)
{
    br_values_to_f32(t->data, t->dtype, t->elements, out);
    return out + 4 * t->elements;
}

struct br_linear_set br_packer_linears(const struct br_packer *p, uint32_t layer, enum br_matrix matrix)
{
    static const struct {
        uint32_t first, parts;
    } of[BR_MATRICES] = {[BR_MATRIX_QKV] = {BR_LINEAR_Q, 3},
                         [BR_MATRIX_O] = {BR_LINEAR_O, 1},
                         [BR_MATRIX_GATE_UP] = {BR_LINEAR_GATE, 2},
                         [BR_MATRIX_DOWN] = {BR_LINEAR_DOWN, 1}};
    struct br_linear_set set = {.parts = of[matrix].parts};
    uint64_t n;
    for (uint32_t i = 0; i < set.parts; i++)
        set.part[i] = &p->linears[(size_t)layer * BR_LINEARS + of[matrix].first + i];
    br_layout_matrix_size(&p->layout, matrix, &set.k_padded, &n);
    set.k = matrix == BR_MATRIX_DOWN ? p->layout.shape.ffn : set.k_padded;
    set.half = matrix == BR_MATRIX_GATE_UP ? p->layout.ffn_padded : 0;
    return set;
}

/* Of a model some of whose matrices are quantised. */
static void pack_linears(const struct br_packer *p, uint32_t layer, unsigned char *out)
{
    const struct br_layer_offsets *o = &p->layout.layer;
    const uint64_t at[BR_MATRICES] = {o->qkv, o->o, o->gate_up, o->down};
    for (int m = 0; m < BR_MATRICES; m++) {
        struct br_linear_set set = br_packer_linears(p, layer, (enum br_matrix)m);
        br_quant_pack(&set, &p->layout.format[m], p->layout.numeric, 0, br_quant_panels(&set), out + at[m]);
    }
}

static void pack_attention(const struct br_packer *p, const struct br_layer_tensors *t, unsigned char *out)
{
    const struct br_model_shape *s = &p->layout.shape;
    const struct br_layer_offsets *at = &p->layout.layer;
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    struct matrix qkv[] = {{t->q, q, s->hidden}, {t->k, kv, s->hidden}, {t->v, kv, s->hidden}};
    struct matrix o = {t->o, s->hidden, q};
    if (!p->linears) {
        pack_joined(qkv, 3, s->hidden, p->layout.numeric, out + at->qkv);
        pack_joined(&o, 1, q, p->layout.numeric, out + at->o);
    }
    if (s->qkv_bias)
        pack_vector(t->v_bias, pack_vector(t->k_bias, pack_vector(t->q_bias, out + at->qkv_bias)));
    if (s->qk_norm) {
        pack_vector(t->q_norm, out + at->q_norm);
        pack_vector(t->k_norm, out + at->k_norm);
    }
}

static void pack_layer(const struct br_packer *p, const struct br_layer_tensors *t, unsigned char *out)
{
    const struct br_model_shape *s = &p->layout.shape;
    const struct br_layer_offsets *at = &p->layout.layer;
    struct matrix gate = {t->gate, s->ffn, s->hidden}, up = {t->up, s->ffn, s->hidden};
    struct matrix down = {t->down, s->hidden, s->ffn};
    pack_vector(t->attn_norm, out + at->attn_norm);
    pack_attention(p, t, out);
    pack_vector(t->mlp_norm, out + at->mlp_norm);
    if (p->linears) {
        pack_linears(p, (uint32_t)(t - p->layers), out);
        return;
    }
    pack_gate_up(&gate, &up, p->layout.ffn_padded, p->layout.numeric, out + at->gate_up);
    pack_joined(&down, 1, p->layout.ffn_padded, p->layout.numeric, out + at->down);
}

static void pack_embedding(const struct br_packer *p, unsigned char *out)
{
    const struct br_model_shape *s = &p->layout.shape;
    struct matrix embed = {p->embed, s->vocab, s->hidden};
    if (s->tied)
        pack_joined(&embed, 1, s->hidden, p->layout.numeric, out);
    else
        br_values_convert(p->embed->data, p->embed->dtype, p->embed->elements, p->layout.numeric, out);
}

static void pack_last(const struct br_packer *p, unsigned char *out)
{
    const struct br_model_shape *s = &p->layout.shape;
    struct matrix head = {p->head, s->vocab, s->hidden};
    pack_vector(p->final_norm, out + p->layout.final_norm);
    if (!s->tied)
        pack_joined(&head, 1, s->hidden, p->layout.numeric, out + p->layout.head);
}

/* Zeroes what lies between the parts of a unit, so that images of equal weights are equal byte for byte. */
static void zero_gaps(const struct br_packer *p, uint32_t unit, unsigned char *out)
{
    uint64_t bytes = br_layout_unit_bytes(&p->layout, unit);
    const struct br_layer_offsets *at = &p->layout.layer;
    if (unit == 0) {
        memset(out + bytes - (bytes < 64 ? bytes : 64), 0, bytes < 64 ? bytes : 64);
    } else if (unit == p->layout.units - 1) {
        memset(out + p->layout.final_norm, 0, (p->head ? p->layout.head : bytes) - p->layout.final_norm);
    } else {
        memset(out + at->attn_norm, 0, at->qkv - at->attn_norm);
        if (at->qkv_bias != UINT64_MAX)
            memset(out + at->qkv_bias, 0, at->o - at->qkv_bias);
        else if (at->q_norm != UINT64_MAX)
            memset(out + at->q_norm, 0, at->o - at->q_norm);
        memset(out + at->mlp_norm, 0, at->gate_up - at->mlp_norm);
    }
}

void br_pack_unit(const struct br_packer *p, uint32_t unit, void *out)
{
    assert(unit < p->layout.units && ((uintptr_t)out & 63) == 0);
    zero_gaps(p, unit, out);
    if (unit == 0)
        pack_embedding(p, out);
    else if (unit == p->layout.units - 1)
        pack_last(p, out);
    else
        pack_layer(p, &p->layers[unit - 1], out);
}

/* The unit's tensors in a fixed order; returns how many, absent ones left out. */
enum { MAX_LAYER_TENSORS = 14, MAX_UNIT_TENSORS = MAX_LAYER_TENSORS + BR_LINEARS * BR_QUANT_TENSORS };
static int unit_tensors(const struct br_packer *p, uint32_t unit, const struct br_tensor *out[MAX_UNIT_TENSORS])
{
    const struct br_layer_tensors *t = unit && unit < p->layout.units - 1 ? &p->layers[unit - 1] : NULL;
    const struct br_tensor *layer[MAX_LAYER_TENSORS] = {0}, *ends[] = {p->final_norm, p->head};
    int n = 0;
    if (unit == 0)
        return out[0] = p->embed, 1;
    if (!t) {
        for (int i = 0; i < 2; i++)
            if (ends[i])
                out[n++] = ends[i];
        return n;
    }
    memcpy(layer,
           (const struct br_tensor *[]){t->attn_norm, t->q, t->k, t->v, t->q_bias, t->k_bias, t->v_bias, t->q_norm,
                                        t->k_norm, t->o, t->mlp_norm, t->gate, t->up, t->down},
           sizeof layer);
    for (int i = 0; i < MAX_LAYER_TENSORS; i++)
        if (layer[i])
            out[n++] = layer[i];
    for (int i = 0; p->linears && i < BR_LINEARS; i++) {
        const struct br_linear *linear = &p->linears[(size_t)(unit - 1) * BR_LINEARS + (size_t)i];
        if (linear->quant.kind)
            n += br_quant_tensors(&linear->quant, out + n);
    }
    return n;
}

void br_packer_hash_unit(const struct br_packer *p, uint32_t unit, XXH3_state_t *state)
{
    const struct br_tensor *tensors[MAX_UNIT_TENSORS];
    int n = unit_tensors(p, unit, tensors);
    for (int i = 0; i < n; i++) {
        const struct br_tensor *t = tensors[i];
        XXH3_64bits_update(state, t->name, strlen(t->name) + 1);
        XXH3_64bits_update(state, &t->dtype, sizeof t->dtype);
        XXH3_64bits_update(state, t->shape, t->rank * sizeof t->shape[0]);
        XXH3_64bits_update(state, t->data, t->bytes);
    }
}

static int tensor_check_finite(const struct br_tensor *t, struct br_err *err)
{
    uint32_t cells[1024];
    uint64_t width = br_tensor_element_bytes(t->dtype);
    if (t->dtype == BR_TENSOR_OTHER)
        return 0; /* codes: see linears_check_finite */
    for (uint64_t i = 0; i < t->elements; i += 1024) {
        uint64_t n = t->elements - i < 1024 ? t->elements - i : 1024;
        br_values_to_f32(t->data + i * width, t->dtype, n, (unsigned char *)cells);
        for (uint64_t j = 0; j < n; j++)
            if ((cells[j] & 0x7f800000u) == 0x7f800000u)
                return br_err_set(err, BR_ECORRUPT, "%s: tensor %s: value %" PRIu64 " is %g", t->file, t->name, i + j,
                                  (double)br_f32_from_bits(cells[j]));
    }
    return 0;
}

static int linear_check_finite(const struct br_linear *linear, struct br_err *err)
{
    const struct br_quant_source *src = &linear->quant;
    float *values = br_malloc(src->k * sizeof *values);
    struct br_quant_row row;
    int rc = 0;
    br_quant_row_init(&row, &src->format, src->k);
    for (uint64_t n = 0; n < src->n && !rc; n++) {
        br_quant_row_values(src, n, &row, values);
        for (uint64_t k = 0; k < src->k && !rc; k++)
            if (!isfinite(values[k]))
                rc = br_err_set(err, BR_ECORRUPT, "%s: tensor %s: output %" PRIu64 ", input %" PRIu64 " is %g",
                                linear->tensor->file, linear->tensor->name, n, k, (double)values[k]);
    }
    br_quant_row_free(&row);
    free(values);
    return rc;
}

static int linears_check_finite(const struct br_packer *p, uint32_t layer, struct br_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; p->linears && i < BR_LINEARS && !rc; i++)
        if (p->linears[(size_t)layer * BR_LINEARS + i].quant.kind)
            rc = linear_check_finite(&p->linears[(size_t)layer * BR_LINEARS + i], err);
    return rc;
}

int br_packer_check_finite(const struct br_packer *p, struct br_err *err)
{
    for (uint32_t unit = 0; unit < p->layout.units; unit++) {
        const struct br_tensor *tensors[MAX_UNIT_TENSORS];
        int n = unit_tensors(p, unit, tensors), rc = 0;
        for (int i = 0; i < n && !rc; i++)
            rc = tensor_check_finite(tensors[i], err);
        if (!rc && unit && unit < p->layout.units - 1)
            rc = linears_check_finite(p, unit - 1, err);
        if (rc)
            return rc;
    }
    return 0;
}

void br_packer_free(struct br_packer *p)
{
    free(p->layers);
    free(p->linears);
    p->layers = NULL;
    p->linears = NULL;
}
