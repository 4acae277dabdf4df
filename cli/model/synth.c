#include "cli/model/synth.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/rng.h"
#include "cli/model/commands.h"
#include "cost/shape_limits.h"
#include "worker/weights/convert.h"

struct options {
    const char *dir;
    struct br_model_shape shape;
    uint64_t seed;
    bool force;
};

enum {
    OPT_ARCH = 256,
    OPT_HIDDEN,
    OPT_FFN,
    OPT_LAYERS,
    OPT_HEADS,
    OPT_KV_HEADS,
    OPT_HEAD_DIM,
    OPT_VOCAB,
    OPT_POSITIONS,
    OPT_TIED,
    OPT_SEED,
    OPT_DTYPE,
    OPT_FORCE
};

static const struct argp_option g_options[] = {
    {"arch", OPT_ARCH, "NAME", 0, "llama, qwen2 (default) or qwen3", 0},
    {"hidden", OPT_HIDDEN, "N", 0, "width (256)", 0},
    {"ffn", OPT_FFN, "N", 0, "width of the MLP (3 x hidden)", 0},
    {"layers", OPT_LAYERS, "N", 0, "layers (4)", 0},
    {"heads", OPT_HEADS, "N", 0, "query heads (4)", 0},
    {"kv-heads", OPT_KV_HEADS, "N", 0, "key/value heads (2)", 0},
    {"head-dim", OPT_HEAD_DIM, "N", 0, "width of a head (hidden / heads)", 0},
    {"vocab", OPT_VOCAB, "N", 0, "ids, 259 or more (512)", 0},
    {"max-positions", OPT_POSITIONS, "N", 0, "context (4096)", 0},
    {"tied", OPT_TIED, NULL, 0, "the head is the embedding", 0},
    {"seed", OPT_SEED, "N", 0, "same seed, same bytes (1)", 0},
    {"dtype", OPT_DTYPE, "TYPE", 0, "bfloat16 (default), float16 or float32", 0},
    {"force", OPT_FORCE, NULL, 0, "write into a folder that is not empty, over a model that is there", 0},
    {0},
};

static uint32_t parse_name(const char *option, const char *arg, const char *const *names, uint32_t n,
                           struct argp_state *state)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(arg, names[i]) == 0)
            return i;
    argp_error(state, "--%s %s is not known", option, arg);
    return 0;
}

static uint64_t parse_seed(const char *arg, struct argp_state *state)
{
    char *end;
    unsigned long long seed = strtoull(arg, &end, 10);
    if (end == arg || *end)
        argp_error(state, "--seed %s: must be a number", arg);
    return seed;
}

