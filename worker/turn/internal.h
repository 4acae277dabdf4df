/* What the files of this folder share: the turn's state. Everything but the inbox and the published statistics belongs
 * to the turn thread. */
#ifndef BRIAREUS_WORKER_TURN_INTERNAL_H
#define BRIAREUS_WORKER_TURN_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "kvcache/kvcache.h"
#include "scheduler/core/device.h"
#include "worker/engine/engine.h"
#include "worker/sampler/sampler.h"
#include "worker/turn/inbox.h"
#include "worker/turn/residency.h"
#include "worker/turn/turn.h"

enum {
    TURN_MAX_SWAPS = 256,  /* under way at once */
    TURN_ROW_BUCKETS = 20, /* step times are kept by log2 of a step's rows */
    TURN_POLL_NS = 50000,  /* how often copies are looked at while nothing can be computed */
};

struct turn_model {
    struct br_turn_model_info info;
    const struct br_weight_image *image;
    const struct br_tokenizer *tokenizer;
    struct br_engine_model *engine; /* owned; NULL: not served */
    struct br_sampler *sampler;     /* owned by the first model with this vocabulary */
    uint32_t kv_shape, max_positions;
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
    struct br_end_watch *watch; /* owned */
    int64_t arrival_ns;
    bool in_step;   /* picked for the step being built or running */
    bool cancelled; /* ends at the next boundary */
    bool forgotten; /* ... without an output */
};

struct turn_swap {
    struct br_event *done; /* owned; in the pool while unused */
    int32_t ticket;
    uint64_t seq; /* id of the sequence, which may be gone meanwhile */
    uint32_t index;
    uint64_t bytes;
    bool out;
};

struct turn_step {
    bool on;
    bool cold; /* started before all of its weights were there */
    uint32_t slot, n, rows;
    int64_t start_ns;
    uint32_t seq[BR_DEV_MAX_ITEMS];
    bool dropped[BR_DEV_MAX_ITEMS]; /* while it is built: lost its KV to another item */
    struct br_step_item items[BR_DEV_MAX_ITEMS];
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
    br_devptr kv_base;
    unsigned char *host_kv; /* mmap */

    struct turn_model *models;
    uint32_t n_models;
    struct turn_seq *seqs; /* [max_seqs]; index = the core's */
    uint64_t *seq_ids;     /* [max_seqs], for searching */
    uint32_t n_seqs;

    struct turn_swap swaps[TURN_MAX_SWAPS]; /* the first n_swaps are under way */
    uint32_t n_swaps;

    struct turn_step step;
    float *logits; /* [max_batch][vocab_max] */
    uint32_t vocab_max;
    int32_t last_slot; /* of the last step; -1: none yet */

    bool profiling, draining, stopping, drained_said;
    int64_t start_ns;
    struct br_turn_stats stats;

    struct inbox inbox;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t published_mutex;
    struct br_turn_stats published;
    struct br_turn_slot_stats *published_slots; /* [n_models] */
};

/* build.c */
void turn_release(struct br_turn *t);                  /* all of it, in whatever state create left it */
int turn_start(struct br_turn *t, struct br_err *err); /* turn.c */
/* profile.c: measured or estimated step_s and load_s of every model that is served. */
void turn_profile(struct br_turn *t);

/* turn.c */
void turn_tell(struct br_turn *t, const struct br_dev_event *event);
void turn_take_commands(struct br_turn *t);

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
bool turn_swap_out(struct br_turn *t, uint32_t index); /* false: host full, or too many swaps under way */
void turn_swap_in_ahead(struct br_turn *t, uint32_t index);
void turn_swap_in(struct br_turn *t, uint32_t index); /* starts it, or what has to go before it */
void turn_kv_drop(struct br_turn *t, uint32_t index);
/* Takes room from other sequences for `blocks` more blocks of one; keep is never taken. */
enum kv_room turn_kv_room(struct br_turn *t, uint32_t index, uint32_t keep, uint64_t blocks);
void turn_poll_swaps(struct br_turn *t);
/* Device addresses of the sequence's blocks. */
void turn_block_table(struct br_turn *t, struct turn_seq *s);

/* step.c */
bool turn_step_start(struct br_turn *t, uint32_t slot, const struct br_dev_item *items, uint32_t n);
void turn_step_finish(struct br_turn *t);

/* report.c */
void turn_count_step(struct br_turn *t, double wall_s);
void turn_publish(struct br_turn *t);

#endif
