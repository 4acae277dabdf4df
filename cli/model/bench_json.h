/* What `briareus model bench` has measured of one model, and the file of --json (cost/measured.h says its form).
 * Private to the folder. */
#ifndef BRIAREUS_CLI_MODEL_BENCH_JSON_H
#define BRIAREUS_CLI_MODEL_BENCH_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

enum { BENCH_MAX_LIST = 16, BENCH_MAX_REPEAT = 100 };

struct bench_list {
    uint32_t value[BENCH_MAX_LIST], n; /* ascending */
};

struct bench_times {
    struct bench_list prefill, batch, context;
    double prefill_s[BENCH_MAX_LIST];                /* of a prompt in one step */
    double decode_s[BENCH_MAX_LIST][BENCH_MAX_LIST]; /* [batch][context], of a step */
    double weight_bytes, kv_bytes_per_token, link_bytes_per_s;
};

double bench_median(double *values, uint32_t n); /* sorts them */

/* {"name", "weight_bytes", ...}; the caller owns it. */
json_t *bench_model_json(const struct bench_times *times, const char *name);
/* Takes `models` over. BR_EIO with the path. */
int bench_json_write(const char *path, const char *device, const char *profile, double memory_bytes,
                     double link_bytes_per_s, uint32_t threads, json_t *models, struct br_err *err);

#endif
