#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "worker/weights/safetensors.h"

/* In bits: F4 and F6 values are packed. */
static const struct dtype {
    const char *name;
    unsigned bits;
    enum br_tensor_dtype dtype;
} g_dtypes[] = {
    {"F32", 32, BR_TENSOR_F32},      {"F16", 16, BR_TENSOR_F16},      {"BF16", 16, BR_TENSOR_BF16},
    {"F64", 64, BR_TENSOR_OTHER},    {"I64", 64, BR_TENSOR_OTHER},    {"U64", 64, BR_TENSOR_OTHER},
    {"C64", 64, BR_TENSOR_OTHER},    {"I32", 32, BR_TENSOR_OTHER},    {"U32", 32, BR_TENSOR_OTHER},
    {"I16", 16, BR_TENSOR_OTHER},    {"U16", 16, BR_TENSOR_OTHER},    {"I8", 8, BR_TENSOR_OTHER},
    {"U8", 8, BR_TENSOR_OTHER},      {"BOOL", 8, BR_TENSOR_OTHER},    {"F8_E4M3", 8, BR_TENSOR_OTHER},
    {"F8_E5M2", 8, BR_TENSOR_OTHER}, {"F8_E8M0", 8, BR_TENSOR_OTHER}, {"F6_E2M3", 6, BR_TENSOR_OTHER},
    {"F6_E3M2", 6, BR_TENSOR_OTHER}, {"F4", 4, BR_TENSOR_OTHER},
};

/* One header entry on its way into the table. */
struct entry {
    const char *file, *name;
    const json_t *value;
};

const char *br_tensor_shape_text(const struct br_tensor *tensor, char *buf, size_t size)
{
    int n = snprintf(buf, size, "[");
    for (uint32_t i = 0; i < tensor->rank && (size_t)n < size; i++)
        n += snprintf(buf + n, size - (size_t)n, "%s%" PRIu64, i ? ", " : "", tensor->shape[i]);
    if ((size_t)n < size)
        snprintf(buf + n, size - (size_t)n, "]");
    return buf;
}

static int entry_refuse(const struct entry *e, struct br_err *err, const char *why)
{
    return br_err_set(err, BR_ECORRUPT, "%s: tensor %.200s: %s", e->file, e->name, why);
}

static int entry_dtype(const struct entry *e, struct br_tensor *t, unsigned *bits, struct br_err *err)
{
    const char *name = json_string_value(json_object_get(e->value, "dtype"));
    if (!name)
        return entry_refuse(e, err, "dtype is missing or not a string");
    for (size_t i = 0; i < sizeof g_dtypes / sizeof g_dtypes[0]; i++) {
        if (strcmp(name, g_dtypes[i].name) != 0)
            continue;
        t->dtype = g_dtypes[i].dtype;
        snprintf(t->dtype_name, sizeof t->dtype_name, "%s", name);
        *bits = g_dtypes[i].bits;
        return 0;
    }
    return br_err_set(err, BR_ENOTSUP, "%s: tensor %.200s: unknown dtype \"%.20s\"", e->file, e->name, name);
}

static int entry_shape(const struct entry *e, struct br_tensor *t, struct br_err *err)
{
    const json_t *shape = json_object_get(e->value, "shape");
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape))
        return entry_refuse(e, err, "shape is missing or not a list");
    if (rank > BR_TENSOR_MAX_RANK)
        return br_err_set(err, BR_ECORRUPT, "%s: tensor %.200s: rank %zu, at most %d is supported", e->file, e->name,
                          rank, BR_TENSOR_MAX_RANK);
    t->rank = (uint32_t)rank;
    t->elements = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return entry_refuse(e, err, "shape must hold integers from 0 up");
        t->shape[i] = (uint64_t)json_integer_value(dim);
        if (__builtin_mul_overflow(t->elements, t->shape[i], &t->elements))
            return entry_refuse(e, err, "product of shape overflows 64 bits");
    }
    return 0;
}

/* buffer: where the byte buffer begins; its length is available. */
static int entry_data(const struct entry *e, struct br_tensor *t, const unsigned char *buffer, uint64_t available,
                      struct br_err *err)
{
    const json_t *offsets = json_object_get(e->value, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    json_int_t from = json_integer_value(begin), to = json_integer_value(end);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) || from < 0 || to < from)
        return entry_refuse(e, err, "data_offsets must be [begin, end] with 0 <= begin <= end");
    if ((uint64_t)to > available)
        return br_err_set(err, BR_ECORRUPT,
                          "%s: tensor %.200s: data_offsets [%" PRIu64 ", %" PRIu64 "] lie beyond the file's %" PRIu64
                          " data bytes; is the file truncated?",
                          e->file, e->name, (uint64_t)from, (uint64_t)to, available);
    t->data = buffer + from;
    t->bytes = (uint64_t)(to - from);
    return 0;
}

static int entry_size(const struct entry *e, const struct br_tensor *t, unsigned bits, struct br_err *err)
{
    uint64_t total;
    char shape[200];
    if (__builtin_mul_overflow(t->elements, (uint64_t)bits, &total) || total % 8)
        return entry_refuse(e, err, "its size is no whole number of bytes below 2^64 bits");
    if (total / 8 != t->bytes)
        return br_err_set(
            err, BR_ECORRUPT, "%s: tensor %.200s: %s of shape %s is %" PRIu64 " bytes, but data_offsets span %" PRIu64,
            e->file, e->name, t->dtype_name, br_tensor_shape_text(t, shape, sizeof shape), total / 8, t->bytes);
    return 0;
}

