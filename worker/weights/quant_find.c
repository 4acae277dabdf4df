/* br_quant_find: the tensors of a quantised linear, checked against each other. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "worker/weights/quant.h"

struct finder {
    const struct br_safetensors *st;
    const char *name;
    bool *used;
    struct br_err *err;
};

static const struct br_tensor *lookup(const struct finder *f, const char *part)
{
    char name[256];
    const struct br_tensor *t;
    snprintf(name, sizeof name, "%s.%s", f->name, part);
    t = br_safetensors_find(f->st, name);
    if (t && f->used)
        f->used[t - f->st->table.tensors] = true;
    return t;
}

static const struct br_tensor *need(const struct finder *f, const char *part)
{
    const struct br_tensor *t = lookup(f, part);
    if (!t)
        br_err_set(f->err, BR_ECORRUPT, "tensor %s.%s is missing", f->name, part);
    return t;
}

static int refuse_shape(const struct finder *f, const struct br_tensor *t, uint64_t rows, uint64_t columns)
{
    char has[200];
    return br_err_set(f->err, BR_ECORRUPT, "%s: %s has shape %s, config.json asks for [%" PRIu64 ", %" PRIu64 "]",
                      t->file, t->name, br_tensor_shape_text(t, has, sizeof has), rows, columns);
}

/* [rows][columns] of int32. */
static int check_words(const struct finder *f, const struct br_tensor *t, uint64_t rows, uint64_t columns)
{
    if (strcmp(t->dtype_name, "I32") != 0)
        return br_err_set(f->err, BR_ENOTSUP, "%s: tensor %s is %s; supported is I32", t->file, t->name, t->dtype_name);
    if (t->rank != 2 || t->shape[0] != rows || t->shape[1] != columns)
        return refuse_shape(f, t, rows, columns);
    return 0;
}

static int check_scale_dtype(const struct finder *f, const struct br_tensor *t)
{
    if (t->dtype == BR_TENSOR_OTHER)
        return br_err_set(f->err, BR_ENOTSUP, "%s: tensor %s is %s; supported are F32, F16 and BF16", t->file, t->name,
                          t->dtype_name);
    return 0;
}

static int check_group_scales(const struct finder *f, struct br_quant_source *s)
{
    uint64_t groups = br_quant_groups(&s->format, s->k);
    if (groups > BR_QUANT_MAX_GROUPS)
        return br_err_set(f->err, BR_ENOTSUP, "%s: %" PRIu64 " groups, at most %d are supported", f->name, groups,
                          BR_QUANT_MAX_GROUPS);
    if (s->scales->rank != 2 || s->scales->shape[0] != groups || s->scales->shape[1] != s->n)
        return refuse_shape(f, s->scales, groups, s->n);
    s->format.wide = s->scales->dtype != BR_TENSOR_F16;
    if (s->scales->dtype == BR_TENSOR_F16 || s->scales->dtype == BR_TENSOR_BF16)
        return 0; /* zero x scale is exact in F32: the kernels count on it */
    return br_err_set(f->err, BR_ENOTSUP, "%s: tensor %s is %s; supported are F16 and BF16", s->scales->file,
                      s->scales->name, s->scales->dtype_name);
}

/* Drops a g_idx that only counts the groups up. */
static int check_g_idx(const struct finder *f, struct br_quant_source *s)
{
    uint64_t groups = br_quant_groups(&s->format, s->k);
    bool in_order = true;
    if (!s->g_idx)
        return 0;
    if (strcmp(s->g_idx->dtype_name, "I32") != 0 || s->g_idx->rank != 1 || s->g_idx->elements != s->k)
        return br_err_set(f->err, BR_ECORRUPT, "%s: %s must be I32 [%" PRIu64 "]", s->g_idx->file, s->g_idx->name,
                          s->k);
    for (uint64_t i = 0; i < s->k; i++) {
        uint32_t g = br_quant_group_of(s, i);
        if (g >= groups)
            return br_err_set(f->err, BR_ECORRUPT, "%s: %s: input %" PRIu64 " is of group %d, there are %" PRIu64,
                              s->g_idx->file, s->g_idx->name, i, (int32_t)g, groups);
        in_order = in_order && g == i / s->format.group;
    }
    if (in_order)
        s->g_idx = NULL;
    s->format.indexed = !in_order;
    return 0;
}

