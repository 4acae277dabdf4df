/* What the files of this folder share: the turn's state. Everything but the inbox and the published statistics belongs
 * to the turn thread. */
#ifndef BRIAREUS_WORKER_TURN_INTERNAL_H
#define BRIAREUS_WORKER_TURN_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "kvcache/prefix.h"
#include "scheduler/core/device.h"
#include "worker/engine/engine.h"
#include "worker/sampler/sampler.h"
#include "worker/turn/inbox.h"
#include "worker/turn/kv_disk.h"
#include "worker/turn/residency.h"
#include "worker/turn/turn.h"

enum {
    TURN_MAX_SWAPS = 256,  /* under way at once */
    TURN_ROW_BUCKETS = 20, /* step times are kept by log2 of a step's rows */
    TURN_MAX_LOADS = 64,   /* asked for and not there yet */
    TURN_MAX_OUTS = 64,
    TURN_MAX_FRUITLESS = 11,
    TURN_MAX_DISK_MOVES = 16,
    TURN_LEAST_TOKENS = 300, /* of KV beside a model's weights: what the policies keep free for growth */
    TURN_SPARE_UNITS = 128,  /* of a model that may be added */
    TURN_MAX_ORDERS = 64,    /* about models, not carried out yet */
    TURN_MAX_MOVES = 256,    /* KV blocks moved within the device at a time */
    TURN_POLL_NS = 50000,    /* how often events are looked at on a device that cannot notify */
};
/* With work and nothing under way, the decision is made anew after that long at the latest. */
static const int64_t TURN_GUARD_NS = 100 * BR_NS_PER_MS;

/* What an order waits for is looked at this often when nothing else happens. */
static const int64_t TURN_ORDER_NS = 5 * BR_NS_PER_MS;

struct turn_model {
    struct br_turn_model_info info;
    struct br_turn_terms terms;
    const struct br_weight_image *image;
    const struct br_tokenizer *tokenizer;
    struct br_engine_model *engine; /* owned; NULL: not served */
    struct br_sampler *sampler;     /* owned by the first model with this vocabulary */
    uint32_t kv_shape, max_positions;
    uint64_t number;                 /* of this model as it was added: no other one has had it */
    uint64_t kv_blocks_most;         /* of one sequence alone on the device */
    double step_s[TURN_ROW_BUCKETS]; /* with all weights there; 0: not seen yet */
    double compute_s;
};

struct turn_seq {
    uint64_t id, fence; /* id 0: the entry is free */
    struct br_seq_spec spec;
    uint32_t slot;
    int32_t kv;          /* handle in the books */
    int32_t *ids;        /* owned: prompt, then output */
    uint32_t n_ids, cap; /* cap: the longest it can become */
    uint32_t n_kv;       /* ids whose KV is computed */
    uint32_t n_given;    /* output tokens that came with it */
    br_devptr *blocks;   /* owned: block table; the first n_blocks are right */
    uint32_t n_blocks;
    struct br_kv_key *keys;            /* owned: of its first n_keys full blocks */
    uint32_t n_keys, n_known;          /* n_known: blocks that others can share */
    uint32_t n_cached;                 /* tokens that it had not to compute when it began */
    uint64_t out_stamp;                /* the later its KV came to the host, the larger */
    bool began;                        /* a step of it has run */
    struct br_end_watch *watch;        /* owned */
    int64_t arrival_ns, first_step_ns; /* first_step: 0: none yet */
    bool paused;
    struct br_turn_moment turn; /* under way, of a traced one; no steps: none is */
    uint64_t turn_switches;     /* stats.switches at its last step */
    bool in_step;               /* picked for the step being built or running */
    bool wants_in;              /* a swap-in that waits for room which is coming */
    bool wants_out;             /* a swap-out that waits for copies under way */
    bool cancelled;             /* ends at the next boundary */
    bool forgotten;             /* ... without an output */
    int32_t hand_place;         /* of its parcel + 1: it is handed over when it ends; 0: it is not */
    uint32_t hand_from;         /* the device that hands it over + 1; 0: none */
    int64_t hand_until_ns;      /* when that has to have said something */
    bool hand_waits;            /* it has not yet */
    uint32_t n_handed;          /* tokens that came so, and that the core has not heard of */
};

struct turn_swap {
    struct br_event *done; /* owned; in the pool while unused */
    int32_t ticket;
    uint64_t seq; /* id of the sequence, which may be gone meanwhile */
    uint32_t index;
    uint64_t bytes;
    int64_t from_ns;
    uint32_t slot;
    uint64_t room; /* bytes that it frees on the device at most */
    bool out;
    bool found; /* what comes in is a prefix that was found on the host */
};

/* KV of a sequence on its way to or from the disk. */
struct turn_disk_move {
    bool on;
    int32_t ticket;
    uint64_t seq;
    uint32_t index;
    uint64_t room; /* bytes that it frees on the host at most */
    struct kv_disk_job job;
};

