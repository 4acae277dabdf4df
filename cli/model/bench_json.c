#include "cli/model/bench_json.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, compare);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static json_t *list_json(const struct bench_list *list)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < list->n; i++)
        json_array_append_new(out, json_integer(list->value[i]));
    return out;
}

json_t *bench_model_json(const struct bench_times *t, const char *name)
{
    json_t *prefill = json_array(), *seconds = json_array();
    for (uint32_t i = 0; i < t->prefill.n; i++)
        json_array_append_new(prefill, json_pack("[I, f]", (json_int_t)t->prefill.value[i], t->prefill_s[i]));
    for (uint32_t b = 0; b < t->batch.n; b++) {
        json_t *row = json_array();
        for (uint32_t c = 0; c < t->context.n; c++)
            json_array_append_new(row, json_real(t->decode_s[b][c]));
        json_array_append_new(seconds, row);
    }
    return json_pack("{s:s, s:I, s:f, s:o, s:{s:o, s:o, s:o}}", "name", name, "weight_bytes",
                     (json_int_t)t->weight_bytes, "kv_bytes_per_token", t->kv_bytes_per_token, "prefill", prefill,
                     "decode", "batch", list_json(&t->batch), "context", list_json(&t->context), "seconds", seconds);
}

int bench_json_write(const char *path, const char *device, const char *profile, double memory_bytes,
                     double link_bytes_per_s, uint32_t threads, json_t *models, struct br_err *err)
{
    json_t *root =
        json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o}", "briareus_costs", 1, "device", device,
                  "numeric_profile", profile, "threads", (json_int_t)threads, "memory_bytes", (json_int_t)memory_bytes,
                  "link_bytes_per_s", (json_int_t)link_bytes_per_s, "switch_s", 0.0, "step_overhead_s", 0.0,
                  "token_overhead_s", 0.0, "price_usd_per_hour", 0.0, "models", models);
    int rc = 0;
    if (!root)
        return br_err_set(err, BR_EINVAL, "the device's name '%.40s' is not UTF-8", device);
    if (json_dump_file(root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)))
        rc = br_err_errno(err, BR_EIO, "%s", path);
    json_decref(root);
    return rc;
}
