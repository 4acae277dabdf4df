/* Blocks of 32 or 256 weights as in ggml-common.h; little-endian.
 *   Q8_0  half d, int8 [32]
 *   Q4_0  half d, 16 bytes: low nibbles are values 0..15, high ones 16..31; minus 8
 *   Q4_K  half d, half dmin, 12 bytes of 6-bit scales and mins for 8 groups of 32, 128 bytes of nibbles: of each 32
 *         bytes the low nibbles are one group, the high ones the next
 *   Q6_K  128 bytes of low nibbles, 64 bytes of 2-bit tops, int8 scales [16] for groups of 16, half d; minus 32 */
#include "worker/weights/quant_block.h"

#include <string.h>

#include "worker/weights/convert.h"

static const struct block {
    const char *name;
    uint32_t values, bytes;
    struct br_matrix_format format;
} g_blocks[BR_QUANT_KINDS] = {
    [BR_QUANT_KIND_Q8_0] = {"Q8_0", 32, 34, {.code = BR_CODE_U8, .group = 32, .zero = 128, .span = 1}},
    [BR_QUANT_KIND_Q4_0] = {"Q4_0", 32, 18, {.code = BR_CODE_U4, .group = 32, .zero = 8, .span = 1}},
    [BR_QUANT_KIND_Q4_K] = {"Q4_K", 256, 144, {.code = BR_CODE_U4, .group = 32, .span = 1, .wide = 1, .mins = 1}},
    [BR_QUANT_KIND_Q6_K] = {"Q6_K", 256, 210, {.code = BR_CODE_U8, .group = 16, .zero = 32, .span = 1, .wide = 1}},
};

enum br_quant_kind br_quant_block_kind(const char *name)
{
    for (int i = BR_QUANT_KIND_Q8_0; i < BR_QUANT_KINDS; i++)
        if (strcmp(name, g_blocks[i].name) == 0)
            return (enum br_quant_kind)i;
    return BR_QUANT_KIND_NONE;
}

uint32_t br_quant_block_values(enum br_quant_kind kind)
{
    return g_blocks[kind].values;
}

uint32_t br_quant_block_bytes(enum br_quant_kind kind)
{
    return g_blocks[kind].bytes;
}

int br_quant_of_blocks(const struct br_tensor *t, struct br_quant_source *out, struct br_err *err)
{
    enum br_quant_kind kind = br_quant_block_kind(t->dtype_name);
    if (!kind)
        return br_err_set(err, BR_ENOTSUP, "%s: tensor %s is %s; supported are F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q6_K",
                          t->file, t->name, t->dtype_name);
    if (t->rank != 2 || t->shape[1] % g_blocks[kind].values)
        return br_err_set(err, BR_ECORRUPT, "%s: tensor %s: rows are no whole number of %s blocks", t->file, t->name,
                          t->dtype_name);
    *out = (struct br_quant_source){.kind = kind, .n = t->shape[0], .k = t->shape[1], .weight = t};
    out->format = g_blocks[kind].format;
    return 0;
}

static uint16_t half_at(const unsigned char *at)
{
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return half;
}

static float half_value(const unsigned char *at)
{
    return br_f32_from_bits(br_f16_to_f32_bits(half_at(at)));
}

static void q8_0(const unsigned char *b, struct br_quant_row *out, uint64_t block)
{
    out->scale[block] = half_at(b);
    for (int i = 0; i < 32; i++)
        out->code[block * 32 + (unsigned)i] = b[2 + i] ^ 0x80; /* + 128 */
}

static void q4_0(const unsigned char *b, struct br_quant_row *out, uint64_t block)
{
    uint8_t *code = out->code + block * 32;
    out->scale[block] = half_at(b);
    for (int i = 0; i < 16; i++) {
        code[i] = b[2 + i] & 15;
        code[16 + i] = b[2 + i] >> 4;
    }
}

/* Groups 0-3: 6 bits of bytes g and 4 + g; groups 4-7: nibbles of byte 4 + g, topped by the bits left over there. */
static void q4_k_scale(const unsigned char *six, unsigned g, unsigned *scale, unsigned *min)
{
    if (g < 4) {
        *scale = six[g] & 63;
        *min = six[g + 4] & 63;
    } else {
        *scale = (six[g + 4] & 15u) | (six[g - 4] >> 6) << 4;
        *min = (unsigned)(six[g + 4] >> 4) | (six[g] >> 6) << 4;
    }
}

static void q4_k(const unsigned char *b, struct br_quant_row *out, uint64_t block)
{
    float d = half_value(b), dmin = half_value(b + 2);
    for (unsigned g = 0; g < 8; g++) {
        const unsigned char *nibbles = b + 16 + g / 2 * 32;
        uint8_t *code = out->code + block * 256 + (size_t)g * 32;
        unsigned scale, min;
        q4_k_scale(b + 4, g, &scale, &min);
        out->scale[block * 8 + g] = br_f32_bits(d * (float)scale);
        out->min[block * 8 + g] = dmin * (float)min;
        for (int i = 0; i < 32; i++)
            code[i] = nibbles[i] >> (g % 2 * 4) & 15;
    }
}

static void q6_k(const unsigned char *b, struct br_quant_row *out, uint64_t block)
{
    float d = half_value(b + 208);
    for (unsigned i = 0; i < 256; i++) {
        unsigned part = i % 128 / 32, at = i % 32, half = i / 128;
        unsigned low = b[half * 64 + part % 2 * 32 + at] >> (part / 2 * 4) & 15;
        unsigned top = b[128 + half * 32 + at] >> (part * 2) & 3;
        out->code[block * 256 + i] = (uint8_t)(low | top << 4);
    }
    for (unsigned g = 0; g < 16; g++)
        out->scale[block * 16 + g] = br_f32_bits(d * (float)(int8_t)b[192 + g]);
}

void quant_block_read(const struct br_quant_source *s, uint64_t row, struct br_quant_row *out)
{
    static void (*const read[BR_QUANT_KINDS])(const unsigned char *, struct br_quant_row *,
                                              uint64_t) = {[BR_QUANT_KIND_Q8_0] = q8_0,
                                                           [BR_QUANT_KIND_Q4_0] = q4_0,
                                                           [BR_QUANT_KIND_Q4_K] = q4_k,
                                                           [BR_QUANT_KIND_Q6_K] = q6_k};
    const struct block *type = &g_blocks[s->kind];
    uint64_t blocks = s->k / type->values;
    const unsigned char *at = s->weight->data + row * blocks * type->bytes;
    for (uint64_t i = 0; i < blocks; i++, at += type->bytes)
        read[s->kind](at, out, i);
}