static int entry_read(const struct entry *e, struct br_tensor *t, const unsigned char *buffer, uint64_t available,
                      struct br_err *err)
{
    unsigned bits = 0;
    int rc;
    if (!json_is_object(e->value))
        return entry_refuse(e, err, "its entry is not a JSON object");
    if (strlen(e->name) > BR_TENSOR_MAX_NAME)
        return entry_refuse(e, err, "its name is longer than 512 bytes");
    if ((rc = entry_dtype(e, t, &bits, err)) || (rc = entry_shape(e, t, err)) ||
        (rc = entry_data(e, t, buffer, available, err)) || (rc = entry_size(e, t, bits, err)))
        return rc;
    t->name = br_strdup(e->name);
    t->file = e->file;
    return 0;
}

static int compare_data(const void *a, const void *b)
{
    const struct br_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int compare_name(const void *a, const void *b)
{
    return strcmp(((const struct br_tensor *)a)->name, ((const struct br_tensor *)b)->name);
}

/* "The byte buffer needs to be entirely indexed, and cannot contain holes." */
static int check_coverage(struct br_tensor_table *table, const char *file, const unsigned char *buffer,
                          uint64_t available, struct br_err *err)
{
    uint64_t end = 0;
    qsort(table->tensors, table->n, sizeof *table->tensors, compare_data);
    for (size_t i = 0; i < table->n; i++) {
        const struct br_tensor *t = &table->tensors[i];
        uint64_t begin = (uint64_t)(t->data - buffer);
        if (begin < end)
            return br_err_set(err, BR_ECORRUPT,
                              "%s: tensor %.200s begins at %" PRIu64 " and overlaps tensor %.200s, which ends at "
                              "%" PRIu64,
                              file, t->name, begin, table->tensors[i - 1].name, end);
        if (begin > end)
            return br_err_set(err, BR_ECORRUPT,
                              "%s: bytes %" PRIu64 " to %" PRIu64 " belong to no tensor; next is %.200s", file, end,
                              begin, t->name);
        end = begin + t->bytes;
    }
    if (end != available)
        return br_err_set(err, BR_ECORRUPT, "%s: tensors end at %" PRIu64 ", but the file has %" PRIu64 " data bytes",
                          file, end, available);
    return 0;
}

static int read_entries(const json_t *root, const char *file, const unsigned char *buffer, uint64_t available,
                        struct br_tensor_table *table, struct br_err *err)
{
    const char *key;
    json_t *value;
    table->tensors = br_calloc(json_object_size(root) + 1, sizeof *table->tensors);
    json_object_foreach((json_t *)root, key, value)
    {
        struct entry e = {.file = file, .name = key, .value = value};
        int rc =
            strcmp(key, "__metadata__") == 0 ? 0 : entry_read(&e, &table->tensors[table->n], buffer, available, err);
        if (rc)
            return rc;
        table->n += strcmp(key, "__metadata__") != 0;
    }
    return 0;
}

static json_t *header_json(const unsigned char *data, size_t size, const char *file, uint64_t *header_bytes,
                           struct br_err *err)
{
    json_error_t at;
    json_t *root;
    uint64_t len = 0;
    if (size < 8) {
        br_err_set(err, BR_ECORRUPT, "%s: %zu bytes, too short for a safetensors file", file, size);
        return NULL;
    }
    for (int i = 7; i >= 0; i--)
        len = len << 8 | data[i];
    if (len > BR_SAFETENSORS_MAX_HEADER || len > size - 8) {
        br_err_set(err, BR_ECORRUPT,
                   "%s: header of %" PRIu64 " bytes in a file of %zu (limit %d); truncated, or no safetensors file",
                   file, len, size, BR_SAFETENSORS_MAX_HEADER);
        return NULL;
    }
    root = json_loadb((const char *)data + 8, len, JSON_REJECT_DUPLICATES, &at);
    if (!root)
        br_err_set(err, BR_ECORRUPT, "%s: header, byte %d: %s", file, at.position, at.text);
    *header_bytes = len;
    return root;
}

int br_safetensors_parse(const void *data, size_t size, const char *file, struct br_tensor_table *out,
                         struct br_err *err)
{
    const unsigned char *buffer;
    uint64_t len = 0;
    int rc;
    json_t *root = header_json(data, size, file, &len, err);
    *out = (struct br_tensor_table){0};
    if (!root)
        return err->code;
    buffer = (const unsigned char *)data + 8 + len;
    if (!json_is_object(root))
        rc = br_err_set(err, BR_ECORRUPT, "%s: header is not a JSON object", file);
    else if (json_object_size(root) > BR_SAFETENSORS_MAX_TENSORS)
        rc = br_err_set(err, BR_ECORRUPT, "%s: %zu tensors, at most %d are supported", file, json_object_size(root),
                        BR_SAFETENSORS_MAX_TENSORS);
    else
        rc = read_entries(root, file, buffer, size - 8 - len, out, err);
    if (!rc)
        rc = check_coverage(out, file, buffer, size - 8 - len, err);
    if (!rc)
        qsort(out->tensors, out->n, sizeof *out->tensors, compare_name);
    else
        br_tensor_table_free(out);
    json_decref(root);
    return rc;
}

void br_tensor_table_free(struct br_tensor_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        free(table->tensors[i].name);
    free(table->tensors);
    *table = (struct br_tensor_table){0};
}
