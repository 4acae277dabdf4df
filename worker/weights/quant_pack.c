#include "worker/weights/quant_pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "worker/weights/convert.h"
#include "worker/weights/panel.h"

/* An output column of a panel; linear NULL: none. */
struct column {
    const struct br_linear *linear;
    uint64_t row;
};

static bool is_block_format(const struct br_matrix_format *f)
{
    return f->code && f->code != BR_CODE_E4M3 && !f->zeros;
}

/* What any two kinds of GGUF blocks have in common. */
static const struct br_matrix_format any_block = {
    .code = BR_CODE_U8, .group = 16, .span = 1, .wide = 1, .zeros = 1, .mins = 1};

/* No source has more groups. */
static const struct br_matrix_format finest = {.code = BR_CODE_U8, .group = 16, .span = 1};

struct br_matrix_format br_quant_format_join(const struct br_matrix_format *a, const struct br_matrix_format *b)
{
    struct br_matrix_format joined = *a, other = *b;
    bool a_any = memcmp(a, &any_block, sizeof *a) == 0, b_any = memcmp(b, &any_block, sizeof *b) == 0;
    joined.wide = other.wide = a->wide | b->wide;
    joined.span = other.span = a->span < b->span ? a->span : b->span;
    joined.indexed = other.indexed = a->indexed | b->indexed;
    if (memcmp(&joined, &other, sizeof joined) == 0)
        return joined;
    if ((is_block_format(a) || a_any) && (is_block_format(b) || b_any))
        return any_block;
    return (struct br_matrix_format){0};
}

static bool same_index(const struct br_quant_source *a, const struct br_quant_source *b)
{
    for (uint64_t i = 0; i < a->k; i++)
        if (br_quant_group_of(a, i) != br_quant_group_of(b, i))
            return false;
    return true;
}

struct br_matrix_format br_quant_format_of(const struct br_linear_set *set)
{
    struct br_matrix_format f = set->part[0]->quant.format;
    for (uint32_t i = 0; i < set->parts; i++) {
        const struct br_quant_source *q = &set->part[i]->quant;
        if (!q->kind || (f.indexed && !same_index(&set->part[0]->quant, q)))
            return (struct br_matrix_format){0};
        f = br_quant_format_join(&f, &q->format);
        if (set->parts > 1 && set->part[i]->n % 32 && f.code)
            f.span = 1;
    }
    if (f.indexed && !set->part[0]->quant.g_idx)
        return (struct br_matrix_format){0};
    return f;
}

static struct column column_of(const struct br_linear_set *set, uint64_t column)
{
    const uint64_t half = BR_PANEL / 2;
    if (set->half) {
        const struct br_linear *linear = set->part[column % BR_PANEL >= half];
        uint64_t row = column / BR_PANEL * half + column % half;
        return (struct column){row < linear->n ? linear : NULL, row};
    }
    for (uint32_t i = 0; i < set->parts; i++) {
        if (column < set->part[i]->n)
            return (struct column){set->part[i], column};
        column -= set->part[i]->n;
    }
    return (struct column){0};
}

uint64_t br_quant_panels(const struct br_linear_set *set)
{
    uint64_t n = 2 * set->half;
    for (uint32_t i = 0; i < set->parts && !set->half; i++)
        n += set->part[i]->n;
    return (n + BR_PANEL - 1) / BR_PANEL;
}

static void put_codes(const uint8_t *code, uint64_t k, uint32_t kind, uint32_t *out)
{
    static const uint8_t nibble[8] = {0, 16, 4, 20, 8, 24, 12, 28}, byte[4] = {0, 16, 8, 24};
    if (kind == BR_CODE_U4)
        for (uint64_t i = 0; i < k; i++)
            out[i / 8 * BR_PANEL] |= (uint32_t)code[i] << nibble[i % 8];
    else
        for (uint64_t i = 0; i < k; i++)
            out[i / 4 * BR_PANEL] |= (uint32_t)code[i] << byte[i % 4];
}

static void put_scale(uint32_t bits, bool from_wide, bool wide, unsigned char *out)
{
    uint32_t f32 = from_wide ? bits : br_f16_to_f32_bits((uint16_t)bits);
    uint16_t half = (uint16_t)bits;
    if (wide)
        memcpy(out, &f32, sizeof f32);
    else
        memcpy(out, &half, sizeof half);
}

