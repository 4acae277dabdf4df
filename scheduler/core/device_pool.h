/* A pool of one device behind br_dev: the worker's half runs the same policies as the simulator and the leader. Here
 * its events become the pool's, and the pool's actions br_dev's. The pool decides with bytes and sequences; what the
 * worker then really does (less, later, not at all, more) is told back and taken over.
 *
 * Nothing waits for ever: a move in or a load that brought nothing is asked for again after a while, a slot whose step
 * found no room lets the others go first, and every decision without a step says when to decide again.
 * Internal to scheduler/core. */
#ifndef BRIAREUS_SCHEDULER_CORE_DEVICE_POOL_H
#define BRIAREUS_SCHEDULER_CORE_DEVICE_POOL_H

#include "scheduler/core/device_kind.h"
#include "scheduler/core/policies/pool.h"

struct dp_slot {
    bool used;
    struct br_step_cost cost;
    int64_t resident; /* weights that the worker has said it has; the pool's may be less, if its books are full */
};

struct dp_seq {
    bool used, paused;
    enum br_dev_kv kv; /* as told last */
    bool drop;         /* its KV has to go; to be said at the next decision */
    bool fail;         /* the pool gave it up; the same */
    uint32_t found;    /* tokens found, to be told when the step that it is in is over */
};

struct dev_pool {
    struct br_dev base;
    struct br_dev_config config;
    struct br_pool *pool;
    struct br_pl_actions did;
    struct dp_slot *slots; /* [max_slots] */
    struct dp_seq *seqs;   /* [max_seqs] */
    uint32_t n_seqs, n_paused, n_to_say;
    uint32_t n_found; /* sequences with `found` */
    bool differ;      /* some weights are not as the pool has them */
    double now_s;
    /* the load in flight */
    int32_t loading; /* -1: none of weights */
    double load_s;
    int64_t load_from, load_bytes;
    /* the step that runs: what of it ran */
    uint32_t decodes, prefill;
};

static const double DP_WAKE_S = .1;

extern const struct dev_kind dev_kind_pool;

/* device_pool_told.c: everything but decisions. */
void dp_told(struct dev_pool *d, const struct br_dev_event *event);
void dp_tell(struct dev_pool *d, struct br_pl_event event);
/* The slot's weights as they are; whether the pool could take that over. */
bool dp_resident_tell(struct dev_pool *d, uint32_t slot);
/* What was found of sequences while a step of theirs was under way; to be called when it is over. */
void dp_found_tell(struct dev_pool *d);
/* device_pool_victim.c */
int32_t dp_weights_victim(const struct br_dev *base, uint32_t target);
int32_t dp_kv_victim(const struct br_dev *base, uint32_t target, uint32_t keep);
int32_t dp_next_slot(const struct br_dev *base);

#endif
