#include "cost/config_field.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *br_config_parse(const char *text, size_t len, const char *file, struct br_err *err)
{
    json_error_t at;
    json_t *root;
    if (len > BR_CONFIG_MAX_BYTES) {
        br_err_set(err, BR_EINVAL, "%s: %zu bytes, more than the limit of %d", file, len, BR_CONFIG_MAX_BYTES);
        return NULL;
    }
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
    if (!root) {
        br_err_set(err, BR_EINVAL, "%s: line %d, column %d: %s", file, at.line, at.column, at.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        br_err_set(err, BR_EINVAL, "%s: not a JSON object", file);
        json_decref(root);
        return NULL;
    }
    return root;
}

json_t *br_config_get(const struct br_config *config, const char *key)
{
    json_t *value = json_object_get(config->object, key);
    return json_is_null(value) ? NULL : value;
}

int br_config_refuse(const struct br_config *config, const char *key, int code, struct br_err *err, const char *fmt,
                     ...)
{
    char why[256];
    char *value = json_dumps(json_object_get(config->object, key), JSON_ENCODE_ANY | JSON_COMPACT);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    br_err_set(err, code, "%s: %s = %.80s: %s", config->file, key, value ? value : "(absent)", why);
    free(value);
    return code;
}

int br_config_u32(const struct br_config *config, const char *key, uint32_t min, uint32_t max, uint32_t *out,
                  struct br_err *err)
{
    const json_t *value = br_config_get(config, key);
    if (!value)
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < min || json_integer_value(value) > max)
        return br_config_refuse(config, key, BR_EINVAL, err, "must be an integer in %u..%u", min, max);
    *out = (uint32_t)json_integer_value(value);
    return 0;
}

int br_config_number(const struct br_config *config, const char *key, double min, double max, double *out,
                     struct br_err *err)
{
    const json_t *value = br_config_get(config, key);
    if (!value)
        return 0;
    if (!json_is_number(value) || !(json_number_value(value) >= min && json_number_value(value) <= max))
        return br_config_refuse(config, key, BR_EINVAL, err, "must be a number in %g..%g", min, max);
    *out = json_number_value(value);
    return 0;
}

int br_config_bool(const struct br_config *config, const char *key, bool *out, struct br_err *err)
{
    const json_t *value = br_config_get(config, key);
    if (!value)
        return 0;
    if (!json_is_boolean(value))
        return br_config_refuse(config, key, BR_EINVAL, err, "must be true or false");
    *out = json_is_true(value);
    return 0;
}

int br_config_string(const struct br_config *config, const char *key, const char **out, struct br_err *err)
{
    const json_t *value = br_config_get(config, key);
    if (!value)
        return 0;
    if (!json_is_string(value))
        return br_config_refuse(config, key, BR_EINVAL, err, "must be a string");
    *out = json_string_value(value);
    return 0;
}

int br_config_need_u32(const struct br_config *config, const char *key, uint32_t max, uint32_t *out, struct br_err *err)
{
    if (!br_config_get(config, key))
        return br_err_set(err, BR_EINVAL, "%s: %s is missing", config->file, key);
    return br_config_u32(config, key, 1, max, out, err);
}
