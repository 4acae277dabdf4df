#include "cost/catalogue.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost/names.h"

#define MODEL(NAME, LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB, ...)                                        \
    {                                                                                                                  \
        .name = NAME, .layers = (LAYERS), .hidden = (HIDDEN), .ffn = (FFN), .heads = (HEADS), .kv_heads = (KV_HEADS),  \
        .head_dim = (HEAD_DIM), .vocab = (VOCAB), __VA_ARGS__                                                          \
    }
#define LLAMA .qkv_bias = false
#define QWEN2 .qkv_bias = true
#define QWEN3 .qk_norm = true
#define TIED .tied = true
#define MOE(all, active) .experts = (all), .experts_active = (active)

/* As the models' own config.json files say. */
static const struct br_model_size g_models[] = {
    /* name        layers hidden  ffn heads kv  dim   vocab */
    MODEL("Qwen2.5-0.5B", 24, 896, 4864, 14, 2, 64, 151936, QWEN2, TIED),
    MODEL("Qwen2.5-1.5B", 28, 1536, 8960, 12, 2, 128, 151936, QWEN2, TIED),
    MODEL("Qwen2.5-3B", 36, 2048, 11008, 16, 2, 128, 151936, QWEN2, TIED),
    MODEL("Qwen2.5-7B", 28, 3584, 18944, 28, 4, 128, 152064, QWEN2),
    MODEL("Qwen2.5-14B", 48, 5120, 13824, 40, 8, 128, 152064, QWEN2),
    MODEL("Qwen2.5-32B", 64, 5120, 27648, 40, 8, 128, 152064, QWEN2),
    MODEL("Qwen2.5-72B", 80, 8192, 29568, 64, 8, 128, 152064, QWEN2),
    MODEL("Qwen3-0.6B", 28, 1024, 3072, 16, 8, 128, 151936, QWEN3, TIED),
    MODEL("Qwen3-1.7B", 28, 2048, 6144, 16, 8, 128, 151936, QWEN3, TIED),
    MODEL("Qwen3-4B", 36, 2560, 9728, 32, 8, 128, 151936, QWEN3, TIED),
    MODEL("Qwen3-8B", 36, 4096, 12288, 32, 8, 128, 151936, QWEN3),
    MODEL("Qwen3-14B", 40, 5120, 17408, 40, 8, 128, 151936, QWEN3),
    MODEL("Qwen3-32B", 64, 5120, 25600, 64, 8, 128, 151936, QWEN3),
    MODEL("Qwen3-30B-A3B", 48, 2048, 768, 32, 4, 128, 151936, QWEN3, MOE(128, 8)),
    MODEL("Qwen3-235B-A22B", 94, 4096, 1536, 64, 4, 128, 151936, QWEN3, MOE(128, 8)),
    MODEL("Llama-2-7B", 32, 4096, 11008, 32, 32, 128, 32000, LLAMA),
    MODEL("Llama-2-13B", 40, 5120, 13824, 40, 40, 128, 32000, LLAMA),
    MODEL("Llama-2-70B", 80, 8192, 28672, 64, 8, 128, 32000, LLAMA),
    MODEL("Llama-3-8B", 32, 4096, 14336, 32, 8, 128, 128256, LLAMA),
    MODEL("Llama-3-70B", 80, 8192, 28672, 64, 8, 128, 128256, LLAMA),
    MODEL("Llama-3.1-8B", 32, 4096, 14336, 32, 8, 128, 128256, LLAMA),
    MODEL("Llama-3.1-70B", 80, 8192, 28672, 64, 8, 128, 128256, LLAMA),
    MODEL("Yi-6B", 32, 4096, 11008, 32, 4, 128, 64000, LLAMA),
    MODEL("Yi-9B", 48, 4096, 11008, 32, 4, 128, 64000, LLAMA),
    MODEL("Yi-34B", 60, 7168, 20480, 56, 8, 128, 64000, LLAMA),
    MODEL("Yi-1.5-6B", 32, 4096, 11008, 32, 4, 128, 64000, LLAMA),
    MODEL("Yi-1.5-9B", 48, 4096, 11008, 32, 4, 128, 64000, LLAMA),
    MODEL("Yi-1.5-34B", 60, 7168, 20480, 56, 8, 128, 64000, LLAMA),
    /* older ones that published measurements use */
    MODEL("Qwen-7B", 32, 4096, 11008, 32, 32, 128, 151936, QWEN2),
    MODEL("Qwen-14B", 40, 5120, 13696, 40, 40, 128, 152064, QWEN2),
    MODEL("Qwen-72B", 80, 8192, 24576, 64, 64, 128, 152064, QWEN2),
    MODEL("Baichuan-7B", 32, 4096, 11008, 32, 32, 128, 64000, LLAMA),
    MODEL("Baichuan2-13B", 40, 5120, 13696, 40, 40, 128, 125696, LLAMA),
    MODEL("InternLM2.5-7B", 32, 4096, 14336, 32, 8, 128, 92544, LLAMA),
};
enum { N_MODELS = sizeof g_models / sizeof g_models[0] };

bool br_catalogue_at(size_t index, struct br_model_size *out)
{
    if (index < N_MODELS)
        *out = g_models[index];
    return index < N_MODELS;
}

