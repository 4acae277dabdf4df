/* One typed key of a JSON object. Errors read `config.json: hidden_size = -3: must be an integer in 1..65536`. */
#ifndef BRIAREUS_COST_CONFIG_FIELD_H
#define BRIAREUS_COST_CONFIG_FIELD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct br_config {
    const json_t *object; /* borrowed */
    const char *file;     /* for messages; with a section, e.g. "config.json: rope_scaling" */
};

enum { BR_CONFIG_MAX_BYTES = 1 << 20 };

/* Parses one JSON object of at most BR_CONFIG_MAX_BYTES; NULL and *err, or a reference that the caller owns. */
json_t *br_config_parse(const char *text, size_t len, const char *file, struct br_err *err);

/* The value, or NULL when the key is absent or null. */
json_t *br_config_get(const struct br_config *config, const char *key);

/* Each leaves *out alone when the key is absent or null, so that *out holds the default. */
int br_config_u32(const struct br_config *config, const char *key, uint32_t min, uint32_t max, uint32_t *out,
                  struct br_err *err);
int br_config_number(const struct br_config *config, const char *key, double min, double max, double *out,
                     struct br_err *err);
int br_config_bool(const struct br_config *config, const char *key, bool *out, struct br_err *err);
/* Borrowed from the object. */
int br_config_string(const struct br_config *config, const char *key, const char **out, struct br_err *err);
/* The same for a key that has to be there. */
int br_config_need_u32(const struct br_config *config, const char *key, uint32_t max, uint32_t *out,
                       struct br_err *err);

/* `FILE: KEY = VALUE: fmt...`; returns code. */
int br_config_refuse(const struct br_config *config, const char *key, int code, struct br_err *err, const char *fmt,
                     ...) __attribute__((format(printf, 5, 6)));

#endif