/* What surrounds the codes of column c of a panel. */
static void put_groups(const struct br_quant_source *src, const struct br_quant_row *row,
                       const struct br_matrix_format *f, uint64_t groups, uint32_t c, unsigned char *panel,
                       const struct br_quant_panel *at)
{
    uint32_t fine = f->group && src->format.group ? src->format.group / f->group : 1;
    uint64_t width = f->wide ? 4 : 2, per_group = BR_PANEL / f->span, have = br_quant_groups(&src->format, src->k);
    for (uint64_t g = 0; g < groups && g / fine < have; g++) {
        uint64_t from = g / fine;
        uint32_t zero = src->format.zero + (src->format.zeros ? row->zero[from] : 0u);
        put_scale(row->scale[from], src->format.wide, f->wide, panel + (g * per_group + c / f->span) * width);
        if (f->zeros)
            panel[at->zeros + g * BR_PANEL + c] = (uint8_t)(zero - f->zero);
        if (f->mins && src->format.mins)
            memcpy(panel + at->mins + (g * BR_PANEL + c) * 4, &row->min[from], 4);
    }
}

void br_quant_pack_index(const struct br_linear_set *set, unsigned char *out, uint64_t bytes)
{
    memset(out, 0, bytes);
    for (uint64_t i = 0; i < set->k; i++) {
        uint16_t group = (uint16_t)br_quant_group_of(&set->part[0]->quant, i);
        memcpy(out + 2 * i, &group, sizeof group);
    }
}

static void pack_codes(const struct br_linear_set *set, const struct br_matrix_format *f, uint64_t first, uint64_t n,
                       unsigned char *out)
{
    struct br_quant_panel at = br_quant_panel_at(f, set->k_padded);
    struct br_quant_row row;
    br_quant_row_init(&row, &finest, set->k);
    for (uint64_t p = first; p < first + n; p++) {
        unsigned char *panel = out + (p - first) * at.bytes;
        memset(panel, 0, at.bytes);
        for (uint32_t c = 0; c < BR_PANEL; c++) {
            struct column column = column_of(set, p * BR_PANEL + c);
            if (!column.linear)
                continue;
            br_quant_row_read(&column.linear->quant, column.row, &row);
            put_groups(&column.linear->quant, &row, f, at.groups, c, panel, &at);
            put_codes(row.code, set->k, f->code, (uint32_t *)(void *)(panel + at.codes) + c);
        }
    }
    br_quant_row_free(&row);
}

/* A dense row as it is, a quantised one as F32 in `values`. */
static struct br_panel_row dense_row(const struct column *column, uint64_t k, struct br_quant_row *row, float *values)
{
    struct br_panel_row out = {0};
    if (!column->linear)
        return out;
    out.dtype = column->linear->tensor->dtype;
    out.at = column->linear->tensor->data + column->row * k * br_tensor_element_bytes(out.dtype);
    if (column->linear->quant.kind) {
        br_quant_row_values(&column->linear->quant, column->row, row, values);
        out = (struct br_panel_row){(const unsigned char *)values, BR_TENSOR_F32};
    }
    return out;
}

static void pack_dense(const struct br_linear_set *set, enum br_numeric numeric, uint64_t first, uint64_t n,
                       unsigned char *out)
{
    float *values = br_malloc(BR_PANEL * set->k * sizeof *values);
    uint64_t bytes = br_panel_bytes(set->k_padded, BR_PANEL, numeric);
    struct br_panel_row rows[BR_PANEL];
    struct br_quant_row row;
    br_quant_row_init(&row, &finest, set->k);
    for (uint64_t p = first; p < first + n; p++) {
        for (uint32_t c = 0; c < BR_PANEL; c++) {
            struct column column = column_of(set, p * BR_PANEL + c);
            rows[c] = dense_row(&column, set->k, &row, values + c * set->k);
        }
        br_panel_pack(rows, set->k, set->k_padded, numeric, out + (p - first) * bytes);
    }
    br_quant_row_free(&row);
    free(values);
}

void br_quant_pack(const struct br_linear_set *set, const struct br_matrix_format *format, enum br_numeric numeric,
                   uint64_t first, uint64_t n, unsigned char *out)
{
    if (format->code)
        pack_codes(set, format, first, n, out);
    else
        pack_dense(set, numeric, first, n, out);
}

int br_linear_tensors(const struct br_linear *linear, const struct br_tensor *out[BR_QUANT_TENSORS])
{
    if (linear->quant.kind)
        return br_quant_tensors(&linear->quant, out);
    out[0] = linear->tensor;
    return 1;
}
