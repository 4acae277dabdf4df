/* What policies do to the books of a pool. Internal to scheduler/core/policies. */
#ifndef BRIAREUS_SCHEDULER_CORE_POLICIES_POOL_BOOKS_H
#define BRIAREUS_SCHEDULER_CORE_POLICIES_POOL_BOOKS_H

#include "scheduler/core/policies/policy.h"

enum { PL_HEADROOM = 300 }; /* tokens that a sequence may grow by before it is in the way */

static inline struct br_pl_slot *pl_slot(const struct br_pool *pool, uint32_t device, uint32_t model)
{
    return &pool->slots[(size_t)device * pool->n_models + model];
}

static inline uint32_t pl_index(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return (uint32_t)(s - pool->slots);
}

/* Sequences that want rows; paused ones do not. */
static inline uint32_t pl_n(const struct br_pl_slot *s)
{
    return s->wait.n + s->run.n - s->paused;
}

static inline bool pl_empty(const struct br_pl_slot *s)
{
    return s->wait.n + s->run.n == 0;
}

static inline const struct br_pl_model *pl_model(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return &pool->models[s->model];
}

static inline int64_t pl_miss(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return pl_model(pool, s)->weights_bytes + s->kv_all - s->weights - s->kv;
}

static inline int64_t pl_free(const struct br_pl_device *d)
{
    return d->hw.memory_bytes - d->used - d->reserve;
}

static inline int64_t pl_evictable(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return (pl_model(pool, s)->pinned ? 0 : s->weights) + s->kv;
}

/* Can step now. With whole_kv it steps with those sequences whose KV is here. */
static inline bool pl_ready(const struct br_pool *pool, const struct br_pl_slot *s)
{
    if (s->blocked_s > pool->now_s)
        return false;
    if (!pool->options.whole_kv)
        return pl_n(s) > 0 && pl_miss(pool, s) == 0;
    return pl_n(s) > s->back + s->away && s->weights == pl_model(pool, s)->weights_bytes;
}

/* New sequences may come to the slot. */
static inline bool pl_takes(const struct br_pool *pool, uint32_t device, uint32_t model)
{
    return pool->resident[(size_t)model * pool->n_devices + device] >= 0;
}

/* Seconds to prefill this many tokens alone. */
double pl_prefill_s(const struct br_pool *pool, uint32_t device, uint32_t model, uint32_t tokens);
/* Seconds of a decode step of all the slot's sequences. */
double pl_decode_s(const struct br_pool *pool, const struct br_pl_slot *s);
double pl_load_s(const struct br_pool *pool, const struct br_pl_slot *s); /* of what is missing */

/* The device had no room where the books had some (blocks that are rounded up, holes): keep more free from now on. */
void pl_room_lacked(struct br_pl_device *d);

/* Asked after pick: nothing runs, and nothing could. Whoever is first must come in. */
bool pl_stuck(const struct br_pool *pool, const struct br_pl_device *d);

/* Lists by arrival. */
void pl_insert(struct br_pool *pool, struct br_pl_list *list, uint32_t seq);
void pl_unlink(struct br_pool *pool, struct br_pl_list *list, uint32_t seq);

/* The device is asked to pick and to load after this event. */
void pl_touch(struct br_pool *pool, uint32_t device);
/* QUEUED, or of another slot: to the slot's waiting list. KV it has stays on the host until it runs. */
void pl_assign(struct br_pool *pool, uint32_t seq, struct br_pl_slot *s);
/* WAITING -> RUNNING: its KV belongs to the slot from now on. */
void pl_admit(struct br_pool *pool, uint32_t seq);
/* All sequences of a slot that no step runs, to another device's slot of the model; their KV goes through the host. */
void pl_move(struct br_pool *pool, struct br_pl_slot *from, struct br_pl_slot *to);
/* RUNNING -> WAITING, its KV lost: it will be prefilled again. */
void pl_preempt(struct br_pool *pool, uint32_t seq);
/* RUNNING -> WAITING, its KV going to the host, or lost if that is full. Not of one that steps. */
void pl_demote(struct br_pool *pool, uint32_t seq);
/* To its model's queue, without KV; it arrives anew when places are looked for. Not of one that steps. */
void pl_requeue(struct br_pool *pool, uint32_t seq);
/* WAITING ones whose KV is on the host: RUNNING again while there is room for them. */
void pl_readmit(struct br_pool *pool, uint32_t device);
/* Frees up to so many bytes of the device by KV that goes out, whole sequences, paused and then young ones first. */
int64_t pl_swap_out(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes);
/* The same of paused ones alone; nothing without whole_kv. */
int64_t pl_swap_paused(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes);
/* Room for KV on the host of the device's node. */
int64_t pl_host_free(const struct br_pool *pool, uint32_t device);
/* Ends a sequence that no step runs. */
void pl_end(struct br_pool *pool, uint32_t seq, enum br_pl_action_kind why);
/* Drops waiting sequences that have not started by 1.5 TTFT, of this list. */
void pl_shed(struct br_pool *pool, double now_s, struct br_pl_list *list);

