#include "sim/plan/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct fleet {
    struct plan_needs *needs;
    const struct plan_layout *layout;
    const char *policy;
    uint32_t first, n_seeds, least; /* least: devices of a pool */
    uint32_t *devices;
    double *late;   /* [pool * n_seeds + seed]: late tokens with devices[pool] */
    double *fewer;  /* the same with one device less; < 0: not tried */
    double *budget; /* [n_seeds]: tokens that may be late */
    double *cap;    /* [pool * n_seeds + seed]: of them in this pool */
};

uint32_t plan_fleet_gpus(const struct plan_layout *layout, const uint32_t *devices, uint32_t redundancy)
{
    uint32_t gpus = 0;
    for (uint32_t p = 0; p < layout->n_pools; p++)
        gpus += (devices[p] + redundancy) * layout->pools[p].kind.tp;
    return gpus;
}

static int needs_of(struct fleet *f, struct br_err *err)
{
    uint32_t n_pools = f->layout->n_pools, *found = br_calloc((size_t)n_pools * f->n_seeds, sizeof *found);
    int rc = plan_needs_find(f->needs, f->layout, f->policy, f->first, f->n_seeds, found, err);
    bool held = true;
    for (uint32_t p = 0; rc == 0 && p < n_pools; p++) {
        bool pool_held = true;
        f->devices[p] = 0;
        for (uint32_t s = 0; s < f->n_seeds; s++) {
            uint32_t n = found[p * f->n_seeds + s];
            pool_held = pool_held && n > 0;
            f->devices[p] = n > f->devices[p] ? n : f->devices[p];
        }
        if (!pool_held)
            f->devices[p] = 0;
        held = held && pool_held;
    }
    free(found);
    return rc < 0 ? rc : !held;
}

/* Late tokens of the pools where devices differ from 0, with so many less. */
static int late_of(struct fleet *f, uint32_t less, const bool *wanted, double *out, struct br_err *err)
{
    uint32_t n_pools = f->layout->n_pools, *n = br_calloc(n_pools, sizeof *n);
    for (uint32_t p = 0; p < n_pools; p++)
        n[p] = wanted[p] && f->devices[p] >= f->least + less ? f->devices[p] - less : 0;
    int rc = plan_needs_late(f->needs, f->layout, f->policy, f->first, f->n_seeds, n, out, err);
    free(n);
    return rc;
}

/* Tokens that more would be late per GPU with one device less in the pool, the worst seed; < 0: may not be. */
static double price(const struct fleet *f, uint32_t pool)
{
    double worst = 0;
    for (uint32_t s = 0; s < f->n_seeds; s++) {
        double sum = 0, more = f->fewer[pool * f->n_seeds + s] - f->late[pool * f->n_seeds + s];
        if (f->fewer[pool * f->n_seeds + s] < 0)
            return -1;
        for (uint32_t p = 0; p < f->layout->n_pools; p++)
            sum += f->late[p * f->n_seeds + s];
        if (sum + more > f->budget[s] || f->fewer[pool * f->n_seeds + s] > f->cap[pool * f->n_seeds + s])
            return -1;
        more = more > 0 ? more : 0;
        worst = more > worst ? more : worst;
    }
    return worst / f->layout->pools[pool].kind.tp;
}

static int32_t cheapest(const struct fleet *f)
{
    int32_t best = -1;
    double best_price = 0;
    for (uint32_t p = 0; p < f->layout->n_pools; p++) {
        double at = price(f, p);
        if (at >= 0 && (best < 0 || at < best_price)) {
            best = (int32_t)p;
            best_price = at;
        }
    }
    return best;
}

/* Pools that no count helped are late with more than their part. Marks those over their cap with 0 devices. */
static bool holds(struct fleet *f)
{
    bool held = true;
    for (uint32_t s = 0; s < f->n_seeds; s++) {
        double sum = 0;
        for (uint32_t p = 0; p < f->layout->n_pools; p++)
            sum += f->late[p * f->n_seeds + s];
        held = held && sum <= f->budget[s];
    }
    for (uint32_t i = 0; i < f->layout->n_pools * f->n_seeds; i++)
        if (f->late[i] > f->cap[i]) {
            f->devices[i / f->n_seeds] = 0;
            held = false;
        }
    return held;
}

static int trim(struct fleet *f, struct br_err *err)
{
    uint32_t n_pools = f->layout->n_pools;
    bool *wanted = br_calloc(n_pools, sizeof *wanted);
    memset(wanted, true, n_pools * sizeof *wanted);
    int rc = late_of(f, 0, wanted, f->late, err);
    if (rc == 0 && !holds(f))
        rc = 1;
    if (rc == 1 &&
        strcmp(f->policy, "dedicated") == 0) { /* as many replicas as help: all that there is to compare with */
        free(wanted);
        return needs_of(f, err);
    }
    while (rc == 0 && (rc = late_of(f, 1, wanted, f->fewer, err)) == 0) {
        int32_t p = cheapest(f);
        if (p < 0)
            break;
        f->devices[p]--;
        memcpy(&f->late[p * f->n_seeds], &f->fewer[p * f->n_seeds], f->n_seeds * sizeof *f->late);
    }
    free(wanted);
    return rc;
}

int plan_fleet_find(struct plan_needs *needs, const struct plan_layout *layout, const char *policy, uint32_t first,
                    uint32_t n, uint32_t *devices, struct br_err *err)
{
    size_t cells = (size_t)layout->n_pools * n;
    struct fleet f = {.needs = needs,
                      .layout = layout,
                      .policy = policy,
                      .first = first,
                      .n_seeds = n,
                      .least = plan_needs_least(policy),
                      .devices = devices,
                      .late = br_calloc(cells, sizeof *f.late),
                      .fewer = br_calloc(cells, sizeof *f.fewer),
                      .budget = br_calloc(n, sizeof *f.budget),
                      .cap = br_calloc(cells, sizeof *f.cap)};
    int rc = needs_of(&f, err);
    if (rc == 0) {
        plan_needs_budget(needs, first, n, f.budget);
        rc = plan_needs_caps(needs, layout, first, n, f.cap, err);
    }
    if (rc == 0)
        rc = trim(&f, err);
    free(f.late);
    free(f.fewer);
    free(f.budget);
    free(f.cap);
    return rc;
}
