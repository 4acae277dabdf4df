/* The weights of `briareus model synth`: which tensors, and what is in them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/rng.h"
#include "cli/model/synth.h"
#include "worker/weights/convert.h"

void br_synth_add(struct br_synth_tensor **list, uint32_t *count, struct br_synth_tensor t)
{
    *list = br_realloc(*list, (*count + 1) * sizeof **list);
    (*list)[(*count)++] = t;
}

/* Spreads keep activations of any width near 1: a product over k inputs has k times the variance. */
static void add_layer(struct br_synth_tensor **list, uint32_t *count, const struct br_synth_options *o, uint32_t layer)
{
    const struct br_model_shape *s = &o->shape;
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    float wide = 1.7f / __builtin_sqrtf((float)s->hidden);
    const struct {
        const char *name;
        bool there;
        struct br_synth_tensor t;
    } parts[] = {
        {"input_layernorm.weight", true, {.n = s->hidden, .mean = 1, .spread = 0.2f}},
        {"self_attn.q_proj.weight", true, {.n = q, .k = s->hidden, .spread = wide}},
        {"self_attn.k_proj.weight", true, {.n = kv, .k = s->hidden, .spread = wide}},
        {"self_attn.v_proj.weight", true, {.n = kv, .k = s->hidden, .spread = wide}},
        {"self_attn.o_proj.weight", true, {.n = s->hidden, .k = q, .spread = 1.7f / __builtin_sqrtf((float)q)}},
        {"self_attn.q_proj.bias", s->qkv_bias, {.n = q, .spread = 0.3f}},
        {"self_attn.k_proj.bias", s->qkv_bias, {.n = kv, .spread = 0.3f}},
        {"self_attn.v_proj.bias", s->qkv_bias, {.n = kv, .spread = 0.1f}},
        {"self_attn.q_norm.weight", s->qk_norm, {.n = s->head_dim, .mean = 1, .spread = 0.2f}},
        {"self_attn.k_norm.weight", s->qk_norm, {.n = s->head_dim, .mean = 1, .spread = 0.2f}},
        {"post_attention_layernorm.weight", true, {.n = s->hidden, .mean = 1, .spread = 0.2f}},
        {"mlp.gate_proj.weight", true, {.n = s->ffn, .k = s->hidden, .spread = wide}},
        {"mlp.up_proj.weight", true, {.n = s->ffn, .k = s->hidden, .spread = wide}},
        {"mlp.down_proj.weight", true, {.n = s->hidden, .k = s->ffn, .spread = 1.7f / __builtin_sqrtf((float)s->ffn)}},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct br_synth_tensor t = parts[i].t;
        snprintf(t.name, sizeof t.name, "model.layers.%u.%s", layer, parts[i].name);
        if (parts[i].there && t.k && o->quant)
            br_synth_add_quantised(list, count, &t, o);
        else if (parts[i].there)
            br_synth_add(list, count, t);
    }
}

static uint32_t list_tensors(const struct br_synth_options *o, struct br_synth_tensor **list)
{
    const struct br_model_shape *s = &o->shape;
    float wide = 1.7f / __builtin_sqrtf((float)s->hidden);
    uint32_t count = 0;
    br_synth_add(
        list, &count,
        (struct br_synth_tensor){
            .name = "model.embed_tokens.weight", .n = s->vocab, .k = s->hidden, .spread = s->tied ? wide : 1.7f});
    for (uint32_t i = 0; i < s->layers; i++)
        add_layer(list, &count, o, i);
    br_synth_add(list, &count,
                 (struct br_synth_tensor){.name = "model.norm.weight", .n = s->hidden, .mean = 1, .spread = 0.2f});
    if (!s->tied)
        br_synth_add(
            list, &count,
            (struct br_synth_tensor){.name = "lm_head.weight", .n = s->vocab, .k = s->hidden, .spread = 3 * wide});
    return count;
}

static uint64_t elements(const struct br_synth_tensor *t)
{
    return t->n * (t->k ? t->k : 1);
}

/* What a tensor of the model's own dtype is called, and how wide it is. */
static const char *dtype_of(const struct br_synth_tensor *t, enum br_dtype dtype)
{
    static const char *const names[] = {"F32", "F16", "BF16"};
    return t->dtype ? t->dtype : names[dtype];
}

