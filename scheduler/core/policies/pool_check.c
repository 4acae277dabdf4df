#include "scheduler/core/policies/pool_books.h"

struct tally {
    uint32_t listed, paused, back, away;
    int64_t kv, here, left, known, kv_wait;
};

static void seq_tally(const struct br_pool *pool, const struct br_pl_seq *q, struct tally *t)
{
    int64_t bytes = q->kv * pool->models[q->model].kv_token_bytes;
    bool runs = q->state == BR_PL_RUNNING;
    t->left += q->paused ? 0 : q->left;
    t->known += q->paused ? 0 : q->known;
    t->paused += q->paused;
    t->back += !runs && q->kv > 0 && !q->paused;
    t->away += runs && q->where != BR_PL_HERE && !q->paused;
    t->kv += runs ? bytes : 0;
    t->here += runs && q->where == BR_PL_HERE ? bytes : 0;
    t->kv_wait += runs ? 0 : bytes;
}

static bool list_check(const struct br_pool *pool, const struct br_pl_list *list, enum br_pl_state state, uint32_t slot,
                       uint32_t model, struct tally *t)
{
    uint32_t n = 0;
    int32_t prev = -1;
    for (int32_t i = list->first; i >= 0; prev = i, i = pool->seqs[i].next, n++) {
        const struct br_pl_seq *q = &pool->seqs[i];
        if (n > pool->max_seqs || q->state != state || q->model != model || q->prev != prev ||
            (state != BR_PL_QUEUED && q->slot != slot))
            return false;
        seq_tally(pool, q, t);
    }
    t->listed += n;
    return n == list->n && list->last == prev;
}

static int slot_check(const struct br_pool *pool, const struct br_pl_slot *s, uint32_t *listed, struct br_err *err)
{
    struct tally t = {0};
    uint32_t index = pl_index(pool, s);
    const struct br_pl_device *d = &pool->devices[s->device];
    if (!list_check(pool, &s->wait, BR_PL_WAITING, index, s->model, &t) ||
        !list_check(pool, &s->run, BR_PL_RUNNING, index, s->model, &t))
        return br_err_set(err, BR_ECORRUPT, "slot %u: a sequence in the wrong list", index);
    if (t.paused != s->paused || t.back != s->back || t.away != s->away || t.kv_wait != s->kv_wait ||
        (pool->options.whole_kv && t.here != s->kv))
        return br_err_set(err, BR_ECORRUPT, "slot %u: counts of paused, waiting or outside sequences are wrong", index);
    if (!s->served && (!pl_empty(s) || s->weights || s->kv))
        return br_err_set(err, BR_ECORRUPT, "slot %u: something where its model may not run", index);
    if (t.kv != s->kv_all || t.left != s->left || t.known != s->known || s->known > s->left)
        return br_err_set(err, BR_ECORRUPT, "slot %u: KV or prompt counts are not the sum of its sequences", index);
    if (s->weights < 0 || s->weights > pl_model(pool, s)->weights_bytes || s->kv < 0 || s->kv > s->kv_all)
        return br_err_set(err, BR_ECORRUPT, "slot %u: more on the device than there is", index);
    if (pool->counts[(size_t)s->model * pool->n_devices + s->device] != pl_n(s))
        return br_err_set(err, BR_ECORRUPT, "slot %u: placement sees another number of sequences", index);
    bool held = s->held >= 0 && (uint32_t)s->held < d->n_held && d->held[s->held] == index;
    if ((s->held >= 0) != held || ((!pl_empty(s) || s->weights || s->kv) && !held))
        return br_err_set(err, BR_ECORRUPT, "slot %u: not in its device's list", index);
    if (s->run.n > pool->options.max_batch)
        return br_err_set(err, BR_ECORRUPT, "slot %u: batch of %u", index, s->run.n);
    *listed += t.listed;
    return 0;
}

static int coming_check(const struct br_pool *pool, uint32_t device, struct br_err *err)
{
    const struct br_pl_device *d = &pool->devices[device];
    uint32_t n = 0;
    int64_t bytes = 0;
    for (uint32_t h = 0; h < d->n_held; h++)
        for (int32_t i = pool->slots[d->held[h]].run.first; i >= 0; i = pool->seqs[i].next)
            if (pool->seqs[i].where == BR_PL_COMING) {
                n++;
                bytes += pool->seqs[i].kv * pool->models[pool->seqs[i].model].kv_token_bytes;
            }
    bool kv = d->link.slot >= 0 && d->link.kv;
    if (n != (kv ? d->link.n : 0) || (kv && (n == 0 || bytes != d->link.bytes)))
        return br_err_set(err, BR_ECORRUPT, "device %u: %u sequences come in, the link says %u", device, n, d->link.n);
    return 0;
}

static int device_check(const struct br_pool *pool, uint32_t device, struct br_err *err)
{
    const struct br_pl_device *d = &pool->devices[device];
    int64_t used = d->link.slot >= 0 ? d->link.bytes : 0;
    for (uint32_t m = 0; m < pool->n_models; m++)
        used += pl_slot(pool, device, m)->weights + pl_slot(pool, device, m)->kv;
    if (used != d->used || used > d->hw.memory_bytes)
        return br_err_set(err, BR_ECORRUPT, "device %u: memory over-committed or miscounted", device);
    if (pool->options.whole_kv && coming_check(pool, device, err) < 0)
        return err->code;
    if (d->step.slot < 0)
        return 0;
    const struct br_pl_slot *s = &pool->slots[d->step.slot];
    if (!pool->options.whole_kv && pl_miss(pool, s) != 0 && !d->step.streamed && !d->step.joined)
        return br_err_set(err, BR_ECORRUPT, "device %u: a slot runs that is not ready", device);
    for (uint32_t i = 0; i < d->step.n; i++)
        if (!d->step.items[i].done && !pool->seqs[d->step.items[i].seq].stepping)
            return br_err_set(err, BR_ECORRUPT, "device %u: an item of a sequence that does not step", device);
    return 0;
}

int br_pl_check(const struct br_pool *pool, struct br_err *err)
{
    struct tally t = {0};
    uint32_t listed = 0, known = 0;
    for (uint32_t m = 0; m < pool->n_models; m++)
        if (!list_check(pool, &pool->queues[m], BR_PL_QUEUED, 0, m, &t))
            return br_err_set(err, BR_ECORRUPT, "queue of model %u: a sequence in the wrong list", m);
    for (uint32_t i = 0; i < pool->n_devices * pool->n_models; i++)
        if (slot_check(pool, &pool->slots[i], &listed, err) < 0)
            return err->code;
    for (uint32_t i = 0; i < pool->n_devices; i++)
        if (device_check(pool, i, err) < 0)
            return err->code;
    for (uint32_t i = 0; i < pool->max_seqs; i++)
        known += pool->seqs[i].state != BR_PL_FREE;
    if (known != listed + t.listed)
        return br_err_set(err, BR_ECORRUPT, "%u sequences known, %u in lists", known, listed + t.listed);
    return 0;
}
