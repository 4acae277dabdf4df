/* Carries out, on one device, what scheduler/core/device decides: weights in, KV in, step, tokens out, KV out.
 *
 * One thread owns the device, the engine, the KV books, the weights' residency and the policy's state. Commands come
 * through a bounded queue and take effect between two steps; tokens leave through a callback on that thread. */
#ifndef BRIAREUS_WORKER_TURN_TURN_H
#define BRIAREUS_WORKER_TURN_TURN_H

#include "proto/order.h"
#include "proto/seq.h"
#include "report/trace.h"
#include "scheduler/core/step_cost.h"
#include "text/tokenizer.h"
#include "worker/device/device.h"
#include "worker/turn/parcels.h"
#include "worker/weights/image.h"

struct br_turn;

struct br_turn_config {
    struct br_device_config device;
    uint64_t kv_bytes;        /* quota-rr: KV takes no more of the device's memory; 0: whatever weights leave */
    uint64_t host_kv_bytes;   /* host memory that KV is swapped out to */
    uint64_t slab_bytes;      /* KV is taken in pieces of this size; 0: chosen from the models' block sizes */
    uint32_t max_seqs;        /* sequences on this device, waiting ones included */
    uint32_t max_batch;       /* sequences in one step, at most BR_DEV_MAX_ITEMS */
    uint32_t prefill_chunk;   /* longest piece of a prompt in one step */
    uint32_t max_step_tokens; /* rows of one step; 0: prefill_chunk + max_batch */
    uint32_t max_context;     /* positions of one sequence, if the model has as many */
    const char *policy;       /* "slack", "quota-rr" */
    double quota_max_s;       /* of quota-rr */
    double hysteresis;        /* of slack; 0: its default */
    const char *kv_disk_path; /* a file that KV goes to which the host has no room for; */
    uint64_t kv_disk_bytes, kv_disk_offset; /* this device's part of it; 0 bytes: none */
    bool prefix_cache;                      /* what is known of a prompt's beginning is not computed again */
    uint64_t chunk_bytes;                   /* of a load, of slack; 0: what the link carries in 20 ms */
    struct br_parcels *parcels; /* borrowed: KV to and from other devices of the node; NULL: there are none */
    /* Tests and kinds of devices: makes the device; NULL: the CPU. */
    int (*device_create)(const struct br_device_config *config, struct br_device **out, struct br_err *err);
    struct br_trace *trace; /* borrowed: what the device does, as group trace_group of it; NULL: nobody looks */
    uint32_t trace_group;
    bool switch_every_step; /* tests: another slot after every step */
    bool no_profile;        /* tests: estimate costs, measure nothing */
    bool check;             /* tests: all books' invariants at every boundary; abort when one is broken */
};

void br_turn_config_init(struct br_turn_config *config);

/* All borrowed until br_turn_destroy. image NULL: the model is not served and error says why. tokenizer may be NULL;
 * sequences with stop strings are then refused. */
struct br_turn_model {
    const char *name;
    const struct br_weight_image *image;
    const struct br_tokenizer *tokenizer;
    const char *error;
};

struct br_turn_model_info {
    char name[BR_MAX_MODEL_NAME];
    uint64_t weight_bytes, kv_block_bytes;
    uint64_t kv_token_bytes; /* as the policy plans: a block's share of a slab, by token */
    uint32_t max_context;    /* what model, configuration and KV region allow */
    uint32_t vocab;
    double step_s, load_s;      /* decode step of batch 1; whole weights over the link */
    struct br_step_shape shape; /* of any step; measured or estimated at the start */
    char error[512];            /* why it is not served here; empty if it is */
};

/* Tokens [first, first + n) of a sequence, or its end, or both. A sequence that is over gets no further calls. */
struct br_turn_output {
    uint64_t seq, fence;
    uint32_t first, n;
    uint32_t cached;               /* tokens of its prompt that were known here when it began */
    const struct br_token *tokens; /* valid during the call */
    enum br_end end;
    const char *error; /* with BR_END_FAILED */
    double queued_s;   /* with the first token from here: from its arrival to its first step; else 0 */
};

