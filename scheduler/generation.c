#include "scheduler/generation.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "text/json_get.h"

enum { GENERATION_MAX_BYTES = 1 << 20 };

static const char file_name[] = "generation_config.json";

/* A missing or null key leaves *out alone. */
static int read_number(const json_t *root, const char *key, double min, double max, unsigned bit, double *out,
                       unsigned *given, struct br_err *err)
{
    const json_t *value = json_object_get(root, key);
    double number = json_number_value(value);
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_number(value))
        return br_err_set(err, BR_EINVAL, "%s: %s is %s, must be a number", file_name, key, br_json_kind(value));
    if (!(number >= min && number <= max))
        return br_err_set(err, BR_EINVAL, "%s: %s is %g, must be from %g to %g", file_name, key, number, min, max);
    *out = number;
    *given |= bit;
    return 0;
}

static int read_all(const json_t *root, struct br_gateway_defaults *out, struct br_err *err)
{
    double temperature = 1, top_p = 1, min_p = 0, repetition = 1, top_k = 0, length = 0;
    unsigned given = 0;
    if (read_number(root, "temperature", 0, 100, BR_DEFAULT_TEMPERATURE, &temperature, &given, err) ||
        read_number(root, "top_p", 0, 1, BR_DEFAULT_TOP_P, &top_p, &given, err) ||
        read_number(root, "min_p", 0, 1, BR_DEFAULT_MIN_P, &min_p, &given, err) ||
        read_number(root, "repetition_penalty", 0.01, 10, BR_DEFAULT_REPETITION, &repetition, &given, err) ||
        read_number(root, "top_k", -1, INT32_MAX, BR_DEFAULT_TOP_K, &top_k, &given, err) ||
        read_number(root, "max_new_tokens", 1, BR_MAX_PROMPT_TOKENS, BR_DEFAULT_MAX_TOKENS, &length, &given, err))
        return err->code;
    *out = (struct br_gateway_defaults){.given = given,
                                        .temperature = (float)temperature,
                                        .top_p = top_p < 1e-6 ? 1e-6f : (float)top_p,
                                        .min_p = (float)min_p,
                                        .repetition_penalty = (float)repetition,
                                        .top_k = top_k > 0 ? (int32_t)top_k : 0,
                                        .max_tokens = (uint32_t)length};
    return 0;
}

int br_generation_parse(const char *json, size_t len, struct br_gateway_defaults *out, struct br_err *err)
{
    json_error_t error;
    json_t *root = json_loadb(json, len, 0, &error);
    int rc;
    if (!root)
        return br_err_set(err, BR_EINVAL, "%s: %s (line %d)", file_name, error.text, error.line);
    if (json_is_object(root))
        rc = read_all(root, out, err);
    else
        rc = br_err_set(err, BR_EINVAL, "%s: it is %s, must be an object", file_name, br_json_kind(root));
    json_decref(root);
    return rc;
}

int br_generation_load(const char *dir, struct br_gateway_defaults *out, struct br_err *err)
{
    struct br_buf text = {0};
    char path[4096];
    int rc = 0;
    if (snprintf(path, sizeof path, "%s/%s", dir, file_name) >= (int)sizeof path)
        return br_err_set(err, BR_EINVAL, "%s: path too long", file_name);
    if (br_buf_read_file(&text, path, GENERATION_MAX_BYTES) == 0)
        rc = br_generation_parse(text.data ? text.data : "", text.len, out, err);
    else if (errno == ENOENT || errno == ENOTDIR)
        *out = (struct br_gateway_defaults){0};
    else
        rc = br_buf_read_error(err, BR_EIO, "%s", file_name);
    br_buf_free(&text);
    return rc;
}
