/* The policies of a pool of devices: which device gets which sequence, which slot steps at a token boundary and with
 * which rows, what is loaded, who makes room, what moves. Pure: br_pl_step(pool, now, event, actions); no clock, no
 * I/O, no globals, no allocation after br_pl_create.
 *
 * Three drive it:
 *   the simulator     all devices on a virtual clock: br_pl_step, which tells and then lets the touched devices decide;
 *   the worker's half a pool of one device inside br_dev (device_pool.h): br_pl_tell for what happened, br_pl_decide at
 *                     a token boundary or beside a step; `whole_kv`, `live`;
 *   the leader's half a mirror of all devices (`mirror`): br_pl_tell alone, which runs the policy's arrive and tick;
 *                     BR_PL_PROGRESS, BR_PL_RESIDENT and BR_PL_END say what the devices did; no step or load is begun.
 *
 * The pool keeps the books: it is told what happened (events), updates them, asks its policy, and says what to do
 * (actions). A policy (policy.h) sees all of the books below and changes them through pool_books.h alone:
 *   slots      one model on one device: waiting and running sequences, bytes of weights and KV, bytes of them on device
 *   devices    memory in use, the step that runs, the load in flight, held slots (with sequences or resident bytes)
 *   sequences  arrival, tokens to prefill, tokens delivered; the SLO is its model's
 *   cost       a callback: the time of a step
 * Bytes are int64_t, times seconds on any clock that does not go back. */
#ifndef BRIAREUS_SCHEDULER_CORE_POLICIES_POOL_H
#define BRIAREUS_SCHEDULER_CORE_POLICIES_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { BR_PL_MAX_BATCH = 128, BR_PL_MAX_ACTIONS = 2048 };

struct br_pl_model {
    int64_t weights_bytes, kv_token_bytes; /* weights_bytes 0: no such model (yet) */
    double ttft_s, tbt_s;
    double rate;   /* requests/s expected */
    double weight; /* of its sequences that have none of their own; 0 means 1, see br_pl_event */
    bool pinned;   /* its weights are not evicted once they are in */
};

/* A device is a GPU, a group of them (tensor parallel: memory and link of all together), a CPU. */
struct br_pl_hardware {
    int64_t memory_bytes; /* for weights and KV; 0: the device is down until it is set and up */
    double link_bytes_per_s;
    uint32_t node;       /* index < n_nodes, if there are nodes */
    int64_t chunk_bytes; /* of a load; 0: options.chunk_bytes */
};

/* Seconds of one step: `decodes` sequences that read kv_bytes of KV in all, and `prefill` rows of prompt. */
struct br_pl_cost {
    const void *ctx;
    double (*step_s)(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                     uint32_t prefill);
};

/* What serves best of .2 to .95 in the simulator; the reference table was made with .8. */
static const double BR_PL_HYSTERESIS = .35;

struct br_pl_options {
    const char *policy;      /* dedicated, multiplex, request, aegaeon, slack */
    bool shed;               /* drop what has not started by 1.5 TTFT; for comparisons only */
    bool admission;          /* slack: refuse what would overload */
    double hysteresis;       /* slack: H, share of TTFT; .1 to .8: small = low TTFT, large = fewer bytes moved */
    double q_max_s;          /* aegaeon: 4 */
    uint32_t n_prefill;      /* aegaeon: devices that prefill */
    uint32_t per_device;     /* multiplex: models a device at most; 0: as many as fit */
    int64_t chunk_bytes;     /* of a load; 1 GB on a GPU */
    double prefill_step_s;   /* longest chunk of prompt in a step; .3 */
    uint32_t max_batch;      /* sequences that run in a slot; 0: BR_PL_MAX_BATCH, which is the most */
    uint32_t max_step_rows;  /* of a step: decodes and prompts; 0: no limit */
    uint32_t max_chunk_rows; /* of one sequence's prompt in a step; 0: no limit */
    bool switch_every_step;  /* tests: a step of another slot every time, whatever the policy; slots take turns */
    bool whole_kv;        /* KV moves in whole sequences: BR_PL_SWAP_OUT, BR_PL_SWAP_IN instead of EVICT, LOAD of KV */
    uint32_t max_actions; /* no more evictions in a decision beyond these; 0: no limit */
    bool mirror;          /* the leader's half: nothing steps or loads here */
    bool recompute;       /* KV does not travel between devices: what moves is computed again where it goes */
    /* request, to show what the Aegaeon artifact's baseline does to itself; never the default */
    bool no_joining;  /* nobody joins a running batch */
    bool no_draining; /* an idle device takes the oldest request alone, not all of its model */
};

