/* The pool of scheduler/core/policies on a virtual clock: virtual devices with one compute and one link each; their
 * times come from the caller's cost. KV out is free; KV in shares the link with weights. Same input, same result. */
#ifndef BRIAREUS_SIM_SIM_H
#define BRIAREUS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hist.h"
#include "scheduler/core/policies/pool.h"
#include "sim/arrivals.h"

enum sim_request_event { SIM_REQUEST_ARRIVED, SIM_REQUEST_FIRST_TOKEN, SIM_REQUEST_ENDED, SIM_REQUEST_LOST };

/* Who wants to watch a run (a timeline, a trace). Callbacks in order of time; any may be NULL. `request` indexes
 * sim_run.requests. A step's rows are in `step` (its decodes, prefill, items), valid during the call; it ends at end_s,
 * which is known when it begins, and *_ended is called then. LOST: refused, dropped or gone. */
struct sim_observer {
    void *ctx;
    void (*request)(void *ctx, double now_s, enum sim_request_event what, uint32_t request);
    void (*step_begun)(void *ctx, double now_s, double end_s, uint32_t device, uint32_t model,
                       const struct br_pl_running *step);
    void (*step_ended)(void *ctx, double now_s, uint32_t device, uint32_t model);
    void (*load_begun)(void *ctx, double now_s, double end_s, uint32_t device, uint32_t model, int64_t bytes, bool kv);
    void (*load_ended)(void *ctx, double now_s, uint32_t device, uint32_t model);
    void (*evicted)(void *ctx, double now_s, uint32_t device, uint32_t model, int64_t bytes, bool kv);
};

struct sim_run {
    struct br_pl_config pool;           /* max_seqs is set by the run */
    const struct sim_request *requests; /* [n_requests], by time */
    uint32_t n_requests;
    double horizon_s, margin_s, run_on_s; /* arrivals in [margin, horizon - margin] count; ends at horizon + run_on */
    bool books;       /* memory by the books of kvcache/ (books.h), as a worker keeps it: blocks of 16
                         tokens in slabs, KV moved in whole sequences, its room free when it is out.
                         Otherwise the pool's own counts, by token, and KV out is free */
    bool check;       /* the books after every event (slow) */
    double switch_s;  /* of a step of another model; 0: what the policy counts with */
    double late_stop; /* > 0: give up when more than this share of all tokens that count is late: attainment then is
                         an upper bound below 1 - late_stop */
    const struct sim_observer *observer; /* NULL: nobody watches */
    struct br_hist *ttft_us, *tbt_us;    /* of requests that count, added to; NULL: not wanted. TBT: gaps between tokens
                                            as they are made, before anybody paces them */
};

struct sim_result {
    uint64_t tokens, on_time;         /* of requests that count; owed ones are late */
    uint64_t events, steps, switches; /* of all devices */
    uint64_t refused, dropped;
    uint64_t left_out, short_loads; /* with books: rows' items and moves in, loads that found less room than granted */
    double attainment;
    double compute_busy, link_busy;                /* share of the time */
    double decode_busy, prefill_busy, switch_busy; /* parts of compute_busy: steps without and with prompt rows (the
                                                      wait for a streamed load included), and switches */
    double stalled;                                /* share of the time that a device has sequences and runs no step */
    double host_kv_bytes;                          /* the most KV off the devices, at ticks */
    double active_models; /* mean number of models with unfinished requests, within the margins */
    double in_flight_s;   /* mean time from arrival to end, of those that ended and count */
    double bytes_loaded;
    uint64_t digest; /* of every token's sequence and time */
};

/* BR_ENOMEM, what br_pl_create says, or BR_ECORRUPT from `check`. */
int sim_run(const struct sim_run *run, struct sim_result *out, struct br_err *err);

#endif
