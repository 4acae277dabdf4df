/* One panel of a matrix product with quantised weights: a stretch of inputs is turned into cells (BF16 rounded to
 * nearest, or F32), then multiplied as dense ones are. Sums go on from stretch to stretch in the order that dense
 * weights take, so the result is that of the dequantised weights, bit for bit. Per element type. */

#ifndef BRIAREUS_WORKER_DEVICE_CPU_LINEAR_QUANT_H
#define BRIAREUS_WORKER_DEVICE_CPU_LINEAR_QUANT_H

enum { QUANT_INPUTS = 128, QUANT_PREFETCH_BYTES = 4096 };

/* A panel's parts. */
struct quant_view {
    const struct br_matrix_format *format;
    const uint16_t *index;
    const char *scales, *zeros, *mins, *codes;
    uint32_t inputs; /* of the whole panel */
};

static struct quant_view quant_view_of(const struct br_linear_op *op, uint32_t panel)
{
    struct br_quant_panel at = br_quant_panel_at(&op->format, op->k);
    const char *matrix = cpu_at(op->weights);
    const char *base = matrix + br_quant_index_bytes(&op->format, op->k) + panel * at.bytes;
    return (struct quant_view){.format = &op->format,
                               .index = op->format.indexed ? (const uint16_t *)(const void *)matrix : NULL,
                               .scales = base,
                               .zeros = base + at.zeros,
                               .mins = base + at.mins,
                               .codes = base + at.codes,
                               .inputs = op->k};
}

/* What turns the codes of a group in 16 columns into numbers: code x scale + offset. The product of zero and scale is
 * exact and there is a zero or a min, not both, so the sum is rounded once, as (code - zero) x scale - min is. */
struct quant_group {
    VF scale, offset;
};

static inline VF quant_scale(const struct quant_view *v, uint32_t group, uint32_t column)
{
    const struct br_matrix_format *f = v->format;
    size_t at = (size_t)group * (BR_PANEL / f->span) + column / f->span;
    float shared;
    if (f->span > 1) {
        uint16_t half[16] = {0};
        if (f->wide) {
            memcpy(&shared, v->scales + 4 * at, sizeof shared);
            return v_set(shared);
        }
        for (int i = 0; i < 16; i++)
            memcpy(&half[i], v->scales + 2 * at, sizeof half[i]);
        return v_load_f16(half);
    }
    return f->wide ? v_load((const float *)(const void *)v->scales + at)
                   : v_load_f16((const uint16_t *)(const void *)v->scales + at);
}

static inline struct quant_group quant_group_of(const struct quant_view *v, uint32_t group, uint32_t column)
{
    size_t at = (size_t)group * BR_PANEL + column;
    VF scale = quant_scale(v, group, column), zero = v_set(v->format->zero), offset;
    if (v->format->zeros)
        zero = v_add(zero, v_load_u8((const uint8_t *)v->zeros + at));
    offset = v_sub(v_set(0), v_mul(zero, scale));
    if (v->format->mins)
        offset = v_sub(offset, v_load((const float *)(const void *)v->mins + at));
    return (struct quant_group){scale, offset};
}

static inline VF quant_value(VF code, struct quant_group g)
{
    return v_fma_once(code, g.scale, g.offset);
}

static inline uint32_t quant_group_at(const struct quant_view *v, uint32_t input)
{
    if (v->index)
        return v->index[input];
    return v->format->group ? input / v->format->group : 0;
}
#endif

/* Two neighbouring inputs of 16 columns into the cells that hold them; at: of the first, counted in inputs. */
static inline void FN(cells_put)(char *cells, uint32_t at, uint32_t column, VF even, VF odd)
{
#if CELL_ELTS == 1
    v_store((float *)(void *)cells + (size_t)at * BR_PANEL + column, even);
    v_store((float *)(void *)cells + (size_t)(at + 1) * BR_PANEL + column, odd);
#else
    vb_store_pair(cells + ((size_t)at / 2 * BR_PANEL + column) * 4, even, odd);
#endif
}

/* Words of inputs [first, last) of 16 columns, all of one group. CODE: a part of a word to numbers; PAIRS: for each
 * pair of neighbouring inputs in a word, its shift. */
#define QUANT_PAIR(CODE, n, bits)                                                                                      \
    FN(cells_put)                                                                                                      \
    (cells, i + 2 * (n)-start, column, quant_value(CODE(vb_shift(codes, (n) * (bits))), group),                        \
     quant_value(CODE(vb_shift(codes, (n) * (bits) + 16)), group));
