#include "cost/layer_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cost/fit.h"

#define RIDGE 0.5
/* A layer's total weighs as much as five single operators: totals are what a step is made of. */
#define OPERATOR_WEIGHT 0.2

static const double g_prior[BR_OP_COEF_N] = {0.85, 0.6, 5e-6, 0.5};

struct selection {
    const struct br_layer_fit *fit;
    size_t pair; /* for whom; its rows are left out */
    bool strict; /* and those of its GPU */
    bool own;    /* only rows of its GPU */
};

int br_layer_fit_init(struct br_layer_fit *out, const struct br_profile *profile, const char *file, struct br_err *err)
{
    *out = (struct br_layer_fit){.profile = profile};
    out->pairs = br_calloc(profile->n_pairs, sizeof *out->pairs);
    for (size_t i = 0; i < profile->n_pairs; i++) {
        const struct br_profile_pair *pair = &profile->pairs[i];
        const struct br_profile_row *row = &profile->rows[pair->first];
        struct br_layer_fit_pair *p = &out->pairs[i];
        int rc = (p->gpu = br_gpu_find(pair->gpu, err)) ? br_catalogue_find(pair->model, &p->size, err) : BR_ENOENT;
        if (!rc && p->size.experts)
            rc = br_err_set(err, BR_ENOTSUP, "%s is a mixture of experts: only dense layers can be checked",
                            pair->model);
        for (size_t k = 0; !rc && k < pair->n; k++, row++)
            if (p->size.heads % row->tp)
                rc = br_err_set(err, BR_EINVAL, "tp = %u does not divide the %u heads of %s", row->tp, p->size.heads,
                                pair->model);
        if (rc) {
            br_layer_fit_free(out);
            return br_err_wrap(err, "%s: line %u", file, row->line);
        }
    }
    return 0;
}

void br_layer_fit_free(struct br_layer_fit *fit)
{
    free(fit->pairs);
    *fit = (struct br_layer_fit){0};
}

static bool selects(const struct selection *s, size_t pair)
{
    bool same_gpu = s->fit->pairs[pair].gpu == s->fit->pairs[s->pair].gpu;
    return pair != s->pair && !(same_gpu && s->strict) && (same_gpu || !s->own);
}

/* Of one row: the total, then each operator. */
static double *row_residuals(const struct br_layer_fit_pair *pair, const struct br_profile_row *row, const double *coef,
                             double *out)
{
    double ops[BR_OP_N], predicted = 0, measured = 0;
    br_layer_ops_s(&pair->size, pair->gpu, row->tp, row->tokens, coef, ops);
    for (int i = 0; i < BR_OP_N; i++) {
        predicted += ops[i];
        measured += row->ms[i] * 1e-3;
        out[1 + i] = OPERATOR_WEIGHT * log(ops[i] / (row->ms[i] * 1e-3));
    }
    out[0] = log(predicted / measured);
    return out + 1 + BR_OP_N;
}

static size_t selection_size(const struct selection *s)
{
    const struct br_profile *p = s->fit->profile;
    size_t n = 0;
    for (size_t i = 0; i < p->n_pairs; i++)
        n += selects(s, i) ? p->pairs[i].n : 0;
    return n;
}

static void layer_residuals(const void *context, const double *theta, double *out)
{
    const struct selection *s = context;
    const struct br_profile *p = s->fit->profile;
    double coef[BR_OP_COEF_N];
    for (int j = 0; j < BR_OP_COEF_N; j++)
        coef[j] = exp(theta[j]);
    for (size_t i = 0; i < p->n_pairs; i++)
        for (size_t k = 0; selects(s, i) && k < p->pairs[i].n; k++)
            out = row_residuals(&s->fit->pairs[i], &p->rows[p->pairs[i].first + k], coef, out);
}

static void layer_fit_stage(const struct selection *s, double theta[BR_OP_COEF_N])
{
    static const double ridge[BR_OP_COEF_N] = {RIDGE, RIDGE, RIDGE, RIDGE};
    double prior[BR_OP_COEF_N];
    struct br_fit fit = {.n_params = BR_OP_COEF_N,
                         .n_residuals = selection_size(s) * (1 + BR_OP_N),
                         .prior = prior,
                         .ridge = ridge,
                         .residuals = layer_residuals,
                         .context = s};
    memcpy(prior, theta, sizeof prior);
    if (fit.n_residuals)
        br_fit_run(&fit, theta);
}

void br_layer_fit_run(const struct br_layer_fit *fit, size_t pair, bool strict, double coef[BR_OP_COEF_N])
{
    struct selection s = {.fit = fit, .pair = pair, .strict = strict};
    const struct br_calibration *steps = br_calibration_for(fit->pairs[pair].gpu);
    double theta[BR_OP_COEF_N];
    for (int j = 0; j < BR_OP_COEF_N; j++)
        theta[j] = log(g_prior[j]);
    layer_fit_stage(&s, theta);
    s.own = true;
    layer_fit_stage(&s, theta);
    for (int j = 0; j < BR_OP_COEF_N; j++)
        coef[j] = exp(theta[j]);
    if (!strict && !selection_size(&s) && strcmp(steps->name, fit->pairs[pair].gpu->name) == 0) {
        coef[BR_OP_COEF_MEMORY] = steps->coef[BR_COEF_MEMORY];
        coef[BR_OP_COEF_COMPUTE] = steps->coef[BR_COEF_COMPUTE];
    }
}
