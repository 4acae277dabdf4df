#include "sim/plan/most.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sim/plan/jobs.h"
#include "sim/plan/place.h"

const double plan_most_targets[PLAN_MOST_TARGETS] = {.9, .99};

enum { MAX_COUNT = PLAN_MAX_MODELS };

struct most {
    const struct plan_ask *ask;
    struct plan_most *out;
    uint32_t n_devices; /* of one node or the fleet */
    double *attainment; /* [MAX_COUNT + 1], by models; < 0: not known */
    struct br_err *err;
};

/* A degree that holds every model, at which each can be split. */
static int kind_find(const struct plan_ask *ask, const struct br_gpu *gpu, struct plan_kind *out, struct br_err *err)
{
    *out = (struct plan_kind){gpu, 1};
    for (uint32_t m = 0; m < ask->n_models; m++) {
        struct plan_degrees d;
        int rc = plan_degrees_of(ask, &ask->models[m], gpu, &d, err);
        if (rc < 0)
            return rc;
        out->tp = d.tp[0] > out->tp ? d.tp[0] : out->tp;
        out->gpu = d.gpu;
    }
    for (uint32_t m = 0; m < ask->n_models; m++)
        if (!plan_kind_holds(ask, &ask->models[m], out, 1))
            return br_err_set(err, BR_EINVAL,
                              "%s does not go onto groups of %u GPUs, which others of these models need",
                              ask->models[m].name, out->tp);
    return 0;
}

/* The ask with n models of the mix. The caller frees models. */
static struct plan_ask mix_of(const struct plan_ask *ask, uint32_t n, double rate_scale)
{
    struct plan_ask mix = *ask;
    mix.models = br_calloc(n, sizeof *mix.models);
    mix.n_models = n;
    for (uint32_t i = 0; i < n; i++) {
        mix.models[i] = ask->models[i % ask->n_models];
        snprintf(mix.models[i].name, sizeof mix.models[i].name, "model-%u", i);
        br_process_scale(&mix.models[i].source.process, rate_scale);
    }
    return mix;
}

struct seed_job {
    const struct most *most;
    struct plan_ask *ask;
    struct plan_pool pool;
    double give_up;
    double *attainment;         /* [n_seeds] */
    struct plan_tally *tallies; /* [n_seeds]; NULL: not wanted */
};

static int seed_run(void *ctx, uint32_t index, struct br_err *err)
{
    struct seed_job *j = ctx;
    struct sim_request *list = NULL;
    struct plan_trial trial = {.ask = j->ask,
                               .pool = &j->pool,
                               .policy = j->most->out->policy,
                               .n_devices = j->most->n_devices,
                               .give_up = j->give_up};
    int rc = plan_requests(j->ask, j->ask->seed + index, &list, &trial.requests.n, err);
    if (rc < 0)
        return rc;
    trial.requests.list = list;
    j->attainment[index] = plan_trial_run(&trial, j->tallies ? &j->tallies[index] : NULL, err);
    free(list);
    return j->attainment[index] < 0 ? err->code : 0;
}

/* Mean over seeds; runs of hopeless counts end early. tally may be NULL. */
static double mix_run(const struct most *m, uint32_t n, double rate_scale, struct plan_tally *tally)
{
    struct plan_ask mix = mix_of(m->ask, n, rate_scale);
    struct seed_job j = {.most = m,
                         .ask = &mix,
                         .pool = {.kind = m->out->kind, .n_models = n, .models = br_calloc(n, sizeof(uint32_t))},
                         .give_up = tally ? 0 : 1 - m->ask->n_seeds * (1 - plan_most_targets[0]),
                         .attainment = br_calloc(m->ask->n_seeds, sizeof(double)),
                         .tallies = tally ? br_calloc(m->ask->n_seeds, sizeof *tally) : NULL};
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        j.pool.models[i] = i;
    for (uint32_t i = 0; tally && i < m->ask->n_seeds; i++)
        plan_tally_init(&j.tallies[i]);
    int rc = plan_jobs(m->ask->n_seeds, m->ask->n_threads, seed_run, &j, m->err);
    for (uint32_t i = 0; i < m->ask->n_seeds; i++) {
        sum += j.attainment[i] / m->ask->n_seeds;
        if (tally) {
            plan_tally_add(tally, &j.tallies[i]);
            plan_tally_free(&j.tallies[i]);
        }
    }
    free(j.tallies);
    free(j.attainment);
    free(j.pool.models);
    free(mix.models);
    return rc < 0 ? -1 : sum;
}

static double at(struct most *m, uint32_t n)
{
    if (n == 0)
        return 1;
    if (m->attainment[n] >= 0)
        return m->attainment[n];
    m->attainment[n] = mix_run(m, n, 1, NULL);
    if (m->ask->progress && m->attainment[n] >= 0) {
        char line[160];
        snprintf(line, sizeof line, "%s: %u models on %u x %u %s: %.2f %%", m->out->policy, n, m->n_devices,
                 m->out->kind.tp, m->out->kind.gpu->name, 100 * m->attainment[n]);
        m->ask->progress(line);
    }
    return m->attainment[n];
}

