/* Fits the cost model's coefficients to a profile of steps, whole or with a pair or a GPU left out. */
#ifndef BRIAREUS_COST_STEP_FIT_H
#define BRIAREUS_COST_STEP_FIT_H

#include "cost/cost.h"
#include "cost/profile.h"

/* Decode steps were measured over the first tokens behind the prompt: their mean context is this many tokens longer. */
#define BR_STEP_FIT_DECODED 8.0

struct br_step_fit {
    const struct br_profile *profile; /* borrowed, of kind BR_PROFILE_STEPS */
    struct br_cost *costs;            /* owned, one a pair of the profile: BF16 weights and KV, TP 1 */
};

/* Looks up every model and GPU (BR_ENOENT with the nearest name and the file's line). */
int br_step_fit_init(struct br_step_fit *out, const struct br_profile *profile, const char *file, struct br_err *err);
void br_step_fit_free(struct br_step_fit *fit);

/* Which rows a fit may see, and for whom it is. */
struct br_step_fit_scope {
    const struct br_gpu *gpu; /* whose coefficients; NULL: of all GPUs together */
    size_t without_pair;      /* BR_STEP_FIT_ALL: none */
    bool without_gpu;         /* no row of `gpu` */
};
#define BR_STEP_FIT_ALL ((size_t)-1)

/* Two stages: all rows in scope from br_calibration_prior, then the GPU's own rows in scope, drawn to that result.
 * A scope without rows gives the prior. */
void br_step_fit_run(const struct br_step_fit *fit, const struct br_step_fit_scope *scope, double coef[BR_COEF_N]);

/* What the model says about a row; time is BR_PROFILE_PREFILL or BR_PROFILE_DECODE. */
double br_step_fit_predict_s(const struct br_step_fit *fit, size_t pair, const struct br_profile_row *row, int time,
                             const double coef[BR_COEF_N]);

#endif
