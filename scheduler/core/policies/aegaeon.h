/* The state of `aegaeon`, shared by its prefill and decode halves. Sections and numbers: Aegaeon, SOSP'25. */
#ifndef BRIAREUS_SCHEDULER_CORE_POLICIES_AEGAEON_H
#define BRIAREUS_SCHEDULER_CORE_POLICIES_AEGAEON_H

#include "scheduler/core/policies/pool_books.h"

enum { AEG_GROUP = 8 }; /* MAX_GPSIZE */

/* Algorithm 1: jobs of one model; size is cumulative, executing a job does not lower it. */
struct aeg_group {
    uint32_t model, size, pending;
    int32_t next; /* in its device's queue, or the free list */
};

struct aeg_device {
    int32_t first, last; /* prefill: groups */
    double load_s;       /* prefill: execution and scaling of what is pending */
    uint32_t n, at;      /* decode: work list, whose turn */
    bool in_turn, started;
    double clock_s; /* when the turn's first step began */
};

struct aeg {
    uint32_t n_prefill; /* 0 in the worker's half, whose one device prefills within its turns */
    int32_t free_groups;
    struct aeg_group *groups;   /* [max_seqs] */
    int32_t *group_of;          /* [max_seqs]; -1 */
    struct aeg_device *devices; /* [n_devices] */
    uint32_t *lists;            /* [n_devices][n_models]: slots in the order of the round */
    int32_t *places;            /* [slots]: place in the work list; -1 */
    double *quotas;             /* [slots] */
};

static inline double aeg_scale_s(const struct br_pool *pool, uint32_t device, uint32_t model)
{
    return (double)pool->models[model].weights_bytes / pool->devices[device].hw.link_bytes_per_s + .01;
}

/* aegaeon_prefill.c */
void aeg_prefill_arrive(struct br_pool *pool, uint32_t seq);
void aeg_prefill_pick(struct br_pool *pool, double now_s, uint32_t device);
void aeg_prefill_load(struct br_pool *pool, uint32_t device);
void aeg_prefill_gone(struct br_pool *pool, uint32_t seq);
/* aegaeon_decode.c */
void aeg_decode_take(struct br_pool *pool, uint32_t seq, struct br_pl_slot *s);
void aeg_decode_give(struct br_pool *pool, uint32_t seq);
void aeg_decode_tidy(struct br_pool *pool, uint32_t device);
void aeg_decode_pick(struct br_pool *pool, double now_s, uint32_t device);
void aeg_decode_load(struct br_pool *pool, uint32_t device);

/* Prefetching is off unless this much KV has room beside both models (the artifact's 1024 blocks of 16 tokens). */
enum { AEG_PREFETCH_TOKENS = 1024 * 16 };
bool aeg_prefetches(const struct br_pool *pool, const struct br_pl_slot *running, const struct br_pl_slot *next);

/* Begins the load of s if its chunk fits, of `keep` nothing goes; all but the two goes first. */
void aeg_load(struct br_pool *pool, struct br_pl_slot *s, const struct br_pl_slot *keep);

#endif