/* A crossing, looked two counts beyond, as goodput.h does; < 0: *err. */
static int32_t largest(struct most *m, double target, uint32_t guess)
{
    uint32_t lo = 0, hi = 0, n = guess ? guess : 1, step = guess / 8 + 1;
    while (!hi || hi - lo > 1) {
        double a = at(m, n);
        if (a < 0)
            return -1;
        *(a >= target ? &lo : &hi) = n;
        if (!hi && n == MAX_COUNT)
            return MAX_COUNT;
        if (!hi)
            n = n + step < MAX_COUNT ? n + step : MAX_COUNT;
        else if (lo == 0 && hi > step)
            n = hi - step;
        else
            n = lo + (hi - lo) / 2;
        step *= 2;
    }
    for (n = lo + 1; n <= hi + 1 && n <= MAX_COUNT; n++) {
        double a = at(m, n);
        if (a < 0)
            return -1;
        lo = a >= target ? n : lo;
    }
    return (int32_t)lo;
}

static double mean_bytes(const struct plan_ask *ask)
{
    double sum = 0;
    for (uint32_t i = 0; i < ask->n_models; i++)
        sum += ask->models[i].footprint.weight_bytes / ask->n_models;
    return sum;
}

static int open(struct most *m, const struct br_gpu *gpu, uint32_t gpus, const char *policy)
{
    *m->out = (struct plan_most){.policy = policy, .gpus = gpus, .nodes = 1};
    int rc = plan_policy_check(policy, m->err);
    if (rc == 0)
        rc = kind_find(m->ask, gpu, &m->out->kind, m->err);
    if (rc < 0)
        return rc;
    if (gpus % m->out->kind.tp)
        return br_err_set(m->err, BR_EINVAL, "a fleet of %u GPUs cannot be divided into groups of %u", gpus,
                          m->out->kind.tp);
    m->n_devices = gpus / m->out->kind.tp;
    if (m->n_devices < 2 && strncmp(policy, "aegaeon", 7) == 0)
        return br_err_set(m->err, BR_EINVAL, "%s needs at least 2 devices, and %u GPUs are one group of %u", policy,
                          gpus, m->out->kind.tp);
    plan_tally_init(&m->out->tally);
    return 0;
}

int plan_most_models(const struct plan_ask *ask, const struct br_gpu *gpu, uint32_t gpus, const char *policy,
                     struct plan_most *out, struct br_err *err)
{
    struct most m = {.ask = ask, .out = out, .err = err};
    int rc = open(&m, gpu, gpus, policy);
    if (rc < 0)
        return rc;
    if (gpus > ask->node_gpus && gpus % ask->node_gpus)
        return br_err_set(err, BR_EINVAL, "a fleet of %u GPUs is not a whole number of nodes of %u", gpus,
                          ask->node_gpus);
    out->nodes = gpus > ask->node_gpus ? gpus / ask->node_gpus : 1;
    m.n_devices /= out->nodes;
    m.attainment = br_malloc((MAX_COUNT + 1) * sizeof *m.attainment);
    for (uint32_t i = 0; i <= MAX_COUNT; i++)
        m.attainment[i] = -1;
    int32_t n = 3 * (int32_t)m.n_devices;
    for (int t = 0; t < PLAN_MOST_TARGETS && n >= 0; t++)
        if ((n = largest(&m, plan_most_targets[t], (uint32_t)n)) >= 0)
            out->models[t] = out->nodes * (uint32_t)n;
    free(m.attainment);
    out->host_models = (uint32_t)(out->nodes * ask->host_bytes / mean_bytes(ask));
    if (n > 0 && mix_run(&m, (uint32_t)n, 1, &out->tally) < 0)
        n = -1;
    return n < 0 ? err->code : 0;
}

/* The largest scale that holds; 0: none down to a thousandth. */
static double largest_scale(struct most *m, double target)
{
    double lo = 0, hi = 0, scale = 1;
    while (!hi || !(lo > 0) || hi / lo > 1.01) {
        double a = mix_run(m, m->ask->n_models, scale, NULL);
        if (a < 0)
            return -1;
        *(a >= target ? &lo : &hi) = scale;
        if (hi > 0 && hi < 1e-3)
            return 0;
        if (lo > 1e4)
            return lo;
        scale = !hi ? 2 * lo : !(lo > 0) ? hi / 2 : sqrt(lo * hi);
    }
    return lo;
}

int plan_most_rate(const struct plan_ask *ask, const struct br_gpu *gpu, uint32_t gpus, const char *policy,
                   struct plan_most *out, struct br_err *err)
{
    struct most m = {.ask = ask, .out = out, .err = err};
    double rate = 0, scale = 0;
    int rc = open(&m, gpu, gpus, policy);
    if (rc < 0)
        return rc;
    if (ask->recorded)
        return br_err_set(err, BR_EINVAL, "--max rate scales drawn traffic; replay a trace with --rate-scale instead");
    for (uint32_t i = 0; i < ask->n_models; i++)
        rate += br_process_count(&ask->models[i].source.process, ask->horizon_s) / ask->horizon_s;
    for (int t = 0; t < PLAN_MOST_TARGETS; t++) {
        if ((scale = largest_scale(&m, plan_most_targets[t])) < 0)
            return err->code;
        out->rate[t] = scale * rate;
    }
    out->host_models = (uint32_t)(ask->host_bytes / mean_bytes(ask));
    if (scale > 0 && mix_run(&m, ask->n_models, scale, &out->tally) < 0)
        return err->code;
    return 0;
}
