#include "sim/goodput.h"

#include <stdlib.h>

struct priced {
    const struct sim_gpu *gpu;
    const struct sim_model *const *mix;
};

static double step_cost(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                        uint32_t prefill)
{
    const struct priced *p = ctx;
    (void)device;
    return sim_ideal_step_s(p->gpu, p->mix[model % SIM_MIX], decodes, (double)kv_bytes, prefill);
}

void sim_search_init(struct sim_search *search, const struct sim_scenario *scenario,
                     const struct br_pl_options *options)
{
    *search = (struct sim_search){
        .scenario = scenario, .options = *options, .first_seed = 1, .n_seeds = 2, .guess = 24, .give_up = .9};
    for (uint32_t i = 0; i <= SIM_MAX_MODELS; i++)
        search->attainment[i] = -1;
}

static void models_fill(const struct sim_scenario *sc, uint32_t n, struct br_pl_model *models, double *rates)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct sim_model *m = sc->mix[i % SIM_MIX];
        models[i] = (struct br_pl_model){.weights_bytes = (int64_t)m->weights_bytes,
                                         .kv_token_bytes = (int64_t)m->kv_token_bytes,
                                         .ttft_s = sc->ttft_s,
                                         .tbt_s = sc->tbt_s,
                                         .rate = sc->rate};
        rates[i] = sc->rate;
    }
}

int sim_scenario_run(const struct sim_search *search, uint32_t n_models, uint64_t seed, struct sim_result *out,
                     struct br_err *err)
{
    const struct sim_scenario *sc = search->scenario;
    struct br_pl_model models[SIM_MAX_MODELS];
    struct br_pl_hardware hw[64];
    double rates[SIM_MAX_MODELS];
    struct priced priced = {sc->gpu, sc->mix};
    models_fill(sc, n_models, models, rates);
    for (uint32_t i = 0; i < sc->n_devices; i++)
        hw[i] = (struct br_pl_hardware){.memory_bytes = (int64_t)sim_usable_bytes(sc->gpu),
                                        .link_bytes_per_s = sim_link_bytes_per_s(sc->gpu)};
    struct sim_traffic traffic = {seed, n_models, rates, sc->horizon_s, {540, .78, 16, 4096}, {242, .6, 16, 2048}};
    uint32_t n;
    struct sim_request *requests = sim_arrivals(&traffic, &n);
    if (!requests)
        return br_err_set(err, BR_ENOMEM, "no memory for the requests of %u models", n_models);
    struct sim_run run = {
        .pool = {.n_models = n_models,
                 .n_devices = sc->n_devices,
                 .models = models,
                 .hardware = hw,
                 .cost = {&priced, step_cost},
                 .options = search->options},
        .requests = requests,
        .n_requests = n,
        .horizon_s = sc->horizon_s,
        .margin_s = 60,
        .run_on_s = 150,
        .books = search->books,
        .check = search->check,
        .late_stop = search->n_seeds * (1 - search->give_up),
    };
    int rc = sim_run(&run, out, err);
    free(requests);
    return rc;
}

double sim_attainment(struct sim_search *search, uint32_t n_models, struct br_err *err)
{
    if (n_models == 0)
        return 1;
    if (n_models > SIM_MAX_MODELS)
        return 0;
    double *known = &search->attainment[n_models], sum = 0;
    if (*known >= 0)
        return *known;
    for (uint32_t i = 0; i < search->n_seeds; i++) {
        struct sim_result result;
        if (sim_scenario_run(search, n_models, search->first_seed + i, &result, err) < 0)
            return -1;
        search->n_runs++;
        sum += result.attainment;
    }
    return *known = sum / search->n_seeds > 0 ? sum / search->n_seeds : 0;
}

/* Brackets the crossing by growing steps from the guess, then halves. */
static int bracket(struct sim_search *s, double target, uint32_t *lo, uint32_t *hi, struct br_err *err)
{
    uint32_t at = s->guess, step = s->guess / 12 + 1;
    double a = sim_attainment(s, at, err);
    if (a < 0)
        return -1;
    bool up = a >= target;
    for (*lo = *hi = at; (a >= target) == up; step *= 2) {
        *(up ? lo : hi) = at;
        at = up ? at + step : at > step ? at - step : 0;
        if ((a = sim_attainment(s, at, err)) < 0)
            return -1;
    }
    *(up ? hi : lo) = at;
    return 0;
}

int32_t sim_goodput(struct sim_search *s, double target, struct br_err *err)
{
    uint32_t lo, hi;
    if (bracket(s, target, &lo, &hi, err) < 0)
        return -1;
    while (hi - lo > 1) {
        uint32_t mid = (lo + hi) / 2;
        double a = sim_attainment(s, mid, err);
        if (a < 0)
            return -1;
        *(a >= target ? &lo : &hi) = mid;
    }
    for (uint32_t beyond = lo + 1; beyond <= lo + 2; beyond++) {
        double a = sim_attainment(s, beyond, err);
        if (a < 0)
            return -1;
        if (a >= target)
            lo = beyond;
    }
    return (int32_t)lo;
}
