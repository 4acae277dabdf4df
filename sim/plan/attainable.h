/* Tokens that no count of devices makes on time: those of a request alone on an idle device of the pool's kind, its
 * model resident, that come late because its prompt takes longer than TTFT (or its steps longer than TBT).
 *
 * A fleet may be late with (1 - target) of all its tokens. Those out of reach are taken from that first; what is left
 * is divided among pools by their tokens. So a pool of long prompts is not refused while others have slack, and none
 * may be worse than it has to be. */
#ifndef BRIAREUS_SIM_PLAN_ATTAINABLE_H
#define BRIAREUS_SIM_PLAN_ATTAINABLE_H

#include "sim/plan/place.h"

struct plan_reach {
    uint64_t tokens; /* of requests that count */
    double late;     /* of them out of reach */
};
/* The pool's; < 0: *err. */
int plan_reach_of(const struct plan_ask *ask, const struct plan_pool *pool, const struct plan_requests *requests,
                  struct plan_reach *out, struct br_err *err);
/* Shares of tokens that each pool ([n_pools]) has to have on time so that the fleet holds its target. false: more is
 * out of reach than may be late; then *out_of_reach says which share of all tokens. */
bool plan_reach_targets(const struct plan_reach *pools, uint32_t n_pools, double target, double *targets,
                        double *out_of_reach);

#endif
