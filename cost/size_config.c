#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cost/catalogue.h"
#include "cost/config_field.h"
#include "cost/shape_limits.h"

enum { MAX_EXPERTS = 4096 };

static bool config_is_mixture(const struct br_config *c)
{
    const json_t *list = br_config_get(c, "architectures");
    const char *name = json_is_array(list) ? json_string_value(json_array_get(list, 0)) : NULL;
    return name && strcmp(name, "Qwen3MoeForCausalLM") == 0;
}

/* Dense layers in between are not counted, so they are refused. */
static int mixture_layers(const struct br_config *c, struct br_err *err)
{
    uint32_t step = 1;
    int rc = br_config_u32(c, "decoder_sparse_step", 0, UINT32_MAX, &step, err);
    if (rc)
        return rc;
    if (step != 1)
        return br_config_refuse(c, "decoder_sparse_step", BR_ENOTSUP, err, "only 1 is supported");
    if (json_array_size(br_config_get(c, "mlp_only_layers")))
        return br_config_refuse(c, "mlp_only_layers", BR_ENOTSUP, err, "only an empty list is supported");
    return 0;
}

static int mixture_sizes(const struct br_config *c, struct br_model_size *s, struct br_err *err)
{
    int rc;
    s->head_dim = 128; /* the default of transformers' Qwen3MoeConfig */
    s->qk_norm = true;
    if ((rc = br_config_need_u32(c, "hidden_size", BR_SHAPE_MAX_HIDDEN, &s->hidden, err)) ||
        (rc = br_config_need_u32(c, "moe_intermediate_size", BR_SHAPE_MAX_FFN, &s->ffn, err)) ||
        (rc = br_config_need_u32(c, "num_hidden_layers", BR_SHAPE_MAX_LAYERS, &s->layers, err)) ||
        (rc = br_config_need_u32(c, "num_attention_heads", BR_SHAPE_MAX_HEADS, &s->heads, err)) ||
        (rc = br_config_need_u32(c, "num_key_value_heads", s->heads, &s->kv_heads, err)) ||
        (rc = br_config_need_u32(c, "vocab_size", BR_SHAPE_MAX_VOCAB, &s->vocab, err)) ||
        (rc = br_config_need_u32(c, "num_experts", MAX_EXPERTS, &s->experts, err)) ||
        (rc = br_config_need_u32(c, "num_experts_per_tok", s->experts, &s->experts_active, err)) ||
        (rc = br_config_u32(c, "head_dim", 1, BR_SHAPE_MAX_HEAD_DIM, &s->head_dim, err)) ||
        (rc = br_config_bool(c, "tie_word_embeddings", &s->tied, err)))
        return rc;
    if (s->heads % s->kv_heads)
        return br_config_refuse(c, "num_attention_heads", BR_EINVAL, err, "not a multiple of num_key_value_heads = %u",
                                s->kv_heads);
    return mixture_layers(c, err);
}

int br_model_size_parse(const char *text, size_t len, const char *file, const char *name, struct br_model_size *out,
                        struct br_err *err)
{
    struct br_config c = {.file = file};
    struct br_model_shape shape;
    json_t *root = br_config_parse(text, len, file, err);
    int rc;
    *out = (struct br_model_size){0};
    if (!root)
        return err->code;
    c.object = root;
    if (config_is_mixture(&c)) {
        rc = mixture_sizes(&c, out, err);
        snprintf(out->name, sizeof out->name, "%s", name);
    } else {
        rc = br_model_shape_parse(text, len, NULL, 0, &shape, err);
        if (!rc)
            br_model_size_of(&shape, name, out);
    }
    json_decref(root);
    return rc;
}

int br_model_size_load(const char *dir, struct br_model_size *out, struct br_err *err)
{
    struct br_buf text = {0};
    char path[PATH_MAX], folder[PATH_MAX];
    const char *slash;
    int rc;
    snprintf(folder, sizeof folder, "%s", dir);
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/';)
        folder[--n] = '\0';
    slash = strrchr(folder, '/');
    if (snprintf(path, sizeof path, "%s/config.json", dir) >= (int)sizeof path)
        return br_err_set(err, BR_EINVAL, "%.80s...: the path is too long", dir);
    if (br_buf_read_file(&text, path, BR_CONFIG_MAX_BYTES))
        rc = br_err_errno(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "%s", path);
    else
        rc = br_model_size_parse(text.data ? text.data : "", text.len, path, slash ? slash + 1 : folder, out, err);
    br_buf_free(&text);
    return rc;
}