static uint32_t *size_of_option(struct br_model_shape *s, int key)
{
    uint32_t *const sizes[] = {&s->hidden,   &s->ffn,      &s->layers, &s->heads,
                               &s->kv_heads, &s->head_dim, &s->vocab,  &s->max_positions};
    return key >= OPT_HIDDEN && key <= OPT_POSITIONS ? sizes[key - OPT_HIDDEN] : NULL;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3"}, *const dtypes[] = {"float32", "float16",
                                                                                       "bfloat16"};
    struct options *o = state->input;
    uint32_t *size = size_of_option(&o->shape, key);
    if (size)
        return *size = br_model_parse_u32(g_options[key - OPT_ARCH].name, arg, 1, 1u << 30, state), 0;
    switch (key) {
    case OPT_ARCH:
        return o->shape.arch = (enum br_arch)parse_name("arch", arg, archs, 3, state), 0;
    case OPT_DTYPE:
        return o->shape.dtype = (enum br_dtype)parse_name("dtype", arg, dtypes, 3, state), 0;
    case OPT_TIED:
        return o->shape.tied = true, 0;
    case OPT_SEED:
        return o->seed = parse_seed(arg, state), 0;
    case OPT_FORCE:
        return o->force = true, 0;
    case ARGP_KEY_ARG:
        if (o->dir)
            argp_error(state, "one folder at a time");
        return o->dir = arg, 0;
    case ARGP_KEY_END:
        if (!o->dir)
            argp_error(state, "a folder to write is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int br_synth_text(const char *dir, const char *name, const char *text, size_t len, struct br_err *err)
{
    char path[4096];
    FILE *f;
    bool written;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wb");
    if (!f)
        return br_err_errno(err, BR_EIO, "%s", path);
    written = fwrite(text, 1, len, f) == len;
    if (fclose(f) != 0 || !written)
        return br_err_errno(err, BR_EIO, "%s", path);
    return 0;
}

/* A tensor of the model: uniform values around `mean`. */
struct tensor {
    char name[96];
    uint64_t n, k; /* k 0: a vector */
    float mean, spread;
};

static void add_tensor(struct tensor **list, uint32_t *count, struct tensor t)
{
    *list = br_realloc(*list, (*count + 1) * sizeof **list);
    (*list)[(*count)++] = t;
}

/* Spreads keep activations of any width near 1: a product over k inputs has k times the variance. */
static void add_layer(struct tensor **list, uint32_t *count, const struct br_model_shape *s, uint32_t layer)
{
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    float wide = 1.7f / __builtin_sqrtf((float)s->hidden);
    const struct {
        const char *name;
        bool there;
        struct tensor t;
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
        struct tensor t = parts[i].t;
        snprintf(t.name, sizeof t.name, "model.layers.%u.%s", layer, parts[i].name);
        if (parts[i].there)
            add_tensor(list, count, t);
    }
}

static uint32_t list_tensors(const struct br_model_shape *s, struct tensor **list)
{
    float wide = 1.7f / __builtin_sqrtf((float)s->hidden);
    uint32_t count = 0;
    add_tensor(list, &count,
               (struct tensor){"model.embed_tokens.weight", s->vocab, s->hidden, 0, s->tied ? wide : 1.7f});
    for (uint32_t i = 0; i < s->layers; i++)
        add_layer(list, &count, s, i);
    add_tensor(list, &count, (struct tensor){"model.norm.weight", s->hidden, 0, 1, 0.2f});
    if (!s->tied)
        add_tensor(list, &count, (struct tensor){"lm_head.weight", s->vocab, s->hidden, 0, 3 * wide});
    return count;
}

static uint64_t elements(const struct tensor *t)
{
    return t->n * (t->k ? t->k : 1);
}

static bool write_header(FILE *f, const struct tensor *list, uint32_t n, enum br_dtype dtype)
{
    static const char *const dtypes[] = {"F32", "F16", "BF16"};
    struct br_buf text = {0};
    uint64_t at = 0, len;
    bool ok;
    br_buf_puts(&text, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bytes = elements(&list[i]) * (dtype == BR_F32 ? 4 : 2);
        br_buf_printf(&text, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, list[i].name, dtypes[dtype], list[i].n);
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
static uint16_t f16_of(float v)
{
    uint32_t bits = br_f32_bits(v), exponent = bits >> 23 & 0xff;
    if (exponent < 113)
        return (uint16_t)(bits >> 16 & 0x8000);
    return (uint16_t)((bits >> 16 & 0x8000) | (exponent - 112) << 10 | (bits >> 13 & 0x3ff));
}

/* Four values from one 64-bit draw. */
static void fill(const struct tensor *t, uint64_t seed, uint32_t tensor, uint64_t first, uint64_t n,
                 enum br_dtype dtype, unsigned char *out)
{
    for (uint64_t i = 0; i < n; i++) {
        static _Thread_local uint64_t bits;
        float v;
        uint16_t half;
        if ((first + i) % 4 == 0 || i == 0)
            bits = br_rng_u64(seed, tensor, (first + i) / 4, 0);
        v = t->mean + t->spread * ((float)(uint16_t)(bits >> (first + i) % 4 * 16) / 32768.0f - 1);
        half = dtype == BR_F16 ? f16_of(v) : br_f32_bits_to_bf16(br_f32_bits(v));
        if (dtype == BR_F32)
            memcpy(out + 4 * i, &v, 4);
        else
            memcpy(out + 2 * i, &half, 2);
    }
}

static bool write_tensors(FILE *f, const struct tensor *list, uint32_t n, const struct options *o)
{
    enum { CHUNK = 1 << 18 };
    size_t width = o->shape.dtype == BR_F32 ? 4 : 2;
    unsigned char *chunk = br_malloc(CHUNK * 4);
    bool ok = true;
    for (uint32_t i = 0; i < n && ok; i++)
        for (uint64_t at = 0; at < elements(&list[i]) && ok; at += CHUNK) {
            uint64_t count = elements(&list[i]) - at < CHUNK ? elements(&list[i]) - at : CHUNK;
            fill(&list[i], o->seed, i, at, count, o->shape.dtype, chunk);
            ok = fwrite(chunk, width, count, f) == count;
        }
    free(chunk);
    return ok;
}

static int write_weights(const struct options *o, struct br_err *err)
{
    char path[4096], tmp[4100];
    struct tensor *list = NULL;
    uint32_t n = list_tensors(&o->shape, &list);
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

static int write_config(const struct options *o, struct br_err *err)
{
    static const char *const archs[] = {"Llama", "Qwen2", "Qwen3"}, *const types[] = {"llama", "qwen2", "qwen3"};
    static const char *const dtypes[] = {"float32", "float16", "bfloat16"};
    const struct br_model_shape *s = &o->shape;
    struct br_buf text = {0};
    int rc;
    br_buf_printf(&text,
                  "{\n \"architectures\": [\"%sForCausalLM\"],\n \"model_type\": \"%s\",\n \"hidden_size\": %u,\n"
                  " \"intermediate_size\": %u,\n \"num_hidden_layers\": %u,\n \"num_attention_heads\": %u,\n"
                  " \"num_key_value_heads\": %u,\n \"head_dim\": %u,\n \"vocab_size\": %u,\n"
                  " \"max_position_embeddings\": %u,\n \"rms_norm_eps\": 1e-06,\n \"rope_theta\": 1000000.0,\n"
                  " \"hidden_act\": \"silu\",\n \"tie_word_embeddings\": %s,\n \"bos_token_id\": %d,\n"
                  " \"eos_token_id\": %d,\n \"torch_dtype\": \"%s\"\n}\n",
                  archs[s->arch], types[s->arch], s->hidden, s->ffn, s->layers, s->heads, s->kv_heads, s->head_dim,
                  s->vocab, s->max_positions, s->tied ? "true" : "false", BR_SYNTH_BOS, BR_SYNTH_EOS, dtypes[s->dtype]);
    rc = br_synth_text(o->dir, "config.json", text.data, text.len, err);
    br_buf_free(&text);
    return rc;
}

static int shape_complete(struct br_model_shape *s, struct br_err *err)
{
    s->qkv_bias = s->arch == BR_ARCH_QWEN2;
    s->qk_norm = s->arch == BR_ARCH_QWEN3;
    s->ffn = s->ffn ? s->ffn : 3 * s->hidden;
    if (!s->head_dim && s->hidden % s->heads)
        return br_err_set(err, BR_EINVAL, "--hidden %u is no multiple of --heads %u: give --head-dim", s->hidden,
                          s->heads);
    s->head_dim = s->head_dim ? s->head_dim : s->hidden / s->heads;
    if (s->vocab < BR_SYNTH_MIN_VOCAB)
        return br_err_set(err, BR_EINVAL, "--vocab %u: the byte-level tokenizer needs %d", s->vocab,
                          BR_SYNTH_MIN_VOCAB);
    return br_model_shape_check(s, err);
}

/* Nobody's model is overwritten by a mistyped name. */
static int check_empty(const char *dir, struct br_err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int rc = 0;
    if (!d)
        return br_err_errno(err, BR_EIO, "%s", dir);
    while (!rc && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = br_err_set(err, BR_EINVAL, "%s is not empty (it holds %s): name a new folder, or --force to overwrite",
                            dir, e->d_name);
    closedir(d);
    return rc;
}

static int synth(struct options *o, struct br_err *err)
{
    int rc = shape_complete(&o->shape, err);
    if (rc)
        return rc;
    if (mkdir(o->dir, 0777) < 0 && errno != EEXIST)
        return br_err_errno(err, BR_EIO, "%s", o->dir);
    if (!o->force && (rc = check_empty(o->dir, err)))
        return rc;
    if ((rc = write_config(o, err)) || (rc = br_synth_tokenizer(o->dir, err)))
        return rc;
    return write_weights(o, err);
}

int br_model_synth(int argc, char **argv)
{
    static const struct argp argp = {.options = g_options,
                                     .parser = parse_option,
                                     .args_doc = "DIR",
                                     .doc = "Writes a model of random weights with a byte-level tokenizer and the "
                                            "ChatML template: for tests and measurements. It babbles."};
    struct options o = {.seed = 1};
    struct br_err err;
    int rc;
    o.shape = (struct br_model_shape){.arch = BR_ARCH_QWEN2,
                                      .dtype = BR_BF16,
                                      .hidden = 256,
                                      .layers = 4,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .vocab = 512,
                                      .max_positions = 4096,
                                      .rms_eps = 1e-6f,
                                      .rope = {.theta = 1e6},
                                      .bos = BR_SYNTH_BOS,
                                      .eos = {BR_SYNTH_EOS},
                                      .n_eos = 1};
    rc = br_model_parse(&argp, argc, argv, &o);
    if (rc)
        return rc;
    if (synth(&o, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    printf("%s: %" PRIu64 " parameters\n", o.dir, br_model_params(&o.shape));
    return 0;
}
