#include "sim/plan/kind.h"

#include <stdlib.h>

#include "base/buf.h"

static const double OWN_BYTES = 1e9; /* of a GPU, for the engine itself */

double plan_kind_memory(const struct plan_ask *ask, const struct plan_kind *kind)
{
    return kind->tp * (ask->memory_use * kind->gpu->memory_bytes - OWN_BYTES);
}

static const struct br_calibration *calibration(const struct plan_ask *ask, const struct br_gpu *gpu)
{
    return ask->ideal_costs ? &br_calibration_policy : br_calibration_for(gpu);
}

double plan_kind_link(const struct plan_ask *ask, const struct plan_kind *kind)
{
    double efficiency = calibration(ask, kind->gpu)->load_efficiency;
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
    return model->footprint.size.heads % kind->tp == 0 &&
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

int plan_costs_init(struct plan_costs *out, const struct plan_ask *ask, const struct plan_kind *kind,
                    const uint32_t *models, uint32_t n, struct br_err *err)
{
    *out = (struct plan_costs){br_calloc(n, sizeof *out->costs), n};
    for (uint32_t i = 0; i < n; i++) {
        int rc = br_cost_init(&out->costs[i], &ask->models[models[i]].footprint, kind->gpu, kind->tp,
                              calibration(ask, kind->gpu), err);
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

double plan_costs_kv_token(const struct plan_costs *costs, uint32_t model)
{
    const struct br_cost *c = &costs->costs[model];
    return kv_token_bytes(&c->model, c->tp);
}

/* How far a chunk's prompt has come is not said: alone it is all of the slot's KV, beside decodes its share of it. */
double plan_costs_step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                         uint32_t prefill)
{
    const struct plan_costs *costs = ctx;
    double kv_tokens = (double)kv_bytes / plan_costs_kv_token(costs, model), context = kv_tokens / (decodes + 1);
    struct br_cost_step step = {.decodes = decodes, .kv_tokens = decodes ? kv_tokens : 0};
    (void)device;
    if (prefill)
        br_cost_add_chunks(&step, 1, prefill, context);
    if (decodes && prefill)
        step.chunk_kv_tokens = 0; /* counted with the decodes' */
    return br_cost_step_s(&costs->costs[model], &step);
}