struct br_pl_config {
    uint32_t n_models, n_devices, max_seqs;
    const struct br_pl_model *models;      /* [n_models], copied */
    const struct br_pl_hardware *hardware; /* [n_devices], copied */
    struct br_pl_cost cost;
    struct br_pl_options options;
    uint32_t n_nodes;
    const int64_t *host_bytes; /* [n_nodes]: for copies of the weights of all models that the node's devices serve, and
                                  for KV that is not on a device; 0: no limit. Copied */
    bool closed;               /* devices serve no model before BR_PL_SERVE; else all that fit */
};

struct br_pl_item { /* one sequence's part of a step */
    uint32_t seq, rows;
    bool emits; /* its last row gives a token */
    bool ended; /* set by the caller before BR_PL_STEP_DONE: that token was the last one */
    bool done;  /* BR_PL_STEPPED has come */
};

enum br_pl_event_kind {
    BR_PL_ARRIVE,    /* seq, model, prompt (tokens > 0); may be given: age_s, delivered, left, ttft_s, tbt_s, weight,
                        output; placed and device (decided elsewhere, or adopted), kv, kv_here */
    BR_PL_STEP_DONE, /* device: all items of its step have been done, `ended` is set */
    BR_PL_LOAD_DONE, /* device: the chunk in flight is there */
    BR_PL_CANCEL,    /* seq: ends now, or with its step; answered by BR_PL_GONE */
    BR_PL_TICK,      /* every .25 s: rebalance */

    BR_PL_END,      /* seq: has ended, or is to be forgotten, at once; no answer. Unknown: nothing */
    BR_PL_PAUSE,    /* seq: its deadline clock stands still, it gets no rows; its KV may leave the device */
    BR_PL_RESUME,   /* seq */
    BR_PL_LOST,     /* seq: its KV is lost, it is prefilled again; left: so many tokens (0: prompt + delivered) */
    BR_PL_PROGRESS, /* seq, left, delivered: where it is now; the device did that without a step of this pool */
    BR_PL_KV,       /* seq, kv_here: where its KV really is, on the device or not (whole_kv) */
    BR_PL_STEPPED,  /* seq, rows (may be fewer than asked), emitted: its item of the step that runs is done */
    BR_PL_STEP_END, /* device: the step is over; items not reported by BR_PL_STEPPED or BR_PL_END did not run */
    BR_PL_RESIDENT, /* device, model, bytes: of weights, as they really are; `runs`: it is that device's running model
                     */

    BR_PL_DEVICE_UP,   /* device, with the hardware of br_pl_hardware_set; empty. Of one that drains: it does no more */
    BR_PL_DEVICE_DOWN, /* device: its sequences are QUEUED again without KV and arrive anew; its memory is empty */
    BR_PL_DEVICE_DRAIN, /* device: gets nothing new */
    BR_PL_SERVE,        /* device, model: may run there */
    BR_PL_UNSERVE,      /* device, model: may not; its sequences there arrive anew, its weights are gone */
    BR_PL_MODEL_GONE,   /* model: its sequences end (BR_PL_GONE each), its weights go, its index is free
                           when models[model].weights_bytes is 0 */
};