static size_t width_of(const char *dtype)
{
    return strcmp(dtype, "F8_E4M3") == 0 ? 1 : strchr(dtype, '1') ? 2 : 4;
}

static bool write_header(FILE *f, const struct br_synth_tensor *list, uint32_t n, enum br_dtype dtype)
{
    struct br_buf text = {0};
    uint64_t at = 0, len;
    bool ok;
    br_buf_puts(&text, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint32_t i = 0; i < n; i++) {
        const char *name = dtype_of(&list[i], dtype);
        uint64_t bytes = elements(&list[i]) * width_of(name);
        br_buf_printf(&text, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, list[i].name, name, list[i].n);
        if (list[i].k)
            br_buf_printf(&text, ",%" PRIu64, list[i].k);
        br_buf_printf(&text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
        at += bytes;
    }
    br_buf_puts(&text, "}");
    while (text.len % 8)
        br_buf_puts(&text, " ");
    len = text.len;
    ok = fwrite(&len, 8, 1, f) == 1 && fwrite(text.data, 1, text.len, f) == text.len;
    br_buf_free(&text);
    return ok;
}

/* Normal halves only: what is too small for them becomes 0. */
uint16_t br_synth_f16(float v)
{
    uint32_t bits = br_f32_bits(v), exponent = bits >> 23 & 0xff;
    if (exponent < 113)
        return (uint16_t)(bits >> 16 & 0x8000);
    return (uint16_t)((bits >> 16 & 0x8000) | (exponent - 112) << 10 | (bits >> 13 & 0x3ff));
}

/* Four values from one 64-bit draw. */
static void fill(const struct br_synth_tensor *t, uint64_t seed, uint32_t tensor, uint64_t first, uint64_t n,
                 enum br_dtype dtype, unsigned char *out)
{
    for (uint64_t i = 0; i < n; i++) {
        static _Thread_local uint64_t bits;
        float v;
        uint16_t half;
        if ((first + i) % 4 == 0 || i == 0)
            bits = br_rng_u64(seed, tensor, (first + i) / 4, 0);
        v = t->mean + t->spread * ((float)(uint16_t)(bits >> (first + i) % 4 * 16) / 32768.0f - 1);
        half = dtype == BR_F16 ? br_synth_f16(v) : br_f32_bits_to_bf16(br_f32_bits(v));
        if (dtype == BR_F32)
            memcpy(out + 4 * i, &v, 4);
        else
            memcpy(out + 2 * i, &half, 2);
    }
}

static bool write_tensors(FILE *f, const struct br_synth_tensor *list, uint32_t n, const struct br_synth_options *o)
{
    enum { CHUNK = 1 << 18 };
    unsigned char *chunk = br_malloc(CHUNK * 4);
    bool ok = true;
    uint32_t stream = 0; /* of random numbers: a model and its quantised twin have the same in all that is not */
    for (uint32_t i = 0; i < n && ok; stream += list[i++].content < BR_SYNTH_ZEROS)
        for (uint64_t at = 0; at < elements(&list[i]) && ok; at += CHUNK) {
            uint64_t count = elements(&list[i]) - at < CHUNK ? elements(&list[i]) - at : CHUNK;
            if (list[i].content)
                br_synth_quantised_fill(&list[i], o->seed, at, count, chunk);
            else
                fill(&list[i], o->seed, stream, at, count, o->shape.dtype, chunk);
            ok = fwrite(chunk, width_of(dtype_of(&list[i], o->shape.dtype)), count, f) == count;
        }
    free(chunk);
    return ok;
}

int br_synth_weights(const struct br_synth_options *o, struct br_err *err)
{
    char path[4096], tmp[4100];
    struct br_synth_tensor *list = NULL;
    uint32_t n = list_tensors(o, &list);
    FILE *f;
    bool ok;
    snprintf(path, sizeof path, "%s/model.safetensors", o->dir);
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    f = fopen(tmp, "wb");
    ok = f && write_header(f, list, n, o->shape.dtype) && write_tensors(f, list, n, o);
    if (f && fclose(f) != 0)
        ok = false;
    free(list);
    if (ok && rename(tmp, path) == 0)
        return 0;
    br_err_errno(err, BR_EIO, "%s", tmp);
    unlink(tmp);
    return err->code;
}
