/* What devices and the configuration say of models: sizes, SLOs, costs, rates. */
#include <math.h>

#include "scheduler/core/fleet_books.h"

/* Values that the pool cannot have leave what was. */
static void model_tell(struct br_fleet *fleet, uint32_t model, const struct br_pl_model *is)
{
    struct br_err err;
    if (is->weights_bytes == 0 || br_pl_model_set(fleet->pool, model, is, &err) == 0)
        fleet->models[model].is = *is;
}

void fleet_model_set(struct br_fleet *fleet, const struct br_fleet_event *event)
{
    struct br_pl_model is = fleet->models[event->model].is;
    is.ttft_s = event->ttft_s > 0 ? event->ttft_s : 10;
    is.tbt_s = event->tbt_s > 0 ? event->tbt_s : .1;
    is.weight = event->weight > 0 ? event->weight : 1;
    is.pinned = event->pinned;
    model_tell(fleet, event->model, &is);
}

/* Devices may keep a model in different formats; the pool knows one size: the largest that was heard of. */
void fleet_model_sizes(struct br_fleet *fleet, const struct br_fleet_event *event)
{
    struct br_pl_model is = fleet->models[event->model].is;
    int64_t weights = event->weights_bytes > 0 ? event->weights_bytes : 1;
    if (weights > is.weights_bytes || event->kv_token_bytes > is.kv_token_bytes) {
        is.weights_bytes = weights > is.weights_bytes ? weights : is.weights_bytes;
        is.kv_token_bytes = event->kv_token_bytes > is.kv_token_bytes ? event->kv_token_bytes : is.kv_token_bytes;
        model_tell(fleet, event->model, &is);
    }
    br_step_cost_init(fleet_cost(fleet, event->device, event->model), &event->shape);
}

double fleet_step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                    uint32_t prefill)
{
    return br_step_cost_s(fleet_cost(ctx, device, model), decodes, kv_bytes, prefill);
}

/* ---- rates ---- */

void fleet_rate_arrival(struct fleet_rate *rate, double now_s)
{
    if (!rate->begun)
        *rate = (struct fleet_rate){.begun = true, .at_s = now_s, .since_s = now_s};
    rate->sum = rate->sum * exp((rate->at_s - now_s) / FLEET_RATE_S) + 1 / FLEET_RATE_S;
    rate->at_s = now_s;
}

/* What was not seen before the first arrival would make the average too small. */
double br_fleet_rate(const struct br_fleet *fleet, uint32_t model, double now_s)
{
    const struct fleet_rate *rate = &fleet->models[model].rate;
    double seen_s = now_s - rate->since_s;
    if (!rate->begun)
        return 0;
    seen_s = seen_s > FLEET_RATE_LEAST_S ? seen_s : FLEET_RATE_LEAST_S;
    return rate->sum * exp((rate->at_s - now_s) / FLEET_RATE_S) / (1 - exp(-seen_s / FLEET_RATE_S));
}

void fleet_rates_tell(struct br_fleet *fleet, double now_s)
{
    uint32_t model = fleet->rate_next;
    fleet->rate_next = (model + 1) % fleet->config.max_models;
    fleet->models[model].is.rate = br_fleet_rate(fleet, model, now_s);
    br_pl_rate_set(fleet->pool, model, fleet->models[model].is.rate);
}
