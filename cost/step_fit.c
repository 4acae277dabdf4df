#include "cost/step_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cost/fit.h"

/* How firmly a GPU's coefficients are drawn to those of all GPUs, and these to the prior; in units of summed relative
 * error per squared logarithm. Weak beside the about 100 residuals of one pair. */
#define RIDGE_OWN 3.0
#define RIDGE_ALL 1.5

struct selection {
    const struct br_step_fit *fit;
    bool *pairs; /* one a pair: in scope */
};

int br_step_fit_init(struct br_step_fit *out, const struct br_profile *profile, const char *file, struct br_err *err)
{
    *out = (struct br_step_fit){.profile = profile};
    out->costs = br_calloc(profile->n_pairs, sizeof *out->costs);
    for (size_t i = 0; i < profile->n_pairs; i++) {
        const struct br_profile_pair *pair = &profile->pairs[i];
        const struct br_gpu *gpu = br_gpu_find(pair->gpu, err);
        struct br_model_size size;
        struct br_footprint model;
        int rc = gpu ? br_catalogue_find(pair->model, &size, err) : BR_ENOENT;
        if (!rc) {
            br_footprint_init(&model, &size, BR_WEIGHTS_BF16, BR_KV_BF16);
            rc = br_cost_init(&out->costs[i], &model, gpu, 1, &br_calibration_prior, err);
        }
        if (rc) {
            br_step_fit_free(out);
            return br_err_wrap(err, "%s: line %u", file, profile->rows[pair->first].line);
        }
    }
    return 0;
}

void br_step_fit_free(struct br_step_fit *fit)
{
    free(fit->costs);
    *fit = (struct br_step_fit){0};
}

double br_step_fit_predict_s(const struct br_step_fit *fit, size_t pair, const struct br_profile_row *row, int time,
                             const double coef[BR_COEF_N])
{
    struct br_cost *cost = &fit->costs[pair];
    memcpy(cost->calibration.coef, coef, sizeof cost->calibration.coef);
    if (time == BR_PROFILE_PREFILL)
        return br_cost_prefill_s(cost, row->batch, row->tokens, 0);
    return br_cost_decode_s(cost, row->batch, row->batch * (row->tokens + BR_STEP_FIT_DECODED));
}

static void step_residuals(const void *context, const double *theta, double *out)
{
    const struct selection *s = context;
    const struct br_profile *p = s->fit->profile;
    double coef[BR_COEF_N];
    for (int j = 0; j < BR_COEF_N; j++)
        coef[j] = exp(theta[j]);
    for (size_t i = 0; i < p->n_pairs; i++)
        for (size_t k = 0; s->pairs[i] && k < p->pairs[i].n; k++) {
            const struct br_profile_row *row = &p->rows[p->pairs[i].first + k];
            for (int time = BR_PROFILE_PREFILL; time <= BR_PROFILE_DECODE; time++)
                *out++ = log(br_step_fit_predict_s(s->fit, i, row, time, coef) / (row->ms[time] * 1e-3));
        }
}

static void step_fit_stage(const struct selection *s, double ridge_each, double theta[BR_COEF_N])
{
    double prior[BR_COEF_N], ridge[BR_COEF_N];
    struct br_fit fit = {
        .n_params = BR_COEF_N, .prior = prior, .ridge = ridge, .residuals = step_residuals, .context = s};
    for (size_t i = 0; i < s->fit->profile->n_pairs; i++)
        fit.n_residuals += s->pairs[i] ? 2 * s->fit->profile->pairs[i].n : 0;
    for (int j = 0; j < BR_COEF_N; j++) {
        prior[j] = theta[j];
        ridge[j] = ridge_each;
    }
    if (fit.n_residuals)
        br_fit_run(&fit, theta);
}

static bool same_gpu(const struct br_step_fit *fit, size_t pair, const struct br_gpu *gpu)
{
    return strcmp(fit->costs[pair].gpu.name, gpu->name) == 0;
}

void br_step_fit_run(const struct br_step_fit *fit, const struct br_step_fit_scope *scope, double coef[BR_COEF_N])
{
    size_t n = fit->profile->n_pairs;
    struct selection s = {.fit = fit, .pairs = br_calloc(n, sizeof *s.pairs)};
    double theta[BR_COEF_N];
    for (int j = 0; j < BR_COEF_N; j++)
        theta[j] = log(br_calibration_prior.coef[j]);
    for (size_t i = 0; i < n; i++)
        s.pairs[i] = i != scope->without_pair && !(scope->without_gpu && same_gpu(fit, i, scope->gpu));
    step_fit_stage(&s, RIDGE_ALL, theta);
    for (size_t i = 0; scope->gpu && i < n; i++)
        s.pairs[i] = s.pairs[i] && same_gpu(fit, i, scope->gpu);
    if (scope->gpu)
        step_fit_stage(&s, RIDGE_OWN, theta);
    for (int j = 0; j < BR_COEF_N; j++)
        coef[j] = exp(theta[j]);
    free(s.pairs);
}
