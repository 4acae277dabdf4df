#include "sim/plan/needs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sim/plan/attainable.h"
#include "sim/plan/fluid.h"
#include "sim/plan/jobs.h"

struct known {
    const char *policy;
    struct plan_kind kind;
    uint32_t *models, n_models; /* owned */
    uint32_t seed, need;
    double target;
};

struct plan_needs {
    const struct plan_ask *ask;
    const struct plan_requests *requests; /* [n_seeds] */
    struct known *known;                  /* owned */
    uint32_t n_known;
    struct known *runs; /* owned; need: devices, target: late tokens */
    uint32_t n_runs;
};

struct job {
    const struct plan_pool *pool;
    uint32_t seed, devices, need;
    double target, reached; /* reached: what the need holds, less than the target when none does */
    struct plan_tally tally;
};

struct plan_needs *plan_needs_create(const struct plan_ask *ask, const struct plan_requests *requests)
{
    struct plan_needs *needs = br_calloc(1, sizeof *needs);
    *needs = (struct plan_needs){.ask = ask, .requests = requests};
    return needs;
}

void plan_needs_free(struct plan_needs *needs)
{
    if (!needs)
        return;
    for (uint32_t i = 0; i < needs->n_known; i++)
        free(needs->known[i].models);
    for (uint32_t i = 0; i < needs->n_runs; i++)
        free(needs->runs[i].models);
    free(needs->known);
    free(needs->runs);
    free(needs);
}

static bool is_of(const struct known *k, const char *policy, const struct job *job)
{
    const struct plan_pool *pool = job->pool;
    return k->seed == job->seed && k->kind.gpu == pool->kind.gpu && k->kind.tp == pool->kind.tp &&
           k->n_models == pool->n_models && strcmp(k->policy, policy) == 0 &&
           memcmp(k->models, pool->models, pool->n_models * sizeof *pool->models) == 0;
}

static const struct known *need_known(const struct plan_needs *needs, const char *policy, const struct job *job)
{
    for (uint32_t i = 0; i < needs->n_known; i++)
        if (needs->known[i].target == job->target && is_of(&needs->known[i], policy, job))
            return &needs->known[i];
    return NULL;
}

static const struct known *run_known(const struct plan_needs *needs, const char *policy, const struct job *job)
{
    for (uint32_t i = 0; i < needs->n_runs; i++)
        if (needs->runs[i].need == job->devices && is_of(&needs->runs[i], policy, job))
            return &needs->runs[i];
    return NULL;
}

static void remember(struct known **list, uint32_t *n, const char *policy, const struct job *job, uint32_t need,
                     double target)
{
    const struct plan_pool *pool = job->pool;
    size_t bytes = pool->n_models * sizeof *pool->models;
    *list = br_realloc(*list, (*n + 1) * sizeof **list);
    (*list)[(*n)++] = (struct known){.policy = policy,
                                     .kind = pool->kind,
                                     .models = memcpy(br_malloc(bytes), pool->models, bytes),
                                     .n_models = pool->n_models,
                                     .seed = job->seed,
                                     .need = need,
                                     .target = target};
}

struct batch {
    struct plan_needs *needs;
    const char *policy; /* of the plan */
    struct job *jobs;
};

/* With one model a pool of its replicas; `slack` spreads its requests. */
static const char *simulated(const char *policy)
{
    return strcmp(policy, "dedicated") == 0 ? "slack" : policy;
}

static struct plan_trial trial_of(const struct batch *b, const struct job *job)
{
    return (struct plan_trial){.ask = b->needs->ask,
                               .pool = job->pool,
                               .policy = simulated(b->policy),
                               .requests = b->needs->requests[job->seed],
                               .n_devices = job->devices,
                               .target = job->target};
}

static void progress_need(const struct batch *b, const struct job *job)
{
    char line[256];
    if (!b->needs->ask->progress || (strcmp(b->policy, "dedicated") == 0 && job->need == 1))
        return;
    int n = snprintf(line, sizeof line, "%s: %u model%s (%s ...) on %u x %s: seed %u needs %u", b->policy,
                     job->pool->n_models, job->pool->n_models == 1 ? "" : "s",
                     b->needs->ask->models[job->pool->models[0]].name, job->pool->kind.tp, job->pool->kind.gpu->name,
                     job->seed + 1, job->need);
    if (job->reached < job->target)
        snprintf(line + n, sizeof line - (size_t)n, " for %.2f %%: no count reaches %.2f %%", 100 * job->reached,
                 100 * job->target);
    b->needs->ask->progress(line);
}

/* A pool that cannot hold its part of the target with any count: as many as help it to within .5 % of what most of them
 * reach. The fleet may hold all the same. */
