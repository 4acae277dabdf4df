/* How well the cost model predicts measurements that its fit has not seen.
 *
 * A pair (model, GPU) is predicted with coefficients from all other pairs; those of layers, where no other model on the
 * GPU is in the file, take its memory and compute from the built-in calibration of steps (other models, other
 * measurements). Beside it, each GPU from the other GPUs of the file alone. */
#ifndef BRIAREUS_COST_CHECK_H
#define BRIAREUS_COST_CHECK_H

#include <stdbool.h>

#include "cost/calibration.h"
#include "cost/profile.h"

/* Steps: prefill, decode (as BR_PROFILE_PREFILL, _DECODE). Layers: the whole layer, and its matrix products one by one.
 */
enum { BR_CHECK_MEASURES = 2 };
#define BR_CHECK_LIMIT_PREFILL 0.08
#define BR_CHECK_LIMIT_DECODE 0.06
#define BR_CHECK_LIMIT_LAYER 0.15

/* Of predicted / measured - 1. */
struct br_check_error {
    size_t n;
    double median; /* of the absolute error; NaN where nothing could be predicted */
    double bias;   /* the median with its sign */
    double worst;  /* the largest absolute error */
};

struct br_check_line {
    char model[48], gpu[32]; /* model is empty in lines of a whole GPU; both are in the total */
    struct br_check_error held_out[BR_CHECK_MEASURES];
    struct br_check_error other_gpus[BR_CHECK_MEASURES];
};

struct br_check {
    enum br_profile_kind kind;
    struct br_check_line *pairs, *gpus; /* owned */
    size_t n_pairs, n_gpus;
    struct br_check_line total;
    double limits[BR_CHECK_MEASURES]; /* of a median: of the total for steps, of every GPU for layers */
    bool passed;
    struct br_calibration *fitted; /* owned; steps: one a GPU, in the order of `gpus`, then "all"; from all rows */
    size_t n_fitted;
};

/* BR_ENOENT when the profile names an unknown model or GPU. `file` is for messages. */
int br_check_run(const struct br_profile *profile, const char *file, struct br_check *out, struct br_err *err);
void br_check_free(struct br_check *check);

#endif
