/* The inside of quota-rr, shared by its files: device_rr, device_seq, device_step, device_victim, device_check. */
#ifndef BRIAREUS_SCHEDULER_CORE_DEVICE_BOOKS_H
#define BRIAREUS_SCHEDULER_CORE_DEVICE_BOOKS_H

#include "scheduler/core/device_kind.h"
#include "scheduler/core/ordered.h"
#include "scheduler/core/policy.h"

/* What a sequence can do; it is in the set of its slot for it, oldest first. */
enum dev_class {
    DEV_NEW,    /* to be prefilled, no KV yet */
    DEV_PART,   /* to be prefilled, KV on the device */
    DEV_DECODE, /* KV on the device */
    DEV_HOST,   /* KV on the host */
    DEV_MOVING, /* KV on its way, or lost and its reset not told yet */
    DEV_CLASSES
};

struct dev_slot {
    bool used;
    double step_s, load_s, tbt_s; /* step_s: running estimate */
    uint64_t resident, all;       /* bytes of weights; all = 0: not told yet */
    uint64_t loaded;              /* bytes that came in during this round */
    uint64_t last_step;           /* number of its last step, for least recently used */
    struct ordered sets[DEV_CLASSES];
    uint32_t n_seqs, n_redo; /* n_redo: of them, those with redo set */
    int32_t place;           /* in the work list; -1: has no sequences */
    uint64_t turn_round;     /* round of its last turn */
    double quota_s;
};

struct dev_seq {
    bool used, going_out;
    bool redo; /* its KV was lost, and it has not been prefilled again since */
    uint32_t slot;
    enum dev_class class;
    enum br_dev_kv kv;
    uint32_t left; /* tokens to prefill */
    uint32_t delivered;
    uint64_t asked; /* room number at which SWAP_IN was asked for last; 0: not since it went out */
    uint64_t ahead; /* turn during which SWAP_IN_AHEAD was asked for last */
    double ttft_s, tbt_s;
    struct ordered_key key; /* arrival */
};

/* The work list of quota-rr: slots with sequences, in the order of the round. */
struct dev_round {
    uint32_t *list; /* [max_slots] */
    uint32_t n, at; /* list[at]: whose turn it is, or comes next if not in_turn */
    bool in_turn;
    bool evicted; /* weights went out during this round */
    uint64_t number;
    uint32_t steps, tokens; /* of this turn: steps done, tokens that came out */
    double clock_s;         /* when the turn's quota began */
};

struct dev_rr {
    struct br_dev base;
    struct br_dev_config config;
    const struct dev_policy *policy;
    struct dev_slot *slots;     /* [max_slots] */
    struct dev_seq *seqs;       /* [max_seqs] */
    struct ordered_node *nodes; /* [max_seqs] */
    struct dev_round round;
    int32_t current;  /* slot of the last decision; -1: none */
    int32_t stepping; /* slot whose step runs; -1: none */
    bool cold;        /* that step waits for weights: its time says nothing */
    int32_t stepped;  /* slot of the last step that ran, until the next decision */
    uint32_t n_seqs;
    uint64_t n_arrivals, n_steps, n_turns;
    uint64_t room;        /* grows whenever room for KV may have become free */
    double short_until_s; /* the current slot lost KV to its own need: ask for none back until then */
    double retry_s;       /* when to ask again if nothing can run; < 0: not waiting */
};

static const double DEV_RETRY_S = 0.1, DEV_SHORT_S = 1.0;

static inline uint32_t dev_ready(const struct dev_slot *s)
{
    return s->sets[DEV_NEW].n + s->sets[DEV_PART].n + s->sets[DEV_DECODE].n;
}

/* Share of the weights that is not on the device. */
static inline double dev_missing(const struct dev_slot *s)
{
    return s->all ? 1 - (double)s->resident / (double)s->all : 1;
}

extern const struct dev_kind dev_kind_rr;

/* device_victim.c, device_check.c */
int32_t dev_rr_weights_victim(const struct br_dev *base, uint32_t target);
int32_t dev_rr_kv_victim(const struct br_dev *base, uint32_t target, uint32_t keep);
int dev_rr_check(const struct br_dev *base, struct br_err *err);
/* device_step.c */
void dev_decide(struct dev_rr *dev, double now_s, struct br_dev_actions *actions);
/* device_seq.c: puts the sequence into the set that it belongs to now, or takes it out of all. */
void dev_seq_place(struct dev_rr *dev, uint32_t seq);
void dev_seq_take_out(struct dev_rr *dev, uint32_t seq);
enum dev_class dev_seq_class(const struct dev_seq *q);
void dev_seq_event(struct dev_rr *dev, double now_s, const struct br_dev_event *event);

#endif
