/* Quantised linears of `briareus model synth`: codes, zeros and scales are functions of seed, linear and place, so the
 * numbers that they stand for can be written as well. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/rng.h"
#include "cli/model/synth.h"
#include "worker/weights/convert.h"
#include "worker/weights/quant.h"

enum { GROUP = 128 };

const char *const br_synth_quant_names[4] = {"awq", "gptq", "gptq-int8", "fp8"};

const char *br_synth_quant_config(const struct br_synth_options *o)
{
    static const char *const text[] = {
        [BR_SYNTH_DENSE] = "",
        [BR_SYNTH_AWQ] = "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 128, \"version\": \"gemm\", "
                         "\"zero_point\": true}",
        [BR_SYNTH_GPTQ] = "{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128, \"desc_act\": false, "
                          "\"sym\": false}",
        [BR_SYNTH_GPTQ8] = "{\"quant_method\": \"gptq\", \"bits\": 8, \"group_size\": 128, \"desc_act\": false, "
                           "\"sym\": false}",
        [BR_SYNTH_FP8] = "{\"quant_method\": \"fp8\", \"fmt\": \"e4m3\", \"activation_scheme\": \"dynamic\", "
                         "\"weight_block_size\": [128, 128]}"};
    static _Thread_local char out[256];
    if (!o->quant || o->dequantised)
        return "";
    snprintf(out, sizeof out, ",\n \"quantization_config\": %s", text[o->quant]);
    return out;
}

int br_synth_quant_check(const struct br_synth_options *o, struct br_err *err)
{
    const struct br_model_shape *s = &o->shape;
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    if (!o->quant)
        return br_err_set(err, BR_EINVAL, "--dequantized goes with --quantization");
    if ((s->hidden | s->ffn | q | kv) % 8)
        return br_err_set(err, BR_EINVAL, "--quantization: hidden, ffn and heads x head-dim must be multiples of 8");
    return 0;
}

static uint64_t groups_of(const struct br_synth_tensor *t)
{
    return (t->inputs + GROUP - 1) / GROUP;
}

static uint64_t draw(const struct br_synth_tensor *t, uint64_t seed, enum br_synth_content what, uint64_t at)
{
    return br_rng_u64(seed, t->key, at, what);
}

static uint32_t code_of(const struct br_synth_tensor *t, uint64_t seed, uint64_t output, uint64_t input)
{
    uint64_t bits = draw(t, seed, BR_SYNTH_CODES, output * t->inputs + input);
    if (t->quant == BR_SYNTH_FP8) /* exponents of 2^-3 .. 2^7, never the code of NaN */
        return ((uint32_t)bits & 0x87) | (uint32_t)(4 + bits / 256 % 11) << 3;
    return (uint32_t)bits & (t->quant == BR_SYNTH_GPTQ8 ? 255u : 15u);
}

static uint32_t zero_of(const struct br_synth_tensor *t, uint64_t seed, uint64_t output, uint64_t group)
{
    uint32_t middle = t->quant == BR_SYNTH_GPTQ8 ? 126 : 6;
    return middle + (uint32_t)(draw(t, seed, BR_SYNTH_ZEROS, group * t->outputs + output) & 3);
}

/* As its bits: F16, of FP8 F32. at: index into the scales as stored. */
static uint32_t scale_of(const struct br_synth_tensor *t, uint64_t seed, uint64_t at)
{
    float most = t->quant == BR_SYNTH_FP8 ? 100 : t->quant == BR_SYNTH_GPTQ8 ? 128 : 8;
    float scale = t->spread / most * (0.75f + (float)(draw(t, seed, BR_SYNTH_SCALES, at) % 512) / 1024);
    return t->quant == BR_SYNTH_FP8 ? br_f32_bits(scale) : br_synth_f16(scale);
}

static float number_of(const struct br_synth_tensor *t, uint64_t seed, uint64_t output, uint64_t input)
{
    uint64_t group = input / GROUP;
    uint32_t code = code_of(t, seed, output, input);
    if (t->quant == BR_SYNTH_FP8)
        return br_e4m3_value((uint8_t)code) *
               br_f32_from_bits(scale_of(t, seed, output / GROUP * groups_of(t) + group));
    uint32_t scale = br_f16_to_f32_bits((uint16_t)scale_of(t, seed, group * t->outputs + output));
    return (float)((int32_t)code - (int32_t)zero_of(t, seed, output, group)) * br_f32_from_bits(scale);
}

