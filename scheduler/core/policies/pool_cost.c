#include <math.h>

#include "scheduler/core/policies/pool_books.h"

double pl_prefill_s(const struct br_pool *pool, uint32_t device, uint32_t model, uint32_t tokens)
{
    return tokens ? pool->cost.step_s(pool->cost.ctx, device, model, 0, 0, tokens) : 0;
}

double pl_decode_s(const struct br_pool *pool, const struct br_pl_slot *s)
{
    uint32_t n = pl_n(s) < BR_PL_MAX_BATCH ? pl_n(s) : BR_PL_MAX_BATCH;
    return n ? pool->cost.step_s(pool->cost.ctx, s->device, s->model, n, s->kv_all, 0) : 0;
}

double pl_load_s(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return (double)pl_miss(pool, s) / pool->devices[s->device].hw.link_bytes_per_s;
}

/* Linear between two calls of the cost model: steps are a constant and a rate. */
uint32_t pl_rows(const struct br_pool *pool, const struct br_pl_slot *s, double seconds)
{
    double one = pl_prefill_s(pool, s->device, s->model, 1), many = pl_prefill_s(pool, s->device, s->model, 1025);
    double rows = many > one ? 1 + (seconds - one) / ((many - one) / 1024) : 1e6;
    return rows < 1 ? 1 : rows > 1e6 ? 1000000 : (uint32_t)rows;
}

void pl_due(const struct br_pool *pool, struct br_pl_seq *q, uint32_t device)
{
    double prefill = pl_prefill_s(pool, device, q->model, q->left - q->known);
    q->due_s = q->clock_s + q->ttft_s + q->delivered * q->tbt_s - prefill;
    q->urgent_s = q->clock_s + q->ttft_s / q->weight + q->delivered * q->tbt_s - prefill;
}

static void key_of(const struct br_pool *pool, struct br_pl_slot *s, const struct br_pl_list *list, double now_s)
{
    for (int32_t i = list->first; i >= 0; i = pool->seqs[i].next) {
        const struct br_pl_seq *q = &pool->seqs[i];
        if (q->paused)
            continue;
        if (q->due_s < now_s) {
            double late = q->ttft_s / q->weight;
            s->late_s = late < s->late_s ? late : s->late_s;
            continue;
        }
        s->due_s = q->urgent_s < s->due_s ? q->urgent_s : s->due_s;
        s->expire_s = q->due_s < s->expire_s ? q->due_s : s->expire_s;
    }
}

double pl_key(const struct br_pool *pool, struct br_pl_slot *s, double now_s)
{
    if (s->dirty_key || s->expire_s < now_s) {
        s->due_s = s->expire_s = 1e18;
        s->late_s = PL_NEVER;
        key_of(pool, s, &s->run, now_s);
        key_of(pool, s, &s->wait, now_s);
        s->dirty_key = false;
    }
    double key = s->due_s - now_s;
    return s->late_s < key ? s->late_s : key;
}

double pl_share(const struct br_pool *pool, struct br_pl_slot *s)
{
    const struct br_pl_model *m = pl_model(pool, s);
    if (!s->dirty_share)
        return s->share;
    s->dirty_share = false;
    uint32_t left = (uint32_t)(s->left - s->known);
    s->share =
        pl_n(s) ? pl_decode_s(pool, s) / m->tbt_s + pl_prefill_s(pool, s->device, s->model, left) / m->ttft_s : 0;
    return s->share;
}

static void util_set(struct br_pool *pool, uint32_t device)
{
    struct br_pl_device *d = &pool->devices[device];
    double util = 0;
    for (uint32_t i = 0; i < d->n_held; i++)
        util += pl_share(pool, &pool->slots[d->held[i]]);
    pool->util[device] = util;
    d->dirty_util = false;
}

double pl_util(struct br_pool *pool, uint32_t device)
{
    if (pool->devices[device].dirty_util)
        util_set(pool, device);
    return pool->util[device];
}

void pl_utils(struct br_pool *pool)
{
    for (uint32_t i = 0; i < pool->n_dirty; i++) {
        pl_util(pool, pool->dirty[i]);
        pool->devices[pool->dirty[i]].listed = false;
    }
    pool->n_dirty = 0;
}

void pl_dirty(struct br_pool *pool, struct br_pl_slot *s)
{
    struct br_pl_device *d = &pool->devices[s->device];
    s->dirty_key = s->dirty_share = d->dirty_util = true;
    if (d->listed)
        return;
    d->listed = true;
    pool->dirty[pool->n_dirty++] = s->device;
}