/* Takes up to `bytes` from the device: weights' tail, then KV to the host. Returns what it freed; 0 when the list of
 * actions is full (options.max_actions). */
int64_t pl_evict(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes);
/* Begins the next chunk of the slot's load; there must be one (pl_chunk > 0) and room for it. */
void pl_load(struct br_pool *pool, struct br_pl_slot *s);
/* Its size; 0: nothing is missing, or it cannot be asked for now. */
int64_t pl_chunk(const struct br_pool *pool, const struct br_pl_slot *s);

struct pl_limits {
    uint32_t prefill; /* rows of prompt */
    bool late;        /* late sequences too may be prefilled */
    int64_t memory;   /* of the slot: W + KV + a new prompt + PL_HEADROOM tokens have to fit */
    bool closed;      /* admits nobody */
};

/* Composes the slot's step: all decodes and prompt chunks within the limits, on-time sequences first, by arrival;
 * admits. Nothing is begun; 0: nothing to run. */
uint32_t pl_compose(struct br_pool *pool, double now_s, struct br_pl_slot *s, const struct pl_limits *limits);
/* The slot has room for one more prompt within this memory, after all that it has got. */
bool pl_room(const struct br_pool *pool, const struct br_pl_slot *s, uint32_t prompt, int64_t memory);
/* Composes, and preempts the youngest until the growth fits into what is free; a sequence too large for the whole
 * device is refused. 0: nothing to run. */
uint32_t pl_compose_fit(struct br_pool *pool, double now_s, struct br_pl_slot *s, struct pl_limits limits);
/* Bytes of KV by which the composed step grows the slot. */
int64_t pl_growth(const struct br_pool *pool, const struct br_pl_slot *s);
/* Begins the composed step; the growth must fit. */
void pl_begin(struct br_pool *pool, struct br_pl_slot *s, bool streamed);
/* A sequence of the slot computes lost KV again and has had no token since. Were its turn cut short, the others could
 * make it lose that KV again, and so on for ever. */
bool pl_redoes(const struct br_pool *pool, const struct br_pl_slot *s);
/* Rows of prompt that take this long. */
uint32_t pl_rows(const struct br_pool *pool, const struct br_pl_slot *s, double seconds);

/* Seconds until the slot's most urgent token is due; late sequences count as TTFT; INFINITY-like without sequences. */
double pl_key(const struct br_pool *pool, struct br_pl_slot *s, double now_s);
/* When its next token is due, of a sequence that has a slot. */
void pl_due(const struct br_pool *pool, struct br_pl_seq *q, uint32_t device);
/* Part of the device that the slot needs. */
double pl_share(const struct br_pool *pool, struct br_pl_slot *s);
/* Sum of the shares of a device's slots. */
double pl_util(struct br_pool *pool, uint32_t device);
void pl_utils(struct br_pool *pool); /* all of pool->util up to date */
/* The slot's sequences or KV have changed. */
void pl_dirty(struct br_pool *pool, struct br_pl_slot *s);

void pl_say(struct br_pool *pool, struct br_pl_action action);

/* options.switch_every_step, in the place of the policy's pick and load. */
void pl_turn_pick(struct br_pool *pool, uint32_t device);
void pl_turn_load(struct br_pool *pool, uint32_t device);

static const double PL_RETRY_S = .1;
static const double PL_NEVER = 1e9;

#endif
