#include "sim/plan/place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static const double WEIGHTS_SHARE = .9; /* of host memory; the rest is for KV */
static const double SMALL_SHARE = .25;  /* kinds whose models take less of it are on every node */

/* The largest that could hold it, for the refusal. */
static int refuse(const struct plan_ask *ask, const struct plan_model *m, const struct br_gpu *gpu, struct br_err *err)
{
    struct plan_kind kind = {gpu, 1};
    uint32_t heads = m->footprint.size.heads;
    while (kind.tp < 8 && kind.tp < ask->node_gpus && heads % (2 * kind.tp) == 0)
        kind.tp *= 2;
    if (m->tp)
        kind.tp = m->tp;
    if (heads % kind.tp)
        return br_err_set(err, BR_EINVAL, "%s: its %u heads cannot be split %u ways", m->name, heads, kind.tp);
    return br_err_set(err, BR_ENOMEM,
                      "%s does not fit: %.1f GB of weights and %.1f GB of KV for %u tokens need %.1f GB, and %u x %s "
                      "have %.1f GB for them",
                      m->name, m->footprint.weight_bytes / 1e9,
                      (plan_kind_need(ask, m, &kind, 1) - m->footprint.weight_bytes) / 1e9, ask->context,
                      plan_kind_need(ask, m, &kind, 1) / 1e9, kind.tp, gpu->name, plan_kind_memory(ask, &kind) / 1e9);
}

int plan_degrees_of(const struct plan_ask *ask, const struct plan_model *m, const struct br_gpu *gpu,
                    struct plan_degrees *out, struct br_err *err)
{
    gpu = m->gpu ? m->gpu : gpu;
    *out = (struct plan_degrees){.gpu = gpu};
    if (m->tp) {
        if (!plan_kind_holds(ask, m, &(struct plan_kind){gpu, m->tp}, 1))
            return refuse(ask, m, gpu, err);
        out->tp[out->n++] = m->tp;
        return 0;
    }
    uint32_t one = plan_smallest_tp(ask, m, gpu, 1, 1), two = plan_smallest_tp(ask, m, gpu, 2, 1);
    if (!one)
        return refuse(ask, m, gpu, err);
    out->tp[out->n++] = one;
    if (two > one)
        out->tp[out->n++] = two;
    return 0;
}

void plan_degrees_double(const struct plan_ask *ask, const struct plan_model *m, struct plan_degrees *degrees)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < degrees->n && !m->tp; i++) {
        struct plan_kind twice = {degrees->gpu, 2 * degrees->tp[i]};
        bool can = twice.tp <= 8 && twice.tp <= ask->node_gpus && plan_kind_holds(ask, m, &twice, 1);
        degrees->tp[i] = can ? twice.tp : degrees->tp[i];
    }
    for (uint32_t i = 0; i < degrees->n; i++)
        if (n == 0 || degrees->tp[n - 1] != degrees->tp[i])
            degrees->tp[n++] = degrees->tp[i];
    for (uint32_t i = n; i < degrees->n; i++)
        degrees->tp[i] = 0;
    degrees->n = n;
}

static bool kind_same(const struct plan_kind *a, const struct plan_kind *b)
{
    return a->gpu == b->gpu && a->tp == b->tp;
}

static struct plan_pool *pool_add(struct plan_layout *layout, const struct plan_kind *kind)
{
    layout->pools = br_realloc(layout->pools, (layout->n_pools + 1) * sizeof *layout->pools);
    struct plan_pool *pool = &layout->pools[layout->n_pools++];
    *pool = (struct plan_pool){.kind = *kind};
    return pool;
}

static void pool_take(struct plan_pool *pool, uint32_t model, double bytes)
{
    pool->models = br_realloc(pool->models, (pool->n_models + 1) * sizeof *pool->models);
    pool->models[pool->n_models++] = model;
    pool->weights_bytes += bytes;
}

/* One pool a kind, models ascending. */
static void kinds_split(const struct plan_ask *ask, const struct plan_kind *kinds, struct plan_layout *out)
{
    for (uint32_t m = 0; m < ask->n_models; m++) {
        struct plan_pool *pool = NULL;
        for (uint32_t i = 0; i < out->n_pools && !pool; i++)
            if (kind_same(&out->pools[i].kind, &kinds[m]))
                pool = &out->pools[i];
        pool_take(pool ? pool : pool_add(out, &kinds[m]), m, ask->models[m].footprint.weight_bytes);
    }
}

struct heavy {
    uint32_t model;
    double bytes, load;
};

static int heavier(const void *a, const void *b)
{
    const struct heavy *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->load != y->load)
        return x->load < y->load ? 1 : -1;
    return x->model > y->model ? 1 : -1;
}

