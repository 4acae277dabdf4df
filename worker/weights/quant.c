#include "worker/weights/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "worker/weights/convert.h"
#include "worker/weights/quant_block.h"

static uint32_t word_at(const struct br_tensor *t, uint64_t index)
{
    uint32_t word;
    memcpy(&word, t->data + index * 4, sizeof word);
    return word;
}

/* A scale as the bits that the format keeps. */
static uint32_t scale_at(const struct br_tensor *t, uint64_t index, bool wide)
{
    uint16_t half;
    if (t->dtype == BR_TENSOR_F32)
        return word_at(t, index);
    memcpy(&half, t->data + index * 2, sizeof half);
    if (t->dtype == BR_TENSOR_BF16)
        return br_bf16_to_f32_bits(half);
    return wide ? br_f16_to_f32_bits(half) : half;
}

/* Output 8c + j of AWQ's "gemm" words lies at this bit. */
static const uint8_t awq_shift[8] = {0, 16, 4, 20, 8, 24, 12, 28};

static void awq_read(const struct br_quant_source *s, uint64_t row, struct br_quant_row *out)
{
    uint64_t words = s->n / 8, groups = br_quant_groups(&s->format, s->k);
    unsigned shift = awq_shift[row % 8];
    for (uint64_t i = 0; i < s->k; i++)
        out->code[i] = word_at(s->weight, i * words + row / 8) >> shift & 15;
    for (uint64_t g = 0; g < groups; g++) {
        out->zero[g] = word_at(s->zeros, g * words + row / 8) >> shift & 15;
        out->scale[g] = scale_at(s->scales, g * s->n + row, s->format.wide);
    }
}

static void gptq_read(const struct br_quant_source *s, uint64_t row, struct br_quant_row *out)
{
    unsigned bits = s->kind == BR_QUANT_KIND_GPTQ4 ? 4 : 8, per_word = 32 / bits, mask = (1u << bits) - 1;
    uint64_t groups = br_quant_groups(&s->format, s->k);
    for (uint64_t w = 0; w < s->k / per_word; w++) {
        uint32_t word = word_at(s->weight, w * s->n + row);
        for (unsigned j = 0; j < per_word; j++)
            out->code[w * per_word + j] = (uint8_t)(word >> bits * j & mask);
    }
    for (uint64_t g = 0; g < groups; g++) {
        uint32_t word = word_at(s->zeros, g * (s->n / per_word) + row / per_word);
        out->zero[g] = (uint8_t)(word >> row % per_word * bits & mask);
        out->scale[g] = scale_at(s->scales, g * s->n + row, s->format.wide);
    }
}

/* Scales: one, one a row, or [ceil(n / block)][ceil(k / block)]. */
static void fp8_read(const struct br_quant_source *s, uint64_t row, struct br_quant_row *out)
{
    uint64_t groups = br_quant_groups(&s->format, s->k);
    uint64_t first = s->block_n ? row / s->block_n * groups : s->scales->elements == 1 ? 0 : row;
    memcpy(out->code, s->weight->data + row * s->k, s->k);
    for (uint64_t g = 0; g < groups; g++)
        out->scale[g] = scale_at(s->scales, first + g, true);
}

void br_quant_row_read(const struct br_quant_source *s, uint64_t index, struct br_quant_row *out)
{
    switch (s->kind) {
    case BR_QUANT_KIND_AWQ4:
        awq_read(s, index, out);
        break;
    case BR_QUANT_KIND_GPTQ4:
    case BR_QUANT_KIND_GPTQ8:
        gptq_read(s, index, out);
        break;
    case BR_QUANT_KIND_FP8:
        fp8_read(s, index, out);
        break;
    default:
        quant_block_read(s, index, out);
    }
}

uint32_t br_quant_group_of(const struct br_quant_source *s, uint64_t k)
{
    if (s->g_idx)
        return word_at(s->g_idx, k);
    return s->format.group ? (uint32_t)(k / s->format.group) : 0;
}

float br_e4m3_value(uint8_t code)
{
    unsigned exponent = code >> 3 & 15, mantissa = code & 7;
    float value = exponent ? ldexpf(8 + (float)mantissa, (int)exponent - 10) : ldexpf((float)mantissa, -9);
    if ((code & 0x7f) == 0x7f)
        return NAN;
    return code & 0x80 ? -value : value;
}

static float scale_value(const struct br_matrix_format *f, uint32_t bits)
{
    return br_f32_from_bits(f->wide ? bits : br_f16_to_f32_bits((uint16_t)bits));
}

void br_quant_row_values(const struct br_quant_source *s, uint64_t index, struct br_quant_row *row, float *out)
{
    const struct br_matrix_format *f = &s->format;
    br_quant_row_read(s, index, row);
    for (uint64_t i = 0; i < s->k; i++) {
        uint32_t g = br_quant_group_of(s, i);
        float scale = scale_value(f, row->scale[g]), code = row->code[i];
        if (f->code == BR_CODE_E4M3)
            code = br_e4m3_value(row->code[i]);
        /* Where there is a min, code x scale is exact: one rounding in all. */
        out[i] = (code - (float)(f->zero + (f->zeros ? row->zero[g] : 0))) * scale;
        if (f->mins)
            out[i] -= row->min[g];
    }
}

void br_quant_row_init(struct br_quant_row *row, const struct br_matrix_format *format, uint64_t k)
{
    uint64_t groups = br_quant_groups(format, k);
    row->code = br_calloc(k + 1, 1);
    row->scale = br_calloc(groups, sizeof *row->scale);
    row->zero = br_calloc(groups, 1);
    row->min = br_calloc(groups, sizeof *row->min);
}

void br_quant_row_free(struct br_quant_row *row)
{
    free(row->code);
    free(row->scale);
    free(row->zero);
    free(row->min);
}

int br_quant_tensors(const struct br_quant_source *s, const struct br_tensor *out[BR_QUANT_TENSORS])
{
    const struct br_tensor *all[BR_QUANT_TENSORS] = {s->weight, s->scales, s->zeros, s->g_idx};
    int n = 0;
    for (int i = 0; i < BR_QUANT_TENSORS; i++)
        if (all[i])
            out[n++] = all[i];
    return n;
}
