/* Typed access to the members of a JSON object, with errors that name the part: `where.key is a string, not a list`. */
#ifndef BRIAREUS_TEXT_JSON_GET_H
#define BRIAREUS_TEXT_JSON_GET_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/* The member `key` of obj, borrowed; NULL and *err when obj is no object, or the member is missing or not of the type
 * (JSON_OBJECT, ...). where names obj in messages. */
json_t *br_json_need(json_t *obj, const char *key, json_type type, const char *where, struct br_err *err);

/* The string `key` of obj, borrowed; NULL and *err as above. Its length goes to *len unless len is NULL. */
const char *br_json_string(json_t *obj, const char *key, size_t *len, const char *where, struct br_err *err);

/* Whether the member exists and is not null. */
bool br_json_has(json_t *obj, const char *key);

/* A boolean that may be missing or null (then dflt). */
int br_json_bool(json_t *obj, const char *key, bool dflt, bool *out, const char *where, struct br_err *err);

/* "null", "object", ...: for messages. */
const char *br_json_kind(const json_t *value);

#endif
