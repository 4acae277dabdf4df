/* Mooncake's form: a JSON object a line. */
#include <jansson.h>
#include <math.h>

#include "traffic/trace_row.h"

static int count_read(const struct lines *lines, const json_t *root, const char *key, uint64_t *out, struct br_err *err)
{
    const json_t *value = json_object_get(root, key);
    json_int_t number = json_integer_value(value);
    if (!value)
        return lines_fail(lines, err, "no key '%s'", key);
    if (!json_is_integer(value) || number < 0 || number > BR_WORKLOAD_MAX_TOKENS)
        return lines_fail(lines, err, "key %s is not a whole number from 0 to %d", key, BR_WORKLOAD_MAX_TOKENS);
    *out = (uint64_t)number;
    return 0;
}

static int time_read(const struct lines *lines, const json_t *root, int64_t *ns, struct br_err *err)
{
    const json_t *value = json_object_get(root, "timestamp");
    double ms = json_number_value(value);
    if (!value)
        return lines_fail(lines, err, "no key 'timestamp'");
    if (!json_is_number(value) || !(ms >= 0 && ms <= 8e12))
        return lines_fail(lines, err, "key timestamp is not a time in ms from 0 to 8e12");
    *ns = json_is_integer(value) ? json_integer_value(value) * 1000000 : (int64_t)llround(ms * 1e6);
    return 0;
}

static int blocks_read(const struct lines *lines, const json_t *list, uint32_t block_tokens, struct trace_row *row,
                       struct br_err *err)
{
    size_t n = json_array_size(list), expected = (row->prompt + block_tokens - 1) / block_tokens;
    if (list && !json_is_array(list))
        return lines_fail(lines, err, "key hash_ids is not a list");
    if (n && n != expected)
        return lines_fail(lines, err, "%zu hash_ids, but %llu tokens are %zu blocks of %u", n,
                          (unsigned long long)row->prompt, expected, block_tokens);
    if (n > BR_TRACE_MAX_BLOCKS)
        return lines_fail(lines, err, "more than %d hash_ids", BR_TRACE_MAX_BLOCKS);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return lines_fail(lines, err, "item %zu of hash_ids is not a whole number from 0 on", i);
        row->blocks[i] = (uint64_t)json_integer_value(id);
    }
    row->n_blocks = (uint32_t)n;
    return 0;
}

int trace_json_row(const struct lines *lines, uint32_t block_tokens, struct trace_row *row, struct br_err *err)
{
    json_error_t why;
    json_t *root = json_loadb(lines->text, lines->len, JSON_REJECT_DUPLICATES, &why);
    int rc;
    row->model = NULL;
    if (!root)
        return lines_fail(lines, err, "not a JSON object: %s (column %d)", why.text, why.column);
    rc = time_read(lines, root, &row->at_ns, err);
    if (!rc)
        rc = count_read(lines, root, "input_length", &row->prompt, err);
    if (!rc)
        rc = count_read(lines, root, "output_length", &row->output, err);
    if (!rc)
        rc = blocks_read(lines, json_object_get(root, "hash_ids"), block_tokens, row, err);
    json_decref(root);
    return rc;
}
