/* Fits the coefficients of layer_ops.h to a profile of layers. */
#ifndef BRIAREUS_COST_LAYER_FIT_H
#define BRIAREUS_COST_LAYER_FIT_H

#include "cost/layer_ops.h"
#include "cost/profile.h"

struct br_layer_fit {
    const struct br_profile *profile; /* borrowed, of kind BR_PROFILE_LAYERS */
    struct br_layer_fit_pair {
        const struct br_gpu *gpu;
        struct br_model_size size;
    } * pairs; /* owned, one a pair of the profile */
};

/* As br_step_fit_init(); tp has to divide the model's heads. */
int br_layer_fit_init(struct br_layer_fit *out, const struct br_profile *profile, const char *file, struct br_err *err);
void br_layer_fit_free(struct br_layer_fit *fit);

/* Coefficients for a pair from the rows of all other pairs (strict: of all other GPUs), in two stages as
 * br_step_fit_run(). When no other model's rows on the pair's GPU are in scope, what other models say about its memory
 * and matrix products is taken from its built-in calibration of steps, where there is one; not when strict. */
void br_layer_fit_run(const struct br_layer_fit *fit, size_t pair, bool strict, double coef[BR_OP_COEF_N]);

#endif
