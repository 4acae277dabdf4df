#include "worker/weights/pack.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "worker/weights/convert.h"
#include "worker/weights/pack_part.h"
#include "worker/weights/panel.h"

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

void br_pack_unit(const struct br_packer *p, uint32_t unit, void *out)
{
    struct br_pack_part parts[BR_UNIT_PARTS];
    uint32_t n = br_pack_parts(p, unit, parts);
    assert(unit < p->layout.units && ((uintptr_t)out & 63) == 0);
    br_pack_gaps(p, unit, out);
    for (uint32_t i = 0; i < n; i++) {
        const unsigned char *at[BR_PART_TENSORS] = {0};
        for (uint32_t k = 0; k < parts[i].n_tensors; k++)
            at[k] = parts[i].tensor[k]->data;
        br_pack_steps(p, &parts[i], 0, parts[i].steps, at, (unsigned char *)out + parts[i].at);
    }
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
