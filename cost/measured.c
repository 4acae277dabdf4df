#include "cost/measured.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cost/config_field.h"

static const double MOST = 1e15, LONGEST_S = 3600;

/* ---- the file ---- */

static int need_number(const struct br_config *c, const char *key, double min, double max, double *out,
                       struct br_err *err)
{
    if (!br_config_get(c, key))
        return br_err_set(err, BR_EINVAL, "%s: %s is missing", c->file, key);
    return br_config_number(c, key, min, max, out, err);
}

/* A list of 1 to BR_MEASURED_MAX_POINTS numbers. */
static int numbers(const struct br_config *c, const char *key, const json_t *list, double min, double max, double *out,
                   uint32_t *n, struct br_err *err)
{
    *n = (uint32_t)json_array_size(list);
    if (!json_is_array(list) || *n < 1 || json_array_size(list) > BR_MEASURED_MAX_POINTS)
        return br_err_set(err, BR_EINVAL, "%s: %s must be a list of 1 to %d numbers", c->file, key,
                          BR_MEASURED_MAX_POINTS);
    for (uint32_t i = 0; i < *n; i++) {
        const json_t *value = json_array_get(list, i);
        out[i] = json_number_value(value);
        if (!json_is_number(value) || !(out[i] >= min) || !(out[i] <= max))
            return br_err_set(err, BR_EINVAL, "%s: %s: entry %u must be a number in %g..%g", c->file, key, i + 1, min,
                              max);
    }
    return 0;
}

static int ascending(const struct br_config *c, const char *key, const double *list, uint32_t n, struct br_err *err)
{
    for (uint32_t i = 1; i < n; i++)
        if (!(list[i] > list[i - 1]))
            return br_err_set(err, BR_EINVAL, "%s: %s must ascend, and %g comes after %g", c->file, key, list[i],
                              list[i - 1]);
    return 0;
}

static int read_prefill(const struct br_config *c, struct br_measured_model *m, struct br_err *err)
{
    const json_t *list = br_config_get(c, "prefill");
    m->n_prompts = (uint32_t)json_array_size(list);
    if (!json_is_array(list) || m->n_prompts < 1 || json_array_size(list) > BR_MEASURED_MAX_POINTS)
        return br_err_set(err, BR_EINVAL, "%s: prefill must be a list of 1 to %d pairs [tokens, seconds]", c->file,
                          BR_MEASURED_MAX_POINTS);
    for (uint32_t i = 0; i < m->n_prompts; i++) {
        double pair[BR_MEASURED_MAX_POINTS];
        uint32_t n;
        if (numbers(c, "prefill", json_array_get(list, i), 0, MOST, pair, &n, err))
            return err->code;
        if (n != 2 || pair[0] < 1 || pair[0] > 1e7 || !(pair[1] > 0) || pair[1] > LONGEST_S)
            return br_err_set(err, BR_EINVAL, "%s: prefill: entry %u must be [tokens, seconds], both above 0", c->file,
                              i + 1);
        m->prompt[i] = pair[0];
        m->prefill_s[i] = pair[1];
    }
    return ascending(c, "prefill", m->prompt, m->n_prompts, err);
}

static int read_decode(const struct br_config *c, struct br_measured_model *m, struct br_err *err)
{
    const json_t *table = br_config_get(c, "decode"), *rows = json_object_get(table, "seconds");
    if (!json_is_object(table))
        return br_err_set(err, BR_EINVAL, "%s: decode must be an object of batch, context and seconds", c->file);
    if (numbers(c, "decode.batch", json_object_get(table, "batch"), 1, 1e5, m->batch, &m->n_batches, err) ||
        numbers(c, "decode.context", json_object_get(table, "context"), 1, 1e7, m->context, &m->n_contexts, err) ||
        ascending(c, "decode.batch", m->batch, m->n_batches, err) ||
        ascending(c, "decode.context", m->context, m->n_contexts, err))
        return err->code;
    if (!json_is_array(rows) || json_array_size(rows) != m->n_batches)
        return br_err_set(err, BR_EINVAL, "%s: decode.seconds must have a list for each of the %u batches", c->file,
                          m->n_batches);
    for (uint32_t i = 0; i < m->n_batches; i++) {
        uint32_t n;
        if (numbers(c, "decode.seconds", json_array_get(rows, i), 1e-9, LONGEST_S, m->decode_s[i], &n, err))
            return err->code;
        if (n != m->n_contexts)
            return br_err_set(err, BR_EINVAL, "%s: decode.seconds: list %u has %u values for %u contexts", c->file,
                              i + 1, n, m->n_contexts);
    }
    return 0;
}

