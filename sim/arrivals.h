/* Requests of policy.md's workloads: Poisson per model, log-normal lengths. Keyed by (seed, model): the requests of a
 * model do not depend on how many models there are. */
#ifndef BRIAREUS_SIM_ARRIVALS_H
#define BRIAREUS_SIM_ARRIVALS_H

#include <stdint.h>

struct sim_request {
    double at_s;
    uint32_t model, prompt, output;
};

struct sim_lengths {
    double median, sigma;
    uint32_t min, max;
};

struct sim_traffic {
    uint64_t seed;
    uint32_t n_models;
    const double *rate; /* [n_models], requests/s */
    double horizon_s;
    struct sim_lengths prompt, output;
};

/* Sorted by time, then model; the caller frees. NULL: no memory. */
struct sim_request *sim_arrivals(const struct sim_traffic *traffic, uint32_t *n);

#endif