/* Largest first, each to the shard with the least load that has room; false: they do not go into so many. */
static bool deal(const struct heavy *models, uint32_t n, double room, struct plan_pool *shards, uint32_t n_shards)
{
    double *load = br_calloc(n_shards, sizeof *load);
    bool dealt = true;
    for (uint32_t i = 0; i < n && dealt; i++) {
        int32_t best = -1;
        for (uint32_t k = 0; k < n_shards; k++)
            if (shards[k].weights_bytes + models[i].bytes <= room && (best < 0 || load[k] < load[best]))
                best = (int32_t)k;
        dealt = best >= 0;
        if (dealt) {
            pool_take(&shards[best], models[i].model, models[i].bytes);
            load[best] += models[i].load + 1e-9;
        }
    }
    free(load);
    return dealt;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void shards_free(struct plan_pool *shards, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(shards[i].models);
    free(shards);
}

/* As few shards as the room allows, appended to the layout. */
static int shard(const struct plan_ask *ask, const struct plan_pool *pool, const double *load, double room,
                 struct plan_layout *out, struct br_err *err)
{
    struct heavy *models = br_calloc(pool->n_models, sizeof *models);
    uint32_t n = (uint32_t)ceil(pool->weights_bytes / room);
    for (uint32_t i = 0; i < pool->n_models; i++)
        models[i] =
            (struct heavy){pool->models[i], ask->models[pool->models[i]].footprint.weight_bytes, load[pool->models[i]]};
    qsort(models, pool->n_models, sizeof *models, heavier);
    int rc = models[0].bytes > room
                 ? br_err_set(err, BR_ENOMEM,
                              "%s alone takes %.1f GB of host memory, and a node has %.1f GB left for "
                              "its pool's weights",
                              ask->models[models[0].model].name, models[0].bytes / 1e9, room / 1e9)
                 : 0;
    for (bool dealt = rc < 0; !dealt; n++) {
        struct plan_pool *shards = br_calloc(n, sizeof *shards);
        for (uint32_t k = 0; k < n; k++)
            shards[k].kind = pool->kind;
        if ((dealt = deal(models, pool->n_models, room, shards, n)))
            for (uint32_t k = 0; k < n; k++) {
                qsort(shards[k].models, shards[k].n_models, sizeof *shards[k].models, ascending);
                *pool_add(out, &pool->kind) = shards[k];
            }
        if (dealt)
            free(shards);
        else
            shards_free(shards, n);
    }
    free(models);
    return rc;
}

/* Kinds with few bytes are on every node; what they leave is the others' room. */
static double room_for_large(const struct plan_ask *ask, const struct plan_layout *kinds)
{
    double cap = WEIGHTS_SHARE * ask->host_bytes, small = 0;
    for (uint32_t i = 0; i < kinds->n_pools; i++)
        if (kinds->pools[i].weights_bytes <= SMALL_SHARE * cap && small + kinds->pools[i].weights_bytes <= .5 * cap)
            small += kinds->pools[i].weights_bytes;
    return cap - small;
}

int plan_layout_make(const struct plan_ask *ask, const struct plan_kind *kinds, const double *load,
                     struct plan_layout *out, struct br_err *err)
{
    struct plan_layout whole = {0};
    int rc = 0;
    *out = (struct plan_layout){0};
    kinds_split(ask, kinds, &whole);
    double room = room_for_large(ask, &whole);
    for (uint32_t i = 0; rc == 0 && i < whole.n_pools; i++)
        rc = shard(ask, &whole.pools[i], load, room, out, err);
    plan_layout_free(&whole);
    if (rc < 0)
        plan_layout_free(out);
    return rc;
}

void plan_layout_free(struct plan_layout *layout)
{
    shards_free(layout->pools, layout->n_pools);
    *layout = (struct plan_layout){0};
}

struct node {
    uint32_t free_gpus;
    double bytes, kv_bytes;
    uint32_t last_pool; /* + 1: devices of a pool come one after the other */
};

/* A node that has the pool's models already, else the fullest with room for them and the GPUs; NULL: none. */
static struct node *node_find(struct node *nodes, uint32_t n, const struct plan_pool *pool, uint32_t pool_id,
                              double host_bytes)
{
    struct node *best = NULL;
    for (uint32_t i = 0; i < n; i++) {
        struct node *at = &nodes[i];
        if (at->free_gpus < pool->kind.tp)
            continue;
        if (at->last_pool == pool_id)
            return at;
        if (at->bytes + pool->weights_bytes <= host_bytes && (!best || at->free_gpus < best->free_gpus))
            best = at;
    }
    return best;
}

int plan_nodes_fill(const struct plan_ask *ask, const struct plan_layout *layout, const uint32_t *devices,
                    const double *kv_bytes, struct plan_nodes *out, struct br_err *err)
{
    struct node *nodes = NULL;
    *out = (struct plan_nodes){0};
    for (uint32_t p = layout->n_pools; p-- > 0;)
        if (layout->pools[p].kind.tp > ask->node_gpus)
            return br_err_set(err, BR_EINVAL, "groups of %u GPUs do not go into nodes of %u", layout->pools[p].kind.tp,
                              ask->node_gpus);
    /* large groups first, so that single GPUs fill what is left */
    for (uint32_t tp = 8; tp > 0; tp /= 2)
        for (uint32_t p = 0; p < layout->n_pools; p++)
            for (uint32_t d = 0; layout->pools[p].kind.tp == tp && d < devices[p]; d++) {
                struct node *at = node_find(nodes, out->n, &layout->pools[p], p + 1, ask->host_bytes);
                if (!at) {
                    nodes = br_realloc(nodes, (out->n + 1) * sizeof *nodes);
                    at = &nodes[out->n++];
                    *at = (struct node){.free_gpus = ask->node_gpus};
                }
                at->free_gpus -= tp;
                at->bytes += at->last_pool == p + 1 ? 0 : layout->pools[p].weights_bytes;
                at->kv_bytes += kv_bytes[p] / devices[p];
                at->last_pool = p + 1;
            }
    for (uint32_t i = 0; i < out->n; i++)
        out->most_bytes = fmax(out->most_bytes, nodes[i].bytes + nodes[i].kv_bytes);
    free(nodes);
    return 0;
}

uint32_t plan_host_floor(const struct plan_ask *ask)
{
    double bytes = 0;
    for (uint32_t i = 0; i < ask->n_models; i++)
        bytes += ask->models[i].footprint.weight_bytes;
    return (uint32_t)ceil(bytes / (ask->host_bytes / ask->node_gpus));
}
