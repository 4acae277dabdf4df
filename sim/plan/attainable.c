#include "sim/plan/attainable.h"

#include <math.h>
#include <stdlib.h>

#include "base/buf.h"

/* Late tokens of a request that is alone: from the first on until steps have caught up with TBT. */
static double late_alone(const struct plan_model *m, const struct plan_cost *cost, const struct sim_request *r)
{
    double behind = plan_cost_prefill_s(cost, r->prompt) - m->ttft_s;
    double step = plan_cost_decode_s(cost, 1, r->prompt + r->output / 2.0);
    if (behind <= 0 && step <= m->tbt_s)
        return 0;
    if (step < m->tbt_s)
        return fmin(r->output, ceil(behind / (m->tbt_s - step)));
    double on_time = behind < 0 && step > m->tbt_s ? -behind / (step - m->tbt_s) : 0;
    return r->output - fmin(r->output, floor(on_time));
}

int plan_reach_of(const struct plan_ask *ask, const struct plan_pool *pool, const struct plan_requests *requests,
                  struct plan_reach *out, struct br_err *err)
{
    struct plan_costs costs;
    int rc = plan_costs_init(&costs, ask, &pool->kind, pool->models, pool->n_models, err);
    if (rc < 0)
        return rc;
    uint32_t *place = br_calloc(ask->n_models, sizeof *place);
    *out = (struct plan_reach){0};
    for (uint32_t i = 0; i < pool->n_models; i++)
        place[pool->models[i]] = i + 1;
    for (uint32_t i = 0; i < requests->n; i++) {
        const struct sim_request *r = &requests->list[i];
        if (place[r->model] == 0 || r->at_s < ask->margin_s || r->at_s > ask->horizon_s - ask->margin_s)
            continue;
        out->tokens += r->output;
        out->late += late_alone(&ask->models[r->model], &costs.costs[place[r->model] - 1], r);
    }
    free(place);
    plan_costs_free(&costs);
    return 0;
}

bool plan_reach_targets(const struct plan_reach *pools, uint32_t n_pools, double target, double *targets,
                        double *out_of_reach)
{
    double tokens = 0, late = 0;
    for (uint32_t p = 0; p < n_pools; p++) {
        tokens += (double)pools[p].tokens;
        late += pools[p].late;
    }
    *out_of_reach = tokens > 0 ? late / tokens : 0;
    double left = 1 - target - *out_of_reach;
    for (uint32_t p = 0; p < n_pools; p++)
        targets[p] = pools[p].tokens ? 1 - left - pools[p].late / (double)pools[p].tokens : target;
    return left > 0;
}
