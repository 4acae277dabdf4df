#include "text/json_get.h"

static const char *kind_name(json_type type)
{
    static const char *const names[] = {"an object", "a list",    "a string",  "an integer",
                                        "a number",  "a boolean", "a boolean", "null"};
    return names[type];
}

const char *br_json_kind(const json_t *value)
{
    return value ? kind_name(json_typeof(value)) : "missing";
}

json_t *br_json_need(json_t *obj, const char *key, json_type type, const char *where, struct br_err *err)
{
    json_t *value;
    if (!json_is_object(obj)) {
        br_err_set(err, BR_EINVAL, "%s: is %s, not an object", where, br_json_kind(obj));
        return NULL;
    }
    value = json_object_get(obj, key);
    if (!value) {
        br_err_set(err, BR_EINVAL, "%s: has no \"%s\"", where, key);
        return NULL;
    }
    if (json_typeof(value) != type) {
        br_err_set(err, BR_EINVAL, "%s: \"%s\" is %s, not %s", where, key, br_json_kind(value), kind_name(type));
        return NULL;
    }
    return value;
}

const char *br_json_string(json_t *obj, const char *key, size_t *len, const char *where, struct br_err *err)
{
    json_t *value = br_json_need(obj, key, JSON_STRING, where, err);
    if (value && len)
        *len = json_string_length(value);
    return json_string_value(value);
}

bool br_json_has(json_t *obj, const char *key)
{
    json_t *value = json_object_get(obj, key);
    return value && !json_is_null(value);
}

int br_json_bool(json_t *obj, const char *key, bool dflt, bool *out, const char *where, struct br_err *err)
{
    json_t *value = json_object_get(obj, key);
    *out = dflt;
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_boolean(value))
        return br_err_set(err, BR_EINVAL, "%s: \"%s\" is %s, not a boolean", where, key, br_json_kind(value));
    *out = json_is_true(value);
    return 0;
}