/* AWQ packs eight outputs a word, GPTQ inputs; zeros are packed along the outputs in both. */
static int find_words(const struct finder *f, const struct br_quant_config *c, struct br_quant_source *s)
{
    uint64_t per_word = 32 / c->bits;
    bool awq = c->method == BR_QUANT_AWQ;
    if (!(s->weight = need(f, "qweight")) || !(s->scales = need(f, "scales")) || !(s->zeros = need(f, "qzeros")))
        return f->err->code;
    if (s->weight->rank != 2)
        return refuse_shape(f, s->weight, s->k, s->n);
    s->kind = awq ? BR_QUANT_KIND_AWQ4 : c->bits == 4 ? BR_QUANT_KIND_GPTQ4 : BR_QUANT_KIND_GPTQ8;
    s->k = s->k ? s->k : s->weight->shape[0] * (awq ? 1 : per_word);
    s->n = s->n ? s->n : s->weight->shape[1] * (awq ? per_word : 1);
    s->format = (struct br_matrix_format){.code = c->bits == 4 ? BR_CODE_U4 : BR_CODE_U8, .group = c->group, .span = 1};
    s->format.zeros = 1;
    s->format.zero = c->zero_plus_one;
    if (s->n % per_word || s->k % per_word)
        return br_err_set(f->err, BR_ENOTSUP, "%s: %" PRIu64 " x %" PRIu64 " is no multiple of %" PRIu64, f->name, s->n,
                          s->k, per_word);
    s->g_idx = awq ? NULL : lookup(f, "g_idx");
    if (check_words(f, s->weight, awq ? s->k : s->k / per_word, awq ? s->n / per_word : s->n) ||
        check_group_scales(f, s) || check_words(f, s->zeros, br_quant_groups(&s->format, s->k), s->n / per_word) ||
        check_g_idx(f, s))
        return f->err->code;
    return 0;
}

static int check_fp8_scale(const struct finder *f, const struct br_quant_config *c, struct br_quant_source *s)
{
    const struct br_tensor *t = s->scales;
    uint64_t rows, columns;
    s->format.span = 32;
    if (t->elements == 1 && !(c->block_n && s->n > c->block_n))
        return 0;
    if (t->elements == s->n && t->shape[0] == s->n && t->rank <= 2) {
        s->format.span = 1;
        return 0;
    }
    if (!c->block_n)
        return refuse_shape(f, t, s->n, 1);
    s->block_n = c->block_n;
    s->format.group = c->block_k;
    rows = (s->n + c->block_n - 1) / c->block_n;
    columns = (s->k + c->block_k - 1) / c->block_k;
    if (t->rank != 2 || t->shape[0] != rows || t->shape[1] != columns)
        return refuse_shape(f, t, rows, columns);
    return 0;
}

static int find_fp8(const struct finder *f, const struct br_quant_config *c, struct br_quant_source *s)
{
    if (!(s->weight = need(f, "weight")))
        return f->err->code;
    if (!(s->scales = lookup(f, "weight_scale")) && !(s->scales = lookup(f, "weight_scale_inv")))
        return br_err_set(f->err, BR_ECORRUPT, "tensor %s.weight_scale (or weight_scale_inv) is missing", f->name);
    lookup(f, "input_scale"); /* activations stay in 16 or 32 bits */
    s->kind = BR_QUANT_KIND_FP8;
    s->format = (struct br_matrix_format){.code = BR_CODE_E4M3, .wide = 1};
    if (strcmp(s->weight->dtype_name, "F8_E4M3") != 0)
        return br_err_set(f->err, BR_ENOTSUP, "%s: tensor %s is %s; supported is F8_E4M3", s->weight->file,
                          s->weight->name, s->weight->dtype_name);
    if (s->weight->rank != 2)
        return refuse_shape(f, s->weight, s->n, s->k);
    s->n = s->n ? s->n : s->weight->shape[0];
    s->k = s->k ? s->k : s->weight->shape[1];
    if (s->weight->shape[0] != s->n || s->weight->shape[1] != s->k)
        return refuse_shape(f, s->weight, s->n, s->k);
    return check_scale_dtype(f, s->scales) ? f->err->code : check_fp8_scale(f, c, s);
}

int br_quant_find(const struct br_safetensors *st, const struct br_quant_config *config, const char *name, uint64_t n,
                  uint64_t k, bool *used, struct br_quant_source *out, struct br_err *err)
{
    struct finder f = {.st = st, .name = name, .used = used, .err = err};
    *out = (struct br_quant_source){.n = n, .k = k};
    return config->method == BR_QUANT_FP8 ? find_fp8(&f, config, out) : find_words(&f, config, out);
}