/* An order (see br_turn_order) has been carried out, or not. */
struct br_turn_done {
    uint64_t ticket;
    uint64_t device_bytes, host_bytes; /* free now that were not before */
    int rc;                            /* 0, or why not: BR_EBUSY: it may be tried again later */
    const char *error;                 /* with rc; valid during the call */
};

/* What was done for a sequence whose spec has a traceparent. A turn: steps with none of another slot between. */
enum br_turn_moment_kind { BR_TURN_MOMENT_TURN, BR_TURN_MOMENT_SWAP_OUT, BR_TURN_MOMENT_SWAP_IN };
struct br_turn_moment {
    enum br_turn_moment_kind kind;
    uint64_t seq;
    int64_t begin_ns, end_ns; /* monotonic */
    uint32_t steps, rows;     /* of a turn */
    uint64_t bytes;           /* of KV that was moved */
};

struct br_turn_cb {
    void *ctx;
    void (*output)(void *ctx, const struct br_turn_output *output); /* must not block nor call br_turn_* */
    void (*drained)(void *ctx);                                     /* after br_turn_drain: nothing is left */
    void (*done)(void *ctx, const struct br_turn_done *done);       /* as output; may be NULL: no orders are given */
    /* As output, and before the sequence's end; may be NULL: nobody traces. */
    void (*moment)(void *ctx, const struct br_turn_moment *moment);
};

/* Builds everything, measures the models' costs and starts the thread. A model that cannot be served gets an error in
 * its info and others go on; fails only when nothing can work (device, memory, configuration). */
int br_turn_create(const struct br_turn_config *config, const struct br_turn_model *models, uint32_t n_models,
                   const struct br_turn_cb *cb, struct br_turn **out, struct br_err *err);
/* Stops after the running step; unfinished sequences get no further calls. */
void br_turn_destroy(struct br_turn *turn);

const struct br_turn_model_info *br_turn_model_info(const struct br_turn *turn, uint32_t model);
const struct br_device *br_turn_device(const struct br_turn *turn); /* read only: numeric profile, config */

/* Commands, from any thread. They block while the queue is full (at most one step). */

/* Takes spec (it is empty afterwards). ids: output tokens so far, n of them; generation goes on behind them, and in
 * exact mode gives what it would have given. A sequence that is here already keeps its state and takes the fence if it
 * is newer. Whatever is wrong with it comes as an output with BR_END_FAILED. */
void br_turn_add(struct br_turn *turn, struct br_seq_spec *spec, uint64_t fence, const int32_t *ids, uint32_t n,
                 double age_s);
/* The same of a sequence that another device of this node hands over: its KV is taken from there if it comes. */
void br_turn_add_from(struct br_turn *turn, struct br_seq_spec *spec, uint64_t fence, const int32_t *ids, uint32_t n,
                      double age_s, uint32_t device);
/* Ends the sequence with BR_END_CANCELLED, within one step; ignored when fence is older than the sequence's. */
void br_turn_cancel(struct br_turn *turn, uint64_t seq, uint64_t fence);
/* Like cancel, whatever the fence, and without an output: nobody wants it any more. */
void br_turn_forget(struct br_turn *turn, uint64_t seq);
/* The same, and its KV goes to the node's parcels, for the device that it goes on on. */
void br_turn_hand_over(struct br_turn *turn, uint64_t seq);
void br_turn_adopt(struct br_turn *turn, uint64_t seq, uint64_t fence);
/* Its reader is slow: its deadline clock stands still and it gets no rows, until it is resumed. Ignored when the fence
 * is older than the sequence's, or the sequence is not here. */
