/* Kinds of devices: what fits on them, and what steps cost there, for a pool of models. */
#ifndef BRIAREUS_SIM_PLAN_KIND_H
#define BRIAREUS_SIM_PLAN_KIND_H

#include "scheduler/core/policies/pool.h"
#include "sim/plan/ask.h"

/* The device of the ask's measured costs; it is never a group. */
bool plan_kind_measured(const struct plan_ask *ask, const struct plan_kind *kind);
/* Bytes for weights and KV on one device; its host link (all of its GPUs' links together). */
double plan_kind_memory(const struct plan_ask *ask, const struct plan_kind *kind);
double plan_kind_link(const struct plan_ask *ask, const struct plan_kind *kind);

/* What the kind's GPUs need for the weights and ask->context tokens, `copies` models like it side by side. */
double plan_kind_need(const struct plan_ask *ask, const struct plan_model *model, const struct plan_kind *kind,
                      uint32_t copies);
/* It fits, and its heads can be split so many ways. */
bool plan_kind_holds(const struct plan_ask *ask, const struct plan_model *model, const struct plan_kind *kind,
                     uint32_t copies);
/* The smallest degree from `least` on that holds so many copies; 0: none. */
uint32_t plan_smallest_tp(const struct plan_ask *ask, const struct plan_model *model, const struct br_gpu *gpu,
                          uint32_t copies, uint32_t least);

/* What steps of one model take on one kind: by the cost model, or between measured points. */
struct plan_cost {
    struct br_cost model; /* also the footprint */
    const struct br_measured *measured;
    const struct br_measured_model *points; /* NULL: by the cost model */
};
double plan_cost_step_s(const struct plan_cost *cost, const struct br_cost_step *step);
double plan_cost_decode_s(const struct plan_cost *cost, double batch, double kv_tokens);
double plan_cost_prefill_s(const struct plan_cost *cost, double tokens);
/* Of all GPUs of the device. */
double plan_cost_kv_token(const struct plan_cost *cost);

/* Step costs of some models on one kind, in the form that the pool asks for. */
struct plan_costs {
    struct plan_cost *costs; /* [n], owned */
    uint32_t n;
};
/* BR_ENOENT: a model of which the measured costs say nothing. */
int plan_costs_init(struct plan_costs *out, const struct plan_ask *ask, const struct plan_kind *kind,
                    const uint32_t *models, uint32_t n, struct br_err *err);
void plan_costs_free(struct plan_costs *costs);
/* ctx: struct plan_costs. */
double plan_costs_step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                         uint32_t prefill);

#endif