static int read_model(const json_t *value, const char *file, uint32_t index, struct br_measured *out,
                      struct br_err *err)
{
    struct br_measured_model *m = &out->models[index];
    char where[200];
    const char *name = NULL;
    snprintf(where, sizeof where, "%.120s: model %u", file, index + 1);
    struct br_config c = {value, where};
    if (!json_is_object(value))
        return br_err_set(err, BR_EINVAL, "%s must be an object", where);
    if (br_config_string(&c, "name", &name, err))
        return err->code;
    if (!name || !*name || strlen(name) >= sizeof m->name)
        return br_err_set(err, BR_EINVAL, "%s: name must have 1 to %zu bytes", where, sizeof m->name - 1);
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(out->models[i].name, name) == 0)
            return br_err_set(err, BR_EINVAL, "%s: a model %s is there already", where, name);
    snprintf(m->name, sizeof m->name, "%s", name);
    snprintf(where, sizeof where, "%.120s: model %s", file, name);
    if (need_number(&c, "weight_bytes", 1, MOST, &m->weight_bytes, err) ||
        need_number(&c, "kv_bytes_per_token", 1, 1e9, &m->kv_bytes_per_token, err) || read_prefill(&c, m, err))
        return err->code;
    return read_decode(&c, m, err);
}

static int read_device(const struct br_config *c, struct br_measured *out, struct br_err *err)
{
    const char *device = NULL;
    uint32_t version = 0;
    if (br_config_u32(c, "briareus_costs", 1, UINT32_MAX, &version, err) || br_config_string(c, "device", &device, err))
        return err->code;
    if (version != 1)
        return br_err_set(err, BR_EINVAL,
                          "%s: briareus_costs must be 1 (a file that `briareus model bench --json` wrote)", c->file);
    if (!device || !*device || strlen(device) >= sizeof out->device)
        return br_err_set(err, BR_EINVAL, "%s: device must be a name of 1 to %zu bytes", c->file,
                          sizeof out->device - 1);
    snprintf(out->device, sizeof out->device, "%s", device);
    if (need_number(c, "memory_bytes", 1, MOST, &out->memory_bytes, err) ||
        need_number(c, "link_bytes_per_s", 1, MOST, &out->link_bytes_per_s, err) ||
        br_config_number(c, "switch_s", 0, 60, &out->switch_s, err) ||
        br_config_number(c, "step_overhead_s", 0, 60, &out->step_overhead_s, err) ||
        br_config_number(c, "token_overhead_s", 0, 60, &out->token_overhead_s, err))
        return err->code;
    return br_config_number(c, "price_usd_per_hour", 0, 1e4, &out->price_usd_per_hour, err);
}

static int read_all(const struct br_config *c, struct br_measured *out, struct br_err *err)
{
    const json_t *models = br_config_get(c, "models");
    int rc = read_device(c, out, err);
    if (rc)
        return rc;
    if (!json_is_array(models) || json_array_size(models) < 1 || json_array_size(models) > BR_MEASURED_MAX_MODELS)
        return br_err_set(err, BR_EINVAL, "%s: models must be a list of 1 to %d", c->file, BR_MEASURED_MAX_MODELS);
    out->models = br_calloc(json_array_size(models), sizeof *out->models);
    for (; rc == 0 && out->n_models < json_array_size(models); out->n_models += rc == 0)
        rc = read_model(json_array_get(models, out->n_models), c->file, out->n_models, out, err);
    return rc;
}

int br_measured_parse(const char *text, size_t len, const char *file, struct br_measured *out, struct br_err *err)
{
    struct br_config c = {NULL, file};
    json_t *root = br_config_parse(text, len, file, err);
    *out = (struct br_measured){0};
    if (!root)
        return err->code;
    c.object = root;
    int rc = read_all(&c, out, err);
    if (rc)
        br_measured_free(out);
    json_decref(root);
    return rc;
}

