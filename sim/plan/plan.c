#include "sim/plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sim/plan/choose.h"
#include "sim/plan/fleet.h"
#include "sim/plan/fluid.h"
#include "sim/plan/mix.h"
#include "sim/plan/solver.h"

void plan_interval(const uint32_t *values, uint32_t n, double *mean, double *half)
{
    static const double t975[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                  2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += values[i];
    *mean = n ? sum / n : NAN;
    for (uint32_t i = 0; i < n; i++)
        squares += (values[i] - *mean) * (values[i] - *mean);
    double t = n >= 2 && n - 2 < sizeof t975 / sizeof *t975 ? t975[n - 2] : 2.0;
    *half = n < PLAN_MIN_INTERVAL ? NAN : t * sqrt(squares / (n - 1) / n);
}

static void why_not(const struct plan_ask *ask, const struct plan_layout *layout, const uint32_t *devices,
                    struct plan_result *r)
{
    for (uint32_t p = 0; p < layout->n_pools; p++) {
        const struct plan_pool *pool = &layout->pools[p];
        if (devices[p] > 0)
            continue;
        snprintf(r->why, sizeof r->why, "no count of %u x %s within reason holds %.4g %% of the tokens of %s%s",
                 pool->kind.tp, pool->kind.gpu->name, 100 * ask->pool_floor, ask->models[pool->models[0]].name,
                 pool->n_models > 1 ? " and the models beside it" : "");
        return;
    }
    snprintf(r->why, sizeof r->why, "no count of devices within reason holds %.4g %% of all tokens", 100 * ask->target);
}

static int seeds_fill(struct plan_solver *s, const struct plan_layout *layout, struct plan_result *r,
                      struct br_err *err)
{
    uint32_t *devices = br_calloc(layout->n_pools, sizeof *devices);
    int rc = 0;
    for (uint32_t i = 0; rc >= 0 && i < s->ask->n_seeds; i++) {
        rc = plan_fleet_find(s->needs, layout, r->policy, i, 1, devices, err);
        r->need_by_seed[i] = rc == 0 ? plan_fleet_gpus(layout, devices, 0) : 0;
    }
    free(devices);
    return rc < 0 ? rc : 0;
}

static double busy_share(double seconds, const struct plan_tally *t)
{
    return t->device_s > 0 ? seconds / t->device_s : 0;
}

static void parts_fill(const struct plan_ask *ask, const struct plan_layout *layout, const uint32_t *devices,
                       const struct plan_tally *tallies, struct plan_result *r)
{
    r->parts = br_calloc(layout->n_pools, sizeof *r->parts);
    for (uint32_t p = 0; p < layout->n_pools; p++) {
        const struct plan_pool *pool = &layout->pools[p];
        r->parts[r->n_parts++] = (struct plan_part){
            .kind = pool->kind,
            .devices = devices[p] + ask->redundancy,
            .redundant = ask->redundancy,
            .n_models = pool->n_models,
            .models = memcpy(br_malloc(pool->n_models * sizeof *pool->models), pool->models,
                             pool->n_models * sizeof *pool->models),
            .weights_bytes = pool->weights_bytes,
            .attainment = plan_tally_attainment(&tallies[p]),
            .compute_busy = busy_share(tallies[p].compute_s, &tallies[p]),
            .link_busy = busy_share(tallies[p].link_s, &tallies[p]),
        };
        r->gpus += pool->kind.tp * (devices[p] + ask->redundancy);
        r->cost_per_hour += pool->kind.tp * (devices[p] + ask->redundancy) * pool->kind.gpu->price_usd_per_hour;
        r->redundant_gpus += pool->kind.tp * ask->redundancy;
        r->tp = pool->kind.tp > r->tp ? pool->kind.tp : r->tp;
        plan_tally_add(&r->tally, &tallies[p]);
    }
}

/* Nodes that are there for their memory alone have GPUs too. */
static int nodes_fill(const struct plan_ask *ask, const struct plan_layout *layout, const uint32_t *devices,
                      const struct plan_tally *tallies, struct plan_result *r, struct br_err *err)
{
    struct plan_nodes nodes;
    uint32_t *all = br_calloc(layout->n_pools, sizeof *all);
    double *kv = br_calloc(layout->n_pools, sizeof *kv);
    for (uint32_t p = 0; p < layout->n_pools; p++) {
        all[p] = devices[p] + ask->redundancy;
        kv[p] = tallies[p].host_kv_bytes;
    }
    int rc = plan_nodes_fill(ask, layout, all, kv, &nodes, err);
    free(all);
    free(kv);
    if (rc < 0)
        return rc;
    r->nodes = nodes.n;
    r->host_bytes_per_node = nodes.most_bytes;
    if (strcmp(r->policy, "dedicated") != 0 && r->host_floor_gpus > r->gpus) {
        r->memory_gpus = r->host_floor_gpus - r->gpus;
        r->gpus += r->memory_gpus;
        r->cost_per_hour += r->memory_gpus * layout->pools[0].kind.gpu->price_usd_per_hour;
    }
    return 0;
}

static int curve_point(struct plan_solver *s, const struct plan_layout *layout, const uint32_t *devices, double factor,
                       struct plan_result *r, struct br_err *err)
{
    struct plan_tally *tallies = br_calloc(layout->n_pools, sizeof *tallies), sum;
    uint32_t *n = br_calloc(layout->n_pools, sizeof *n), gpus = 0, least = strncmp(r->policy, "aegaeon", 7) ? 1 : 2;
    plan_tally_init(&sum);
    for (uint32_t p = 0; p < layout->n_pools; p++) {
        plan_tally_init(&tallies[p]);
        n[p] = (uint32_t)fmax(least, factor * devices[p] + .5);
        gpus += n[p] * layout->pools[p].kind.tp;
    }
    bool again = r->n_curve && r->curve[r->n_curve - 1].gpus == gpus;
    int rc = again ? 0 : plan_needs_tally(s->needs, layout, r->policy, n, 1, tallies, err);
    for (uint32_t p = 0; p < layout->n_pools; p++) {
        plan_tally_add(&sum, &tallies[p]);
        plan_tally_free(&tallies[p]);
    }
    if (rc == 0 && !again)
        r->curve[r->n_curve++] = (struct plan_point){gpus, plan_tally_attainment(&sum)};
    plan_tally_free(&sum);
    free(tallies);
    free(n);
    return rc;
}

static int curve_fill(struct plan_solver *s, const struct plan_layout *layout, const uint32_t *devices,
                      struct plan_result *r, struct br_err *err)
{
    static const double factors[] = {.5, .65, .8, .9, 1, 1.15, 1.3};
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < sizeof factors / sizeof *factors; i++)
        rc = curve_point(s, layout, devices, factors[i], r, err);
    return rc;
}

