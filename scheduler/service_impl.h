/* Shared by service*.c only. */
#ifndef BRIAREUS_SCHEDULER_SERVICE_IMPL_H
#define BRIAREUS_SCHEDULER_SERVICE_IMPL_H

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/core/fleet.h"
#include "scheduler/seqtab.h"
#include "scheduler/service.h"

struct sched_device {
    bool used, in_fleet;
    char node[64];
    uint32_t number; /* on its node */
    char kind[16];
    uint64_t incarnation, memory_bytes;
    struct br_link_peer *peer; /* NULL: away */
    int64_t away_since_ns;
    bool *serves;            /* [models] */
    double *step_s, *load_s; /* [models], as registered */
    struct {
        uint64_t steps, switches, loaded_bytes, kv_out_bytes, kv_in_bytes;
        double compute_s, stalled_s, wall_s;
    } total; /* of its present process */
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
    bool closing;                 /* the queue is about to be destroyed: it answers, but takes nothing more */
    bool hopeless;                /* some sequence has been tried too often */
    bool retries;                 /* some sequence has to be tried again */
    int64_t adopt_until_ns;       /* recovered sequences wait for their devices until then; 0: none do */
    void (*ready)(void *ctx, int rc);
    void *ready_ctx;
};

/* service_seq.c */
void service_enter_fleet(struct br_service *s, struct sched_seq *seq); /* -> WAITING or on to a device */
void service_fleet_event(struct br_service *s, const struct br_fleet_event *event);
void service_store(struct br_service *s, struct sched_seq *seq); /* appends what is not under way yet */
void service_end(struct br_service *s, struct sched_seq *seq, enum br_end end, const char *error);
void service_tick_seqs(struct br_service *s);
void service_submit(void *ctx, struct br_gateway_call *call, const struct br_seq_spec *specs, uint32_t n);
void service_cancel(void *ctx, struct br_gateway_call *call, uint64_t id);

/* service_device.c */
void service_send_assign(struct br_service *s, struct sched_seq *seq);
void service_send_cancel(struct br_service *s, struct sched_seq *seq);
void service_tick_devices(struct br_service *s);

#endif
