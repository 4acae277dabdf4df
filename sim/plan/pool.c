#include "sim/plan/pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/options.h"

static const char *const g_policies[] = {"slack",       "aegaeon",   "aegaeon-tuned", "request",
                                         "request-sjf", "multiplex", "dedicated",     PLAN_HANDICAPPED};
enum { N_POLICIES = sizeof g_policies / sizeof *g_policies };

int plan_policy_check(const char *name, struct br_err *err)
{
    for (size_t i = 0; i < N_POLICIES; i++)
        if (strcmp(name, g_policies[i]) == 0)
            return 0;
    const char *near = br_nearest(name, g_policies, N_POLICIES);
    return br_err_set(err, BR_EINVAL,
                      "unknown policy '%.40s'%s%s%s: there are slack, aegaeon, aegaeon-tuned, request, request-sjf, "
                      "multiplex and dedicated",
                      name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

void plan_tally_init(struct plan_tally *tally)
{
    *tally =
        (struct plan_tally){.ttft_us = br_malloc(sizeof *tally->ttft_us), .tbt_us = br_malloc(sizeof *tally->tbt_us)};
    br_hist_init(tally->ttft_us);
    br_hist_init(tally->tbt_us);
}

void plan_tally_free(struct plan_tally *tally)
{
    free(tally->ttft_us);
    free(tally->tbt_us);
    *tally = (struct plan_tally){0};
}

void plan_tally_add(struct plan_tally *into, const struct plan_tally *from)
{
    into->tokens += from->tokens;
    into->on_time += from->on_time;
    into->device_s += from->device_s;
    into->switches += from->switches;
    into->decode_s += from->decode_s;
    into->prefill_s += from->prefill_s;
    into->switch_s += from->switch_s;
    into->stalled_s += from->stalled_s;
    into->link_s += from->link_s;
    into->compute_s += from->compute_s;
    if (from->host_kv_bytes > into->host_kv_bytes)
        into->host_kv_bytes = from->host_kv_bytes;
    br_hist_merge(into->ttft_us, from->ttft_us);
    br_hist_merge(into->tbt_us, from->tbt_us);
}

double plan_tally_attainment(const struct plan_tally *tally)
{
    return tally->tokens ? (double)tally->on_time / (double)tally->tokens : 1;
}

/* What a run needs, made once for all counts of devices tried. */
struct prepared {
    struct plan_costs costs;
    struct br_pl_model *models;
    struct sim_request *requests;
    uint32_t n_requests;
    struct br_pl_hardware *hardware;
    double run_on_s; /* until the last token is due, and some more */
};

static void prepared_free(struct prepared *p)
{
    plan_costs_free(&p->costs);
    free(p->models);
    free(p->requests);
    free(p->hardware);
}

static void models_fill(const struct plan_trial *t, struct prepared *p)
{
    uint32_t *count = br_calloc(t->pool->n_models, sizeof *count);
    for (uint32_t i = 0; i < p->n_requests; i++)
        count[p->requests[i].model]++;
    for (uint32_t i = 0; i < t->pool->n_models; i++) {
        const struct plan_model *m = &t->ask->models[t->pool->models[i]];
        p->models[i] = (struct br_pl_model){.weights_bytes = (int64_t)m->footprint.weight_bytes,
                                            .kv_token_bytes = (int64_t)plan_cost_kv_token(&p->costs.costs[i]),
                                            .ttft_s = m->ttft_s,
                                            .tbt_s = m->tbt_s,
                                            .rate = count[i] / t->ask->horizon_s};
    }
    free(count);
}

/* The pool's requests, with the models' numbers in the pool. */
static void requests_fill(const struct plan_trial *t, struct prepared *p)
{
    uint32_t *place = br_calloc(t->ask->n_models, sizeof *place), n = 0;
    for (uint32_t i = 0; i < t->pool->n_models; i++)
        place[t->pool->models[i]] = i + 1;
    for (uint32_t i = 0; i < t->requests.n; i++)
        n += place[t->requests.list[i].model] > 0;
    p->requests = br_calloc(n + 1, sizeof *p->requests);
    for (uint32_t i = 0; i < t->requests.n; i++) {
        struct sim_request r = t->requests.list[i];
        if (place[r.model] == 0)
            continue;
        r.model = place[r.model] - 1;
        p->requests[p->n_requests++] = r;
    }
    free(place);
}

static double run_on_s(const struct plan_trial *t, const struct prepared *p)
{
    double last = t->ask->horizon_s;
    for (uint32_t i = 0; i < p->n_requests; i++) {
        const struct plan_model *m = &t->ask->models[t->pool->models[p->requests[i].model]];
        last = fmax(last, p->requests[i].at_s + m->ttft_s + p->requests[i].output * m->tbt_s);
    }
    return last - t->ask->horizon_s + t->ask->run_on_s;
}

static int prepare(const struct plan_trial *t, struct prepared *p, struct br_err *err)
{
    *p = (struct prepared){0};
    int rc = plan_costs_init(&p->costs, t->ask, &t->pool->kind, t->pool->models, t->pool->n_models, err);
    if (rc < 0)
        return rc;
    p->models = br_calloc(t->pool->n_models, sizeof *p->models);
    requests_fill(t, p);
    models_fill(t, p);
    p->run_on_s = run_on_s(t, p);
    return 0;
}

static bool handicapped(const struct plan_trial *t)
{
    return strcmp(t->policy, PLAN_HANDICAPPED) == 0;
}

static void hardware_fill(const struct plan_trial *t, struct prepared *p)
{
    static const double HANDICAPPED_LINK = 16e9; /* bytes/s of a GPU */
    struct br_pl_hardware hw = {.memory_bytes = (int64_t)plan_kind_memory(t->ask, &t->pool->kind),
                                .link_bytes_per_s = plan_kind_link(t->ask, &t->pool->kind)};
    if (handicapped(t))
        hw.link_bytes_per_s = fmin(hw.link_bytes_per_s, t->pool->kind.tp * HANDICAPPED_LINK);
    p->hardware = br_realloc(p->hardware, t->n_devices * sizeof hw);
    for (uint32_t i = 0; i < t->n_devices; i++)
        p->hardware[i] = hw;
}

static void tally_run(struct plan_tally *tally, const struct sim_result *r, double device_s)
{
    tally->tokens += r->tokens;
    tally->on_time += r->on_time;
    tally->device_s += device_s;
    tally->switches += (double)r->switches;
    tally->decode_s += r->decode_busy * device_s;
    tally->prefill_s += r->prefill_busy * device_s;
    tally->switch_s += r->switch_busy * device_s;
    tally->stalled_s += r->stalled * device_s;
    tally->link_s += r->link_busy * device_s;
    tally->compute_s += r->compute_busy * device_s;
    if (r->host_kv_bytes > tally->host_kv_bytes)
        tally->host_kv_bytes = r->host_kv_bytes;
}

/* As `briareus worker` sets them for a CPU by default: loads in pieces of 20 ms, steps of 64 sequences and of chunks of
 * 256 rows. */
static void measured_options(const struct br_measured *measured, struct br_pl_options *options)
{
    options->chunk_bytes = (int64_t)(.02 * measured->link_bytes_per_s) + 1;
    options->max_batch = 64;
    options->max_chunk_rows = 256;
    options->max_step_rows = 256 + 64;
}

static struct br_pl_options options_of(const struct plan_trial *t)
{
    struct br_pl_options options = {.policy = t->policy,
                                    .hysteresis = t->ask->hysteresis,
                                    .q_max_s = 4,
                                    .chunk_bytes = 1000000000,
                                    .prefill_step_s = .3,
                                    .recompute = !t->ask->by_token};
    if (plan_kind_measured(t->ask, &t->pool->kind))
        measured_options(t->ask->measured, &options);
    if (t->ask->chunk_bytes)
        options.chunk_bytes = t->ask->chunk_bytes;
    if (handicapped(t)) {
        options.policy = "request";
        options.max_batch = 4;
        options.shed = options.no_joining = options.no_draining = true;
    }
    return options;
}

static double run_once(const struct plan_trial *t, struct prepared *p, const struct br_pl_options *options,
                       struct plan_tally *tally, struct br_err *err)
{
    const struct plan_ask *ask = t->ask;
    struct sim_result result;
    struct sim_run run = {
        .pool = {t->pool->n_models, t->n_devices, 0, p->models, p->hardware, {&p->costs, plan_costs_step_s}, *options},
        .requests = p->requests,
        .n_requests = p->n_requests,
        .horizon_s = ask->horizon_s,
        .margin_s = ask->margin_s,
        .run_on_s = p->run_on_s,
        .books = !ask->by_token,
        .late_stop = t->give_up > 0 ? 1 - t->give_up : 0,
        .switch_s = plan_kind_measured(ask, &t->pool->kind) ? fmax(ask->measured->switch_s, 1e-9) : 0,
        .ttft_us = tally ? tally->ttft_us : NULL,
        .tbt_us = tally ? tally->tbt_us : NULL,
        .observer = tally ? t->observer : NULL,
    };
    if (sim_run(&run, &result, err) < 0)
        return -1;
    if (tally)
        tally_run(tally, &result, t->n_devices * ask->horizon_s);
    return result.attainment > 0 ? result.attainment : 0;
}

/* As published: 6 of 16 devices prefill. */
static uint32_t prefill_devices(uint32_t n_devices)
{
    uint32_t n = (n_devices * 3 + 4) / 8;
    return n ? n : 1;
}

static double run_tuned(const struct plan_trial *t, struct prepared *p, struct plan_tally *tally, struct br_err *err)
{
    static const double q_max[] = {4, 2, 1, .5, .25}, share[] = {.125, .25, .375, .5};
    struct br_pl_options best = {0};
    double best_attainment = -1;
    for (uint32_t k = 0, last = 0; k < 4; k++) {
        struct br_pl_options options = options_of(t);
        options.policy = "aegaeon";
        options.n_prefill = (uint32_t)(share[k] * t->n_devices + .5);
        if (options.n_prefill == last || options.n_prefill == t->n_devices)
            continue;
        last = options.n_prefill;
        for (uint32_t i = 0; i < 5; i++) {
            options.q_max_s = q_max[i];
            double a = run_once(t, p, &options, NULL, err);
            if (a < 0)
                return a;
            if (a > best_attainment) {
                best_attainment = a;
                best = options;
            }
            if (!tally && best_attainment >= t->give_up && t->give_up > 0)
                return best_attainment;
        }
    }
    return tally ? run_once(t, p, &best, tally, err) : best_attainment;
}

static double run_prepared(const struct plan_trial *t, struct prepared *p, struct plan_tally *tally, struct br_err *err)
{
    hardware_fill(t, p);
    if (strcmp(t->policy, "aegaeon-tuned") == 0)
        return run_tuned(t, p, tally, err);
    struct br_pl_options options = options_of(t);
    options.n_prefill = prefill_devices(t->n_devices);
    return run_once(t, p, &options, tally, err);
}

double plan_trial_run(const struct plan_trial *trial, struct plan_tally *tally, struct br_err *err)
{
    struct prepared p;
    if (prepare(trial, &p, err) < 0)
        return -1;
    double attainment = run_prepared(trial, &p, tally, err);
    prepared_free(&p);
    return attainment;
}

struct search {
    struct plan_trial *trial;
    struct prepared *prepared;
    struct br_err *err;
    double target;
};

/* 1: holds, 0: does not, < 0: *err. */
static int holds(struct search *s, uint32_t n)
{
    s->trial->n_devices = n;
    double a = run_prepared(s->trial, s->prepared, NULL, s->err);
    return a < 0 ? -1 : a >= s->target;
}

/* lo does not hold (or is least - 1), hi does: steps that grow, then halves. 0: most does not hold either. */
static int32_t cross(struct search *s, uint32_t guess, uint32_t least, uint32_t most)
{
    uint32_t lo = least - 1, hi = 0, step = guess / 8 + 1, at = guess < least ? least : guess > most ? most : guess;
    while (!hi || hi - lo > 1) {
        int ok = holds(s, at);
        if (ok < 0)
            return -1;
        if (ok)
            hi = at;
        else
            lo = at;
        if (lo >= most)
            return 0;
        if (!hi)
            at = at + step < most ? at + step : most;
        else if (lo < least && at > least + step && at == hi)
            at = hi - step;
        else
            at = lo + (hi - lo) / 2 > lo ? lo + (hi - lo) / 2 : hi;
        step *= 2;
    }
    return (int32_t)hi;
}

int32_t plan_pool_need(struct plan_trial *trial, uint32_t guess, uint32_t least, uint32_t most, struct br_err *err)
{
    struct prepared p;
    if (prepare(trial, &p, err) < 0)
        return -1;
    trial->give_up = trial->target;
    struct search search = {trial, &p, err, trial->target};
    int32_t need = cross(&search, guess, least, most);
    prepared_free(&p);
    return need;
}