static int measure(struct plan_solver *s, const struct plan_layout *layout, const uint32_t *devices,
                   struct plan_result *r, struct br_err *err)
{
    struct plan_tally *tallies = br_calloc(layout->n_pools, sizeof *tallies);
    for (uint32_t p = 0; p < layout->n_pools; p++)
        plan_tally_init(&tallies[p]);
    int rc = plan_needs_tally(s->needs, layout, r->policy, devices, s->ask->n_seeds, tallies, err);
    if (rc == 0) {
        parts_fill(s->ask, layout, devices, tallies, r);
        rc = nodes_fill(s->ask, layout, devices, tallies, r, err);
    }
    if (rc == 0 && s->ask->curve && strcmp(r->policy, "dedicated") != 0)
        rc = curve_fill(s, layout, devices, r, err);
    for (uint32_t p = 0; p < layout->n_pools; p++)
        plan_tally_free(&tallies[p]);
    free(tallies);
    return rc;
}

static void interval(const struct plan_ask *ask, struct plan_result *r)
{
    double mean, half;
    plan_interval(r->need_by_seed, ask->n_seeds, &mean, &half);
    r->ci95[0] = mean - half < 0 ? 0 : mean - half; /* NAN stays */
    r->ci95[1] = mean + half;
}

/* Before the needs, so that a refusal has the bounds too. */
static int bounds_fill(struct plan_solver *s, const struct plan_layout *layout, double *fluid, struct plan_result *r,
                       struct br_err *err)
{
    int rc = plan_needs_fluid(s->needs, layout, fluid, err);
    for (uint32_t p = 0; p < layout->n_pools; p++)
        r->fluid_gpus += fluid[p] * layout->pools[p].kind.tp;
    for (uint32_t i = 0; i < s->ask->n_models; i++)
        r->disk_bytes += s->ask->models[i].footprint.weight_bytes;
    r->host_floor_gpus = plan_host_floor(s->ask);
    return rc;
}

/* Dedicated replicas are counted all the same: there is nothing else to compare with. */
static void short_of(const struct plan_ask *ask, struct plan_result *r)
{
    double reached = plan_tally_attainment(&r->tally);
    if (reached < ask->target)
        snprintf(r->why, sizeof r->why,
                 "holds %.2f %% of tokens, not %.4g %%: so many are as many as help, and no number holds more",
                 100 * reached, 100 * ask->target);
}

static int result_of(struct plan_solver *s, const struct plan_layout *layout, struct plan_result *r, struct br_err *err)
{
    const struct plan_ask *ask = s->ask;
    uint32_t *devices = br_calloc(layout->n_pools, sizeof *devices);
    double *fluid = br_calloc(layout->n_pools, sizeof *fluid);
    r->need_by_seed = br_calloc(ask->n_seeds, sizeof *r->need_by_seed);
    int rc = bounds_fill(s, layout, fluid, r, err);
    if (rc == 0)
        rc = plan_fleet_find(s->needs, layout, r->policy, 0, ask->n_seeds, devices, err);
    if (rc == 1)
        why_not(ask, layout, devices, r);
    if (rc >= 0 && seeds_fill(s, layout, r, err) < 0)
        rc = err->code;
    if (rc == 0) {
        interval(ask, r);
        rc = measure(s, layout, devices, r, err);
        short_of(ask, r);
    }
    for (uint32_t p = 0; rc == 0 && p < r->n_parts; p++)
        r->parts[p].fluid_devices = fluid[p];
    free(fluid);
    free(devices);
    return rc < 0 ? rc : 0;
}

