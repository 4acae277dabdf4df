/* A workload drawn from processes and laws of lengths. */
#ifndef BRIAREUS_TRAFFIC_GENERATE_H
#define BRIAREUS_TRAFFIC_GENERATE_H

#include <stdint.h>

#include "base/err.h"
#include "traffic/lengths.h"
#include "traffic/process.h"
#include "traffic/workload.h"

struct br_source {
    const char *name;
    struct br_process process;
    struct br_lengths lengths;
};

/* Requests of n models in [0, duration_s). Model i's requests depend on (seed, i) and its source alone. Checks every
 * source first (BR_EINVAL, names the model); BR_ENOMEM when more than BR_WORKLOAD_MAX_REQUESTS are expected. Names have
 * to differ. Caller frees *out on success; on failure it is empty. */
int br_workload_generate(const struct br_source *sources, uint32_t n, double duration_s, uint64_t seed,
                         struct br_workload *out, struct br_err *err);

#endif
