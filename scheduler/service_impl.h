/* Shared by service*.c only. */
#ifndef BRIAREUS_SCHEDULER_SERVICE_IMPL_H
#define BRIAREUS_SCHEDULER_SERVICE_IMPL_H

#include "base/clock.h"
#include "base/log.h"
#include "proto/transfers.h"
#include "scheduler/core/fleet.h"
#include "scheduler/seqtab.h"
#include "scheduler/service.h"

struct sched_place { /* a model on a device */
    bool serves;
    double step_s, load_s; /* as registered */
    uint64_t weight_bytes;
    uint64_t resident_bytes;
    uint32_t waiting, running; /* as reported last */
    bool stepping, loading;
    double utilisation;
};

struct sched_device {
    bool used, in_fleet;
    char node[64];
    uint32_t number;     /* on its node */
    uint32_t node_index; /* the same for all devices of a node */
    char kind[16];
    uint64_t incarnation, memory_bytes, link_bytes_per_s;
    struct br_link_peer *peer; /* NULL: away */
    int64_t away_since_ns;
    bool shunned;               /* while it is away: core/fleet has been told that it gets nothing new */
    struct sched_place *places; /* [models] */
    double progress;            /* sum of what it has counted, as reported last */
    int64_t progress_ns;        /* when that last changed, or it had no work */
    uint64_t trial;             /* sequence that is on trial here; see service_trial.c */
    uint32_t deaths;            /* since its last token */
    int64_t rests_until_ns;     /* gets nothing new before; 0: it does */
    struct {
        uint64_t steps, switches;
        double compute_s, stalled_s, wall_s;
    } total;                       /* of its present process, as are transfers */
    struct br_transfers transfers; /* see proto/transfers.h: br_transfer_counters lists what there is */
};

struct br_service {
    uv_loop_t *loop;
    uv_timer_t tick;
    struct br_service_config config;
    struct br_queue *queue;
    struct br_models *models;
    struct br_fleet *fleet;
    struct br_fleet_actions *actions;
    struct seqtab *seqs;
    struct sched_device *devices; /* [config.max_devices] */
    uint32_t n_devices;           /* slots ever used */
    uint32_t accepting, appends;  /* sequences being stored; appends under way */
    uint32_t leases;              /* under way */
    bool closing;                 /* the queue is about to be destroyed: it answers, but takes nothing more */
    bool hopeless;                /* some sequence is to be given up */
    bool retries;                 /* some sequence has to be tried again */
    bool deadlines;               /* some sequence may have a deadline of its own */
    int64_t deadlines_ns;         /* when those are looked at next */
    bool held;                    /* some sequence waits for another one's trial */
    int64_t adopt_until_ns;       /* recovered sequences wait for their devices until then; 0: none do */
    int64_t rebalance_ns;         /* when core/fleet is told its next tick */
    int64_t terms_ns;             /* when devices are told the models' rates next */
    double *rates;                /* [models] as devices were told */
    void (*ready)(void *ctx, int rc);
    void *ready_ctx;
    struct model_order *orders; /* under way: service_model.c */
    uint32_t n_orders;
    uint64_t last_ticket;
    uint32_t *closed; /* [models] > 0: takes no requests for now */
    bool reloaded;    /* models have come or gone since the start */
    bool *came;       /* [models] by a reload: devices that start do not know it */
    bool *leaving;    /* [models] no longer in the configuration: goes when its sequences have ended */
    bool *host_out;   /* [models] taken out of the host caches, and not used since */
    char why[192];    /* what service_unready said last */
};

/* service_fleet.c: core/fleet's decisions, carried out. */
void service_fleet_event(struct br_service *s, const struct br_fleet_event *event);
void service_enter_fleet(struct br_service *s, struct sched_seq *seq); /* -> WAITING or on to a device */
/* What core/fleet is told of a sequence; kind is the caller's. */
struct br_fleet_event service_seq_event(const struct sched_seq *seq, enum br_fleet_event_kind kind);
/* What core/fleet is asked of a call before it is accepted: of n sequences, prompt and answer of the longest. */
struct br_fleet_request service_request_of(const struct br_service *s, uint32_t model, const struct br_seq_spec *specs,
                                           uint32_t n);
/* It has a device: to it, under a new fence unless none was used yet. */
void service_start(struct br_service *s, struct sched_seq *seq);
void service_lease(struct br_service *s, struct sched_seq *seq);
/* The sequence waits again, with no device. */
void service_unplace(struct br_service *s, struct sched_seq *seq);
void service_tick_fleet(struct br_service *s);

