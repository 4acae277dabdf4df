/* The table of pool policies, one file each. */
#ifndef BRIAREUS_SCHEDULER_CORE_POLICIES_POLICY_H
#define BRIAREUS_SCHEDULER_CORE_POLICIES_POLICY_H

#include <stddef.h>

#include "scheduler/core/policies/pool.h"

struct br_pl_policy {
    const char *name;
    double switch_s; /* before a step of another model than the last one's */
    /* Bytes of its own state, zeroed before init; NULL: none. */
    size_t (*state_bytes)(const struct br_pl_config *config);
    void (*init)(struct br_pool *pool);
    /* The sequence is QUEUED: assign it, refuse it, or leave it. */
    void (*arrive)(struct br_pool *pool, double now_s, uint32_t seq);
    /* The device that a sequence of this model would be assigned to now, the others being full or not; -1: none. May be
     * NULL. */
    int32_t (*choose)(struct br_pool *pool, uint32_t model, uint32_t prompt);
    /* Sequences of the device's last step have their tokens; ended ones are gone. May be NULL. */
    void (*stepped)(struct br_pool *pool, double now_s, uint32_t device);
    /* A token boundary, nothing runs: begin a step (pl_begin) or not. */
    void (*pick)(struct br_pool *pool, double now_s, uint32_t device);
    /* The link is idle: begin a chunk (pl_load) or not. */
    void (*load)(struct br_pool *pool, double now_s, uint32_t device);
    void (*tick)(struct br_pool *pool, double now_s); /* may be NULL */
    /* A sequence that was waiting is gone (cancelled, dropped). May be NULL. */
    void (*gone)(struct br_pool *pool, uint32_t seq);
    /* The leader's half, where pick is not called: sequences have left the device. May be NULL. */
    void (*settle)(struct br_pool *pool, uint32_t device);
    bool hands_over; /* it gives KV from device to device and takes WAITING sequences with KV back by itself */
    bool streams;    /* it begins steps behind loads: asked again when a load has begun on a device that runs nothing */
    bool places;     /* where a sequence goes is its own affair alone: `placed` is not heeded */
    bool by_length;  /* queues are in order of the true output length */
};

extern const struct br_pl_policy pl_policy_dedicated, pl_policy_multiplex, pl_policy_request, pl_policy_request_sjf,
    pl_policy_aegaeon, pl_policy_slack, pl_policy_spread;

/* NULL: no such policy; then *names lists the known ones. */
const struct br_pl_policy *pl_policy_find(const char *name, const char **names);

#endif
