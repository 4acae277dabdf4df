#include "sim/plan/mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sim/plan/choose.h"
#include "sim/plan/fleet.h"
#include "sim/plan/solver.h"

enum { MIX_KINDS = 3, MIX_MOST_TRIED = 9 /* of one pair */ };
static const char MIX_POLICY[] = "slack";

struct mix {
    struct plan_ask ask;       /* with models of its own, that name their kinds */
    struct plan_solver solver; /* of it */
    const struct plan_answer *answer;
    double *loads[PLAN_MAX_GPUS]; /* [n_models] of each kind: busy GPUs */
    uint32_t *order;              /* [n]: models that may go to either kind */
    uint32_t n;
    uint32_t a, b; /* the pair */
    double *known; /* [n + 1]: $/h by x; < 0: not tried, INFINITY: does not hold */
    uint32_t tried;
};

static const struct plan_result *alone(const struct plan_answer *answer, const struct plan_ask *ask, uint32_t gpu)
{
    for (uint32_t p = 0; p < ask->n_policies; p++)
        if (strcmp(ask->policies[p], MIX_POLICY) == 0)
            return &answer->results[p * ask->n_gpus + gpu];
    return NULL;
}

/* ---- one pair ---- */

static void split_set(struct mix *m, uint32_t x)
{
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t model = m->order[i], kind = i < x ? m->a : m->b;
        m->ask.models[model].gpu = m->ask.gpus[kind];
        m->solver.load[model] = m->loads[kind][model];
    }
}

static double layout_price(const struct mix *m, const struct plan_layout *layout, const uint32_t *devices)
{
    double sum = 0;
    for (uint32_t p = 0; p < layout->n_pools; p++) {
        const struct plan_kind *kind = &layout->pools[p].kind;
        sum += (devices[p] + m->ask.redundancy) * kind->tp * kind->gpu->price_usd_per_hour;
    }
    return sum;
}

/* $/h with the first seed. */
static int split_try(struct mix *m, uint32_t x, struct br_err *err)
{
    struct plan_layout layout;
    uint32_t n_seeds = m->ask.n_seeds;
    if (x == 0 || x >= m->n || m->known[x] >= 0)
        return 0;
    split_set(m, x);
    m->ask.n_seeds = 1;
    int rc = plan_choose(&m->ask, m->solver.needs, m->solver.load, m->ask.gpus[m->a], MIX_POLICY, &layout, err);
    m->ask.n_seeds = n_seeds;
    if (rc < 0)
        return rc;
    uint32_t *devices = br_calloc(layout.n_pools, sizeof *devices);
    rc = plan_fleet_find(m->solver.needs, &layout, MIX_POLICY, 0, 1, devices, err);
    m->known[x] = rc == 0 ? layout_price(m, &layout, devices) : INFINITY;
    m->tried++;
    free(devices);
    plan_layout_free(&layout);
    return rc < 0 ? rc : 0;
}

/* 0: none holds. */
static uint32_t cheapest(const struct mix *m)
{
    uint32_t best = 0;
    for (uint32_t x = 1; x < m->n; x++)
        if (m->known[x] >= 0 && isfinite(m->known[x]) && (best == 0 || m->known[x] < m->known[best]))
            best = x;
    return best;
}

static int search(struct mix *m, struct br_err *err)
{
    uint32_t first = m->tried, step = (m->n + 3) / 4;
    int rc = 0;
    for (uint32_t x = step; rc == 0 && x < m->n; x += step)
        rc = split_try(m, x, err);
    while (rc == 0 && step > 1 && m->tried - first < MIX_MOST_TRIED) {
        uint32_t best = cheapest(m);
        step = (step + 1) / 2;
        if (best == 0)
            break;
        rc = split_try(m, best - (step < best ? step : 0), err);
        if (rc == 0)
            rc = split_try(m, best + step, err);
    }
    return rc;
}

struct ratio {
    uint32_t model;
    double a_over_b;
};

static int by_ratio(const void *x, const void *y)
{
    const struct ratio *a = x, *b = y;
    if (a->a_over_b != b->a_over_b)
        return a->a_over_b < b->a_over_b ? -1 : 1;
    return a->model < b->model ? -1 : 1;
}

static void order_make(struct mix *m, const struct plan_ask *ask)
{
    struct ratio *list = br_calloc(ask->n_models, sizeof *list);
    double price_a = ask->gpus[m->a]->price_usd_per_hour, price_b = ask->gpus[m->b]->price_usd_per_hour;
    m->n = 0;
    for (uint32_t i = 0; i < ask->n_models; i++) {
        double b = price_b * m->loads[m->b][i];
        if (!ask->models[i].gpu)
            list[m->n++] = (struct ratio){i, b > 0 ? price_a * m->loads[m->a][i] / b : price_a / price_b};
    }
    qsort(list, m->n, sizeof *list, by_ratio);
    for (uint32_t i = 0; i < m->n; i++)
        m->order[i] = list[i].model;
    for (uint32_t i = 0; i <= m->n; i++)
        m->known[i] = -1;
    free(list);
}