int br_catalogue_find(const char *name, struct br_model_size *out, struct br_err *err)
{
    static const char *const ignored[] = {"hf", "chat", "instruct", NULL};
    const char *names[N_MODELS];
    char plain[BR_NAME_MAX];
    br_name_plain(name, ignored, plain);
    for (size_t i = 0; i < N_MODELS; i++) {
        char known[BR_NAME_MAX];
        br_name_plain(g_models[i].name, ignored, known);
        names[i] = g_models[i].name;
        if (strcmp(plain, known) == 0) {
            *out = g_models[i];
            return 0;
        }
    }
    return br_name_unknown("model", name, names, N_MODELS, err);
}

void br_model_size_of(const struct br_model_shape *s, const char *name, struct br_model_size *out)
{
    *out = (struct br_model_size){.layers = s->layers,
                                  .hidden = s->hidden,
                                  .ffn = s->ffn,
                                  .heads = s->heads,
                                  .kv_heads = s->kv_heads,
                                  .head_dim = s->head_dim,
                                  .vocab = s->vocab,
                                  .tied = s->tied,
                                  .qkv_bias = s->qkv_bias,
                                  .qk_norm = s->qk_norm};
    snprintf(out->name, sizeof out->name, "%s", name);
}

static double size_common(const struct br_model_size *s)
{
    double q = (double)s->heads * s->head_dim, kv = (double)s->kv_heads * s->head_dim, hidden = s->hidden;
    double ffn = s->experts ? hidden * s->experts : 3 * hidden * s->ffn; /* a mixture's router, or the dense ffn */
    return s->layers * (hidden * (q + 2 * kv) + q * hidden + ffn);
}

static double size_expert(const struct br_model_size *s)
{
    return s->experts ? 3.0 * s->layers * s->hidden * s->ffn : 0;
}

static double size_vectors(const struct br_model_size *s)
{
    double qkv = ((double)s->heads + 2.0 * s->kv_heads) * s->head_dim;
    double layer = 2.0 * s->hidden + (s->qkv_bias ? qkv : 0) + (s->qk_norm ? 2.0 * s->head_dim : 0);
    return s->layers * layer + s->hidden;
}

static double size_whole(const struct br_model_size *s, double experts)
{
    return size_common(s) + experts * size_expert(s) + size_vectors(s) +
           (double)s->vocab * s->hidden * (s->tied ? 1 : 2);
}

double br_size_params(const struct br_model_size *s)
{
    return size_whole(s, s->experts);
}

double br_size_active_params(const struct br_model_size *s)
{
    return size_whole(s, s->experts_active);
}

static double format_bytes(enum br_weight_format format, const struct br_model_size *size)
{
    switch (format) {
    case BR_WEIGHTS_FP8:
        return 1 + 4.0 / (128 * 128);
    case BR_WEIGHTS_INT8:
        return 1 + 2.0 / size->hidden;
    case BR_WEIGHTS_INT4:
        return 0.5 + (2 + 0.5) / 128;
    case BR_WEIGHTS_BF16:
        break;
    }
    return 2;
}

void br_footprint_init(struct br_footprint *f, const struct br_model_size *s, enum br_weight_format weights,
                       enum br_kv_format kv)
{
    *f = (struct br_footprint){.size = *s, .weights = weights, .kv = kv};
    f->params = br_size_params(s);
    f->active_params = br_size_active_params(s);
    f->bytes_per_weight = format_bytes(weights, s);
    f->common_params = size_common(s);
    f->expert_params = size_expert(s);
    f->head_params = (double)s->vocab * s->hidden;
    f->embedding_params = s->tied ? 0 : f->head_params;
    f->weight_bytes = (f->common_params + s->experts * f->expert_params) * f->bytes_per_weight +
                      2 * (f->head_params + f->embedding_params + size_vectors(s));
    f->kv_bytes_per_token = 2.0 * s->layers * s->kv_heads * s->head_dim * (kv == BR_KV_FP8 ? 1 : 2);
}

double br_footprint_read_bytes(const struct br_footprint *f, double tokens)
{
    double experts = f->size.experts, idle;
    if (!f->size.experts)
        return f->weight_bytes - 2 * f->embedding_params;
    idle = experts * pow(1 - f->size.experts_active / experts, tokens);
    return f->weight_bytes - 2 * f->embedding_params - idle * f->expert_params * f->bytes_per_weight;
}

double br_footprint_matrix_params(const struct br_footprint *f)
{
    return f->common_params + f->size.experts_active * f->expert_params;
}

int br_weight_format_parse(const char *text, enum br_weight_format *out, struct br_err *err)
{
    static const char *const names[] = {"bf16", "fp8", "int8", "int4"};
    for (int i = 0; i <= BR_WEIGHTS_INT4; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum br_weight_format)i;
            return 0;
        }
    return br_err_set(err, BR_EINVAL, "unknown weight format '%.40s': must be bf16, fp8, int8 or int4", text);
}

int br_kv_format_parse(const char *text, enum br_kv_format *out, struct br_err *err)
{
    if (strcmp(text, "bf16") != 0 && strcmp(text, "fp8") != 0)
        return br_err_set(err, BR_EINVAL, "unknown KV format '%.40s': must be bf16 or fp8", text);
    *out = strcmp(text, "fp8") == 0 ? BR_KV_FP8 : BR_KV_BF16;
    return 0;
}