/* A BR_DO_LOAD with bytes: held until there is room, then on its way. The first of the list is the oldest. */
struct turn_load {
    uint32_t slot, mark; /* mark: br_residency_mark when it was enqueued */
    uint64_t bytes;
    uint64_t step; /* how many there had been when it was asked for */
    bool flying;
    int64_t from_ns; /* since when */
    uint64_t moving_bytes;
};

/* What a trace needs to remember. */
struct turn_trace {
    int64_t copied_ns[5];               /* by row: end of its last copy */
    int64_t stall_from_ns, stall_to_ns; /* of the stall that goes on; 0: none does */
    int32_t stall_slot;                 /* whose weights are awaited; -1: KV */
};

/* How long at least one of something was under way. */
struct turn_busy {
    uint32_t n;
    int64_t from_ns;
    double s;
};

struct turn_step {
    bool on;
    bool cold;   /* it waited: started before all of its weights were there */
    bool handed; /* KV came in from another device for it */
    uint32_t slot, n, rows;
    int64_t start_ns;
    uint32_t seq[BR_DEV_MAX_ITEMS];
    bool dropped[BR_DEV_MAX_ITEMS]; /* while it is built: lost its KV to another item */
    struct br_step_item items[BR_DEV_MAX_ITEMS];
};

struct turn_order {
    struct br_turn_order is;
    int64_t until_ns; /* a load that has found no room by then is given up */
};

struct br_turn {
    struct br_turn_config config;
    struct br_turn_cb cb;

    struct br_device *dev;
    struct br_stream *compute, *kv_in, *kv_out;
    struct br_event *step_done;
    struct br_engine *engine;
    struct br_residency *residency;
    struct br_kv *kv;
    struct br_dev *core;
    struct br_dev_actions actions, unused; /* of a boundary; of other events: none */
    unsigned char *host_kv;                /* mmap */

    double link_bytes_per_s; /* configured or measured */
    struct turn_model *models;
    uint32_t n_models;
    uint64_t n_numbers;    /* given to models so far */
    struct turn_seq *seqs; /* [max_seqs]; index = the core's */
    uint64_t *seq_ids;     /* [max_seqs], for searching */
    uint32_t n_seqs;

    struct turn_swap swaps[TURN_MAX_SWAPS]; /* the first n_swaps are under way */
    uint32_t n_swaps, n_swaps_in;

    struct kv_disk *disk; /* NULL: there is none */
    struct turn_disk_move disk_moves[TURN_MAX_DISK_MOVES];
    uint32_t n_disk_moves, n_disk_writes;
    int64_t disk_retry_ns; /* nothing is written before */
    uint64_t out_stamps;

    struct br_event *moved; /* KV blocks moved within the device */
    bool moving;
    int32_t move_ticket;
    uint64_t kv_end, kv_most; /* KV lies in front of this offset in memory; bytes it may take at most */
    uint64_t planned;         /* bytes of memory that the policy plans with */
    uint32_t n_wants;         /* swaps held back */
    struct turn_hand_out *outs[TURN_MAX_OUTS];
    uint32_t n_outs, n_expected; /* parcels: copied to; waited for by sequences */
    struct br_event *handed;

    struct turn_load loads[TURN_MAX_LOADS];
    uint32_t n_loads;
    struct turn_busy busy_load, busy_kv_in, busy_kv_out, busy_moves;
    struct turn_order orders[TURN_MAX_ORDERS];
    uint32_t n_orders;
    bool ordered; /* an order looks for room: no model with sequences is a victim */

    struct turn_step step;
    float *logits; /* [max_batch][vocab_max] */
    uint32_t vocab_max;
    int32_t last_slot; /* of the last step; -1: none yet */

    bool plans_memory; /* the policy knows what fits: loads in chunks, told when they are there */
    bool changed;      /* something happened since the last decision */
    int64_t wake_ns;   /* decide then even if nothing happens, says the policy; < 0: no need */
    int64_t retry_ns;  /* ... since the last decision gave no step; < 0: no need */
    uint32_t fruitless;
    bool profiling, draining, stopping, drained_said;
    int64_t start_ns;
    struct br_turn_stats stats;

    struct inbox inbox;
    pthread_t thread;
    bool has_thread;

    struct turn_trace trace;

    int64_t published_ns;
    pthread_mutex_t published_mutex;
    struct br_turn_stats published;
    struct br_turn_slot_stats *published_slots; /* [n_models] */
};

/* build.c */
void turn_release(struct br_turn *t);                  /* all of it, in whatever state create left it */
int turn_start(struct br_turn *t, struct br_err *err); /* turn.c */

