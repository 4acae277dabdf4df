#include "cost/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cost/layer_fit.h"
#include "cost/step_fit.h"

/* Relative errors, one entry a prediction. A row of steps has one in each measure; a row of layers one in the first and
 * four in the second. */
struct errors {
    size_t n, cap;
    struct entry {
        size_t pair;
        double held_out, other_gpus; /* the latter NaN where there is no other GPU */
    } * entries;
};

static void errors_add(struct errors *e, size_t pair, double held_out, double other_gpus)
{
    if (e->n == e->cap) {
        e->cap = e->cap ? 2 * e->cap : 1024;
        e->entries = br_realloc(e->entries, e->cap * sizeof *e->entries);
    }
    e->entries[e->n++] = (struct entry){pair, held_out, other_gpus};
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_doubles);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* `want` has one flag a pair. */
static struct br_check_error errors_summary(const struct errors *e, const bool *want, bool other_gpus)
{
    struct br_check_error out = {.median = NAN, .bias = NAN, .worst = NAN};
    double *values = br_malloc((e->n + 1) * sizeof *values);
    for (size_t i = 0; i < e->n; i++) {
        double value = other_gpus ? e->entries[i].other_gpus : e->entries[i].held_out;
        if (want[e->entries[i].pair] && isfinite(value))
            values[out.n++] = value;
    }
    if (out.n) {
        out.bias = median_of(values, out.n);
        for (size_t i = 0; i < out.n; i++)
            values[i] = fabs(values[i]);
        out.median = median_of(values, out.n);
        out.worst = values[out.n - 1];
    }
    free(values);
    return out;
}

static void line_fill(struct br_check_line *line, const struct errors *errors, const bool *want)
{
    for (int i = 0; i < BR_CHECK_MEASURES; i++) {
        line->held_out[i] = errors_summary(&errors[i], want, false);
        line->other_gpus[i] = errors_summary(&errors[i], want, true);
    }
}

static size_t gpu_line(struct br_check *check, const char *gpu)
{
    size_t i = 0;
    while (i < check->n_gpus && strcmp(check->gpus[i].gpu, gpu) != 0)
        i++;
    if (i == check->n_gpus)
        snprintf(check->gpus[check->n_gpus++].gpu, sizeof check->gpus[i].gpu, "%s", gpu);
    return i;
}

/* GPUs are told apart by the file's own words; lines of pairs, of GPUs and the total. */
static void check_fill(struct br_check *check, const struct br_profile *p, const struct errors *errors)
{
    bool *want = br_calloc(p->n_pairs, sizeof *want);
    for (size_t i = 0; i < p->n_pairs; i++) {
        struct br_check_line *line = &check->pairs[i];
        memset(want, 0, p->n_pairs * sizeof *want);
        want[i] = true;
        snprintf(line->model, sizeof line->model, "%s", p->pairs[i].model);
        snprintf(line->gpu, sizeof line->gpu, "%s", p->pairs[i].gpu);
        line_fill(line, errors, want);
        gpu_line(check, line->gpu);
    }
    for (size_t g = 0; g < check->n_gpus; g++) {
        for (size_t i = 0; i < p->n_pairs; i++)
            want[i] = strcmp(p->pairs[i].gpu, check->gpus[g].gpu) == 0;
        line_fill(&check->gpus[g], errors, want);
    }
    memset(want, 1, p->n_pairs * sizeof *want);
    line_fill(&check->total, errors, want);
    free(want);
}

static bool several_gpus(const struct br_profile *p)
{
    for (size_t i = 1; i < p->n_pairs; i++)
        if (strcmp(p->pairs[i].gpu, p->pairs[0].gpu) != 0)
            return true;
    return false;
}

static double step_error(const struct br_step_fit *fit, size_t pair, const struct br_profile_row *row, int time,
                         const double *coef)
{
    return br_step_fit_predict_s(fit, pair, row, time, coef) / (row->ms[time] * 1e-3) - 1;
}

static void check_steps(const struct br_step_fit *fit, struct errors *errors)
{
    const struct br_profile *p = fit->profile;
    bool others = several_gpus(p);
    for (size_t i = 0; i < p->n_pairs; i++) {
        double held_out[BR_COEF_N], alone[BR_COEF_N];
        struct br_step_fit_scope scope = {.gpu = &fit->costs[i].gpu, .without_pair = i};
        br_step_fit_run(fit, &scope, held_out);
        scope.without_gpu = true;
        br_step_fit_run(fit, &scope, alone);
        for (size_t k = 0; k < p->pairs[i].n; k++)
            for (int time = 0; time < BR_CHECK_MEASURES; time++) {
                const struct br_profile_row *row = &p->rows[p->pairs[i].first + k];
                errors_add(&errors[time], i, step_error(fit, i, row, time, held_out),
                           others ? step_error(fit, i, row, time, alone) : NAN);
            }
    }
}