#define QUANT_PAIRS_4(CODE) QUANT_PAIR(CODE, 0, 4) QUANT_PAIR(CODE, 1, 4) QUANT_PAIR(CODE, 2, 4) QUANT_PAIR(CODE, 3, 4)
#define QUANT_PAIRS_8(CODE) QUANT_PAIR(CODE, 0, 8) QUANT_PAIR(CODE, 1, 8)
#define QUANT_DEFINE(name, bits, CODE)                                                                                 \
    static void FN(name)(const struct quant_view *v, const struct quant_group *g, uint32_t first, uint32_t last,       \
                         uint32_t start, uint32_t column, char *cells)                                                 \
    {                                                                                                                  \
        const char *word = v->codes + ((size_t)first / (32 / (bits)) * BR_PANEL + column) * 4;                         \
        const struct quant_group group = *g;                                                                           \
        for (uint32_t i = first; i < last; i += 32 / (bits), word += 4 * BR_PANEL) {                                   \
            VB codes = vb_load(word);                                                                                  \
            v_prefetch(word + QUANT_PREFETCH_BYTES);                                                                   \
            QUANT_PAIRS_##bits(CODE)                                                                                   \
        }                                                                                                              \
    }
QUANT_DEFINE(unpack_u4, 4, v_of_nibble)
QUANT_DEFINE(unpack_u8, 8, v_of_byte)
QUANT_DEFINE(unpack_e4m3, 8, v_of_e4m3)
#undef QUANT_DEFINE
#undef QUANT_PAIRS_4
#undef QUANT_PAIRS_8
#undef QUANT_PAIR

static void FN(unpack)(const struct quant_view *v, uint32_t first, uint32_t last, uint32_t start, uint32_t column,
                       const struct quant_group *g, char *cells)
{
    if (v->format->code == BR_CODE_U4)
        FN(unpack_u4)(v, g, first, last, start, column, cells);
    else if (v->format->code == BR_CODE_U8)
        FN(unpack_u8)(v, g, first, last, start, column, cells);
    else
        FN(unpack_e4m3)(v, g, first, last, start, column, cells);
}

/* Two inputs whose groups are any: of act-order models. */
static void FN(unpack_indexed)(const struct quant_view *v, uint32_t input, uint32_t start, uint32_t column, char *cells)
{
    uint32_t bits = v->format->code == BR_CODE_U4 ? 4 : 8, per_word = 32 / bits, next = input + 1;
    struct quant_group even = quant_group_of(v, quant_group_at(v, input), column), odd = even;
    VB codes = vb_load(v->codes + ((size_t)input / per_word * BR_PANEL + column) * 4);
    VB low = vb_shift(codes, input % per_word / 2 * bits), high = vb_shift(low, 16);
    if (next < v->inputs)
        odd = quant_group_of(v, quant_group_at(v, next), column);
    FN(cells_put)
    (cells, input - start, column, quant_value(bits == 4 ? v_of_nibble(low) : v_of_byte(low), even),
     quant_value(bits == 4 ? v_of_nibble(high) : v_of_byte(high), odd));
}

/* Inputs [start, end) of the panel as cells. */
static void FN(unpack_stretch)(const struct quant_view *v, uint32_t start, uint32_t end, char *cells)
{
    uint32_t group = v->format->group ? v->format->group : v->inputs;
    for (uint32_t column = 0; column < BR_PANEL; column += 16) {
        for (uint32_t first = start; v->index && first < end; first += 2)
            FN(unpack_indexed)(v, first, start, column, cells);
        for (uint32_t first = start; !v->index && first < end;) {
            uint32_t last = (first / group + 1) * group;
            struct quant_group g = quant_group_of(v, first / group, column);
            last = last < end ? last : end;
            FN(unpack)(v, first, last, start, column, &g, cells);
            first = last;
        }
    }
}

#if CELL_ELTS == 2
#include "worker/device/cpu/linear_grouped.h"
#endif

static void FN(linear_values)(const struct br_linear_op *op, const struct quant_view *v, const char *act, uint32_t rows,
                              float *y, char *cells)
{
    size_t stride = br_act_stride(op->k, op->numeric);
    uint32_t configured = 0;
    for (uint32_t start = 0; start < op->k; start += QUANT_INPUTS) {
        uint32_t end = start + QUANT_INPUTS < op->k ? start + QUANT_INPUTS : op->k;
        FN(unpack_stretch)(v, start, end, cells);
        FN(quant_product)
        (act + start * sizeof(ELT), stride, cells, (end - start + CELL_ELTS - 1) / CELL_ELTS, rows, start > 0, y,
         &configured);
    }
    FN(quant_product_end)();
}

static void FN(linear_quant)(const struct br_linear_op *op, const void *act, uint32_t panel, uint32_t row,
                             uint32_t rows, void *scratch)
{
    struct quant_view v = quant_view_of(op, panel);
    const char *a = (const char *)act + row * br_act_stride(op->k, op->numeric);
    float *y = scratch;
    char *cells = (char *)scratch + CPU_LINEAR_ROWS * BR_PANEL * sizeof *y;
#if CELL_ELTS == 2
    if (br_quant_grouped(&op->format))
        linear_grouped(op, &v, a, rows, y, cells);
    else
#endif
        FN(linear_values)(op, &v, a, rows, y, cells);
    FN(linear_end)(op, panel, row, rows, y);
}