static int32_t best_effort(struct plan_trial *trial, uint32_t guess, uint32_t most, struct br_err *err)
{
    trial->give_up = 0;
    trial->n_devices = most;
    double reached = plan_trial_run(trial, NULL, err);
    trial->target = reached - .005;
    return reached < 0 ? -1 : reached <= .005 ? 1 : plan_pool_need(trial, guess, 1, most, err);
}

static int need_run(void *ctx, uint32_t index, struct br_err *err)
{
    struct batch *b = ctx;
    struct job *job = &b->jobs[index];
    struct plan_trial trial = trial_of(b, job);
    double fluid = plan_fluid(trial.ask, &job->pool->kind, job->pool->models, job->pool->n_models, trial.requests.list,
                              trial.requests.n, NULL, err);
    if (fluid < 0)
        return err->code;
    uint32_t least = plan_needs_least(b->policy);
    uint32_t most = 2 * job->pool->n_models + 6 * (uint32_t)ceil(fluid) + 16;
    int32_t need = plan_pool_need(&trial, (uint32_t)ceil(1.15 * fluid), least, most, err);
    if (need == 0)
        need = best_effort(&trial, (uint32_t)ceil(1.15 * fluid), most, err);
    if (need < 0)
        return err->code;
    job->reached = trial.target;
    job->need = (uint32_t)need;
    progress_need(b, job);
    return 0;
}

/* What each pool has to hold with this seed; 1: more is out of reach than may be late. */
static int targets_of(const struct plan_needs *needs, const struct plan_layout *layout, uint32_t seed, double *targets,
                      struct br_err *err)
{
    struct plan_reach *reach = br_calloc(layout->n_pools, sizeof *reach);
    double out_of_reach;
    int rc = 0;
    for (uint32_t p = 0; rc == 0 && p < layout->n_pools; p++)
        rc = plan_reach_of(needs->ask, &layout->pools[p], &needs->requests[seed], &reach[p], err);
    if (rc == 0 && !plan_reach_targets(reach, layout->n_pools, needs->ask->target, targets, &out_of_reach))
        rc = 1;
    free(reach);
    return rc;
}

/* Runs the jobs whose results are not known and fills in all. */
static int needs_do(struct plan_needs *needs, const char *policy, struct job *all, uint32_t n, struct br_err *err)
{
    struct batch b = {needs, policy, br_calloc(n + 1, sizeof *b.jobs)};
    uint32_t n_new = 0;
    for (uint32_t i = 0; i < n; i++)
        if (all[i].target > 0 && !need_known(needs, policy, &all[i]))
            b.jobs[n_new++] = all[i];
    int rc = plan_jobs(n_new, needs->ask->n_threads, need_run, &b, err);
    for (uint32_t i = 0; rc == 0 && i < n_new; i++)
        remember(&needs->known, &needs->n_known, policy, &b.jobs[i], b.jobs[i].need, b.jobs[i].target);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        if (all[i].target > 0)
            all[i].need = need_known(needs, policy, &all[i])->need;
    free(b.jobs);
    return rc;
}

int plan_needs_find(struct plan_needs *needs, const struct plan_layout *layout, const char *policy, uint32_t first,
                    uint32_t n, uint32_t *out, struct br_err *err)
{
    uint32_t n_pools = layout->n_pools;
    struct job *jobs = br_calloc((size_t)n_pools * n, sizeof *jobs);
    double *targets = br_calloc(n_pools, sizeof *targets);
    int rc = 0;
    for (uint32_t s = 0; rc >= 0 && s < n; s++) {
        rc = targets_of(needs, layout, first + s, targets, err);
        for (uint32_t p = 0; rc >= 0 && p < n_pools; p++)
            jobs[s * n_pools + p] =
                (struct job){.pool = &layout->pools[p], .seed = first + s, .target = rc == 1 ? 0 : targets[p]};
    }
    if (rc >= 0)
        rc = needs_do(needs, policy, jobs, n_pools * n, err);
    for (uint32_t i = 0; rc == 0 && i < n_pools * n; i++)
        out[i % n_pools * n + i / n_pools] = jobs[i].need;
    free(targets);
    free(jobs);
    return rc;
}

static bool token_counts(const struct plan_ask *ask, const struct sim_request *r)
{
    return r->at_s >= ask->margin_s && r->at_s <= ask->horizon_s - ask->margin_s;
}

void plan_needs_budget(const struct plan_needs *needs, uint32_t first, uint32_t n, double *out)
{
    for (uint32_t s = 0; s < n; s++) {
        const struct plan_requests *r = &needs->requests[first + s];
        uint64_t tokens = 0;
        for (uint32_t i = 0; i < r->n; i++)
            tokens += token_counts(needs->ask, &r->list[i]) ? r->list[i].output : 0;
        out[s] = (1 - needs->ask->target) * (double)tokens;
    }
}