static void gpu_names(const struct plan_layout *layout, struct plan_result *r)
{
    for (uint32_t p = 0; p < layout->n_pools; p++) {
        const char *name = layout->pools[p].kind.gpu->name;
        size_t n = strlen(r->gpu);
        if (!strstr(r->gpu, name))
            snprintf(r->gpu + n, sizeof r->gpu - n, "%s%s", n ? "+" : "", name);
    }
}

int plan_solver_one(struct plan_solver *s, const struct br_gpu *gpu, struct plan_result *r, struct br_err *err)
{
    struct plan_layout layout;
    plan_tally_init(&r->tally);
    int rc = plan_choose(s->ask, s->needs, s->load, gpu, r->policy, &layout, err);
    if (rc < 0)
        return rc;
    gpu_names(&layout, r);
    rc = result_of(s, &layout, r, err);
    plan_layout_free(&layout);
    return rc;
}

int plan_solver_load(const struct plan_ask *ask, const struct br_gpu *gpu, const struct plan_requests *requests,
                     double *load, struct br_err *err)
{
    double *busy = br_calloc(ask->n_models, sizeof *busy);
    int rc = 0;
    memset(load, 0, ask->n_models * sizeof *load);
    for (uint32_t m = 0; rc == 0 && m < ask->n_models; m++) {
        struct plan_degrees d;
        if ((rc = plan_degrees_of(ask, &ask->models[m], gpu, &d, err)) < 0)
            break;
        struct plan_kind kind = {d.gpu, d.tp[0]};
        if (plan_fluid(ask, &kind, &m, 1, requests[0].list, requests[0].n, busy, err) < 0)
            rc = err->code;
        load[m] = busy[m] * kind.tp;
    }
    free(busy);
    return rc;
}

void plan_result_free(struct plan_result *r)
{
    plan_tally_free(&r->tally);
    free(r->need_by_seed);
    for (uint32_t p = 0; p < r->n_parts; p++)
        free(r->parts[p].models);
    free(r->parts);
    *r = (struct plan_result){0};
}

static int solve_gpu(struct plan_solver *s, const struct br_gpu *gpu, uint32_t index, struct plan_answer *out,
                     struct br_err *err)
{
    const struct plan_ask *ask = s->ask;
    struct plan_result dedicated = {.policy = "dedicated"};
    int rc = plan_solver_load(ask, gpu, out->requests, s->load, err);
    if (rc == 0)
        rc = plan_solver_one(s, gpu, &dedicated, err);
    for (uint32_t p = 0; rc == 0 && p < ask->n_policies; p++) {
        struct plan_result *r = &out->results[p * ask->n_gpus + index];
        r->policy = ask->policies[p];
        rc = plan_solver_one(s, gpu, r, err);
        r->dedicated_gpus = dedicated.gpus;
    }
    plan_result_free(&dedicated);
    return rc;
}

static int requests_draw(const struct plan_ask *ask, struct plan_answer *out, struct br_err *err)
{
    out->n_seeds = ask->n_seeds;
    out->requests = br_calloc(ask->n_seeds, sizeof *out->requests);
    for (uint32_t i = 0; i < ask->n_seeds; i++) {
        struct sim_request *list = NULL;
        int rc = plan_requests(ask, ask->seed + i, &list, &out->requests[i].n, err);
        if (rc < 0)
            return rc;
        out->requests[i].list = list;
    }
    return 0;
}

int plan_solve(const struct plan_ask *ask, struct plan_answer *out, struct br_err *err)
{
    struct plan_solver s = {.ask = ask};
    int rc = 0;
    *out = (struct plan_answer){.n = ask->n_gpus * ask->n_policies};
    for (uint32_t i = 0; rc == 0 && i < ask->n_policies; i++)
        rc = plan_policy_check(ask->policies[i], err);
    out->results = br_calloc(out->n, sizeof *out->results);
    if (rc == 0)
        rc = requests_draw(ask, out, err);
    if (rc == 0) {
        s.load = br_calloc(ask->n_models, sizeof *s.load);
        s.needs = plan_needs_create(ask, out->requests);
        for (uint32_t i = 0; rc == 0 && i < ask->n_gpus; i++)
            rc = solve_gpu(&s, ask->gpus[i], i, out, err);
        plan_needs_free(s.needs);
        free(s.load);
        if (rc == 0 && !ask->one_kind)
            rc = plan_mix(ask, out, err);
    }
    if (rc < 0)
        plan_answer_free(out);
    return rc;
}

void plan_answer_free(struct plan_answer *answer)
{
    for (uint32_t i = 0; i < answer->n; i++)
        plan_result_free(&answer->results[i]);
    free(answer->results);
    for (uint32_t i = 0; answer->requests && i < answer->n_seeds; i++)
        free((void *)answer->requests[i].list);
    free(answer->requests);
    *answer = (struct plan_answer){0};
}
