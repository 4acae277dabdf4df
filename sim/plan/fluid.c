#include "sim/plan/fluid.h"

#include <math.h>
#include <stdlib.h>

#include "base/buf.h"

struct spans { /* of one model's sequences */
    uint64_t n, tokens;
    double covered_s, total_s, until_s, prefill_s, kv_tokens;
};

static void span_add(struct spans *s, const struct plan_model *m, const struct plan_cost *cost,
                     const struct sim_request *r)
{
    double span = m->ttft_s + r->output * m->tbt_s, end = r->at_s + span;
    double from = r->at_s > s->until_s ? r->at_s : s->until_s;
    s->n++;
    s->tokens += r->output;
    s->total_s += span;
    s->covered_s += end > from ? end - from : 0;
    s->until_s = end > s->until_s ? end : s->until_s;
    s->prefill_s += plan_cost_prefill_s(cost, r->prompt);
    s->kv_tokens += r->output * (r->prompt + r->output / 2.0);
}

/* What no batch can exceed: the pool's limit, the KV that has room, and steps no longer than TBT. */
static double batch_cap(const struct plan_ask *ask, const struct plan_model *m, const struct plan_kind *kind,
                        const struct plan_cost *cost, double kv_tokens)
{
    double room = plan_kind_memory(ask, kind) - m->footprint.weight_bytes;
    double cap = fmin(BR_PL_MAX_BATCH, room / (kv_tokens * plan_cost_kv_token(cost)));
    while (cap > 1 && plan_cost_decode_s(cost, cap, cap * kv_tokens) > m->tbt_s)
        cap--;
    return fmax(cap, 1);
}

/* The first token comes with the prompt. */
static double busy_s(const struct plan_ask *ask, const struct plan_model *m, const struct plan_kind *kind,
                     const struct spans *s, const struct plan_cost *cost)
{
    if (s->n == 0)
        return 0;
    double kv = s->kv_tokens / (double)s->tokens;
    double batch = fmin(s->total_s / s->covered_s, batch_cap(ask, m, kind, cost, kv));
    double steps = (double)(s->tokens - s->n) / batch;
    return s->prefill_s + steps * plan_cost_decode_s(cost, batch, batch * kv);
}

double plan_fluid(const struct plan_ask *ask, const struct plan_kind *kind, const uint32_t *models, uint32_t n,
                  const struct sim_request *requests, uint32_t n_requests, double *busy, struct br_err *err)
{
    struct plan_costs costs;
    if (plan_costs_init(&costs, ask, kind, models, n, err) < 0)
        return -1;
    struct spans *spans = br_calloc(n, sizeof *spans);
    int32_t *place = br_calloc(ask->n_models, sizeof *place);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        place[models[i]] = (int32_t)i + 1;
    for (uint32_t i = 0; i < n_requests; i++) {
        int32_t at = place[requests[i].model] - 1;
        if (at >= 0)
            span_add(&spans[at], &ask->models[requests[i].model], &costs.costs[at], &requests[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        double devices = busy_s(ask, &ask->models[models[i]], kind, &spans[i], &costs.costs[i]) / ask->horizon_s;
        sum += devices;
        if (busy)
            busy[models[i]] = devices;
    }
    free(spans);
    free(place);
    plan_costs_free(&costs);
    return sum;
}
