/* The pool of scheduler/core/policies on a virtual clock: virtual devices with one compute and one link each; their
 * times come from the caller's cost. KV out is free; KV in shares the link with weights. Same input, same result. */
#ifndef BRIAREUS_SIM_SIM_H
#define BRIAREUS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "scheduler/core/policies/pool.h"
#include "sim/arrivals.h"

struct sim_run {
    struct br_pl_config pool;           /* max_seqs is set by the run */
    const struct sim_request *requests; /* [n_requests], by time */
    uint32_t n_requests;
    double horizon_s, margin_s, run_on_s; /* arrivals in [margin, horizon - margin] count; ends at horizon + run_on */
    bool check;                           /* the books after every event (slow) */
    double late_stop; /* > 0: give up when more than this share of all tokens that count is late: attainment then is
                         an upper bound below 1 - late_stop */
};

struct sim_result {
    uint64_t tokens, on_time;         /* of requests that count; owed ones are late */
    uint64_t events, steps, switches; /* of all devices */
    uint64_t refused, dropped;
    double attainment;
    double compute_busy, link_busy; /* share of the time */
    double active_models;           /* mean number of models with unfinished requests, within the margins */
    double in_flight_s;             /* mean time from arrival to end, of those that ended and count */
    double bytes_loaded;
    uint64_t digest; /* of every token's sequence and time */
};

/* BR_ENOMEM, what br_pl_create says, or BR_ECORRUPT from `check`. */
int sim_run(const struct sim_run *run, struct sim_result *out, struct br_err *err);

#endif