/* ---- all pairs ---- */

struct found {
    uint32_t a, b, x;
    double price;
};

static int pair_search(struct mix *m, const struct plan_ask *ask, uint32_t a, uint32_t b, struct found *best,
                       struct br_err *err)
{
    m->a = a;
    m->b = b;
    order_make(m, ask);
    int rc = search(m, err);
    uint32_t x = rc == 0 ? cheapest(m) : 0;
    if (x > 0 && (best->x == 0 || m->known[x] < best->price))
        *best = (struct found){a, b, x, m->known[x]};
    return rc;
}

/* The kinds by their price alone, the cheapest first; how many of them hold. */
static uint32_t kinds_sort(const struct plan_ask *ask, const struct plan_answer *answer, uint32_t *kinds)
{
    uint32_t n = 0;
    for (uint32_t g = 0; g < ask->n_gpus; g++) {
        const struct plan_result *r = alone(answer, ask, g);
        if (!r || r->gpus == 0 || !(ask->gpus[g]->price_usd_per_hour > 0))
            continue;
        uint32_t at = n++;
        for (; at > 0 && alone(answer, ask, kinds[at - 1])->cost_per_hour > r->cost_per_hour; at--)
            kinds[at] = kinds[at - 1];
        kinds[at] = g;
    }
    return n;
}

static int loads_fill(struct mix *m, const struct plan_ask *ask, const uint32_t *kinds, uint32_t n, struct br_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        m->loads[kinds[i]] = br_calloc(ask->n_models, sizeof **m->loads);
        rc = plan_solver_load(ask, ask->gpus[kinds[i]], m->answer->requests, m->loads[kinds[i]], err);
    }
    return rc;
}

/* With all seeds; kept if it is cheaper than the cheapest kind alone. */
static int solve_best(struct mix *m, const struct plan_ask *ask, const struct found *best, struct plan_answer *answer,
                      struct br_err *err)
{
    struct plan_result r = {.policy = MIX_POLICY}, dedicated = {.policy = "dedicated"};
    m->a = best->a;
    m->b = best->b;
    order_make(m, ask);
    split_set(m, best->x);
    int rc = plan_solver_one(&m->solver, ask->gpus[best->a], &r, err);
    if (rc == 0)
        rc = plan_solver_one(&m->solver, ask->gpus[best->a], &dedicated, err);
    r.dedicated_gpus = dedicated.gpus;
    plan_result_free(&dedicated);
    answer->mix.cost_per_hour = r.cost_per_hour;
    answer->mix.found = rc == 0 && r.gpus > 0 && r.cost_per_hour < answer->mix.alone_per_hour - 1e-9;
    if (!answer->mix.found) {
        plan_result_free(&r);
        return rc;
    }
    answer->results = br_realloc(answer->results, (answer->n + 1) * sizeof *answer->results);
    answer->results[answer->n++] = r;
    return 0;
}

static void mix_open(struct mix *m, const struct plan_ask *ask, const struct plan_answer *answer)
{
    *m = (struct mix){.ask = *ask, .answer = answer};
    m->ask.models = br_malloc(ask->n_models * sizeof *ask->models);
    memcpy(m->ask.models, ask->models, ask->n_models * sizeof *ask->models);
    m->ask.curve = false;
    m->order = br_calloc(ask->n_models, sizeof *m->order);
    m->known = br_calloc(ask->n_models + 1, sizeof *m->known);
    m->solver.ask = &m->ask;
    m->solver.load = br_calloc(ask->n_models, sizeof *m->solver.load);
    m->solver.needs = plan_needs_create(&m->ask, answer->requests);
}

static void mix_close(struct mix *m)
{
    for (uint32_t i = 0; i < PLAN_MAX_GPUS; i++)
        free(m->loads[i]);
    plan_needs_free(m->solver.needs);
    free(m->solver.load);
    free(m->known);
    free(m->order);
    free(m->ask.models);
}

int plan_mix(const struct plan_ask *ask, struct plan_answer *answer, struct br_err *err)
{
    uint32_t kinds[PLAN_MAX_GPUS], n = kinds_sort(ask, answer, kinds);
    struct found best = {0};
    struct mix m;
    if (n < 2 || n < ask->n_gpus)
        return 0;
    n = n < MIX_KINDS ? n : MIX_KINDS;
    mix_open(&m, ask, answer);
    int rc = loads_fill(&m, ask, kinds, n, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        for (uint32_t k = i + 1; rc == 0 && k < n; k++)
            rc = pair_search(&m, ask, kinds[i], kinds[k], &best, err);
    answer->mix.tried = m.tried;
    answer->mix.alone_gpu = ask->gpus[kinds[0]]->name;
    answer->mix.alone_per_hour = alone(answer, ask, kinds[0])->cost_per_hour;
    if (rc == 0 && best.x > 0)
        rc = solve_best(&m, ask, &best, answer, err);
    mix_close(&m);
    return rc;
}
