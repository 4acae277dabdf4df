#include "worker/weights/gguf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "worker/weights/quant.h"

enum { VERSION_MIN = 2, VERSION_MAX = 3, DEFAULT_ALIGNMENT = 32, MAX_ALIGNMENT = 1 << 20 };

/* Metadata value types. */
enum { KV_UINT32 = 4, KV_STRING = 8, KV_ARRAY = 9, KV_TYPES = 13 };
static const uint8_t g_kv_bytes[KV_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* Tensor types by number; those of no size are known by name only. */
static const struct type {
    const char *name;
    uint32_t values, bytes;
    enum br_tensor_dtype dtype;
} g_types[] = {[0] = {"F32", 1, 4, BR_TENSOR_F32},         [1] = {"F16", 1, 2, BR_TENSOR_F16},
               [2] = {"Q4_0", 32, 18, BR_TENSOR_OTHER},    [3] = {"Q4_1", 0, 0, BR_TENSOR_OTHER},
               [6] = {"Q5_0", 0, 0, BR_TENSOR_OTHER},      [7] = {"Q5_1", 0, 0, BR_TENSOR_OTHER},
               [8] = {"Q8_0", 32, 34, BR_TENSOR_OTHER},    [9] = {"Q8_1", 0, 0, BR_TENSOR_OTHER},
               [10] = {"Q2_K", 0, 0, BR_TENSOR_OTHER},     [11] = {"Q3_K", 0, 0, BR_TENSOR_OTHER},
               [12] = {"Q4_K", 256, 144, BR_TENSOR_OTHER}, [13] = {"Q5_K", 0, 0, BR_TENSOR_OTHER},
               [14] = {"Q6_K", 256, 210, BR_TENSOR_OTHER}, [15] = {"Q8_K", 0, 0, BR_TENSOR_OTHER},
               [30] = {"BF16", 1, 2, BR_TENSOR_BF16}};

struct reader {
    const unsigned char *data;
    uint64_t size, at;
    const char *file;
    struct br_err *err;
};

struct text {
    const char *at;
    uint64_t len;
};

static int refuse(const struct reader *r, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int refuse(const struct reader *r, int code, const char *fmt, ...)
{
    char why[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return br_err_set(r->err, code, "%s: byte %" PRIu64 ": %s", r->file, r->at, why);
}

/* NULL and an error when fewer than n bytes are left. */
static const unsigned char *take(struct reader *r, uint64_t n)
{
    const unsigned char *at = r->data + r->at;
    if (n > r->size - r->at) {
        refuse(r, BR_ECORRUPT, "%" PRIu64 " more bytes are needed, the file has %" PRIu64 "; is it truncated?", n,
               r->size - r->at);
        return NULL;
    }
    r->at += n;
    return at;
}

static int take_number(struct reader *r, uint64_t bytes, uint64_t *out)
{
    const unsigned char *at = take(r, bytes);
    *out = 0;
    if (!at)
        return r->err->code;
    memcpy(out, at, bytes); /* little-endian */
    return 0;
}

static int take_text(struct reader *r, struct text *out)
{
    int rc = take_number(r, 8, &out->len);
    if (rc)
        return rc;
    if (out->len > BR_SAFETENSORS_MAX_HEADER)
        return refuse(r, BR_ECORRUPT, "a string of %" PRIu64 " bytes", out->len);
    out->at = (const char *)take(r, out->len);
    return out->at ? 0 : r->err->code;
}

static bool text_is(const struct text *t, const char *want)
{
    return t->len == strlen(want) && memcmp(t->at, want, t->len) == 0;
}

static bool text_ends(const struct text *t, const char *end)
{
    size_t n = strlen(end);
    return t->len >= n && memcmp(t->at + t->len - n, end, n) == 0;
}

static int skip_array(struct reader *r)
{
    uint64_t type, n;
    struct text text;
    int rc;
    if ((rc = take_number(r, 4, &type)) || (rc = take_number(r, 8, &n)))
        return rc;
    if (type >= KV_TYPES || type == KV_ARRAY)
        return refuse(r, BR_ENOTSUP, "an array of type %" PRIu64, type);
    if (type != KV_STRING) {
        if (n > r->size)
            return refuse(r, BR_ECORRUPT, "an array of %" PRIu64 " values", n);
        return take(r, n * g_kv_bytes[type]) ? 0 : r->err->code;
    }
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = take_text(r, &text);
    return rc;
}

struct meta {
    struct br_gguf_info info;
    uint64_t alignment;
    bool has_arch;
};

static int arch_read(struct reader *r, const struct text *value, struct meta *m)
{
    if (!text_is(value, "llama") && !text_is(value, "qwen2") && !text_is(value, "qwen3"))
        return refuse(r, BR_ENOTSUP, "architecture \"%.*s\"; supported are llama, qwen2 and qwen3",
                      (int)(value->len < 64 ? value->len : 64), value->at);
    m->has_arch = true;
    m->info.interleaved = text_is(value, "llama");
    return 0;
}

static int number_read(struct reader *r, const struct text *key, uint64_t value, struct meta *m)
{
    if (text_is(key, "general.alignment")) {
        if (value < 8 || value > MAX_ALIGNMENT || (value & (value - 1)))
            return refuse(r, BR_ECORRUPT, "an alignment of %" PRIu64, value);
        m->alignment = value;
    } else if (text_ends(key, ".attention.head_count")) {
        m->info.heads = (uint32_t)value;
    } else if (text_ends(key, ".attention.head_count_kv")) {
        m->info.kv_heads = (uint32_t)value;
    }
    return 0;
}

static int pair_read(struct reader *r, struct meta *m)
{
    struct text key, text;
    uint64_t type, value;
    int rc;
    if ((rc = take_text(r, &key)) || (rc = take_number(r, 4, &type)))
        return rc;
    if (type >= KV_TYPES)
        return refuse(r, BR_ECORRUPT, "a value of type %" PRIu64, type);
    if (type == KV_ARRAY)
        return skip_array(r);
    if (type == KV_STRING) {
        if ((rc = take_text(r, &text)))
            return rc;
        return text_is(&key, "general.architecture") ? arch_read(r, &text, m) : 0;
    }
    if ((rc = take_number(r, g_kv_bytes[type], &value)))
        return rc;
    return type == KV_UINT32 ? number_read(r, &key, value, m) : 0;
}

/* llama.cpp's names and Hugging Face's. */
static const char *const g_outer[][2] = {{"token_embd.weight", "model.embed_tokens.weight"},
                                         {"output_norm.weight", "model.norm.weight"},
                                         {"output.weight", "lm_head.weight"}};
static const char *const g_inner[][2] = {{"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
                                         {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
                                         {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
                                         {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
                                         {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
                                         {"ffn_down", "mlp.down_proj"}};

static void name_translate(const char *name, char *out, size_t size)
{
    char part[64];
    unsigned layer;
    const char *end;
    snprintf(out, size, "%s", name);
    for (size_t i = 0; i < sizeof g_outer / sizeof g_outer[0]; i++)
        if (strcmp(name, g_outer[i][0]) == 0)
            snprintf(out, size, "%s", g_outer[i][1]);
    if (sscanf(name, "blk.%9u.%63[a-z_].", &layer, part) != 2 || !(end = strrchr(name, '.')))
        return;
    for (size_t i = 0; i < sizeof g_inner / sizeof g_inner[0]; i++)
        if (strcmp(part, g_inner[i][0]) == 0)
            snprintf(out, size, "model.layers.%u.%s%s", layer, g_inner[i][1], end);
}

static int tensor_name(struct reader *r, struct br_tensor *t)
{
    char name[BR_TENSOR_MAX_NAME + 1], translated[BR_TENSOR_MAX_NAME + 64];
    struct text text;
    int rc = take_text(r, &text);
    if (rc)
        return rc;
    if (text.len > BR_TENSOR_MAX_NAME || memchr(text.at, 0, text.len))
        return refuse(r, BR_ECORRUPT, "a tensor's name is longer than %d bytes, or holds a zero", BR_TENSOR_MAX_NAME);
    memcpy(name, text.at, text.len);
    name[text.len] = 0;
    name_translate(name, translated, sizeof translated);
    t->name = br_strdup(translated);
    t->file = r->file;
    return 0;
}

/* Dimensions come fastest first. */
static int tensor_shape(struct reader *r, struct br_tensor *t)
{
    uint64_t rank;
    int rc = take_number(r, 4, &rank);
    if (rc)
        return rc;
    if (rank < 1 || rank > BR_GGUF_MAX_RANK)
        return refuse(r, BR_ECORRUPT, "tensor %.100s: rank %" PRIu64, t->name, rank);
    t->rank = (uint32_t)rank;
    t->elements = 1;
    for (uint64_t i = 0; i < rank; i++) {
        uint64_t *dim = &t->shape[rank - 1 - i];
        if ((rc = take_number(r, 8, dim)))
            return rc;
        if (*dim == 0 || __builtin_mul_overflow(t->elements, *dim, &t->elements) || t->elements > (uint64_t)1 << 56)
            return refuse(r, BR_ECORRUPT, "tensor %.100s: a dimension of %" PRIu64, t->name, *dim);
    }
    return 0;
}

static int tensor_type(struct reader *r, struct br_tensor *t)
{
    uint64_t number;
    const struct type *type;
    int rc = take_number(r, 4, &number);
    if (rc)
        return rc;
    type = number < sizeof g_types / sizeof g_types[0] ? &g_types[number] : &(struct type){0};
    if (!type->values)
        return refuse(r, BR_ENOTSUP,
                      "tensor %.100s is of type %" PRIu64 " (%s); supported are F32, F16, BF16, Q8_0, Q4_0, Q4_K and "
                      "Q6_K",
                      t->name, number, type->name ? type->name : "unknown");
    if (t->shape[t->rank - 1] % type->values)
        return refuse(r, BR_ECORRUPT, "tensor %.100s: rows of %" PRIu64 " are no whole number of %s blocks", t->name,
                      t->shape[t->rank - 1], type->name);
    t->dtype = type->dtype;
    snprintf(t->dtype_name, sizeof t->dtype_name, "%s", type->name);
    t->bytes = t->elements / type->values * type->bytes;
    return 0;
}

/* Tensors lie one behind the other, each at a multiple of the alignment: *end is where the next one has to be. */
static int tensor_read(struct reader *r, struct br_tensor *t, uint64_t alignment, uint64_t *end)
{
    uint64_t offset;
    int rc;
    if ((rc = tensor_name(r, t)) || (rc = tensor_shape(r, t)) || (rc = tensor_type(r, t)) ||
        (rc = take_number(r, 8, &offset)))
        return rc;
    if (offset != *end)
        return refuse(r, BR_ECORRUPT, "tensor %.100s lies at %" PRIu64 ", expected at %" PRIu64, t->name, offset, *end);
    t->data = (const unsigned char *)(uintptr_t)offset; /* until the data's own place is known */
    *end = (offset + t->bytes + alignment - 1) / alignment * alignment;
    if (*end > (uint64_t)1 << 60)
        return refuse(r, BR_ECORRUPT, "tensors of more than 2^60 bytes");
    return 0;
}

static int compare_name(const void *a, const void *b)
{
    return strcmp(((const struct br_tensor *)a)->name, ((const struct br_tensor *)b)->name);
}

/* Offsets become addresses; every tensor has to lie within the file. */
static int tensors_place(struct reader *r, struct br_tensor_table *table, uint64_t alignment)
{
    uint64_t base = (r->at + alignment - 1) / alignment * alignment;
    for (size_t i = 0; i < table->n; i++) {
        struct br_tensor *t = &table->tensors[i];
        uint64_t offset = (uint64_t)(uintptr_t)t->data;
        if (base > r->size || offset > r->size - base || t->bytes > r->size - base - offset)
            return refuse(r, BR_ECORRUPT, "tensor %.100s ends beyond the file's %" PRIu64 " bytes; is it truncated?",
                          t->name, r->size);
        t->data = r->data + base + offset;
    }
    if (table->n)
        qsort(table->tensors, table->n, sizeof *table->tensors, compare_name);
    for (size_t i = 1; i < table->n; i++)
        if (strcmp(table->tensors[i - 1].name, table->tensors[i].name) == 0)
            return refuse(r, BR_ECORRUPT, "tensor %.100s is there twice", table->tensors[i].name);
    return 0;
}

static int header_read(struct reader *r, uint64_t *tensors, uint64_t *pairs)
{
    const unsigned char *magic = take(r, 4);
    uint64_t version;
    int rc;
    if (!magic || memcmp(magic, "GGUF", 4) != 0)
        return refuse(r, BR_ECORRUPT, "not a GGUF file");
    if ((rc = take_number(r, 4, &version)) || (rc = take_number(r, 8, tensors)) || (rc = take_number(r, 8, pairs)))
        return rc;
    if (version < VERSION_MIN || version > VERSION_MAX)
        return refuse(r, BR_ENOTSUP, "version %" PRIu64 " (or big-endian); supported are %d and %d, little-endian",
                      version, VERSION_MIN, VERSION_MAX);
    if (*tensors > BR_SAFETENSORS_MAX_TENSORS || *pairs > BR_GGUF_MAX_PAIRS)
        return refuse(r, BR_ECORRUPT, "%" PRIu64 " tensors and %" PRIu64 " pairs, at most %d and %d are supported",
                      *tensors, *pairs, BR_SAFETENSORS_MAX_TENSORS, BR_GGUF_MAX_PAIRS);
    return 0;
}

static int tensors_read(struct reader *r, uint64_t n, uint64_t alignment, struct br_tensor_table *table)
{
    uint64_t end = 0;
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++) {
        if (i % 256 == 0) /* memory as they come: the count is only a claim */
            table->tensors = br_realloc(table->tensors, (i + 256) * sizeof *table->tensors);
        table->tensors[i] = (struct br_tensor){0};
        table->n = i + 1;
        rc = tensor_read(r, &table->tensors[i], alignment, &end);
    }
    return rc ? rc : tensors_place(r, table, alignment);
}

int br_gguf_parse(const void *data, size_t size, const char *file, struct br_tensor_table *out,
                  struct br_gguf_info *info, struct br_err *err)
{
    struct reader r = {.data = data, .size = size, .file = file, .err = err};
    struct meta m = {.alignment = DEFAULT_ALIGNMENT};
    uint64_t tensors, pairs;
    int rc = header_read(&r, &tensors, &pairs);
    *out = (struct br_tensor_table){0};
    for (uint64_t i = 0; !rc && i < pairs; i++)
        rc = pair_read(&r, &m);
    if (!rc && !m.has_arch)
        rc = refuse(&r, BR_ECORRUPT, "general.architecture is missing");
    if (!rc && m.info.interleaved && !m.info.heads)
        rc = refuse(&r, BR_ECORRUPT, "llama.attention.head_count is missing");
    if (!rc)
        rc = tensors_read(&r, tensors, m.alignment, out);
    if (rc)
        br_tensor_table_free(out);
    *info = m.info;
    return rc;
}