struct br_pl_event {
    enum br_pl_event_kind kind;
    uint32_t device, seq, model, prompt;
    uint32_t delivered; /* tokens that its client has; they count as prompt when KV is computed anew */
    uint32_t left;      /* tokens to prefill; of ARRIVE 0: prompt + delivered, or none if kv */
    uint32_t known;     /* ARRIVE: KV of so many of these tokens will probably be found: they take no time */
    uint32_t rows;
    uint32_t output;      /* its true length; an oracle, for request-sjf alone */
    double age_s;         /* it arrived so long ago */
    double ttft_s, tbt_s; /* 0: its model's */
    double weight; /* > 0; 0: its model's. It counts as if its TTFT were TTFT / weight (being late is judged by the true
                      one), and comes before lighter ones in its slot */
    bool placed;   /* on `device`, which serves its model; multiplex, dedicated and aegaeon do not heed it */
    bool kv;       /* ARRIVE: it has its KV, of prompt + delivered - left tokens (less one if left is 0) */
    bool kv_here;  /* on the device; else on the host */
    bool kept;     /* ARRIVE: it has been accepted before: admission does not refuse it */
    bool partial;  /* LOAD_DONE: only `bytes` of the chunk came */
    bool emitted, runs;
    bool moving; /* BR_PL_KV: on its way out */
    int64_t bytes;
};

enum br_pl_action_kind {
    BR_PL_ASSIGN, /* seq to device, model's slot */
    BR_PL_REFUSE, /* seq: admission, or too large; it is forgotten */
    BR_PL_DROP,   /* seq: --shed; it is forgotten */
    BR_PL_STEP,   /* device, model: run pool.devices[device].step now, seconds of switch before it */
    BR_PL_LOAD,   /* device, model, bytes: of weights, or of KV (kv = true) */
    BR_PL_EVICT,  /* device, model, bytes: of weights from the tail, or KV to the host; at once */
    BR_PL_GONE,   /* seq: its cancel is done; it is forgotten */

    BR_PL_SWAP_OUT,  /* whole_kv: seq; its room counts as free at once; answered by BR_PL_KV or BR_PL_LOST */
    BR_PL_SWAP_IN,   /* whole_kv: seq; several make one load, which is over when all of them have been answered by
                        BR_PL_KV (kv_here or not), BR_PL_LOST or BR_PL_END */
    BR_PL_RECOMPUTE, /* seq: its KV is dropped, to be computed again */
    BR_PL_UNASSIGN,  /* seq: its device is lost to it and no other takes its model now; it is QUEUED */
};

struct br_pl_action {
    enum br_pl_action_kind kind;
    bool kv;
    uint32_t device, model, seq;
    int64_t bytes;
};

struct br_pl_actions {
    uint32_t n;
    uint32_t lost; /* EVICTs that did not fit; the others always do */
    bool more;     /* full: tell BR_PL_TICK for the rest (after DEVICE_DOWN, UNSERVE, MODEL_GONE) */
    struct br_pl_action list[BR_PL_MAX_ACTIONS];
};

/* The books. Read freely; written by the pool and its policy alone. */
enum br_pl_state { BR_PL_FREE, BR_PL_QUEUED, BR_PL_WAITING, BR_PL_RUNNING };

struct br_pl_list {
    int32_t first, last;
    uint32_t n;
};

/* Where the KV of a sequence is, with whole_kv. Of a WAITING one it is on the host or on its way there. */
enum br_pl_where { BR_PL_HERE, BR_PL_HOST, BR_PL_GOING, BR_PL_COMING };

