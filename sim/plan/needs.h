/* How many devices each pool of a layout needs with each seed: simulated in parallel, remembered over layouts. */
#ifndef BRIAREUS_SIM_PLAN_NEEDS_H
#define BRIAREUS_SIM_PLAN_NEEDS_H

#include "sim/plan/place.h"

struct plan_needs; /* remembers */
struct plan_needs *plan_needs_create(const struct plan_ask *ask, const struct plan_requests *requests);
void plan_needs_free(struct plan_needs *needs);

/* Devices of a pool that a policy cannot do without. */
uint32_t plan_needs_least(const char *policy);
/* For seeds first .. first + n - 1: out[pool * n + seed], the fewest devices with which the pool has its part of the
 * target (attainable.h); 0: more tokens are out of reach than the fleet may be late with. A pool that
 * no count helps to its part gets as many as help it to within .5 % of what most devices reach. */
int plan_needs_find(struct plan_needs *needs, const struct plan_layout *layout, const char *policy, uint32_t first,
                    uint32_t n, uint32_t *out, struct br_err *err);
/* Tokens that come late with these counts ([n_pools]; 0: the pool is left out, out is -1): out[pool * n + seed]. */
int plan_needs_late(struct plan_needs *needs, const struct plan_layout *layout, const char *policy, uint32_t first,
                    uint32_t n, const uint32_t *devices, double *out, struct br_err *err);
/* Tokens that may be late in all, by seed. */
void plan_needs_budget(const struct plan_needs *needs, uint32_t first, uint32_t n, double *out);
/* Tokens that may be late in each pool: those out of reach and all but ask->pool_floor of the others. */
int plan_needs_caps(const struct plan_needs *needs, const struct plan_layout *layout, uint32_t first, uint32_t n,
                    double *out, struct br_err *err);
/* Runs with these counts ([n_pools]) and all seeds; tallies[n_pools] (initialised) get them added. */
int plan_needs_tally(struct plan_needs *needs, const struct plan_layout *layout, const char *policy,
                     const uint32_t *devices, uint32_t n_seeds, struct plan_tally *tallies, struct br_err *err);
/* Busy devices of the fluid bound by pool, mean over seeds. */
int plan_needs_fluid(struct plan_needs *needs, const struct plan_layout *layout, double *out, struct br_err *err);

#endif
