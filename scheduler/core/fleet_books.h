/* The inside of struct br_fleet, shared by the files of the fleet half. */
#ifndef BRIAREUS_SCHEDULER_CORE_FLEET_BOOKS_H
#define BRIAREUS_SCHEDULER_CORE_FLEET_BOOKS_H

#include "scheduler/core/fleet.h"
#include "scheduler/core/fleet_promise.h"
#include "scheduler/core/policies/pool.h"

struct fleet_seq {
    bool known;
    uint32_t model;
    int32_t device;           /* as the caller was told; -1: waits */
    uint32_t delivered, most; /* tokens that it has, and will have at most; 0: unknown */
};

/* What it has shown lately, all of it fading. */
struct fleet_device {
    uint32_t n;               /* sequences assigned to it */
    double need_s, made_s;    /* seconds for which its sequences wanted tokens; worth of those that came, in TBT */
    double at_s;              /* up to when that counts */
    double gap_s, last_end_s; /* between ends of its sequences; 0: none yet */
};

/* Arrivals of a model, each worth 1/FLEET_RATE_S and fading with that time. */
struct fleet_rate {
    bool begun;
    double sum, at_s, since_s;
};

static const double FLEET_RATE_S = 300, FLEET_RATE_LEAST_S = 30;

struct fleet_model {
    bool set; /* MODEL_SET has been heard */
    struct br_pl_model is;
    struct fleet_rate rate;
    double length; /* of answers, mean; 0: none yet */
};

struct br_fleet {
    struct br_fleet_config config;
    struct br_pool *pool;
    struct br_pl_actions *did;    /* of the pool's last event */
    struct br_step_cost *costs;   /* [device * max_models + model] */
    struct fleet_model *models;   /* [max_models] */
    struct fleet_seq *seqs;       /* [max_seqs] */
    struct fleet_device *devices; /* [max_devices] */
    struct fleet_promises *promises;
    double now_s; /* of the event at hand */
    uint32_t n_unfinished, n_waiting;
    uint32_t rate_next;           /* model whose rate the pool is told next */
    double last_end_s, end_gap_s; /* < 0: none yet; mean time between two ends */
};

static inline struct br_step_cost *fleet_cost(const struct br_fleet *fleet, uint32_t device, uint32_t model)
{
    return &fleet->costs[(size_t)device * fleet->config.max_models + model];
}

/* fleet_model.c: what the caller says of models and devices, to the pool. */
void fleet_model_set(struct br_fleet *fleet, const struct br_fleet_event *event);
/* Sizes and costs of the model on this device. */
void fleet_model_sizes(struct br_fleet *fleet, const struct br_fleet_event *event);
void fleet_rate_arrival(struct fleet_rate *rate, double now_s);
/* One model's rate, another one at each call, to the pool. */
void fleet_rates_tell(struct br_fleet *fleet, double now_s);
double fleet_step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                    uint32_t prefill);

/* fleet_pace.c */
void fleet_pace_count(struct br_fleet *fleet, int32_t device, double now_s, int by); /* a sequence comes or goes */
void fleet_pace_tokens(struct br_fleet *fleet, double now_s, uint32_t seq, uint32_t delivered);
void fleet_pace_end(struct br_fleet *fleet, double now_s, uint32_t seq); /* before it is forgotten */
/* Part of itself that the device has needed lately for its sequences; INFINITY: not known. */
double fleet_pace_util(struct br_fleet *fleet, uint32_t device, double now_s);
double fleet_length(const struct br_fleet *fleet, uint32_t model, uint32_t most); /* tokens of an answer, expected */
double fleet_left(const struct br_fleet *fleet, uint32_t seq);                    /* of them, still to come */

/* fleet_admit.c */
void fleet_count_end(struct br_fleet *fleet, double now_s);

#endif