struct br_pl_seq {
    enum br_pl_state state; /* QUEUED: in its model's queue; WAITING, RUNNING: in that list of its slot */
    bool stepping, cancelled, paused;
    bool unsaid;   /* its KV is to be dropped, and that has not been said yet */
    bool redo;     /* its KV was lost, and no token has come since */
    bool kept;     /* admission does not refuse it */
    bool assigned; /* the caller has been told a device */
    enum br_pl_where where;
    uint32_t model, slot;
    int32_t prev, next;
    uint32_t prompt, left, delivered; /* left: tokens to prefill */
    uint32_t known;                   /* of `left`, < it: will probably be found; 0 once it has begun */
    uint32_t kv;                      /* tokens of KV it has */
    double due_s;                     /* when its next token is due, less its own prefill */
    double urgent_s;                  /* the same with its weight */
    double arrival_s;
    double clock_s; /* arrival and the time it was paused */
    double ttft_s, tbt_s, weight;
    double paused_s;            /* since when */
    double retry_s, retry_in_s; /* whole_kv: its KV found no room; when to ask again, how long to wait then */
    uint32_t output;            /* oracle; 0: unknown */
};

struct br_pl_slot {
    uint32_t device, model;
    struct br_pl_list wait, run; /* by weight, then arrival */
    uint32_t paused;             /* of its sequences */
    uint32_t back;               /* WAITING ones that have KV and are not paused */
    uint32_t away;               /* whole_kv: RUNNING ones whose KV is not here and that are not paused */
    int64_t weights, kv;         /* bytes on the device: all of it when kv == kv_all and weights == the model's */
    int64_t kv_all;              /* bytes of KV of the running sequences */
    int64_t kv_wait;             /* of the waiting ones: on the host */
    int64_t left;                /* tokens to prefill, of all its sequences that are not paused */
    int64_t known;               /* of them, those that will probably be found */
    int32_t held;                /* place in its device's list; -1 */
    bool barred;                 /* may not run there */
    bool served;                 /* not barred, device up, fits beside what is pinned there */
    uint32_t grow;               /* its chunks are 2^grow as large: smaller ones brought nothing */
    int64_t least;               /* bytes of weights that come at once: a load of less brings nothing; 0: any */
    double retry_s;              /* a load of it found no room: none is begun before */
    double blocked_s;            /* it cannot step before: the device had no room for a step that should have had it */
    uint64_t last_step;          /* number of its last step on its device */
    /* cached by pl_key and pl_share while clean */
    bool dirty_key, dirty_share;
    double due_s, expire_s, late_s, share;
};

struct br_pl_running {
    int32_t slot; /* -1: no step runs */
    uint32_t n, decodes, prefill;
    int64_t kv_bytes;
    bool joined;             /* sequences have come to the slot meanwhile, whose KV is on the host */
    bool switched, streamed; /* another slot than the last one; starts before its load is complete */
    double cost_s;           /* without switch */
    uint32_t ran;            /* items done */
    struct br_pl_item items[BR_PL_MAX_BATCH];
};

struct br_pl_link {
    int32_t slot; /* -1: idle */
    int64_t bytes;
    bool kv;
    uint32_t n; /* whole_kv: sequences whose KV is coming */
};

struct br_pl_device {
    struct br_pl_hardware hw;
    bool up, drains;
    bool recheck;    /* a pin took the place of the slot that steps: it goes when the step is over */
    int64_t reserve; /* kept free: the device had less room than the books said; less and less as steps succeed */
    uint64_t n_steps;
    int64_t pinned;           /* weights of pinned models that are there */
    int64_t used;             /* resident and in flight */
    int32_t current, loading; /* slot of the last step or the one chosen; slot whose load has begun; -1 */
    uint32_t n_held;
    uint32_t *held;                   /* slots with sequences or bytes on the device */
    bool touched, dirty_util, listed; /* listed: in pool.dirty */
    struct br_pl_running step;
    struct br_pl_link link;
};

struct br_pl_policy;

