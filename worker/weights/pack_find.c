/* br_packer_init: which tensors a shape asks for, and whether the folder's are those. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "worker/weights/pack.h"
#include "worker/weights/panel.h"

struct finder {
    const struct br_safetensors *st;
    bool *used;    /* [st->table.n] */
    bool all_bf16; /* every matrix so far */
    struct br_err *err;
};

/* NULL and f->err unless tensor `name` is there with shape [n] (k 0) or [n, k]. */
static const struct br_tensor *find(struct finder *f, uint64_t n, uint64_t k, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static const struct br_tensor *find(struct finder *f, uint64_t n, uint64_t k, const char *fmt, ...)
{
    char name[128], has[200], asked[48];
    const struct br_tensor *t;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    t = br_safetensors_find(f->st, name);
    if (!t)
        return br_err_set(f->err, BR_ECORRUPT, "tensor %s is missing", name), NULL;
    f->used[t - f->st->table.tensors] = true;
    if (t->dtype == BR_TENSOR_OTHER)
        return br_err_set(f->err, BR_ENOTSUP, "%s: tensor %s is %s; supported are F32, F16 and BF16", t->file, name,
                          t->dtype_name),
               NULL;
    if (t->rank == (k ? 2 : 1) && t->shape[0] == n && (!k || t->shape[1] == k)) {
        f->all_bf16 = f->all_bf16 && (!k || t->dtype == BR_TENSOR_BF16);
        return t;
    }
    snprintf(asked, sizeof asked, k ? "[%" PRIu64 ", %" PRIu64 "]" : "[%" PRIu64 "]", n, k);
    br_err_set(f->err, BR_ECORRUPT, "%s: %s has shape %s, config.json asks for %s", t->file, name,
               br_tensor_shape_text(t, has, sizeof has), asked);
    return NULL;
}

static bool find_attention(struct finder *f, const struct br_model_shape *s, uint32_t i, struct br_layer_tensors *t)
{
    static const char p[] = "model.layers";
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    if (!(t->q = find(f, q, s->hidden, "%s.%u.self_attn.q_proj.weight", p, i)) ||
        !(t->k = find(f, kv, s->hidden, "%s.%u.self_attn.k_proj.weight", p, i)) ||
        !(t->v = find(f, kv, s->hidden, "%s.%u.self_attn.v_proj.weight", p, i)) ||
        !(t->o = find(f, s->hidden, q, "%s.%u.self_attn.o_proj.weight", p, i)))
        return false;
    if (s->qkv_bias && (!(t->q_bias = find(f, q, 0, "%s.%u.self_attn.q_proj.bias", p, i)) ||
                        !(t->k_bias = find(f, kv, 0, "%s.%u.self_attn.k_proj.bias", p, i)) ||
                        !(t->v_bias = find(f, kv, 0, "%s.%u.self_attn.v_proj.bias", p, i))))
        return false;
    if (s->qk_norm && (!(t->q_norm = find(f, s->head_dim, 0, "%s.%u.self_attn.q_norm.weight", p, i)) ||
                       !(t->k_norm = find(f, s->head_dim, 0, "%s.%u.self_attn.k_norm.weight", p, i))))
        return false;
    return true;
}

static bool find_layer(struct finder *f, const struct br_model_shape *s, uint32_t i, struct br_layer_tensors *t)
{
    static const char p[] = "model.layers";
    return find_attention(f, s, i, t) && (t->attn_norm = find(f, s->hidden, 0, "%s.%u.input_layernorm.weight", p, i)) &&
           (t->mlp_norm = find(f, s->hidden, 0, "%s.%u.post_attention_layernorm.weight", p, i)) &&
           (t->gate = find(f, s->ffn, s->hidden, "%s.%u.mlp.gate_proj.weight", p, i)) &&
           (t->up = find(f, s->ffn, s->hidden, "%s.%u.mlp.up_proj.weight", p, i)) &&
           (t->down = find(f, s->hidden, s->ffn, "%s.%u.mlp.down_proj.weight", p, i));
}

static bool find_all(struct finder *f, const struct br_model_shape *s, struct br_packer *p)
{
    if (!(p->embed = find(f, s->vocab, s->hidden, "model.embed_tokens.weight")) ||
        !(p->final_norm = find(f, s->hidden, 0, "model.norm.weight")))
        return false;
    if (!s->tied && !(p->head = find(f, s->vocab, s->hidden, "lm_head.weight")))
        return false;
    for (uint32_t i = 0; i < s->layers; i++)
        if (!find_layer(f, s, i, &p->layers[i]))
            return false;
    return true;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Sign bits aside: -0.0 is zero too. Every element is a whole number of bytes, little-endian. */
static bool all_zero(const struct br_tensor *t)
{
    uint64_t width = t->bytes > t->elements ? t->bytes / t->elements : 1;
    for (uint64_t i = 0; i < t->bytes; i++)
        if (t->data[i] & (i % width == width - 1 ? 0x7f : 0xff))
            return false;
    return true;
}

/* A tensor that nobody asked for, but which the model's authors computed with. */
static bool changes_result(const struct br_tensor *t)
{
    static const char *const ends[] = {".qweight",          ".qzeros",        ".scales",        ".weight_scale",
                                       ".weight_scale_inv", ".q_norm.weight", ".k_norm.weight", "_layernorm.weight"};
    if (strncmp(t->name, "model.layers.", 13) != 0)
        return false;
    if (ends_with(t->name, ".bias"))
        return !all_zero(t);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends_with(t->name, ends[i]))
            return true;
    return false;
}

/* Tensors of layers beyond the config's are spare heads (multi-token prediction), not part of this model. */
static bool beyond_layers(const struct br_tensor *t, const struct br_model_shape *s)
{
    unsigned layer;
    return sscanf(t->name, "model.layers.%9u.", &layer) == 1 && layer >= s->layers;
}

static int check_extra(const struct finder *f, const struct br_model_shape *s, struct br_err *err)
{
    size_t n = 0;
    const struct br_tensor *first = NULL;
    for (size_t i = 0; i < f->st->table.n; i++) {
        const struct br_tensor *t = &f->st->table.tensors[i];
        if (f->used[i])
            continue;
        if (!beyond_layers(t, s) && changes_result(t))
            return br_err_set(err, BR_ENOTSUP, "%s: tensor %s would change the result, but the engine does not use it",
                              t->file, t->name);
        if (s->tied && strcmp(t->name, "lm_head.weight") == 0)
            br_log(BR_INFO, "weights_head_ignored", "dir=%s reason=%s", BR_Q(f->st->dir),
                   BR_Q("config.json ties the head to the embedding"));
        else if (!n++)
            first = t;
    }
    if (n)
        br_log(BR_INFO, "weights_extra_tensors", "dir=%s n=%zu first=%s", BR_Q(f->st->dir), n, BR_Q(first->name));
    return 0;
}

static void numeric_choose(const struct finder *f, enum br_numeric *numeric)
{
    if (*numeric == BR_NUMERIC_AUTO)
        *numeric = f->all_bf16 ? BR_NUMERIC_BF16 : BR_NUMERIC_F32;
    else if (*numeric == BR_NUMERIC_BF16 && !f->all_bf16)
        br_log(BR_WARN, "weights_rounded", "dir=%s numeric=bf16 reason=%s", BR_Q(f->st->dir),
               BR_Q("some matrices are F32 or F16; they are rounded to the nearest BF16"));
}

int br_packer_init(struct br_packer *p, const struct br_safetensors *st, const struct br_model_shape *shape,
                   enum br_numeric numeric, struct br_err *err)
{
    struct finder f = {.st = st, .used = br_calloc(st->table.n + 1, 1), .all_bf16 = true, .err = err};
    int rc = 0;
    *p = (struct br_packer){.layers = br_calloc(shape->layers, sizeof *p->layers)};
    if (!find_all(&f, shape, p))
        rc = err->code;
    else
        rc = check_extra(&f, shape, err);
    if (!rc) {
        numeric_choose(&f, &numeric);
        br_model_layout_init(&p->layout, shape, numeric);
    } else {
        br_packer_free(p);
        br_err_wrap(err, "%s", st->dir);
    }
    free(f.used);
    return rc;
}
