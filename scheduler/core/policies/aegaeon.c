/* `aegaeon`: as published: static split of prefill and decode devices, grouped FCFS (4.2, Algorithm 1), weighted round
 * robin (4.3, Algorithm 2), prefetch of the next model when it fits beside the running one (5.2). */
#include "scheduler/core/policies/aegaeon.h"

#include <assert.h>

static size_t round_up(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static size_t aegaeon_bytes(const struct br_pl_config *c)
{
    size_t slots = (size_t)c->n_devices * c->n_models;
    return round_up(sizeof(struct aeg)) + round_up(c->max_seqs * sizeof(struct aeg_group)) +
           round_up(c->max_seqs * sizeof(int32_t)) + round_up(c->n_devices * sizeof(struct aeg_device)) +
           round_up(slots * sizeof(uint32_t)) + round_up(slots * sizeof(int32_t)) + round_up(slots * sizeof(double));
}

static void *carve(char **at, size_t bytes)
{
    char *part = *at;
    *at += round_up(bytes);
    return part;
}

static void aegaeon_init(struct br_pool *pool)
{
    char *at = pool->state;
    size_t slots = (size_t)pool->n_devices * pool->n_models;
    struct aeg *a = carve(&at, sizeof *a);
    a->groups = carve(&at, pool->max_seqs * sizeof *a->groups);
    a->group_of = carve(&at, pool->max_seqs * sizeof *a->group_of);
    a->devices = carve(&at, pool->n_devices * sizeof *a->devices);
    a->lists = carve(&at, slots * sizeof *a->lists);
    a->places = carve(&at, slots * sizeof *a->places);
    a->quotas = carve(&at, slots * sizeof *a->quotas);
    uint32_t n = pool->options.n_prefill;
    a->n_prefill = n >= pool->n_devices ? pool->n_devices - 1 : n == 0 && pool->n_devices > 1 ? 1 : n;
    for (uint32_t i = 0; i < pool->max_seqs; i++) {
        a->groups[i].next = i + 1 < pool->max_seqs ? (int32_t)i + 1 : -1;
        a->group_of[i] = -1;
    }
    for (uint32_t i = 0; i < pool->n_devices; i++)
        a->devices[i] = (struct aeg_device){.first = -1, .last = -1};
    for (size_t i = 0; i < slots; i++)
        a->places[i] = -1;
}

static bool prefills(const struct br_pool *pool, uint32_t device)
{
    return device < ((const struct aeg *)pool->state)->n_prefill;
}

static void aegaeon_arrive(struct br_pool *pool, double now_s, uint32_t seq)
{
    (void)now_s;
    uint32_t model = pool->seqs[seq].model;
    if (pool->n_devices > 1)
        aeg_prefill_arrive(pool, seq);
    else if (pl_takes(pool, 0, model))
        aeg_decode_take(pool, seq, pl_slot(pool, 0, model));
}

/* What has been prefilled goes to a decode device, its KV through the host. */
static void aegaeon_stepped(struct br_pool *pool, double now_s, uint32_t device)
{
    (void)now_s;
    const struct br_pl_running *step = &pool->devices[device].step;
    if (!prefills(pool, device)) {
        aeg_decode_tidy(pool, device);
        return;
    }
    for (uint32_t i = 0; i < step->n; i++) {
        const struct br_pl_seq *q = &pool->seqs[step->items[i].seq];
        if ((q->state == BR_PL_RUNNING || (q->state == BR_PL_WAITING && q->kv > 0)) && q->left == 0)
            aeg_decode_give(pool, step->items[i].seq);
        else if (q->state == BR_PL_WAITING && q->left > 0)
            pl_requeue(pool, step->items[i].seq); /* paused, and the host had no room for its KV */
    }
}

static void aegaeon_pick(struct br_pool *pool, double now_s, uint32_t device)
{
    (prefills(pool, device) ? aeg_prefill_pick : aeg_decode_pick)(pool, now_s, device);
}

static void aegaeon_load(struct br_pool *pool, double now_s, uint32_t device)
{
    (void)now_s;
    (prefills(pool, device) ? aeg_prefill_load : aeg_decode_load)(pool, device);
}

static void aegaeon_gone(struct br_pool *pool, uint32_t seq)
{
    aeg_prefill_gone(pool, seq);
}

bool aeg_prefetches(const struct br_pool *pool, const struct br_pl_slot *running, const struct br_pl_slot *next)
{
    const struct br_pl_model *m = pl_model(pool, running), *n = pl_model(pool, next);
    int64_t kv = AEG_PREFETCH_TOKENS * m->kv_token_bytes;
    int64_t beside = running->kv_all + next->kv_all > kv ? running->kv_all + next->kv_all : kv;
    return m->weights_bytes + n->weights_bytes + beside <= pool->devices[running->device].hw.memory_bytes;
}

void aeg_load(struct br_pool *pool, struct br_pl_slot *s, const struct br_pl_slot *keep)
{
    struct br_pl_device *d = &pool->devices[s->device];
    for (uint32_t i = d->n_held; i-- > 0;) {
        struct br_pl_slot *other = &pool->slots[d->held[i]];
        if (other != s && other != keep && (int32_t)d->held[i] != d->step.slot)
            pl_evict(pool, other, INT64_MAX);
    }
    int64_t bytes = pl_chunk(pool, s);
    if (bytes > 0 && bytes <= pl_free(d))
        pl_load(pool, s);
}

const struct br_pl_policy pl_policy_aegaeon = {
    .name = "aegaeon",
    .switch_s = .01,
    .state_bytes = aegaeon_bytes,
    .init = aegaeon_init,
    .arrive = aegaeon_arrive,
    .stepped = aegaeon_stepped,
    .pick = aegaeon_pick,
    .load = aegaeon_load,
    .gone = aegaeon_gone,
    .hands_over = true,
    .places = true,
};