static void check_calibrations(struct br_check *check, const struct br_step_fit *fit)
{
    struct br_step_fit_scope scope = {.without_pair = BR_STEP_FIT_ALL};
    check->fitted = br_calloc(check->n_gpus + 1, sizeof *check->fitted);
    for (size_t g = 0; g <= check->n_gpus; g++) {
        struct br_calibration *c = &check->fitted[check->n_fitted++];
        *c = br_calibration_prior;
        c->name = "all";
        scope.gpu = NULL;
        for (size_t i = 0; g < check->n_gpus && i < check->n_pairs; i++)
            if (strcmp(check->pairs[i].gpu, check->gpus[g].gpu) == 0)
                scope.gpu = &fit->costs[i].gpu;
        if (scope.gpu)
            c->name = br_gpu_find(scope.gpu->name, &(struct br_err){0})->name;
        br_step_fit_run(fit, &scope, c->coef);
    }
}

static void check_layer_row(const struct br_layer_fit *fit, size_t pair, const struct br_profile_row *row,
                            const double *held_out, const double *alone, struct errors *errors)
{
    const struct br_layer_fit_pair *p = &fit->pairs[pair];
    double a[BR_OP_N], b[BR_OP_N], sum_a = 0, sum_b = 0, measured = 0;
    br_layer_ops_s(&p->size, p->gpu, row->tp, row->tokens, held_out, a);
    br_layer_ops_s(&p->size, p->gpu, row->tp, row->tokens, alone ? alone : held_out, b);
    for (int i = 0; i < BR_OP_N; i++) {
        double ms = row->ms[i] * 1e-3;
        sum_a += a[i];
        sum_b += b[i];
        measured += ms;
        if (br_layer_op_is_product((enum br_layer_op)i))
            errors_add(&errors[1], pair, a[i] / ms - 1, alone ? b[i] / ms - 1 : NAN);
    }
    errors_add(&errors[0], pair, sum_a / measured - 1, alone ? sum_b / measured - 1 : NAN);
}

static void check_layers(const struct br_layer_fit *fit, struct errors *errors)
{
    const struct br_profile *p = fit->profile;
    bool others = several_gpus(p);
    for (size_t i = 0; i < p->n_pairs; i++) {
        double held_out[BR_OP_COEF_N], alone[BR_OP_COEF_N];
        br_layer_fit_run(fit, i, false, held_out);
        br_layer_fit_run(fit, i, true, alone);
        for (size_t k = 0; k < p->pairs[i].n; k++)
            check_layer_row(fit, i, &p->rows[p->pairs[i].first + k], held_out, others ? alone : NULL, errors);
    }
}

static void check_limits(struct br_check *check)
{
    bool steps = check->kind == BR_PROFILE_STEPS;
    const struct br_check_line *lines = steps ? &check->total : check->gpus;
    check->limits[0] = steps ? BR_CHECK_LIMIT_PREFILL : BR_CHECK_LIMIT_LAYER;
    check->limits[1] = steps ? BR_CHECK_LIMIT_DECODE : BR_CHECK_LIMIT_LAYER;
    check->passed = true;
    for (size_t i = 0; i < (steps ? 1 : check->n_gpus); i++)
        for (int m = 0; m < BR_CHECK_MEASURES; m++)
            check->passed = check->passed && lines[i].held_out[m].median <= check->limits[m];
}

static int check_kind(const struct br_profile *p, const char *file, struct br_check *out, struct errors *errors,
                      struct br_err *err)
{
    struct br_step_fit steps;
    struct br_layer_fit layers;
    int rc;
    if (p->kind == BR_PROFILE_LAYERS) {
        if ((rc = br_layer_fit_init(&layers, p, file, err)))
            return rc;
        check_layers(&layers, errors);
        check_fill(out, p, errors);
        br_layer_fit_free(&layers);
        return 0;
    }
    if ((rc = br_step_fit_init(&steps, p, file, err)))
        return rc;
    check_steps(&steps, errors);
    check_fill(out, p, errors);
    check_calibrations(out, &steps);
    br_step_fit_free(&steps);
    return 0;
}

int br_check_run(const struct br_profile *p, const char *file, struct br_check *out, struct br_err *err)
{
    struct errors errors[BR_CHECK_MEASURES] = {0};
    int rc;
    *out = (struct br_check){.kind = p->kind, .n_pairs = p->n_pairs};
    out->pairs = br_calloc(p->n_pairs, sizeof *out->pairs);
    out->gpus = br_calloc(p->n_pairs, sizeof *out->gpus);
    rc = check_kind(p, file, out, errors, err);
    if (rc)
        br_check_free(out);
    else
        check_limits(out);
    for (int i = 0; i < BR_CHECK_MEASURES; i++)
        free(errors[i].entries);
    return rc;
}

void br_check_free(struct br_check *check)
{
    free(check->pairs);
    free(check->gpus);
    free(check->fitted);
    *check = (struct br_check){0};
}