/* models.c */
void turn_models_describe(struct br_turn *t, const struct br_turn_model *models, uint32_t n);
uint64_t turn_slab_choose(const struct br_turn *t);
uint64_t turn_smallest_block(const struct br_turn *t);
uint64_t turn_memory_planned(const struct br_turn *t);
int turn_models_add(struct br_turn *t, struct br_err *err);
void turn_models_kv(struct br_turn *t);                /* how much of it there may be */
void turn_slot_tell(struct br_turn *t, uint32_t slot); /* the core: a model and its terms */
void turn_models_release(struct br_turn *t);

/* A model for a place without one, and away again (its weights are off the device by then); no step may run. */
int turn_model_enter(struct br_turn *t, uint32_t slot, const struct br_turn_model *model, struct br_err *err);
void turn_model_leave(struct br_turn *t, uint32_t slot);
void turn_profile_one(struct br_turn *t, uint32_t slot); /* profile.c: estimated from the others */

/* profile.c: measured or estimated step_s and load_s of every model that is served. */
void turn_profile(struct br_turn *t);

/* turn.c */
void turn_tell(struct br_turn *t, const struct br_dev_event *event);
/* Wakes the turn thread when the stream has come this far. */
void turn_notify(struct br_turn *t, struct br_stream *stream);
void turn_wake(void *turn); /* from any thread */

/* actions.c: a decision and what it asks for. */
void turn_boundary(struct br_turn *t);
void turn_beside(struct br_turn *t);
void turn_check(struct br_turn *t);

/* loads.c */
void turn_load_ask(struct br_turn *t, uint32_t slot, uint64_t bytes);
void turn_loads_go(struct br_turn *t);   /* those held, as far as there is room now */
void turn_loads_poll(struct br_turn *t); /* tells of those that are there */
/* Nothing is under way that could give the room one waits for: it takes it from whom the core says, or gives up. */
void turn_loads_force(struct br_turn *t);
bool turn_loads_flying(const struct br_turn *t);

/* orders.c */
void turn_order_take(struct br_turn *t, const struct br_turn_order *order);
void turn_orders_go(struct br_turn *t); /* as far as they can go now */
uint32_t turn_slot_seqs(const struct br_turn *t, uint32_t slot);

/* seqs.c */
int32_t turn_seq_find(const struct br_turn *t, uint64_t id);
void turn_seq_add(struct br_turn *t, struct inbox_command *command); /* takes what the command owns */
/* Emits the end (after the tokens given, if any) and frees the entry; not while in_step. */
void turn_seq_end(struct br_turn *t, uint32_t index, const struct br_token *token, enum br_end end, const char *error);
void turn_emit(struct br_turn *t, const struct turn_seq *s, const struct br_token *token, enum br_end end,
               const char *error);

/* kv_moves.c */
enum kv_room {
    KV_ROOM_MADE,    /* try again now */
    KV_ROOM_COMING,  /* swaps under way will give room */
    KV_ROOM_REFUSED, /* not at present */
};
void turn_kv_where(struct br_turn *t, uint32_t index); /* tells the core */
void turn_swap_out(struct br_turn *t, uint32_t index); /* as the core asked; whatever comes of it is told */
void turn_swap_in_ahead(struct br_turn *t, uint32_t index);
void turn_swap_in(struct br_turn *t, uint32_t index); /* starts it, or what has to go before it */
void turn_swaps_go(struct br_turn *t);                /* those that waited for room */
void turn_kv_drop(struct br_turn *t, uint32_t index);
void turn_kv_forget(struct br_turn *t, uint32_t index); /* the sequence ends */
void turn_kv_lost(struct br_turn *t, uint32_t index);   /* what it has is damaged: it is computed again */
uint64_t turn_kv_bytes(const struct br_turn *t, uint32_t index);
/* Takes room from other sequences for `blocks` more blocks of one; keep is never taken. */
enum kv_room turn_kv_room(struct br_turn *t, uint32_t index, uint32_t keep, uint64_t blocks);
void turn_poll_swaps(struct br_turn *t);
/* The books have a sequence's prefix come in from the host. */
void turn_swap_fetch(struct br_turn *t, uint32_t index, const struct br_kv_swap *swap);
/* Another sequence's KV, by the core's choice, goes to the host or is dropped; keep's is never taken. */
enum kv_room turn_kv_victim(struct br_turn *t, uint32_t slot, int32_t index, uint32_t keep);
/* Device addresses of the sequence's blocks. */
void turn_block_table(struct br_turn *t, struct turn_seq *s);

