#include "cost/shape.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cost/config_field.h"
#include "cost/shape_limits.h"
#include "cost/shape_rope.h"

/* Defaults are those of the transformers config classes of the same names. */
static const struct arch {
    const char *name;
    enum br_arch arch;
    bool qkv_bias, qk_norm;
    uint32_t max_positions, head_dim; /* head_dim 0: hidden / heads */
} g_archs[] = {
    {"LlamaForCausalLM", BR_ARCH_LLAMA, false, false, 2048, 0},
    {"MistralForCausalLM", BR_ARCH_LLAMA, false, false, 131072, 0},
    {"Qwen2ForCausalLM", BR_ARCH_QWEN2, true, false, 32768, 0},
    {"Qwen3ForCausalLM", BR_ARCH_QWEN3, false, true, 32768, 128},
};

static const struct arch *arch_find(const struct br_config *config, struct br_err *err)
{
    const json_t *list = br_config_get(config, "architectures");
    const char *name =
        json_is_array(list) && json_array_size(list) == 1 ? json_string_value(json_array_get(list, 0)) : NULL;
    for (size_t i = 0; name && i < sizeof g_archs / sizeof g_archs[0]; i++)
        if (strcmp(name, g_archs[i].name) == 0)
            return &g_archs[i];
    br_config_refuse(config, "architectures", BR_ENOTSUP, err,
                     "must be one of LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM");
    return NULL;
}

static int read_sizes(const struct br_config *c, const struct arch *arch, struct br_model_shape *s, struct br_err *err)
{
    int rc;
    if ((rc = br_config_need_u32(c, "hidden_size", BR_SHAPE_MAX_HIDDEN, &s->hidden, err)) ||
        (rc = br_config_need_u32(c, "intermediate_size", BR_SHAPE_MAX_FFN, &s->ffn, err)) ||
        (rc = br_config_need_u32(c, "num_hidden_layers", BR_SHAPE_MAX_LAYERS, &s->layers, err)) ||
        (rc = br_config_need_u32(c, "num_attention_heads", BR_SHAPE_MAX_HEADS, &s->heads, err)) ||
        (rc = br_config_need_u32(c, "vocab_size", BR_SHAPE_MAX_VOCAB, &s->vocab, err)))
        return rc;
    s->kv_heads = s->heads;
    s->max_positions = arch->max_positions;
    if ((rc = br_config_u32(c, "num_key_value_heads", 1, BR_SHAPE_MAX_HEADS, &s->kv_heads, err)) ||
        (rc = br_config_u32(c, "max_position_embeddings", 1, BR_SHAPE_MAX_POSITIONS, &s->max_positions, err)))
        return rc;
    if (s->heads % s->kv_heads)
        return br_config_refuse(c, "num_attention_heads", BR_EINVAL, err, "not a multiple of num_key_value_heads = %u",
                                s->kv_heads);
    s->head_dim = arch->head_dim;
    if (!s->head_dim && !br_config_get(c, "head_dim")) {
        if (s->hidden % s->heads)
            return br_config_refuse(c, "hidden_size", BR_EINVAL, err, "not a multiple of num_attention_heads = %u",
                                    s->heads);
        s->head_dim = s->hidden / s->heads;
    }
    return br_config_u32(c, "head_dim", 1, BR_SHAPE_MAX_HEAD_DIM, &s->head_dim, err);
}

/* torch_dtype is dtype in newer files. */
static int read_dtype(const struct br_config *c, struct br_model_shape *s, struct br_err *err)
{
    static const char *const names[] = {"float32", "float16", "bfloat16"};
    const char *key = br_config_get(c, "torch_dtype") ? "torch_dtype" : "dtype", *name = "float32";
    int rc = br_config_string(c, key, &name, err);
    if (rc)
        return rc;
    for (int i = 0; i <= BR_BF16; i++)
        if (strcmp(name, names[i]) == 0)
            return s->dtype = (enum br_dtype)i, 0;
    return br_config_refuse(c, key, BR_ENOTSUP, err, "supported are float32, float16 and bfloat16");
}

