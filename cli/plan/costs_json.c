#include <jansson.h>
#include <math.h>
#include <string.h>

#include "cli/plan/commands.h"

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *error_json(const struct br_check_error *e)
{
    return json_pack("{s:I, s:o, s:o, s:o}", "n", (json_int_t)e->n, "median", number(e->median), "bias",
                     number(e->bias), "worst", number(e->worst));
}

static json_t *line_json(const struct br_check_line *line, enum br_profile_kind kind)
{
    json_t *out = json_object();
    if (*line->gpu)
        json_object_set_new(out, "gpu", json_string(line->gpu));
    if (*line->model)
        json_object_set_new(out, "model", json_string(line->model));
    for (int i = 0; i < BR_CHECK_MEASURES; i++)
        json_object_set_new(out, br_plan_measure(kind, i),
                            json_pack("{s:o, s:o}", "held_out", error_json(&line->held_out[i]), "from_other_gpus",
                                      error_json(&line->other_gpus[i])));
    return out;
}

static json_t *lines_json(const struct br_check_line *lines, size_t n, enum br_profile_kind kind)
{
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, line_json(&lines[i], kind));
    return out;
}

static json_t *calibrations_json(const struct br_check *check)
{
    static const char *const names[BR_COEF_N] = {"memory",       "compute",       "layer_s", "step_s",
                                                 "decode_seq_s", "prefill_seq_s", "kv",      "kv_seq_s_per_mb"};
    json_t *out = json_array();
    for (size_t i = 0; i < check->n_fitted; i++) {
        json_t *c = json_pack("{s:s}", "name", check->fitted[i].name);
        for (int j = 0; j < BR_COEF_N; j++)
            json_object_set_new(c, names[j], json_real(check->fitted[i].coef[j]));
        json_array_append_new(out, c);
    }
    return out;
}

void br_plan_costs_json(const struct br_check *check, const char *file, FILE *out)
{
    json_t *limits = json_object(), *root;
    for (int i = 0; i < BR_CHECK_MEASURES; i++)
        json_object_set_new(limits, br_plan_measure(check->kind, i), json_real(check->limits[i]));
    root = json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:o}", "file", file, "kind",
                     check->kind == BR_PROFILE_STEPS ? "steps" : "layers", "passed", check->passed, "limits", limits,
                     "total", line_json(&check->total, check->kind), "gpus",
                     lines_json(check->gpus, check->n_gpus, check->kind), "pairs",
                     lines_json(check->pairs, check->n_pairs, check->kind));
    if (check->n_fitted)
        json_object_set_new(root, "calibrations", calibrations_json(check));
    json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    fprintf(out, "\n");
    json_decref(root);
}
