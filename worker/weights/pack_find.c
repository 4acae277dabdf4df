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
    bool quantised;
    struct br_quant_config quant;
    struct br_linear *linear; /* the next one to fill */
    struct br_err *err;
};

/* NULL and f->err unless tensor `name` is there with shape [n] (k 0) or [n, k]. */
static const struct br_tensor *find(struct finder *f, uint64_t n, uint64_t k, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The tensor has shape [n] (k 0) or [n, k]; marks it as used. */
static bool find_shape(struct finder *f, const struct br_tensor *t, uint64_t n, uint64_t k)
{
    char has[200], asked[48];
    f->used[t - f->st->table.tensors] = true;
    if (t->rank == (k ? 2 : 1) && t->shape[0] == n && (!k || t->shape[1] == k))
        return true;
    snprintf(asked, sizeof asked, k ? "[%" PRIu64 ", %" PRIu64 "]" : "[%" PRIu64 "]", n, k);
    br_err_set(f->err, BR_ECORRUPT, "%s: %s has shape %s, config.json asks for %s", t->file, t->name,
               br_tensor_shape_text(t, has, sizeof has), asked);
    return false;
}

static const struct br_tensor *find(struct finder *f, uint64_t n, uint64_t k, const char *fmt, ...)
{
    char name[128];
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
    if (!find_shape(f, t, n, k))
        return NULL;
    f->all_bf16 = f->all_bf16 && (!k || t->dtype == BR_TENSOR_BF16);
    return t;
}

/* A matrix of a layer: dense, or quantised where the config or the file's own types say so. */
static const struct br_tensor *find_linear(struct finder *f, uint64_t n, uint64_t k, uint32_t layer, const char *name)
{
    struct br_linear *linear = f->linear++;
    char base[96], full[128];
    const struct br_tensor *t;
    linear->n = n;
    snprintf(base, sizeof base, "model.layers.%u.%s", layer, name);
    snprintf(full, sizeof full, "%s.weight", base);
    t = br_safetensors_find(f->st, full);
    if (t && br_quant_block_kind(t->dtype_name)) {
        if (!find_shape(f, t, n, k) || br_quant_of_blocks(t, &linear->quant, f->err))
            return NULL;
    } else if (f->quant.method == BR_QUANT_NONE || (t && t->dtype != BR_TENSOR_OTHER)) {
        return linear->tensor = find(f, n, k, "%s", full);
    } else if (br_quant_find(f->st, &f->quant, base, n, k, f->used, &linear->quant, f->err)) {
        return NULL;
    }
    f->quantised = true;
    return linear->tensor = linear->quant.weight;
}

static bool find_attention(struct finder *f, const struct br_model_shape *s, uint32_t i, struct br_layer_tensors *t)
{
    static const char p[] = "model.layers";
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    if (!(t->q = find_linear(f, q, s->hidden, i, "self_attn.q_proj")) ||
        !(t->k = find_linear(f, kv, s->hidden, i, "self_attn.k_proj")) ||
        !(t->v = find_linear(f, kv, s->hidden, i, "self_attn.v_proj")) ||
        !(t->o = find_linear(f, s->hidden, q, i, "self_attn.o_proj")))
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
           (t->gate = find_linear(f, s->ffn, s->hidden, i, "mlp.gate_proj")) &&
           (t->up = find_linear(f, s->ffn, s->hidden, i, "mlp.up_proj")) &&
           (t->down = find_linear(f, s->hidden, s->ffn, i, "mlp.down_proj"));
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
        *numeric = f->all_bf16 || f->quantised ? BR_NUMERIC_BF16 : BR_NUMERIC_F32;
    if (*numeric == BR_NUMERIC_BF16 && !f->all_bf16)
        br_log(BR_WARN, "weights_rounded", "dir=%s numeric=bf16 reason=%s", BR_Q(f->st->dir),
               BR_Q("some matrices are F32 or F16; they are rounded to the nearest BF16"));
}

/* Quantised checkpoints may be padded beyond config.json's intermediate_size, so that groups divide among GPUs (29568
 * to 29696 in Qwen's): the tensors decide. */
static void ffn_of_tensors(const struct finder *f, struct br_model_shape *s)
{
    struct br_quant_source gate;
    struct br_err err;
    enum { MOST = 1024 };
    if (s->quant.method == BR_QUANT_NONE ||
        br_quant_find(f->st, &s->quant, "model.layers.0.mlp.gate_proj", 0, s->hidden, NULL, &gate, &err))
        return; /* not there or not as expected: found out when it is asked for */
    if (gate.n <= s->ffn || gate.n > (uint64_t)s->ffn + MOST)
        return;
    br_log(BR_INFO, "weights_padded", "dir=%s intermediate_size=%u tensors=%" PRIu64, BR_Q(f->st->dir), s->ffn, gate.n);
    s->ffn = (uint32_t)gate.n;
}

/* One format a matrix of all layers; bytes are saved where all agree. */
static void formats_choose(struct br_packer *p, struct br_matrix_format formats[BR_MATRICES])
{
    for (int m = 0; m < BR_MATRICES; m++) {
        for (uint32_t i = 0; i < p->layout.shape.layers; i++) {
            struct br_linear_set set = br_packer_linears(p, i, (enum br_matrix)m);
            struct br_matrix_format f = br_quant_format_of(&set);
            formats[m] = i ? br_quant_format_join(&formats[m], &f) : f;
        }
        if (formats[m].code == BR_CODE_NONE)
            br_log(BR_WARN, "weights_dequantised", "matrix=%d reason=%s", m,
                   BR_Q("its tensors are of formats that do not go together; it takes 16 or 32 bits a weight"));
    }
}

static void layout_choose(const struct finder *f, struct br_packer *p, const struct br_model_shape *shape,
                          enum br_numeric numeric)
{
    struct br_matrix_format formats[BR_MATRICES] = {0};
    br_model_layout_init(&p->layout, shape, numeric, NULL);
    if (f->quantised) {
        formats_choose(p, formats);
        br_model_layout_init(&p->layout, shape, numeric, formats);
    } else {
        free(p->linears);
        p->linears = NULL;
    }
}

int br_packer_init(struct br_packer *p, const struct br_safetensors *st, const struct br_model_shape *asked,
                   enum br_numeric numeric, struct br_err *err)
{
    struct br_model_shape s = *asked, *shape = &s;
    struct finder f = {.st = st, .used = br_calloc(st->table.n + 1, 1), .all_bf16 = true, .quant = s.quant, .err = err};
    int rc = 0;
    *p = (struct br_packer){.layers = br_calloc(s.layers, sizeof *p->layers),
                            .linears = br_calloc((size_t)s.layers * BR_LINEARS, sizeof *p->linears)};
    f.linear = p->linears;
    ffn_of_tensors(&f, shape);
    if (!find_all(&f, shape, p))
        rc = err->code;
    else
        rc = check_extra(&f, shape, err);
    if (!rc) {
        numeric_choose(&f, &numeric);
        layout_choose(&f, p, shape, numeric);
    } else {
        br_packer_free(p);
        br_err_wrap(err, "%s", st->dir);
    }
    free(f.used);
    return rc;
}