/* Every layer attends to all positions: no layer_types but full_attention. */
static int check_layer_types(const struct br_config *c, struct br_err *err)
{
    const json_t *types = br_config_get(c, "layer_types"), *type;
    size_t i;
    if (!types)
        return 0;
    if (!json_is_array(types))
        return br_config_refuse(c, "layer_types", BR_EINVAL, err, "must be a list");
    json_array_foreach(types, i, type) if (!json_is_string(type) ||
                                           strcmp(json_string_value(type), "full_attention") !=
                                               0) return br_config_refuse(c, "layer_types", BR_ENOTSUP, err,
                                                                          "only full_attention is supported");
    return 0;
}

/* A window is no window when it is switched off, when no layer uses it, or when it is as long as the context. */
static int check_window(const struct br_config *c, const struct br_model_shape *s, struct br_err *err)
{
    bool used = br_config_get(c, "sliding_window") != NULL && s->arch == BR_ARCH_LLAMA;
    uint32_t window = UINT32_MAX, from_layer = 0;
    int rc;
    if ((rc = br_config_bool(c, "use_sliding_window", &used, err)) ||
        (rc = br_config_u32(c, "sliding_window", 0, INT_MAX, &window, err)) ||
        (rc = br_config_u32(c, "max_window_layers", 0, INT_MAX, &from_layer, err)))
        return rc;
    if (used && window < s->max_positions && from_layer < s->layers)
        return br_config_refuse(c, "sliding_window", BR_ENOTSUP, err, "sliding windows are not supported");
    return check_layer_types(c, err);
}

static int check_features(const struct br_config *c, struct br_err *err)
{
    const char *act = "silu";
    bool mlp_bias = false;
    int rc;
    if ((rc = br_config_string(c, "hidden_act", &act, err)) || (rc = br_config_bool(c, "mlp_bias", &mlp_bias, err)))
        return rc;
    if (strcmp(act, "silu") != 0)
        return br_config_refuse(c, "hidden_act", BR_ENOTSUP, err, "only silu is supported");
    if (mlp_bias)
        return br_config_refuse(c, "mlp_bias", BR_ENOTSUP, err, "not supported");
    return 0;
}

static int read_id(const struct br_config *c, const char *key, const json_t *value, uint32_t vocab, int32_t *out,
                   struct br_err *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= (json_int_t)vocab)
        return br_config_refuse(c, key, BR_EINVAL, err, "must be ids in 0..%u", vocab - 1);
    *out = (int32_t)json_integer_value(value);
    return 0;
}

/* bos and eos: an id, a list (the first is bos), or null. Leaves what is there when the key is absent. */
static int read_ids(const struct br_config *c, struct br_model_shape *s, struct br_err *err)
{
    const json_t *bos = br_config_get(c, "bos_token_id"), *eos = br_config_get(c, "eos_token_id");
    size_t n = json_is_array(eos) ? json_array_size(eos) : eos ? 1 : 0;
    int rc;
    if (json_is_array(bos))
        bos = json_array_get(bos, 0);
    if (json_is_integer(bos) && json_integer_value(bos) == -1)
        bos = NULL;
    if (bos && (rc = read_id(c, "bos_token_id", bos, s->vocab, &s->bos, err)))
        return rc;
    if (n > BR_MAX_EOS)
        return br_config_refuse(c, "eos_token_id", BR_ENOTSUP, err, "%zu ids, at most %d are supported", n, BR_MAX_EOS);
    if (eos)
        s->n_eos = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        if ((rc = read_id(c, "eos_token_id", json_is_array(eos) ? json_array_get(eos, i) : eos, s->vocab, &s->eos[i],
                          err)))
            return rc;
    return 0;
}

