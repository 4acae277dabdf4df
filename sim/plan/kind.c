#include "sim/plan/kind.h"

#include <stdlib.h>

#include "base/buf.h"

static const double OWN_BYTES = 1e9; /* of a GPU, for the engine itself */

bool plan_kind_measured(const struct plan_ask *ask, const struct plan_kind *kind)
{
    return ask->measured && kind->gpu == ask->measured_gpu;
}

double plan_kind_memory(const struct plan_ask *ask, const struct plan_kind *kind)
{
    if (plan_kind_measured(ask, kind))
        return ask->measured->memory_bytes;
    return kind->tp * (ask->memory_use * kind->gpu->memory_bytes - OWN_BYTES);
}

static const struct br_calibration *calibration(const struct plan_ask *ask, const struct br_gpu *gpu)
{
    return ask->ideal_costs ? &br_calibration_policy : br_calibration_for(gpu);
}

double plan_kind_link(const struct plan_ask *ask, const struct plan_kind *kind)
{
    double efficiency = calibration(ask, kind->gpu)->load_efficiency;
    if (plan_kind_measured(ask, kind))
        return ask->measured->link_bytes_per_s;
    return kind->tp *
           (efficiency > 0 ? efficiency * kind->gpu->link_bytes_per_s : kind->gpu->link_effective_bytes_per_s);
}

/* Heads that do not divide evenly are there more than once. */
static double kv_token_bytes(const struct br_footprint *f, uint32_t tp)
{
    uint32_t heads = f->size.kv_heads;
    return f->kv_bytes_per_token * ((heads + tp - 1) / tp) / heads * tp;
}

double plan_kind_need(const struct plan_ask *ask, const struct plan_model *model, const struct plan_kind *kind,
                      uint32_t copies)
{
    const struct br_footprint *f = &model->footprint;
    return copies * f->weight_bytes + ask->context * kv_token_bytes(f, kind->tp);
}

bool plan_kind_holds(const struct plan_ask *ask, const struct plan_model *model, const struct plan_kind *kind,
                     uint32_t copies)
{
    return model->footprint.size.heads % kind->tp == 0 && (kind->tp == 1 || !plan_kind_measured(ask, kind)) &&
           plan_kind_need(ask, model, kind, copies) <= plan_kind_memory(ask, kind);
}

uint32_t plan_smallest_tp(const struct plan_ask *ask, const struct plan_model *model, const struct br_gpu *gpu,
                          uint32_t copies, uint32_t least)
{
    for (uint32_t tp = least; tp <= 8 && tp <= ask->node_gpus; tp *= 2)
        if (plan_kind_holds(ask, model, &(struct plan_kind){gpu, tp}, copies))
            return tp;
    return 0;
}

static int cost_init(struct plan_cost *out, const struct plan_ask *ask, const struct plan_kind *kind,
                     const struct plan_model *model, struct br_err *err)
{
    *out = (struct plan_cost){0};
    if (plan_kind_measured(ask, kind)) {
        out->measured = ask->measured;
        out->points = br_measured_find(ask->measured, model->footprint.size.name);
        if (!out->points)
            return br_err_set(err, BR_ENOENT,
                              "no costs of %s were measured on %s (briareus model bench DIR --json FILE)",
                              model->footprint.size.name, kind->gpu->name);
    }
    return br_cost_init(&out->model, &model->footprint, kind->gpu, kind->tp, calibration(ask, kind->gpu), err);
}

int plan_costs_init(struct plan_costs *out, const struct plan_ask *ask, const struct plan_kind *kind,
                    const uint32_t *models, uint32_t n, struct br_err *err)
{
    *out = (struct plan_costs){br_calloc(n, sizeof *out->costs), n};
    for (uint32_t i = 0; i < n; i++) {
        int rc = cost_init(&out->costs[i], ask, kind, &ask->models[models[i]], err);
        if (rc < 0) {
            plan_costs_free(out);
            return rc;
        }
    }
    return 0;
}

void plan_costs_free(struct plan_costs *costs)
{
    free(costs->costs);
    *costs = (struct plan_costs){0};
}

double plan_cost_kv_token(const struct plan_cost *cost)
{
    return kv_token_bytes(&cost->model.model, cost->model.tp);
}

double plan_cost_step_s(const struct plan_cost *cost, const struct br_cost_step *step)
{
    return cost->points ? br_measured_step_s(cost->measured, cost->points, step) : br_cost_step_s(&cost->model, step);
}

double plan_cost_decode_s(const struct plan_cost *cost, double batch, double kv_tokens)
{
    return plan_cost_step_s(cost, &(struct br_cost_step){.decodes = batch, .kv_tokens = kv_tokens});
}

double plan_cost_prefill_s(const struct plan_cost *cost, double tokens)
{
    struct br_cost_step step = {0};
    br_cost_add_chunks(&step, 1, tokens, 0);
    return plan_cost_step_s(cost, &step);
}

/* How far a chunk's prompt has come is not said: alone it is all of the slot's KV, beside decodes its share of it. */
double plan_costs_step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                         uint32_t prefill)
{
    const struct plan_costs *costs = ctx;
    const struct plan_cost *cost = &costs->costs[model];
    double kv_tokens = (double)kv_bytes / plan_cost_kv_token(cost), context = kv_tokens / (decodes + 1);
    struct br_cost_step step = {.decodes = decodes, .kv_tokens = decodes ? kv_tokens : 0};
    (void)device;
    if (prefill)
        br_cost_add_chunks(&step, 1, prefill, context);
    if (decodes && prefill)
        step.chunk_kv_tokens = 0; /* counted with the decodes' */
    return plan_cost_step_s(cost, &step);
}
