/* From options to what the planner is asked. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/plan/model_words.h"
#include "cli/plan/plan_options.h"
#include "cli/plan/rates.h"
#include "sim/plan/pool.h"

static const double LARGE_PARAMS = 30e9, RUN_ON_S = 30;

static void progress(const char *line)
{
    fprintf(stderr, "plan: %s\n", line);
}

/* The GPU with the user's price; one copy a kind, so that equal kinds are equal pointers. */
static const struct br_gpu *gpu_use(struct plan_material *m, const struct br_gpu *gpu)
{
    for (uint32_t i = 0; i < m->n_gpus; i++)
        if (strcmp(m->gpus[i].name, gpu->name) == 0)
            return &m->gpus[i];
    if (m->n_gpus == sizeof m->gpus / sizeof *m->gpus)
        return gpu;
    struct br_gpu *mine = &m->gpus[m->n_gpus++];
    *mine = *gpu;
    mine->price_usd_per_hour = prices_find(&m->prices, gpu->name)->on_demand;
    return mine;
}

static const struct br_gpu *gpu_named(struct plan_material *m, const char *name, struct br_err *err)
{
    if (m->ask.measured && strcmp(name, m->measured.device) == 0)
        return m->ask.measured_gpu;
    const struct br_gpu *gpu = br_gpu_find(name, err);
    if (!gpu && m->ask.measured)
        br_err_wrap(err, "not the device '%s' of --costs, and", m->measured.device);
    return gpu ? gpu_use(m, gpu) : NULL;
}

static int gpus_fill(const struct plan_options *o, struct plan_material *m, struct br_err *err)
{
    static char fallback[] = "H20";
    char *one[] = {m->ask.measured ? m->measured.device : fallback};
    struct br_option_list list = o->gpus.n ? o->gpus : (struct br_option_list){one, 1};
    if (list.n > PLAN_MAX_GPUS)
        return br_err_set(err, BR_EINVAL, "at most %d GPU kinds at once", PLAN_MAX_GPUS);
    for (uint32_t i = 0; i < list.n; i++) {
        const struct br_gpu *gpu = gpu_named(m, list.items[i], err);
        if (!gpu)
            return err->code;
        m->ask.gpus[m->ask.n_gpus++] = gpu;
    }
    for (uint32_t i = 0; i < m->ask.n_models; i++)
        if (m->ask.models[i].gpu)
            m->ask.models[i].gpu = gpu_use(m, m->ask.models[i].gpu);
    return 0;
}

static int policies_fill(const struct plan_options *o, struct plan_ask *ask, struct br_err *err)
{
    static const char *const all[] = {"slack", "aegaeon", "request", "multiplex", "dedicated"};
    for (uint32_t i = 0; i < o->policies.n; i++)
        if (plan_policy_check(o->policies.items[i], err) < 0)
            return err->code;
    ask->n_policies = o->policies.n ? o->policies.n : 5;
    if (ask->n_policies + o->handicapped > PLAN_MAX_POLICIES)
        return br_err_set(err, BR_EINVAL, "at most %d policies at once", PLAN_MAX_POLICIES);
    for (uint32_t i = 0; i < ask->n_policies; i++)
        ask->policies[i] = o->policies.n ? o->policies.items[i] : all[i];
    if (o->handicapped)
        ask->policies[ask->n_policies++] = PLAN_HANDICAPPED;
    return 0;
}

static const char *format_of(const struct plan_options *o, const struct br_model_size *size)
{
    return o->large_weights && br_size_params(size) >= LARGE_PARAMS ? o->large_weights : o->weights;
}

/* Lines of --model; a large model's format is known when its name is. */
static int models_fill(const struct plan_options *o, struct plan_ask *ask, struct br_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < o->models.n; i++) {
        char base[256];
        struct br_model_size size;
        struct plan_defaults d = {o->weights, o->kv, o->ttft_s, o->tbt_s, o->rate, o->cv};
        if (sscanf(o->models.items[i], "%255s", base) == 1 && plan_model_base(base, &size, err) == 0)
            d.weights = format_of(o, &size);
        uint32_t first = ask->n_models;
        rc = plan_model_words(o->models.items[i], &d, &ask->models, &ask->n_models, err);
        for (uint32_t m = first; rc == 0 && o->large_tp && m < ask->n_models; m++)
            if (ask->models[m].footprint.params >= LARGE_PARAMS && !ask->models[m].dedicated_tp)
                ask->models[m].dedicated_tp = o->large_tp;
    }
    return rc;
}

