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
    double rows = 1 + (seconds - one) / ((many - one) / 1024);
    return rows < 1 ? 1 : rows > 1e6 ? 1000000 : (uint32_t)rows;
}

static void key_of(const struct br_pool *pool, struct br_pl_slot *s, const struct br_pl_list *list, double now_s)
{
    for (int32_t i = list->first; i >= 0; i = pool->seqs[i].next) {
        double due = pool->seqs[i].due_s;
        if (due < now_s)
            s->late = true;
        else if (due < s->due_s)
            s->due_s = due;
    }
}

double pl_key(const struct br_pool *pool, struct br_pl_slot *s, double now_s)
{
    if (s->dirty_key || s->due_s < now_s) {
        s->late = false;
        s->due_s = PL_NEVER;
        key_of(pool, s, &s->run, now_s);
        key_of(pool, s, &s->wait, now_s);
        s->dirty_key = false;
    }
    double key = s->due_s - now_s, ttft = pl_model(pool, s)->ttft_s;
    return s->late && ttft < key ? ttft : key;
}

double pl_share(const struct br_pool *pool, struct br_pl_slot *s)
{
    const struct br_pl_model *m = pl_model(pool, s);
    if (!s->dirty_share)
        return s->share;
    s->dirty_share = false;
    uint32_t left = (uint32_t)s->left;
    s->share =
        pl_n(s) ? pl_decode_s(pool, s) / m->tbt_s + pl_prefill_s(pool, s->device, s->model, left) / m->ttft_s : 0;
    return s->share;
}

double pl_util(const struct br_pool *pool, uint32_t device)
{
    struct br_pl_device *d = &pool->devices[device];
    if (!d->dirty_util)
        return d->util;
    d->dirty_util = false;
    d->util = 0;
    for (uint32_t i = 0; i < d->n_held; i++)
        d->util += pl_share(pool, &pool->slots[d->held[i]]);
    return d->util;
}

void pl_dirty(struct br_pool *pool, struct br_pl_slot *s)
{
    s->dirty_key = s->dirty_share = true;
    pool->devices[s->device].dirty_util = true;
}
