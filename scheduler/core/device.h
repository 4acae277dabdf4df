/* The half of the scheduler that runs beside the hardware: at every token boundary it picks the slot to run, the step's
 * rows, and the slot to load next; it chooses victims. Pure: time and events in, actions out; no clock, no I/O, no
 * globals, no allocation after br_dev_create. The worker and the simulator drive the same code.
 *
 * Behind it stands either a pool of one device (device_pool.h) with a policy of policies/, the same code that the
 * simulator runs, or `quota-rr` with books of its own: Aegaeon's weighted round robin (section 4.3, Algorithm 2): q_i =
 * c / (n_i (alpha - sum 1/n_k)), with the guards c = 0, one batch, and q_i >= one step. */
#ifndef BRIAREUS_SCHEDULER_CORE_DEVICE_H
#define BRIAREUS_SCHEDULER_CORE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "scheduler/core/step_cost.h"

struct br_dev;

struct br_dev_config {
    const char *policy;      /* "slack" (or another of policies/policy.h) or "quota-rr" */
    int64_t memory_bytes;    /* for weights and KV together. This and the next three: not for quota-rr */
    double link_bytes_per_s; /* host to device */
    int64_t chunk_bytes;     /* of a load; 0: what the link carries in 20 ms */
    double hysteresis;       /* H, share of TTFT; 0: BR_PL_HYSTERESIS */
    uint32_t max_slots, max_seqs;
    uint32_t max_batch;       /* sequences in one step */
    uint32_t max_step_tokens; /* rows in one step: decodes first, the rest for prompt chunks */
    uint32_t prefill_chunk;   /* longest chunk of one sequence in a step */
    double quota_max_s;       /* Q_MAX, 4 s */
    bool switch_every_step;   /* tests: another slot after every step that runs */
};

enum br_dev_event_kind {
    BR_DEV_SLOT_ADD,    /* slot, step_s, load_s, ttft_s, tbt_s, rate, bytes_all = its weights, kv_token_bytes, shape:
                           a model that this device may run; of a known slot: its SLO, rate and pin change */
    BR_DEV_SLOT_REMOVE, /* slot: its sequences have ended before */
    BR_DEV_SEQ_ADD,     /* slot, seq, tokens = prompt (and resumed) tokens to prefill, known = of these, ttft_s, tbt_s,
                           age_s, delivered */
    BR_DEV_SEQ_END,     /* seq: finished, cancelled or failed */
    BR_DEV_SEQ_RESET,   /* seq: its KV is lost; tokens = tokens to prefill again */
    BR_DEV_STEP_DONE,   /* slot, step_s = how long it took */
    BR_DEV_SEQ_STEPPED, /* seq, tokens = rows of it that the step ran; `emitted` tokens came out (0 or 1) */
    BR_DEV_SEQ_FOUND,   /* seq, tokens: KV of so many of its tokens, of which it had none, is on the device, and no step
                           computed it */
    BR_DEV_WEIGHTS,     /* slot, bytes resident, bytes in all, bytes_next: after loads and evictions */
    BR_DEV_KV,          /* seq, kv: where its KV is now */
    BR_DEV_LOADED,      /* slot: what BR_DO_LOAD with bytes asked for is there, or as much of it as found room */
    BR_DEV_SEQ_PAUSE,   /* seq: its reader is slow; its deadline clock stands still and it gets no rows */
    BR_DEV_SEQ_RESUME,  /* seq */
    BR_DEV_BOUNDARY,    /* no step is running: decide */
    BR_DEV_BESIDE,      /* a step is running, something else has changed: decide about loads, swaps and room alone */
};

enum br_dev_kv { BR_DEV_KV_NONE, BR_DEV_KV_ON_DEVICE, BR_DEV_KV_ON_HOST, BR_DEV_KV_MOVING };

struct br_dev_event {
    enum br_dev_event_kind kind;
    uint32_t slot; /* index < max_slots, chosen by the caller */
    uint32_t seq;  /* index < max_seqs, chosen by the caller */
    uint32_t tokens, emitted, delivered;
    uint32_t known; /* SEQ_ADD: KV of so many of its tokens is known now, and will probably be found */
    double step_s, load_s, ttft_s, tbt_s, age_s;
    double rate;   /* of a model: requests/s expected; 0: unknown */
    double weight; /* of a sequence or model: > 0, 1 is usual; 0 means 1. Its lateness counts so much */
    bool pinned;   /* of a slot: its weights stay once they are there */
    bool waited;   /* STEP_DONE: it waited for weights or KV; its time says nothing about its cost */
    uint64_t bytes, bytes_all, kv_token_bytes;
    uint64_t bytes_next; /* WEIGHTS: of the unit that a load brings next; 0: unknown, or all are there */
    struct br_step_shape shape;
    enum br_dev_kv kv;
};