struct br_pool {
    struct br_pl_options options;
    struct br_pl_cost cost;
    const struct br_pl_policy *policy;
    uint32_t n_models, n_devices, max_seqs, n_nodes, n_touched;
    bool *to_place; /* [n_models]: its queued sequences have to arrive anew */
    uint32_t n_to_place;
    uint32_t n_leaving; /* models that are going */
    uint64_t n_refused;
    uint32_t n_back; /* of all slots */
    double now_s;
    struct br_pl_model *models;
    struct br_pl_device *devices;
    struct br_pl_slot *slots;  /* [device * n_models + model] */
    struct br_pl_seq *seqs;    /* [max_seqs] */
    struct br_pl_list *queues; /* [n_models]: not assigned to a device */
    uint32_t *touched;         /* [n_devices] */
    int64_t *host_bytes;       /* [n_nodes] */
    bool *leaving;             /* [n_models] */
    /* compact copies for placement, which looks at all devices */
    double *util;     /* [n_devices], cached by pl_util */
    bool *open;       /* [n_devices]: up, and does not drain */
    double *resident; /* [model * n_devices + device]: part of the weights; < 0: takes nothing new */
    uint32_t *dirty;  /* [n_devices]: whose util is not up to date */
    uint32_t n_dirty;
    uint32_t *counts;              /* [model * n_devices + device]: pl_n of the slot */
    void *state;                   /* the policy's own */
    struct br_pl_actions *actions; /* of the event at hand */
};

int br_pl_create(const struct br_pl_config *config, struct br_pool **out, struct br_err *err);
void br_pl_destroy(struct br_pool *pool);
/* br_pl_tell, then br_pl_decide for every device that it touched. A step or load begun is answered by its DONE event;
 * two never overlap on one device. */
void br_pl_step(struct br_pool *pool, double now_s, const struct br_pl_event *event, struct br_pl_actions *actions);
/* Brings the books up to date and places sequences; begins nothing. Fills actions: ASSIGN, UNASSIGN, REFUSE, DROP,
 * GONE, and of moves SWAP_OUT or RECOMPUTE. */
void br_pl_tell(struct br_pool *pool, double now_s, const struct br_pl_event *event, struct br_pl_actions *actions);
/* Fills actions: picks a step unless one runs or `beside`, begins a load unless one is in flight. */
void br_pl_decide(struct br_pool *pool, double now_s, uint32_t device, bool beside, struct br_pl_actions *actions);
/* A model's sizes, SLO, rate, weight and pin; at once for its slots, from then on for its sequences. New sizes:
 * BR_EINVAL while it has sequences (other than in the queue); its weights count as gone. BR_EINVAL for values that
 * cannot be. Tell BR_PL_TICK after it: what waits in its queue is placed. */
int br_pl_model_set(struct br_pool *pool, uint32_t model, const struct br_pl_model *is, struct br_err *err);
/* A device that is down: what it will be when it comes up. BR_EINVAL if it is up. The link's rate alone may be set in
 * br_pl_link_set at any time. */
int br_pl_hardware_set(struct br_pool *pool, uint32_t device, const struct br_pl_hardware *hw, struct br_err *err);
void br_pl_link_set(struct br_pool *pool, uint32_t device, double link_bytes_per_s);
/* What a device loads in pieces that cannot be split: the bytes of the next one of a slot's weights; at any time. */
void br_pl_least_set(struct br_pool *pool, uint32_t device, uint32_t model, int64_t bytes);
/* Requests/s expected of the model; at any time, and nothing else changes. */
void br_pl_rate_set(struct br_pool *pool, uint32_t model, double rate);
/* -1: not assigned (or unknown). */
int32_t br_pl_device_of(const struct br_pool *pool, uint32_t seq);
/* Where a sequence of this model would be assigned now; -1: nowhere, or the policy does not say. */
int32_t br_pl_choose(struct br_pool *pool, uint32_t model, uint32_t prompt);
/* Part of the device that its sequences need, as rebalancing sees it; 1 is full. */
double br_pl_util(struct br_pool *pool, uint32_t device);
/* Seconds until the slot's most urgent token is due; 1e9 without sequences. */
double br_pl_slot_key(struct br_pool *pool, double now_s, uint32_t device, uint32_t model);
/* 0, or BR_ECORRUPT and what is broken. O(everything): for tests. */
int br_pl_check(const struct br_pool *pool, struct br_err *err);
/* Seconds of switch that come before a step that says `switched`. */
double br_pl_switch_s(const struct br_pool *pool);

#endif