void br_turn_pause(struct br_turn *turn, uint64_t seq, uint64_t fence);
void br_turn_resume(struct br_turn *turn, uint64_t seq, uint64_t fence);

/* What the scheduler knows of a model: see ModelTerms in worker.proto. ttft_s, tbt_s <= 0: the default. */
struct br_turn_terms {
    double ttft_s, tbt_s, weight, rate;
    bool pinned;
};
void br_turn_set_terms(struct br_turn *turn, uint32_t model, const struct br_turn_terms *terms);

/* What is to be done about a model's weights, beside what the policy decides; answered by `done`, in any order. A load
 * is over when the weights are there; it takes room that is free, or that models without sequences have, and gives up
 * (BR_EBUSY) when there is none for a while. An unload is over when the bytes are free; BR_EBUSY while the model has
 * sequences here; BR_EINVAL of a pinned one. Unloaded weights come back when a sequence needs them. */
struct br_turn_order {
    uint64_t ticket;
    enum br_model_order_what what;
    uint32_t model;
    enum br_model_host host;
    const struct br_turn_model *add; /* add: to a place of br_turn_create's models that has no image; borrowed from then
                                        on until it is removed, which frees the place */
};
void br_turn_order(struct br_turn *turn, const struct br_turn_order *order);

/* New sequences are refused from now on; drained is called when the last one has ended. */
void br_turn_drain(struct br_turn *turn);

struct br_turn_slot_stats {
    uint32_t waiting, running; /* without and with a first token from here */
    uint64_t resident_bytes;
    bool stepping, loading; /* its step runs; weights of it are on their way */
    double compute_s;
    struct br_step_shape shape; /* of its steps, as corrected by those that ran; 0: not known */
};

/* Sums since the start. stalled_s: there was work and nothing was computed; what a step waited for its own weights is
 * told from how long such steps take with all weights there. Of it, by the first cause that held: weights were on their
 * way; KV or weights were moved within the device; KV came in; something waited for others' KV to make room; none of
 * these (sequences that have paused, or that the policy holds back). */
struct br_turn_stats {
    uint64_t steps, switches, rows, tokens;
    uint64_t switch_hits; /* switches to a slot whose weights were all there */
    uint64_t loaded_bytes, evicted_bytes, moved_bytes, kv_out_bytes, kv_in_bytes, kv_moved_bytes;
    uint64_t swaps_out, swaps_in, swaps_ahead, drops; /* of sequences' KV: ahead of their turn; recomputed */
    uint32_t compactions, slides; /* of weights, moved within the device: out of a window; to close gaps */
    uint32_t shortages;           /* how often what the policy had planned found no room, and victims were asked for */
    uint64_t kv_disk_out_bytes, kv_disk_in_bytes;
    uint64_t kv_disk_failures, kv_disk_damaged; /* moves; of them for a wrong checksum */
    uint64_t prefixes_in;                       /* that were found on the host and came in */
    uint64_t prompt_tokens, cached_tokens;      /* to prefill, of all sequences; of which a known prefix had */
    uint64_t handed_out_bytes, handed_in_bytes, handed_tokens; /* of KV, to and from other devices of the node */
    uint64_t handed_damaged;                                   /* found by a checksum, and computed again */
    double handed_in_s;
    double compute_s, stalled_s, wall_s;
    double stalled_weights_s, stalled_compaction_s, stalled_kv_s, stalled_room_s, stalled_other_s;
    double load_s, kv_in_s, kv_out_s; /* while at least one was under way; loads: of policies that plan memory */
    double kv_moved_s;
    uint64_t weight_bytes, device_kv_bytes, host_kv_bytes; /* now */
    double link_bytes_per_s;                               /* host to device, configured or measured at the start */
};

/* As of the last boundary. slots: [n_models], may be NULL. */
void br_turn_stats(struct br_turn *turn, struct br_turn_stats *out, struct br_turn_slot_stats *slots);

#endif
