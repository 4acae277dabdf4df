/* Which request is sent when: one Poisson process a model, drawn until the horizon (never a fixed count, which would
 * offer less than the nominal load), merged in time order. */
#ifndef BRIAREUS_LOADGEN_SCHEDULE_H
#define BRIAREUS_LOADGEN_SCHEDULE_H

#include <stdint.h>

struct load_arrival {
    double at_s; /* since the start of the run */
    uint32_t model;
    uint64_t draw; /* random bits for what it asks */
};

/* rates: requests/s of each model. *out is malloc'ed, sorted by time (ties: lower model first). */
uint32_t load_schedule(const double *rates, uint32_t n_models, double duration_s, uint64_t seed,
                       struct load_arrival **out);

#endif