/* A word of codes or zeros: AWQ packs outputs out of order, GPTQ inputs, and of zeros outputs. */
static uint32_t word_of(const struct br_synth_tensor *t, uint64_t seed, uint64_t at)
{
    static const uint32_t awq[8] = {0, 16, 4, 20, 8, 24, 12, 28};
    uint32_t bits = t->quant == BR_SYNTH_GPTQ8 ? 8 : 4, per_word = 32 / bits, word = 0;
    uint64_t row = at / t->k, column = at % t->k;
    for (uint32_t j = 0; j < per_word; j++) {
        uint32_t shift = t->quant == BR_SYNTH_AWQ ? awq[j] : bits * j;
        if (t->content == BR_SYNTH_ZEROS)
            word |= (zero_of(t, seed, column * per_word + j, row) - (t->quant != BR_SYNTH_AWQ)) << shift;
        else if (t->quant == BR_SYNTH_AWQ)
            word |= code_of(t, seed, column * per_word + j, row) << shift;
        else
            word |= code_of(t, seed, column, row * per_word + j) << shift;
    }
    return word;
}

static void put_number(const struct br_synth_tensor *t, float number, uint64_t i, void *out)
{
    uint16_t half = t->plain == BR_F16 ? br_synth_f16(number) : br_f32_bits_to_bf16(br_f32_bits(number));
    if (t->plain == BR_F32)
        memcpy((char *)out + 4 * i, &number, 4);
    else
        memcpy((char *)out + 2 * i, &half, 2);
}

void br_synth_quantised_fill(const struct br_synth_tensor *t, uint64_t seed, uint64_t first, uint64_t n, void *out)
{
    bool fp8 = t->quant == BR_SYNTH_FP8;
    size_t width = t->content == BR_SYNTH_SCALES ? (fp8 ? 4 : 2) : t->content == BR_SYNTH_CODES && fp8 ? 1 : 4;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = first + i;
        uint32_t word;
        if (t->content == BR_SYNTH_NUMBERS) {
            put_number(t, number_of(t, seed, at / t->k, at % t->k), i, out);
            continue;
        }
        word = t->content == BR_SYNTH_SCALES ? scale_of(t, seed, at)
               : fp8                         ? code_of(t, seed, at / t->k, at % t->k)
                                             : word_of(t, seed, at);
        memcpy((char *)out + width * i, &word, width); /* little-endian, as the file is */
    }
}

static void add_part(struct br_synth_tensor **list, uint32_t *count, struct br_synth_tensor t, const char *end,
                     const char *dtype, uint64_t n, uint64_t k)
{
    size_t base = strlen(t.name) - strlen("weight");
    snprintf(t.name + base, sizeof t.name - base, "%s", end);
    t.dtype = dtype;
    t.n = n;
    t.k = k;
    br_synth_add(list, count, t);
}

void br_synth_add_quantised(struct br_synth_tensor **list, uint32_t *count, const struct br_synth_tensor *plain,
                            const struct br_synth_options *o)
{
    struct br_synth_tensor t = *plain;
    uint64_t per_word = o->quant == BR_SYNTH_GPTQ8 ? 4 : 8, groups;
    t.outputs = t.n, t.inputs = t.k, t.quant = o->quant, t.plain = o->shape.dtype;
    t.key = (uint32_t)XXH3_64bits(t.name, strlen(t.name));
    groups = groups_of(&t);
    t.content = o->dequantised ? BR_SYNTH_NUMBERS : BR_SYNTH_CODES;
    if (o->dequantised) {
        br_synth_add(list, count, t);
    } else if (o->quant == BR_SYNTH_FP8) {
        add_part(list, count, t, "weight", "F8_E4M3", t.n, t.k);
        t.content = BR_SYNTH_SCALES;
        add_part(list, count, t, "weight_scale_inv", "F32", (t.outputs + GROUP - 1) / GROUP, groups);
    } else {
        bool awq = o->quant == BR_SYNTH_AWQ;
        add_part(list, count, t, "qweight", "I32", awq ? t.inputs : t.inputs / per_word,
                 awq ? t.outputs / per_word : t.outputs);
        t.content = BR_SYNTH_ZEROS;
        add_part(list, count, t, "qzeros", "I32", groups, t.outputs / per_word);
        t.content = BR_SYNTH_SCALES;
        add_part(list, count, t, "scales", "F16", groups, t.outputs);
    }
}
