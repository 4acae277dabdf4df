/* The inside of struct br_fleet, shared by the files of the fleet half. */
#ifndef BRIAREUS_SCHEDULER_CORE_FLEET_BOOKS_H
#define BRIAREUS_SCHEDULER_CORE_FLEET_BOOKS_H

#include "scheduler/core/fleet.h"
#include "scheduler/core/ordered.h"

/* Load of a device: the sum over its active models of step time, larger for larger batches: step_us * (32 + n).
 * Integers, so that adding and taking away leaves nothing behind. */
enum { FLEET_BATCH = 32 };
/* A load of 1: the step times of the active models fill a TBT of 100 ms. */
static const int64_t FLEET_LOAD_ONE = FLEET_BATCH * 100000ll;

enum fleet_state { FLEET_FREE, FLEET_WAITING, FLEET_ASSIGNED };

struct fleet_seq {
    enum fleet_state state;
    uint32_t model, tokens, device;
    uint64_t serial;    /* of arrival */
    int32_t prev, next; /* of its device */
};

struct fleet_device {
    bool up, draining;
    int32_t first; /* its sequences */
    uint32_t n_seqs;
    int64_t load;
    uint64_t tokens; /* of its sequences */
};

struct fleet_place { /* a model on a device */
    bool on;
    int64_t step_us;
    uint32_t n_seqs;
};

struct fleet_model {
    uint32_t n_serving;  /* devices that take new sequences of it */
    int32_t last_device; /* where it got a sequence last; -1 */
    struct ordered waiting;
    bool listed; /* in fleet.ready */
};

struct br_fleet {
    struct br_fleet_config config;
    struct fleet_device *devices;     /* [max_devices] */
    struct fleet_place *places;       /* [max_devices][max_models] */
    struct fleet_model *models;       /* [max_models] */
    struct fleet_seq *seqs;           /* [max_seqs] */
    struct ordered_node *seq_nodes;   /* [max_seqs] */
    struct ordered_node *model_nodes; /* [max_models] */
    struct ordered ready;             /* models that wait and are served, by their oldest sequence */
    uint64_t n_arrivals;
    uint32_t n_unfinished, n_waiting;
    double last_end_s, end_gap_s; /* < 0: none yet; mean time between two ends */
};

static inline struct fleet_place *fleet_place(const struct br_fleet *fleet, uint32_t device, uint32_t model)
{
    return &fleet->places[(size_t)device * fleet->config.max_models + model];
}

static inline int64_t fleet_share(const struct fleet_place *p)
{
    return p->n_seqs ? p->step_us * (FLEET_BATCH + (int64_t)p->n_seqs) : 0;
}

static inline bool fleet_takes(const struct fleet_device *d)
{
    return d->up && !d->draining;
}

/* fleet_assign.c */
void fleet_wait(struct br_fleet *fleet, uint32_t seq);
void fleet_wait_end(struct br_fleet *fleet, uint32_t seq);
void fleet_attach(struct br_fleet *fleet, uint32_t seq, uint32_t device);
void fleet_detach(struct br_fleet *fleet, uint32_t seq);
/* The model is served by one device more or less. */
void fleet_serve(struct br_fleet *fleet, uint32_t model, int change);
void fleet_dispatch(struct br_fleet *fleet, struct br_fleet_actions *actions);

#endif