/* hand_over.c */
enum turn_hand {
    HAND_NOTHING, /* go on without */
    HAND_COMING,
    HAND_HERE,
};
void turn_hand_announce(struct br_turn *t, struct turn_seq *s, uint64_t seq); /* s NULL: there is nothing of it */
void turn_hand_out(struct br_turn *t, struct turn_seq *s);                    /* the sequence ends: takes its KV */
void turn_hand_release(struct br_turn *t);
void turn_hand_expect(struct br_turn *t, struct turn_seq *s, uint32_t from);
void turn_hand_forget(struct br_turn *t, struct turn_seq *s);
/* Before a sequence's first rows; *out is the parcel when it is HERE. */
enum turn_hand turn_hand_look(struct br_turn *t, uint32_t index, struct br_parcel *out);
/* Into the sequence's device blocks, which have to be there. If it is not what it should be, there is no KV after it.
 */
void turn_hand_in(struct br_turn *t, uint32_t index, const struct br_parcel *parcel);
void turn_hand_poll(struct br_turn *t);

/* room.c: the one memory, where weights and KV meet. */
/* Lets both have what lies between them. To be called before either is asked what it has room for. */
void turn_room_meet(struct br_turn *t);
/* Before work that writes KV is enqueued on the stream. */
void turn_room_settle(struct br_turn *t, struct br_stream *stream);
/* Has up to `bytes` of a slot's missing weights come in; returns how many are on their way now. victims: at the cost
 * of others' weights. */
uint64_t turn_room_load(struct br_turn *t, uint32_t slot, uint64_t bytes, bool victims);
/* All of the slot's weights on the device or on their way, whatever it takes; false: room for them is coming, or none
 * can be made now. No step may be running. */
bool turn_room_require(struct br_turn *t, uint32_t slot, uint32_t keep);
/* Is there room for `blocks` more KV blocks of the slot, at no one's cost? Weights are moved out of the way. */
bool turn_room_kv(struct br_turn *t, uint32_t slot, uint64_t blocks);
/* Half-empty slabs of one KV shape become whole free ones, for another; true: that is under way. */
bool turn_room_merge(struct br_turn *t);
/* Makes room for them at the cost of others' weights, at once. */
bool turn_room_kv_for_weights(struct br_turn *t, uint32_t slot, uint64_t blocks);
void turn_room_poll(struct br_turn *t); /* moves within the device that are done */

/* Enqueues the copies of the books on the stream of the steps; false: there are none. None may be under way. */
bool turn_room_copy(struct br_turn *t, const struct br_kv_moves *moves);

/* disk_moves.c */
int turn_disk_open(struct br_turn *t, uint64_t least_block, struct br_err *err);
/* Has KV on the host go to disk until there will be so many bytes more; true: some is on its way. */
bool turn_disk_room(struct br_turn *t, uint64_t bytes);
/* The same, before the host is full. */
void turn_disk_ahead(struct br_turn *t);
/* KV that is on disk starts for the host or, with victims, what has to make way for it does; REFUSED: it cannot come.
 */
enum kv_room turn_disk_fetch(struct br_turn *t, uint32_t index, bool victims);
void turn_disk_poll(struct br_turn *t);

/* prefix.c */
/* Before its first rows: takes over what is known of its prompt and lies on the device. */
void turn_prefix_adopt(struct br_turn *t, uint32_t index);
/* Tokens that it would take over if it began now. */
uint32_t turn_prefix_known(struct br_turn *t, uint32_t index);
/* Has what is known of its prompt come in from the host, if there is more of it there and room is free. */
void turn_prefix_fetch(struct br_turn *t, uint32_t index);
void turn_prefix_fetched(struct br_turn *t, uint32_t index);
/* After a step of it: its full blocks can be shared. */
void turn_prefix_publish(struct br_turn *t, uint32_t index);

/* step.c */
bool turn_step_start(struct br_turn *t, uint32_t slot, const struct br_dev_item *items, uint32_t n);
void turn_step_finish(struct br_turn *t);

/* moments.c: what is told of traced sequences */
void turn_moments_step(struct br_turn *t, struct turn_seq *s, uint32_t rows);
void turn_moments_swap(struct br_turn *t, const struct turn_swap *swap);
void turn_moments_end(struct br_turn *t, struct turn_seq *s);

/* trace.c */
void turn_trace_begin(struct br_turn *t);
void turn_trace_step(struct br_turn *t, double wall_s);
void turn_trace_load(struct br_turn *t, const struct turn_load *load); /* it is there */
void turn_trace_swap(struct br_turn *t, const struct turn_swap *swap); /* it is done */
void turn_trace_evict(struct br_turn *t, uint32_t slot);
void turn_trace_wait(struct br_turn *t, int64_t from_ns, int64_t to_ns);
void turn_trace_idle(struct br_turn *t);

/* report.c */
void turn_count_step(struct br_turn *t, double wall_s);
void turn_count_wait(struct br_turn *t, double seconds); /* there was work and nothing was computed */
void turn_busy_begin(struct turn_busy *busy);
void turn_busy_end(struct turn_busy *busy);
void turn_publish(struct br_turn *t);

#endif
