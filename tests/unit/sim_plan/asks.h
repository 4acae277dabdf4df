/* A small ask for the planner's tests. */
#ifndef BRIAREUS_TESTS_UNIT_SIM_PLAN_ASKS_H
#define BRIAREUS_TESTS_UNIT_SIM_PLAN_ASKS_H

#include <stdio.h>
#include <string.h>

#include "sim/plan/ask.h"

static inline struct plan_ask ask_make(struct plan_model *models, uint32_t n)
{
    return (struct plan_ask){.models = models,
                             .n_models = n,
                             .horizon_s = 600,
                             .margin_s = 60,
                             .run_on_s = 30,
                             .target = .99,
                             .pool_floor = .9,
                             .seed = 1,
                             .n_seeds = 1,
                             .memory_use = .9,
                             .context = 4096,
                             .host_bytes = 2e12,
                             .node_gpus = 8,
                             .hysteresis = .35,
                             .n_threads = 1};
}

static inline struct plan_model model_make(const char *base, enum br_weight_format weights, enum br_kv_format kv)
{
    struct plan_model m = {.ttft_s = 10, .tbt_s = .1};
    struct br_model_size size;
    struct br_err err;
    br_catalogue_find(base, &size, &err);
    br_footprint_init(&m.footprint, &size, weights, kv);
    snprintf(m.name, sizeof m.name, "%s", base);
    return m;
}

static inline const struct br_gpu *gpu_named(const char *name)
{
    struct br_err err;
    return br_gpu_find(name, &err);
}

#endif