int plan_needs_caps(const struct plan_needs *needs, const struct plan_layout *layout, uint32_t first, uint32_t n,
                    double *out, struct br_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < layout->n_pools * n; i++) {
        struct plan_reach reach;
        rc = plan_reach_of(needs->ask, &layout->pools[i / n], &needs->requests[first + i % n], &reach, err);
        out[i] = reach.late + (1 - needs->ask->pool_floor) * ((double)reach.tokens - reach.late);
    }
    return rc;
}

uint32_t plan_needs_least(const char *policy)
{
    return strncmp(policy, "aegaeon", 7) == 0 ? 2 : 1; /* it needs one device to prefill, one to decode */
}

static int late_run(void *ctx, uint32_t index, struct br_err *err)
{
    struct batch *b = ctx;
    struct job *job = &b->jobs[index];
    struct plan_trial trial = trial_of(b, job);
    plan_tally_init(&job->tally);
    int rc = plan_trial_run(&trial, &job->tally, err) < 0 ? err->code : 0;
    job->target = (double)(job->tally.tokens - job->tally.on_time);
    plan_tally_free(&job->tally);
    return rc;
}

int plan_needs_late(struct plan_needs *needs, const struct plan_layout *layout, const char *policy, uint32_t first,
                    uint32_t n, const uint32_t *devices, double *out, struct br_err *err)
{
    struct batch b = {needs, policy, br_calloc((size_t)layout->n_pools * n, sizeof *b.jobs)};
    uint32_t n_new = 0;
    for (uint32_t i = 0; i < layout->n_pools * n; i++) {
        struct job job = {.pool = &layout->pools[i / n], .seed = first + i % n, .devices = devices[i / n]};
        if (job.devices > 0 && !run_known(needs, policy, &job))
            b.jobs[n_new++] = job;
    }
    int rc = plan_jobs(n_new, needs->ask->n_threads, late_run, &b, err);
    for (uint32_t i = 0; rc == 0 && i < n_new; i++)
        remember(&needs->runs, &needs->n_runs, policy, &b.jobs[i], b.jobs[i].devices, b.jobs[i].target);
    for (uint32_t i = 0; rc == 0 && i < layout->n_pools * n; i++) {
        struct job job = {.pool = &layout->pools[i / n], .seed = first + i % n, .devices = devices[i / n]};
        out[i] = job.devices > 0 ? run_known(needs, policy, &job)->target : -1;
    }
    free(b.jobs);
    return rc;
}

static int tally_run(void *ctx, uint32_t index, struct br_err *err)
{
    struct batch *b = ctx;
    struct job *job = &b->jobs[index];
    struct plan_trial trial = trial_of(b, job);
    plan_tally_init(&job->tally);
    return plan_trial_run(&trial, &job->tally, err) < 0 ? err->code : 0;
}

int plan_needs_tally(struct plan_needs *needs, const struct plan_layout *layout, const char *policy,
                     const uint32_t *devices, uint32_t n_seeds, struct plan_tally *tallies, struct br_err *err)
{
    uint32_t n = layout->n_pools * n_seeds;
    struct batch b = {needs, policy, br_calloc(n, sizeof *b.jobs)};
    for (uint32_t i = 0; i < n; i++)
        b.jobs[i] =
            (struct job){.pool = &layout->pools[i / n_seeds], .seed = i % n_seeds, .devices = devices[i / n_seeds]};
    int rc = plan_jobs(n, needs->ask->n_threads, tally_run, &b, err);
    for (uint32_t i = 0; i < n; i++) {
        if (b.jobs[i].tally.ttft_us && rc == 0)
            plan_tally_add(&tallies[i / n_seeds], &b.jobs[i].tally);
        plan_tally_free(&b.jobs[i].tally);
    }
    free(b.jobs);
    return rc;
}

int plan_needs_fluid(struct plan_needs *needs, const struct plan_layout *layout, double *out, struct br_err *err)
{
    uint32_t n_seeds = needs->ask->n_seeds;
    for (uint32_t p = 0; p < layout->n_pools; p++) {
        const struct plan_pool *pool = &layout->pools[p];
        out[p] = 0;
        for (uint32_t s = 0; s < n_seeds; s++) {
            double busy = plan_fluid(needs->ask, &pool->kind, pool->models, pool->n_models, needs->requests[s].list,
                                     needs->requests[s].n, NULL, err);
            if (busy < 0)
                return err->code;
            out[p] += busy / n_seeds;
        }
    }
    return 0;
}