enum br_dev_action_kind {
    BR_DO_STEP,          /* slot: run the items of actions.items now */
    BR_DO_LOAD,          /* slot: have its weights come in, in order of the actions; the first may be needed at once.
                            bytes > 0: so much of what is missing, in unit order, into room that is free or becomes
                            free by the evictions and swaps out before it; answered by BR_DEV_WEIGHTS, BR_DEV_LOADED */
    BR_DO_EVICT,         /* slot: bytes at least of its weights, from the tail; answered by BR_DEV_WEIGHTS */
    BR_DO_DROP,          /* seq: its KV goes and will be computed again; answered by BR_DEV_SEQ_RESET */
    BR_DO_SWAP_IN,       /* seq */
    BR_DO_SWAP_IN_AHEAD, /* seq of the next slot, while this one computes: only into room that is free; needs no answer
                          */
    BR_DO_SWAP_OUT,      /* seq */
    BR_DO_FAIL,          /* seq: alone it is too large for the device beside its weights; answered by BR_DEV_SEQ_END */
};

struct br_dev_action {
    enum br_dev_action_kind kind;
    uint32_t slot, seq;
    uint64_t bytes;
};

struct br_dev_item {
    uint32_t seq, tokens; /* rows to run: a chunk of prompt, or 1 */
    bool last;            /* the last row's logits give a token */
};

enum { BR_DEV_MAX_ACTIONS = 512, BR_DEV_MAX_ITEMS = 256 };

struct br_dev_actions {
    uint32_t n_actions, n_items;
    struct br_dev_action actions[BR_DEV_MAX_ACTIONS];
    struct br_dev_item items[BR_DEV_MAX_ITEMS]; /* of the one BR_DO_STEP */
    double wake_s;                              /* decide again at this time even if nothing happens; < 0: no need */
};

int br_dev_create(const struct br_dev_config *config, struct br_dev **out, struct br_err *err);
void br_dev_destroy(struct br_dev *dev);

/* now in seconds on any clock that does not go back. Only BR_DEV_BOUNDARY and BR_DEV_BESIDE fill actions; others leave
 * them empty. A slot steps with those of its sequences whose KV is on the device (or that have none yet); for those on
 * the host it asks for BR_DO_SWAP_IN and starts with the ones that are in.
 *
 * Order of the actions: what makes room (evictions, drops, swaps out), swaps in, loads, the step, swaps ahead. Without
 * a step, decide again after the next event or at wake_s; wake_s may come with a step too: then BR_DEV_BESIDE. A swap
 * started is told by BR_DEV_KV with BR_DEV_KV_MOVING, before the next decision; its end by where the KV is then. A
 * swap-in that has no room is left (no event, or BR_DEV_KV_ON_HOST): it is asked for again when room may have become
 * free, so one asked for twice is one. A BR_DO_SWAP_OUT is always answered by a BR_DEV_KV (ON_DEVICE: not now) or a
 * BR_DEV_SEQ_RESET, a BR_DO_LOAD with bytes always by a BR_DEV_LOADED, whatever came: whole units, one at least where
 * there is room; one that brought nothing is asked for again a little later, and for more. BR_DO_LOAD without bytes
 * right before the step of its slot: the step begins before its weights are in and needs all of them; room for them has
 * been made. A BR_DO_DROP of KV that moves is answered when the move is over. A step sent without all of its items (no
 * room for their KV) is reported as it ran; if nothing of it can run, decide again (BR_DEV_BOUNDARY) after the next
 * event or at wake_s. BR_DEV_SEQ_STEPPED says too that the KV is on the device; BR_DEV_STEP_DONE follows it. */
void br_dev_step(struct br_dev *dev, double now_s, const struct br_dev_event *event, struct br_dev_actions *actions);

/* Victims on a shortage, planned or not. -1: none.
 * Weights: the slot whose weights are needed latest, never `target` nor the slot whose step runs. KV: the sequence
 * whose slot's turn comes latest, with its KV on the device, never of `target`; if none is left of other slots, the
 * youngest of target itself that is not `keep` - but if the KV of keep is not on the device, only one younger than
 * keep. -1 then means that keep has to wait: its slot's older sequences go on, and end. */
int32_t br_dev_weights_victim(const struct br_dev *dev, uint32_t target);
int32_t br_dev_kv_victim(const struct br_dev *dev, uint32_t target, uint32_t keep);

/* The slot that will run after the present one, to be prefetched; -1: none. */
int32_t br_dev_next_slot(const struct br_dev *dev);
double br_dev_quota_s(const struct br_dev *dev, uint32_t slot); /* quota-rr: of the present round; else 0 */

/* What a step of the slot costs, as corrected by what steps took; false: not known (quota-rr, no such slot). */
bool br_dev_shape(const struct br_dev *dev, uint32_t slot, struct br_step_shape *shape);

/* 0 or BR_ECORRUPT: every sequence in one list, counters right. */
int br_dev_check(const struct br_dev *dev, struct br_err *err);

#endif