static int read_config(const struct br_config *c, struct br_model_shape *s, struct br_err *err)
{
    const struct arch *arch = arch_find(c, err);
    double eps = 1e-6;
    int rc;
    if (!arch)
        return err->code;
    s->arch = arch->arch;
    s->qkv_bias = arch->qkv_bias;
    s->qk_norm = arch->qk_norm;
    s->bos = -1;
    if ((rc = read_sizes(c, arch, s, err)) || (rc = read_dtype(c, s, err)) || (rc = read_ids(c, s, err)) ||
        (rc = br_config_number(c, "rms_norm_eps", 1e-12, 1, &eps, err)) ||
        (rc = br_config_bool(c, "tie_word_embeddings", &s->tied, err)))
        return rc;
    s->rms_eps = (float)eps;
    /* Qwen2 has its biases whatever the file says. */
    if (s->arch != BR_ARCH_QWEN2 && (rc = br_config_bool(c, "attention_bias", &s->qkv_bias, err)))
        return rc;
    if ((rc = br_shape_read_rope(c, s, err)) || (rc = check_window(c, s, err)) || (rc = check_features(c, err)) ||
        (rc = br_quant_config_read(c, &s->quant, err)))
        return rc;
    rc = br_model_shape_check(s, err);
    return rc ? br_err_wrap(err, "%s", c->file) : 0;
}

static int parse_generation(const char *text, size_t len, struct br_model_shape *s, struct br_err *err)
{
    struct br_config c = {.file = "generation_config.json"};
    json_t *root = br_config_parse(text, len, c.file, err);
    int rc;
    if (!root)
        return err->code;
    c.object = root;
    rc = read_ids(&c, s, err);
    json_decref(root);
    return rc;
}

int br_model_shape_parse(const char *config, size_t config_len, const char *generation, size_t generation_len,
                         struct br_model_shape *out, struct br_err *err)
{
    struct br_config c = {.file = "config.json"};
    struct br_model_shape shape;
    json_t *root = br_config_parse(config, config_len, c.file, err);
    int rc;
    if (!root)
        return err->code;
    memset(&shape, 0, sizeof shape); /* padding too: shapes are hashed and stored as bytes */
    c.object = root;
    rc = read_config(&c, &shape, err);
    json_decref(root);
    if (!rc && generation)
        rc = parse_generation(generation, generation_len, &shape, err);
    if (!rc)
        memcpy(out, &shape, sizeof shape);
    return rc;
}

static int read_file(const char *dir, const char *name, struct br_buf *buf, struct br_err *err)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return br_err_set(err, BR_EINVAL, "%s: path too long", name);
    if (br_buf_read_file(buf, path, BR_CONFIG_MAX_BYTES) == 0)
        return 0;
    if (errno == EFBIG)
        return br_err_set(err, BR_EINVAL, "%s: larger than %d bytes", name, BR_CONFIG_MAX_BYTES);
    return br_buf_read_error(err, errno == ENOENT || errno == ENOTDIR ? BR_ENOENT : BR_EIO, "%s", name);
}

int br_model_shape_load(const char *dir, struct br_model_shape *out, struct br_err *err)
{
    struct br_buf config = {0}, generation = {0};
    int rc = read_file(dir, "config.json", &config, err), rc_generation;
    if (rc)
        goto done;
    rc_generation = read_file(dir, "generation_config.json", &generation, err);
    if (rc_generation && rc_generation != BR_ENOENT) {
        rc = rc_generation;
        goto done;
    }
    rc = br_model_shape_parse(config.data ? config.data : "", config.len,
                              rc_generation     ? NULL
                              : generation.data ? generation.data
                                                : "",
                              generation.len, out, err);
done:
    br_buf_free(&config);
    br_buf_free(&generation);
    return rc ? br_err_wrap(err, "%s", dir) : 0;
}

uint64_t br_model_params(const struct br_model_shape *s)
{
    uint64_t hidden = s->hidden, q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    uint64_t layer = 2 * hidden + hidden * (q + 2 * kv) + q * hidden + 3 * hidden * s->ffn;
    layer += s->qkv_bias ? q + 2 * kv : 0;
    layer += s->qk_norm ? 2ull * s->head_dim : 0;
    return hidden * s->vocab * (s->tied ? 1 : 2) + hidden + layer * s->layers;
}

uint64_t br_kv_block_bytes(const struct br_model_shape *s, enum br_numeric numeric)
{
    uint64_t element = numeric == BR_NUMERIC_BF16 ? 2 : 4;
    return 2ull * BR_KV_BLOCK_TOKENS * s->layers * s->kv_heads * s->head_dim * element;
}
