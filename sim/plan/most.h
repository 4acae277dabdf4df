/* The other way round: how many models, or what rate, a fleet of a given size holds. */
#ifndef BRIAREUS_SIM_PLAN_MOST_H
#define BRIAREUS_SIM_PLAN_MOST_H

#include "sim/plan/pool.h"

enum { PLAN_MOST_TARGETS = 2 };
extern const double plan_most_targets[PLAN_MOST_TARGETS]; /* .9, .99 */

struct plan_most {
    const char *policy;
    struct plan_kind kind;
    uint32_t gpus, nodes;
    uint32_t models[PLAN_MOST_TARGETS]; /* the fleet's; with nodes > 1, nodes times what one holds */
    uint32_t host_models;               /* that its nodes' host memory holds */
    double rate[PLAN_MOST_TARGETS];     /* of all models */
    struct plan_tally tally;            /* one node at the last target, all seeds */
};

/* Model i of the ask is model i mod n_models, so that its models are a mix that repeats. Models belong to one node, so
 * a fleet of several nodes holds as many times what one does; a smaller fleet is one pool. All models on the same kind:
 * the smallest tensor-parallel degree that holds each (or the one they say). Attainment is the mean over seeds. */
int plan_most_models(const struct plan_ask *ask, const struct br_gpu *gpu, uint32_t gpus, const char *policy,
                     struct plan_most *out, struct br_err *err);
/* All of the ask's models in one pool of the fleet's GPUs; rates are scaled alike, to within 1 %. */
int plan_most_rate(const struct plan_ask *ask, const struct br_gpu *gpu, uint32_t gpus, const char *policy,
                   struct plan_most *out, struct br_err *err);

#endif