/* service_seq.c */
void service_store(struct br_service *s, struct sched_seq *seq);   /* appends what is not under way yet */
void service_restore(struct br_service *s, struct sched_seq *seq); /* puts into the queue what that has lost */
void service_end(struct br_service *s, struct sched_seq *seq, enum br_end end, const char *error);
void service_give_up(struct br_service *s, struct sched_seq *seq, const char *why); /* ends it at the next tick */
void service_retry_later(struct br_service *s, struct sched_seq *seq);
void service_tick_seqs(struct br_service *s);
void service_submit(void *ctx, struct br_gateway_call *call, const struct br_seq_spec *specs, uint32_t n);
void service_cancel(void *ctx, struct br_gateway_call *call, uint64_t id);
void service_leave(void *ctx, struct br_gateway_call *call, uint64_t id);
void service_pace(void *ctx, uint64_t id, bool pause);

/* service_send.c: frames to devices. A device that is away hears nothing: it adopts when it is back, or is lost. */
void service_send_assign(struct br_service *s, struct sched_seq *seq);
void service_send_cancel(struct br_service *s, struct sched_seq *seq);
void service_send_release(struct br_service *s, struct sched_seq *seq);
/* The same; if the device that it goes to is of the same node, its KV is left there for that. */
void service_send_hand_over(struct br_service *s, struct sched_seq *seq, uint32_t to); /* it goes on elsewhere */
void service_send_pace(struct br_service *s, struct sched_seq *seq);
void service_send_stray(struct br_link_peer *peer, uint64_t id, uint64_t fence); /* nobody wants it any more */
void service_send_welcome(struct br_service *s, struct sched_device *d, const Briareus__Register *hello);
void service_send_terms(struct br_service *s, uint32_t model); /* to all devices */
void service_send_rates(struct br_service *s);                 /* to all devices, of models whose rate has changed */

/* service_device.c */
/* The device's report of this sequence is right: it may go on there. */
bool service_adoptable(struct br_service *s, const struct sched_seq *seq, uint32_t device,
                       const Briareus__RunningSeq *running);
void service_tick_devices(struct br_service *s);
/* What a device says of a model, at its start or when it has been added. */
void service_model_info(struct br_service *s, struct sched_device *d, const Briareus__ModelInfo *info);

/* service.c: the model's terms, to core/fleet. */
void service_model_tell(struct br_service *s, uint32_t model);

/* service_model.c: orders about models, and how they are. */
void service_order(void *ctx, struct br_gateway_admin *admin, const struct br_gateway_order *order);
void service_order_forget(void *ctx, struct br_gateway_admin *admin);
void service_models_state(void *ctx, struct br_buf *out);
void service_order_done(struct br_service *s, struct sched_device *d, const Briareus__ModelDone *done);
void service_orders_device_down(struct br_service *s, const struct sched_device *d);
/* The device is here: it is told of models that it has not registered with, and rid of those that are none. */
void service_orders_device_up(struct br_service *s, struct sched_device *d, const Briareus__Register *hello);
void service_tick_orders(struct br_service *s);
void service_orders_free(struct br_service *s);

/* service_metrics.c */
void service_metrics(void *ctx, struct br_buf *out);
/* service_ready.c */
void service_device_progress(const struct br_service *s, struct sched_device *d); /* at every report */
const char *service_unready(void *ctx);
void service_running(void *ctx, struct br_buf *out);

/* service_trial.c: sequences that kill the devices they run on. */
void service_device_died(struct br_service *s, struct sched_device *d);
/* It may start on its device now; false: it is held until another one's trial there is over. */
bool service_trial_begin(struct br_service *s, struct sched_seq *seq);
void service_trial_passed(struct sched_device *d, struct sched_seq *seq); /* it made a token */
/* One that has died again and again is to rest while others serve. Asked when it comes up again. */
bool service_rests(struct br_service *s, struct sched_device *d);
void service_tick_trials(struct br_service *s);

/* service_trace.c: requests in the trace; nothing happens without one. */
void service_trace_begin(struct br_service *s);
void service_trace_accepted(struct br_service *s, const struct sched_seq *seq); /* or found again */
void service_trace_assigned(struct br_service *s, const struct sched_seq *seq);
void service_trace_streams(struct br_service *s, const struct sched_seq *seq); /* its first token is here */
void service_trace_ended(struct br_service *s, const struct sched_seq *seq);

/* Since its arrival, without the time its client did not read. */
static inline double service_age_s(const struct sched_seq *seq)
{
    int64_t now_ns = br_now_ns(), paused_ns = seq->paused_ns + (seq->paused ? now_ns - seq->paused_since_ns : 0);
    return (double)(now_ns - seq->arrived_ns - paused_ns) * 1e-9;
}

#endif
