/* A pool of equal devices that share a set of models: one simulated run of it, and how many devices it needs. */
#ifndef BRIAREUS_SIM_PLAN_POOL_H
#define BRIAREUS_SIM_PLAN_POOL_H

#include "base/hist.h"
#include "sim/plan/kind.h"
#include "sim/sim.h"

struct plan_pool {
    struct plan_kind kind;
    uint32_t *models; /* [n_models], owned: indices in the ask, ascending */
    uint32_t n_models;
    double weights_bytes; /* one copy of each model */
};

struct plan_requests { /* all models' */
    const struct sim_request *list;
    uint32_t n;
};

struct plan_tally { /* adds up over runs */
    uint64_t tokens, on_time;
    double device_s, switches; /* devices times seconds */
    double decode_s, prefill_s, switch_s, stalled_s, link_s, compute_s;
    double host_kv_bytes;             /* the most of any run */
    struct br_hist *ttft_us, *tbt_us; /* owned */
};
void plan_tally_init(struct plan_tally *tally);
void plan_tally_free(struct plan_tally *tally);
void plan_tally_add(struct plan_tally *into, const struct plan_tally *from);
double plan_tally_attainment(const struct plan_tally *tally); /* 1 without tokens */

/* `request` as the Aegaeon artifact compares with it: batches of four that nobody joins, one request at a time into
 * them, 16 GB/s a GPU, and what has not begun by 1.5 TTFT is dropped. To be shown beside the fair one, never alone. */
#define PLAN_HANDICAPPED "request (artifact's handicaps)"
/* Policies by the planner's names: those of the pool, PLAN_HANDICAPPED, and aegaeon-tuned, which searches Q_MAX and the
 * split for each count of devices. BR_EINVAL with the nearest name. */
int plan_policy_check(const char *name, struct br_err *err);

struct plan_trial { /* one run */
    const struct plan_ask *ask;
    const struct plan_pool *pool;
    const char *policy;
    struct plan_requests requests;
    uint32_t n_devices;
    double target;                       /* share of the pool's tokens on time, for plan_pool_need */
    double give_up;                      /* attainments below it need not be exact; 0: all are */
    const struct sim_observer *observer; /* of a run with a tally; its requests are the pool's alone, in order */
};
/* Attainment of the pool's models; < 0: *err. tally (may be NULL) gets the run added, of aegaeon-tuned the best one. */
double plan_trial_run(const struct plan_trial *trial, struct plan_tally *tally, struct br_err *err);

/* The fewest devices whose attainment reaches the target (a crossing: attainment need not be monotone), at least
 * `least`; 0: not even `most` do; < 0: *err. */
int32_t plan_pool_need(struct plan_trial *trial, uint32_t guess, uint32_t least, uint32_t most, struct br_err *err);

#endif