int br_measured_read(const char *path, struct br_measured *out, struct br_err *err)
{
    struct br_buf text = {0};
    int rc;
    *out = (struct br_measured){0};
    if (br_buf_read_file(&text, path, BR_CONFIG_MAX_BYTES))
        rc = br_err_errno(err, errno == ENOENT ? BR_ENOENT : BR_EIO, "%s", path);
    else
        rc = br_measured_parse(text.data ? text.data : "", text.len, path, out, err);
    br_buf_free(&text);
    return rc;
}

void br_measured_free(struct br_measured *measured)
{
    free(measured->models);
    *measured = (struct br_measured){0};
}

const struct br_measured_model *br_measured_find(const struct br_measured *measured, const char *name)
{
    for (uint32_t i = 0; i < measured->n_models; i++)
        if (strcmp(measured->models[i].name, name) == 0)
            return &measured->models[i];
    return NULL;
}

/* ---- between the points ---- */

struct place { /* of x among points: at index i, so far to i + 1 */
    uint32_t i;
    double part;
};

static struct place place_of(const double *points, uint32_t n, double x)
{
    uint32_t i = 0;
    if (n == 1 || x <= points[0])
        return (struct place){0, 0};
    while (i + 2 < n && x > points[i + 1])
        i++;
    return (struct place){i, (x - points[i]) / (points[i + 1] - points[i])};
}

/* Noise may have times fall towards the end; they do not go on falling. */
static double between(double a, double b, double part)
{
    double at = a + part * (b - a);
    return part > 1 && at < b ? b : at;
}

static double row_at(const struct br_measured_model *m, uint32_t batch, struct place c)
{
    const double *row = m->decode_s[batch];
    return c.part > 0 ? between(row[c.i], row[c.i + 1], c.part) : row[c.i];
}

static double decode_s(const struct br_measured_model *m, double batch, double context)
{
    struct place b = place_of(m->batch, m->n_batches, batch), c = place_of(m->context, m->n_contexts, context);
    double here = row_at(m, b.i, c);
    return b.part > 0 ? between(here, row_at(m, b.i + 1, c), b.part) : here;
}

/* Below the shortest prompt measured: towards a decode of one row. */
static double prefill_s(const struct br_measured_model *m, double tokens)
{
    double one = m->decode_s[0][0];
    if (tokens < m->prompt[0])
        return m->prompt[0] > 1 ? between(one, m->prefill_s[0], (tokens - 1) / (m->prompt[0] - 1)) : m->prefill_s[0];
    if (m->n_prompts == 1)
        return m->prefill_s[0] * tokens / m->prompt[0];
    struct place p = place_of(m->prompt, m->n_prompts, tokens);
    return between(m->prefill_s[p.i], m->prefill_s[p.i + 1], p.part);
}

/* Seconds that a row takes for each position it attends to. */
static double pair_s(const struct br_measured_model *m)
{
    uint32_t last = m->n_contexts - 1;
    double more = m->decode_s[0][last] - m->decode_s[0][0];
    return last && more > 0 ? more / (m->context[last] - m->context[0]) : 0;
}

double br_measured_step_s(const struct br_measured *measured, const struct br_measured_model *m,
                          const struct br_cost_step *s)
{
    double seconds = 0, behind = s->chunk_pairs;
    if (s->decodes + s->chunks <= 0)
        return 0;
    if (s->chunks > 0) {
        double each = s->chunk_tokens / s->chunks;
        behind -= s->chunks * each * each / 2;
        seconds = prefill_s(m, s->chunk_tokens) + (behind > 0 ? behind * pair_s(m) : 0);
    }
    if (s->decodes > 0) {
        double alone = decode_s(m, s->decodes, s->kv_tokens / s->decodes),
               shared = s->chunks > 0 ? m->decode_s[0][0] : 0;
        seconds += alone > shared ? alone - shared : 0;
    }
    return seconds + measured->step_overhead_s + measured->token_overhead_s * (s->decodes + s->chunks);
}