static int market_model(const struct plan_options *o, const struct br_market *market, uint32_t i, struct plan_ask *ask,
                        struct br_err *err)
{
    const struct br_market_model *from = &market->models[i];
    struct br_model_size size;
    if (br_catalogue_find(from->base, &size, err) < 0)
        return br_err_wrap(err, "%s", from->name);
    struct plan_defaults d = {format_of(o, &size), o->kv, o->ttft_s, o->tbt_s, 0, 1};
    char line[256];
    bool large = br_size_params(&size) >= LARGE_PARAMS;
    snprintf(line, sizeof line, "%s dedicated-tp=%u", from->base, large && o->large_tp ? o->large_tp : 1);
    if (plan_model_words(large && o->large_tp ? line : from->base, &d, &ask->models, &ask->n_models, err) < 0)
        return err->code;
    struct plan_model *m = &ask->models[i];
    snprintf(m->name, sizeof m->name, "%s", from->name);
    br_market_source(market, i, &m->source);
    return 0;
}

static int market_fill(const struct plan_options *o, struct plan_material *m, struct br_err *err)
{
    if (!o->market_models)
        return br_err_set(err, BR_EINVAL, "--market needs --market-models: which sizes the models have");
    int rc = market_span(o, &m->market, &m->from_s, err);
    for (uint32_t i = 0; rc == 0 && i < m->market.n_models; i++)
        rc = market_model(o, &m->market, i, &m->ask, err);
    return rc;
}

/* A trace's models are the plan's in order; one without names is dealt out. */
static int recorded_fill(const struct plan_options *o, struct plan_material *m, struct br_err *err)
{
    struct br_trace_options options = {.duration_s = o->horizon_s * o->rate_scale, .time_scale = 1 / o->rate_scale};
    struct br_trace_report report;
    struct plan_ask *ask = &m->ask;
    int rc = br_trace_load(o->traffic, &options, &m->recorded, &report, err);
    if (rc < 0)
        return rc;
    if (m->recorded.n_models > ask->n_models)
        return br_err_set(err, BR_EINVAL, "%s has requests of %u models, and --model names %u", o->traffic,
                          m->recorded.n_models, ask->n_models);
    if (m->recorded.n == 0)
        return br_err_set(err, BR_EINVAL, "%s has no requests in the first %g s", o->traffic, o->horizon_s);
    if (m->recorded.n_models == 1 && ask->n_models > 1) {
        double *shares = br_calloc(ask->n_models, sizeof *shares);
        const char **names = br_calloc(ask->n_models, sizeof *names);
        for (uint32_t i = 0; i < ask->n_models; i++)
            names[i] = ask->models[i].name;
        if ((rc = br_popularity_zipf(shares, ask->n_models, o->zipf, err)) == 0)
            rc = br_workload_assign(&m->recorded, names, shares, ask->n_models, o->seed, err);
        free(names);
        free(shares);
    }
    if (m->recorded.duration_s < o->horizon_s)
        ask->horizon_s = m->recorded.duration_s;
    ask->recorded = &m->recorded;
    ask->n_seeds = 1;
    return rc;
}

static int traffic_fill(const struct plan_options *o, struct plan_material *m, struct br_err *err)
{
    if ((o->market != NULL) + (o->traffic != NULL) + (o->rates != NULL) + (o->total_rate > 0) > 1)
        return br_err_set(err, BR_EINVAL,
                          "only one of --market, --traffic, --rates and --total-rate can say the rates");
    if (o->market)
        return market_fill(o, m, err);
    if (models_fill(o, &m->ask, err) < 0)
        return err->code;
    if (m->ask.n_models == 0)
        return br_err_set(err, BR_EINVAL,
                          "no models: name them with --model, or begin with --scenario (--help lists both)");
    if (o->traffic)
        return recorded_fill(o, m, err);
    return rates_fill(o, &m->ask, err);
}

