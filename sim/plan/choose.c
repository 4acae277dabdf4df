#include "sim/plan/choose.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sim/plan/fleet.h"

enum { MAX_GROUPS = 4 }; /* with a choice; more would try more than 16 layouts */

struct chooser {
    const struct plan_ask *ask;
    struct plan_needs *needs;
    const double *load;
    const char *policy;
    struct plan_degrees *degrees; /* [n_models] */
    struct plan_kind *kinds;      /* [n_models], of the combination at hand */
    struct plan_degrees groups[MAX_GROUPS];
    uint32_t n_groups;
};

static bool same(const struct plan_degrees *a, const struct plan_degrees *b)
{
    return a->gpu == b->gpu && a->n == b->n && memcmp(a->tp, b->tp, sizeof a->tp) == 0;
}

static int32_t group_of(const struct chooser *c, const struct plan_degrees *d)
{
    for (uint32_t i = 0; i < c->n_groups; i++)
        if (same(&c->groups[i], d))
            return (int32_t)i;
    return -1;
}

static double heaviest(const struct plan_ask *ask)
{
    double most = 0;
    for (uint32_t m = 0; m < ask->n_models; m++)
        most = ask->models[m].footprint.weight_bytes > most ? ask->models[m].footprint.weight_bytes : most;
    return most;
}

/* Models of at least half the largest one's weight get their degrees doubled so many times. */
static int degrees_find(struct chooser *c, const struct br_gpu *gpu, uint32_t doublings, struct br_err *err)
{
    double large = heaviest(c->ask) / 2;
    c->n_groups = 0;
    for (uint32_t m = 0; m < c->ask->n_models; m++) {
        struct plan_degrees *d = &c->degrees[m];
        int rc = plan_degrees_of(c->ask, &c->ask->models[m], gpu, d, err);
        if (rc < 0)
            return rc;
        for (uint32_t i = 0; i < doublings && c->ask->models[m].footprint.weight_bytes >= large; i++)
            plan_degrees_double(c->ask, &c->ask->models[m], d);
        if (d->n > 1 && group_of(c, d) < 0 && c->n_groups < MAX_GROUPS)
            c->groups[c->n_groups++] = *d;
    }
    return 0;
}

/* Bit i of the combination: the larger degree for group i. */
static void combine(struct chooser *c, uint32_t combination)
{
    for (uint32_t m = 0; m < c->ask->n_models; m++) {
        const struct plan_degrees *d = &c->degrees[m];
        int32_t group = group_of(c, d);
        uint32_t larger = group >= 0 ? combination >> group & 1 : 0;
        c->kinds[m] = (struct plan_kind){d->gpu, d->tp[larger]};
    }
}

/* GPUs over the first n_seeds seeds, redundancy included; UINT32_MAX: does not hold. */
static int gpus_of(const struct chooser *c, const struct plan_layout *layout, uint32_t n_seeds, uint32_t *gpus,
                   struct br_err *err)
{
    uint32_t *devices = br_calloc(layout->n_pools, sizeof *devices);
    int rc = plan_fleet_find(c->needs, layout, c->policy, 0, n_seeds, devices, err);
    *gpus = rc == 0 ? plan_fleet_gpus(layout, devices, c->ask->redundancy) : UINT32_MAX;
    free(devices);
    return rc < 0 ? rc : 0;
}

struct candidate {
    struct plan_layout layout;
    uint32_t gpus, serial; /* with the first seed: no fewer are needed with all of them */
};

static int fewer_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->gpus != y->gpus)
        return x->gpus < y->gpus ? -1 : 1;
    return x->serial < y->serial ? -1 : 1;
}

static int candidates_make(struct chooser *c, struct candidate *list, uint32_t n, struct br_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        combine(c, i);
        list[i].serial = i;
        rc = plan_layout_make(c->ask, c->kinds, c->load, &list[i].layout, err);
        if (rc == 0)
            rc = gpus_of(c, &list[i].layout, 1, &list[i].gpus, err);
    }
    qsort(list, n, sizeof *list, fewer_first);
    return rc;
}

/* All seeds, in order of the first one's need, as long as that leaves hope. 1: none holds (*out is one all the same).
 */
static int best_of(struct chooser *c, struct plan_layout *out, struct br_err *err)
{
    uint32_t n = 1u << c->n_groups, best = 0, best_gpus = UINT32_MAX;
    struct candidate *list = br_calloc(n, sizeof *list);
    int rc = candidates_make(c, list, n, err);
    for (uint32_t i = 0; rc == 0 && i < n && list[i].gpus < best_gpus; i++) {
        uint32_t gpus;
        rc = gpus_of(c, &list[i].layout, c->ask->n_seeds, &gpus, err);
        if (rc == 0 && gpus < best_gpus) {
            best_gpus = gpus;
            best = i;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (rc == 0 && i == best)
            *out = list[i].layout;
        else
            plan_layout_free(&list[i].layout);
    free(list);
    return rc < 0 ? rc : best_gpus == UINT32_MAX;
}

static int singles(const struct plan_ask *ask, const struct br_gpu *gpu, struct plan_layout *out, struct br_err *err)
{
    out->pools = br_calloc(ask->n_models, sizeof *out->pools);
    for (uint32_t m = 0; m < ask->n_models; m++) {
        struct plan_model model = ask->models[m];
        struct plan_degrees d;
        struct plan_pool *pool = &out->pools[out->n_pools++];
        model.tp = model.dedicated_tp ? model.dedicated_tp : model.tp;
        pool->models = br_calloc(1, sizeof *pool->models);
        int rc = plan_degrees_of(ask, &model, gpu, &d, err);
        if (rc < 0) {
            plan_layout_free(out);
            return rc;
        }
        pool->models[pool->n_models++] = m;
        pool->kind = (struct plan_kind){d.gpu, d.tp[0]};
        pool->weights_bytes = model.footprint.weight_bytes;
    }
    return 0;
}

int plan_choose(const struct plan_ask *ask, struct plan_needs *needs, const double *load, const struct br_gpu *gpu,
                const char *policy, struct plan_layout *out, struct br_err *err)
{
    *out = (struct plan_layout){0};
    if (strcmp(policy, "dedicated") == 0)
        return singles(ask, gpu, out, err);
    struct chooser c = {.ask = ask,
                        .needs = needs,
                        .load = load,
                        .policy = policy,
                        .degrees = br_calloc(ask->n_models, sizeof *c.degrees),
                        .kinds = br_calloc(ask->n_models, sizeof *c.kinds)};
    int rc = 1;
    for (uint32_t doublings = 0; rc == 1 && doublings < 4; doublings++) {
        plan_layout_free(out);
        if ((rc = degrees_find(&c, gpu, doublings, err)) == 0)
            rc = best_of(&c, out, err);
    }
    free(c.degrees);
    free(c.kinds);
    return rc < 0 ? rc : 0;
}
