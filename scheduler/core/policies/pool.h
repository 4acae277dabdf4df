/* The policies of a pool of devices: which device gets which sequence, which slot steps at a token boundary and with
 * which rows, what is loaded, who makes room, what moves. Pure: br_pl_step(pool, now, event, actions); no clock, no
 * I/O, no globals, no allocation after br_pl_create. The simulator drives it on a virtual clock.
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

enum { BR_PL_MAX_BATCH = 128, BR_PL_MAX_ACTIONS = 1024 };

struct br_pl_model {
    int64_t weights_bytes, kv_token_bytes;
    double ttft_s, tbt_s;
    double rate; /* requests/s expected */
};

struct br_pl_hardware {
    int64_t memory_bytes; /* for weights and KV */
    double link_bytes_per_s;
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
    const char *policy;    /* dedicated, multiplex, request, aegaeon, slack */
    bool shed;             /* drop what has not started by 1.5 TTFT; for comparisons only */
    bool admission;        /* slack: refuse what would overload */
    double hysteresis;     /* slack: H, share of TTFT; .1 to .8: small = low TTFT, large = fewer bytes moved */
    double q_max_s;        /* aegaeon: 4 */
    uint32_t n_prefill;    /* aegaeon: devices that prefill */
    uint32_t per_device;   /* multiplex: models a device at most; 0: as many as fit */
    int64_t chunk_bytes;   /* of a load; 1 GB on a GPU */
    double prefill_step_s; /* longest chunk of prompt in a step; .3 */
};

struct br_pl_config {
    uint32_t n_models, n_devices, max_seqs;
    const struct br_pl_model *models;      /* [n_models], copied */
    const struct br_pl_hardware *hardware; /* [n_devices], copied */
    struct br_pl_cost cost;
    struct br_pl_options options;
};

struct br_pl_item { /* one sequence's part of a step */
    uint32_t seq, rows;
    bool emits; /* its last row gives a token */
    bool ended; /* set by the caller before BR_PL_STEP_DONE: that token was the last one */
};

enum br_pl_event_kind {
    BR_PL_ARRIVE,    /* seq, model, prompt (tokens > 0); age 0 */
    BR_PL_STEP_DONE, /* device: items of its step have been done, `ended` is set */
    BR_PL_LOAD_DONE, /* device: the chunk in flight is there */
    BR_PL_CANCEL,    /* seq: ends now, or with its step */
    BR_PL_TICK,      /* every .25 s: rebalance */
};

struct br_pl_event {
    enum br_pl_event_kind kind;
    uint32_t device, seq, model, prompt;
};

enum br_pl_action_kind {
    BR_PL_ASSIGN, /* seq to device, model's slot */
    BR_PL_REFUSE, /* seq: admission, or too large */
    BR_PL_DROP,   /* seq: --shed */
    BR_PL_STEP,   /* device, model: run pool.devices[device].step now, seconds of switch before it */
    BR_PL_LOAD,   /* device, model, bytes: of weights, or of KV (kv = true) */
    BR_PL_EVICT,  /* device, model, bytes: of weights from the tail, or KV to the host; at once */
    BR_PL_GONE,   /* seq: its cancel is done */
};

struct br_pl_action {
    enum br_pl_action_kind kind;
    bool kv;
    uint32_t device, model, seq;
    int64_t bytes;
};

struct br_pl_actions {
    uint32_t n;
    uint32_t lost; /* informative actions (ASSIGN, EVICT) that did not fit; the others always do */
    struct br_pl_action list[BR_PL_MAX_ACTIONS];
};

/* The books. Read freely; written by the pool and its policy alone. */
enum br_pl_state { BR_PL_FREE, BR_PL_QUEUED, BR_PL_WAITING, BR_PL_RUNNING };

struct br_pl_list {
    int32_t first, last;
    uint32_t n;
};

struct br_pl_seq {
    enum br_pl_state state; /* QUEUED: in its model's queue; WAITING, RUNNING: in that list of its slot */
    bool stepping, cancelled;
    uint32_t model, slot;
    int32_t prev, next;
    uint32_t prompt, left, delivered; /* left: tokens to prefill */
    uint32_t kv;                      /* tokens of KV it has */
    double arrival_s;
    double due_s; /* when its next token is due, less its own prefill */
};

struct br_pl_slot {
    uint32_t device, model;
    struct br_pl_list wait, run; /* by arrival */
    int64_t weights, kv;         /* bytes on the device: all of it when kv == kv_all and weights == the model's */
    int64_t kv_all;              /* bytes of KV of the running sequences */
    int64_t left;                /* tokens to prefill, of all its sequences */
    int32_t held;                /* place in its device's list; -1 */
    /* cached by pl_key and pl_share while clean */
    bool dirty_key, dirty_share, late;
    double due_s, share;
};

struct br_pl_running {
    int32_t slot; /* -1: no step runs */
    uint32_t n, decodes, prefill;
    int64_t kv_bytes;
    bool switched, streamed; /* another slot than the last one; starts before its load is complete */
    double cost_s;           /* without switch */
    struct br_pl_item items[BR_PL_MAX_BATCH];
};

struct br_pl_link {
    int32_t slot; /* -1: idle */
    int64_t bytes;
    bool kv;
};

struct br_pl_device {
    struct br_pl_hardware hw;
    int64_t used;             /* resident and in flight */
    int32_t current, loading; /* slot of the last step or the one chosen; slot whose load has begun; -1 */
    uint32_t n_held;
    uint32_t *held; /* slots with sequences or bytes on the device */
    bool touched, dirty_util;
    double util; /* cached by pl_util */
    struct br_pl_running step;
    struct br_pl_link link;
};

struct br_pl_policy;

struct br_pool {
    struct br_pl_options options;
    struct br_pl_cost cost;
    const struct br_pl_policy *policy;
    uint32_t n_models, n_devices, max_seqs, n_touched;
    struct br_pl_model *models;
    struct br_pl_device *devices;
    struct br_pl_slot *slots;      /* [device * n_models + model] */
    struct br_pl_seq *seqs;        /* [max_seqs] */
    struct br_pl_list *queues;     /* [n_models]: not assigned to a device */
    uint32_t *touched;             /* [n_devices] */
    void *state;                   /* the policy's own */
    struct br_pl_actions *actions; /* of the event at hand */
};

int br_pl_create(const struct br_pl_config *config, struct br_pool **out, struct br_err *err);
void br_pl_destroy(struct br_pool *pool);
/* Fills actions. A step or load begun is answered by its DONE event; two never overlap on one device. */
void br_pl_step(struct br_pool *pool, double now_s, const struct br_pl_event *event, struct br_pl_actions *actions);
/* 0, or BR_ECORRUPT and what is broken. O(everything): for tests. */
int br_pl_check(const struct br_pool *pool, struct br_err *err);
/* Seconds of switch that come before a step that says `switched`. */
double br_pl_switch_s(const struct br_pool *pool);

#endif