static int ask_check(const struct plan_ask *ask, struct br_err *err)
{
    double rate = 0;
    if (2 * ask->margin_s >= ask->horizon_s)
        return br_err_set(err, BR_EINVAL, "margins of %g s at both ends leave nothing of a span of %g s", ask->margin_s,
                          ask->horizon_s);
    for (uint32_t i = 0; i < ask->n_models; i++)
        rate += br_process_count(&ask->models[i].source.process, ask->horizon_s);
    if (!ask->recorded && !(rate > 0))
        return br_err_set(err, BR_EINVAL, "all rates are 0: there is nothing to plan for");
    return 0;
}

static int costs_kind(const struct plan_options *o, struct plan_material *m, struct br_err *err)
{
    m->ask.ideal_costs = strcmp(o->costs, "ideal") == 0;
    if (m->ask.ideal_costs || strcmp(o->costs, "fitted") == 0)
        return 0;
    int rc = br_measured_read(o->costs, &m->measured, err);
    if (rc == BR_ENOENT)
        return br_err_set(err, BR_EINVAL, "costs '%.200s' must be fitted, ideal or a file, and there is no such file",
                          o->costs);
    if (rc < 0)
        return rc;
    m->device = (struct br_gpu){.name = m->measured.device,
                                .memory_bytes = m->measured.memory_bytes,
                                .link_bytes_per_s = m->measured.link_bytes_per_s,
                                .link_effective_bytes_per_s = m->measured.link_bytes_per_s,
                                .price_usd_per_hour = m->measured.price_usd_per_hour};
    m->ask.measured = &m->measured;
    m->ask.measured_gpu = &m->device;
    return prices_add(&m->prices, &m->device, err);
}

/* What was measured is right about sizes too: the device's layout, its number format. */
static void measured_sizes(struct plan_ask *ask)
{
    for (uint32_t i = 0; ask->measured && i < ask->n_models; i++) {
        struct br_footprint *f = &ask->models[i].footprint;
        const struct br_measured_model *points = br_measured_find(ask->measured, f->size.name);
        if (!points)
            continue;
        f->weight_bytes = points->weight_bytes;
        f->kv_bytes_per_token = points->kv_bytes_per_token;
    }
}

static int kv_count(const struct plan_options *o, struct plan_ask *ask, struct br_err *err)
{
    ask->by_token = strcmp(o->kv_count, "tokens") == 0;
    if (!ask->by_token && strcmp(o->kv_count, "blocks") != 0)
        return br_err_set(err, BR_EINVAL, "kv-count '%.40s' must be blocks or tokens", o->kv_count);
    return 0;
}

int plan_material_make(const struct plan_options *o, struct plan_material *m, struct br_err *err)
{
    *m = (struct plan_material){.ask = {
                                    .shuffle = o->shuffle,
                                    .one_kind = o->one_kind,
                                    .horizon_s = o->horizon_s,
                                    .margin_s = o->margin_s,
                                    .run_on_s = RUN_ON_S,
                                    .target = o->target,
                                    .pool_floor = o->pool_floor,
                                    .seed = o->seed,
                                    .n_seeds = o->seeds,
                                    .redundancy = o->redundancy,
                                    .memory_use = o->memory_use,
                                    .context = o->context,
                                    .host_bytes = o->host_tb * 1e12,
                                    .node_gpus = o->node_gpus,
                                    .hysteresis = o->hysteresis,
                                    .chunk_bytes = (int64_t)o->load_chunk,
                                    .n_threads = o->threads,
                                    .curve = o->curve || o->html,
                                    .progress = o->quiet ? NULL : progress,
                                }};
    int rc = prices_load(o->prices, &m->prices, err);
    if (rc == 0)
        rc = costs_kind(o, m, err);
    if (rc == 0)
        rc = kv_count(o, &m->ask, err);
    if (rc == 0)
        rc = policies_fill(o, &m->ask, err);
    if (rc == 0)
        rc = traffic_fill(o, m, err);
    if (rc == 0)
        rc = gpus_fill(o, m, err);
    measured_sizes(&m->ask);
    if (rc == 0)
        rc = ask_check(&m->ask, err);
    if (rc < 0)
        plan_material_free(m);
    return rc;
}

void plan_material_free(struct plan_material *m)
{
    free(m->ask.models);
    m->ask.models = NULL;
    br_measured_free(&m->measured);
    br_market_free(&m->market);
    br_workload_free(&m->recorded);
}
