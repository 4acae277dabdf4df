/* The inside of a run, shared by sim.c and room.c. */
#ifndef BRIAREUS_SIM_WORLD_H
#define BRIAREUS_SIM_WORLD_H

#include "sim/books.h"
#include "sim/heap.h"
#include "sim/sim.h"

enum { SIM_ARRIVAL, SIM_STEP, SIM_LOAD, SIM_TICK, SIM_WAKE };

struct live { /* what the world knows of a sequence and the pool does not */
    uint32_t request, made;
    double last_s; /* of its last token */
};

enum { SIM_MOST_COMING = 48 }; /* sequences of one move in, as the pool has it */

struct device_clock {
    double load_end_s;
    double stalled_s; /* since when it has sequences and runs nothing; < 0: it is not so */
    /* with books */
    double out_end_s;     /* when all KV that leaves is out: its room is free then */
    int64_t load_granted; /* of the weights in flight: what found room */
    uint32_t coming[SIM_MOST_COMING], n_coming;
    bool left_out[BR_PL_MAX_BATCH]; /* items of the step that found no room for their KV */
    uint32_t n_left_out;
    bool coming_on; /* the load in flight is KV of `coming` */
    bool wakes;     /* a SIM_WAKE of it is to come */
};

struct sim {
    const struct sim_run *run;
    struct sim_result *out;
    struct br_pool *pool;
    struct br_pl_actions *actions;
    struct sim_heap heap;
    struct live *live;   /* [max_seqs] */
    uint32_t *free_seqs; /* [max_seqs] */
    uint32_t n_free;
    uint32_t *of_model; /* [n_models]: unfinished requests */
    struct device_clock *clocks;
    uint32_t n_active; /* models with unfinished requests */
    double now_s, active_at_s, active_sum;
    uint64_t ended, late;
    double late_limit, ended_sum_s;
    struct sim_books *books;   /* NULL: the pool's own counts are taken at their word */
    struct br_pl_event *later; /* what the pool is to be told when all actions are done; owned */
    uint32_t n_later, cap_later;
};

/* room.c: the device's memory, as the worker would have it. All but `later` do nothing without books. */
void room_tell_later(struct sim *s, struct br_pl_event event);
/* Seconds until what needs room may begin: KV that leaves takes it with it. */
double room_wait_s(const struct sim *s, uint32_t device, int64_t bytes);
/* The step's KV: items that find no room are left out, others' weights go first. False: none of it can run, which the
 * pool will be told. */
bool room_step(struct sim *s, uint32_t device);
/* Weights that are to come: load_granted of them do. */
void room_load(struct sim *s, uint32_t device);
/* The next of a move in; it begins with room_coming_begin, which gives the bytes that come. */
void room_coming_add(struct sim *s, uint32_t device, uint32_t seq);
int64_t room_coming_begin(struct sim *s, uint32_t device);
void room_coming_done(struct sim *s, uint32_t device);
void room_leaves(struct sim *s, uint32_t device, uint32_t seq);
/* It is on this device now. */
void room_assigned(struct sim *s, uint32_t device, uint32_t seq);

#endif
