/* Algorithm 2: weighted round robin over the batches of the work list, q_i = c / (n_i (alpha - sum 1/n_k)). */
#include <assert.h>

#include "scheduler/core/policies/aegaeon.h"
#include "scheduler/core/quota.h"

enum { LOOKAHEAD = 64 }; /* tokens of room for a sequence that joins a batch, as in the artifact */

static uint32_t *list_of(const struct br_pool *pool, uint32_t device)
{
    return ((const struct aeg *)pool->state)->lists + (size_t)device * pool->n_models;
}

static void work_add(struct br_pool *pool, struct br_pl_slot *s)
{
    struct aeg *a = pool->state;
    struct aeg_device *d = &a->devices[s->device];
    uint32_t index = pl_index(pool, s);
    if (a->places[index] >= 0)
        return;
    a->places[index] = (int32_t)d->n;
    list_of(pool, s->device)[d->n++] = index;
    a->quotas[index] = 0;
}

static void work_remove(struct br_pool *pool, struct br_pl_slot *s)
{
    struct aeg *a = pool->state;
    struct aeg_device *d = &a->devices[s->device];
    uint32_t *list = list_of(pool, s->device), index = pl_index(pool, s), at = (uint32_t)a->places[index];
    for (uint32_t i = at; i + 1 < d->n; i++) {
        list[i] = list[i + 1];
        a->places[list[i]] = (int32_t)i;
    }
    d->n--;
    a->places[index] = -1;
    if (at == d->at)
        d->in_turn = false;
    else if (at < d->at)
        d->at--;
}

/* Estimated execution: the time of one step of every batch. Counting batches or sequences instead leaves devices
 * overloaded for good when all models are always active, since a batch stays where it began. */
static double load_of(const struct br_pool *pool, uint32_t device)
{
    const struct aeg *a = pool->state;
    double seconds = 0;
    for (uint32_t i = 0; i < a->devices[device].n; i++)
        seconds += pl_decode_s(pool, &pool->slots[list_of(pool, device)[i]]);
    return seconds;
}

/* A batch of its model with room, or else the least loaded device; -1: none takes the model. */
static int32_t device_find(const struct br_pool *pool, uint32_t seq)
{
    const struct aeg *a = pool->state;
    const struct br_pl_seq *q = &pool->seqs[seq];
    int32_t best = -1;
    for (uint32_t i = a->n_prefill; i < pool->n_devices; i++) {
        const struct br_pl_slot *s = pl_slot(pool, i, q->model);
        if (!pl_takes(pool, i, q->model))
            continue;
        if (pl_n(s) > 0 && pl_room(pool, s, q->kv, pool->devices[i].hw.memory_bytes))
            return (int32_t)i;
        if (best < 0 || load_of(pool, i) < load_of(pool, (uint32_t)best))
            best = (int32_t)i;
    }
    return best;
}

void aeg_decode_take(struct br_pool *pool, uint32_t seq, struct br_pl_slot *s)
{
    pl_assign(pool, seq, s);
    work_add(pool, s);
}

/* One that no device can go on with waits for one, and is prefilled again then. */
void aeg_decode_give(struct br_pool *pool, uint32_t seq)
{
    int32_t device = device_find(pool, seq);
    if (device < 0)
        pl_requeue(pool, seq);
    else
        aeg_decode_take(pool, seq, pl_slot(pool, (uint32_t)device, pool->seqs[seq].model));
}

/* Slots whose sequences have been paused and go on, or were adopted. */
static void work_find(struct br_pool *pool, uint32_t device)
{
    const struct br_pl_device *d = &pool->devices[device];
    for (uint32_t i = 0; i < d->n_held; i++) {
        struct br_pl_slot *s = &pool->slots[d->held[i]];
        if (pl_n(s) > 0)
            work_add(pool, s);
    }
}

void aeg_decode_tidy(struct br_pool *pool, uint32_t device)
{
    struct aeg *a = pool->state;
    for (uint32_t i = a->devices[device].n; i-- > 0;) {
        struct br_pl_slot *s = &pool->slots[list_of(pool, device)[i]];
        if (pl_n(s) == 0)
            work_remove(pool, s);
    }
    work_find(pool, device);
}

static double step_of(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return pl_decode_s(pool, s);
}

static void quotas_set(struct br_pool *pool, uint32_t device)
{
    struct aeg *a = pool->state;
    struct aeg_device *d = &a->devices[device];
    struct quota_round round = {0};
    const uint32_t *list = list_of(pool, device);
    for (uint32_t i = 0; i < d->n; i++) {
        const struct br_pl_slot *s = &pool->slots[list[i]];
        quota_add(&round, pl_model(pool, s)->tbt_s / step_of(pool, s), aeg_scale_s(pool, device, s->model));
    }
    for (uint32_t i = 0; i < d->n; i++) {
        const struct br_pl_slot *s = &pool->slots[list[i]];
        double step = step_of(pool, s);
        a->quotas[list[i]] = quota_turn_s(&round, pool->options.q_max_s, pl_model(pool, s)->tbt_s / step, step);
    }
}

static bool turn_over(const struct br_pool *pool, const struct aeg_device *d, uint32_t index, double now_s)
{
    const struct aeg *a = pool->state;
    if (d->n == 1 || !d->started || pl_redoes(pool, &pool->slots[index]))
        return false;
    return now_s - d->clock_s + step_of(pool, &pool->slots[index]) / 2 > a->quotas[index];
}

/* Whose turn it is; -1: nobody has work. */
static int32_t turn_of(struct br_pool *pool, double now_s, uint32_t device)
{
    struct aeg *a = pool->state;
    struct aeg_device *d = &a->devices[device];
    aeg_decode_tidy(pool, device);
    if (d->n == 0)
        return -1;
    if (d->in_turn && !turn_over(pool, d, list_of(pool, device)[d->at], now_s))
        return (int32_t)list_of(pool, device)[d->at];
    d->at += d->in_turn;
    if (d->at >= d->n || a->quotas[list_of(pool, device)[d->at]] <= 0) {
        quotas_set(pool, device);
        d->at = d->at >= d->n ? 0 : d->at;
    }
    d->in_turn = true;
    d->started = false;
    return (int32_t)list_of(pool, device)[d->at];
}

static void admit(struct br_pool *pool, struct br_pl_slot *s)
{
    const struct br_pl_model *m = pl_model(pool, s);
    int64_t memory = pool->devices[s->device].hw.memory_bytes;
    for (int32_t i = s->wait.first, next; i >= 0 && s->run.n < pool->options.max_batch; i = next) {
        const struct br_pl_seq *q = &pool->seqs[i];
        int64_t tokens = q->kv + LOOKAHEAD * (s->run.n + 1);
        next = q->next;
        if (q->paused || q->retry_s > pool->now_s || q->where == BR_PL_GOING)
            continue;
        if (s->run.n > 0 && m->weights_bytes + s->kv_all + tokens * m->kv_token_bytes > memory)
            return;
        pl_admit(pool, (uint32_t)i);
    }
}

static void others_yield(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes)
{
    struct br_pl_device *d = &pool->devices[s->device];
    for (uint32_t i = d->n_held; i-- > 0 && bytes > pl_free(d);)
        if (&pool->slots[d->held[i]] != s)
            pl_evict(pool, &pool->slots[d->held[i]], bytes - pl_free(d));
}

void aeg_decode_pick(struct br_pool *pool, double now_s, uint32_t device)
{
    struct aeg *a = pool->state;
    struct br_pl_device *d = &pool->devices[device];
    int32_t index = turn_of(pool, now_s, device);
    if (index < 0)
        return;
    struct br_pl_slot *s = &pool->slots[index];
    admit(pool, s);
    if (!pl_ready(pool, s))
        return;
    struct pl_limits limits = {1000000, true, d->hw.memory_bytes, false};
    if (!pl_compose(pool, now_s, s, &limits))
        return;
    others_yield(pool, s, pl_growth(pool, s));
    if (pl_growth(pool, s) > pl_free(d) && d->link.slot >= 0)
        return; /* the chunk in flight belongs to another: it will go */
    if (!pl_compose_fit(pool, now_s, s, limits))
        return;
    if (!a->devices[device].started)
        a->devices[device].clock_s = now_s;
    a->devices[device].started = true;
    pl_begin(pool, s, false);
}

/* The batch that has its turn, then the next one beside it, when it fits whole. */
void aeg_decode_load(struct br_pool *pool, uint32_t device)
{
    struct aeg *a = pool->state;
    struct aeg_device *d = &a->devices[device];
    if (d->n == 0 || !d->in_turn)
        return;
    struct br_pl_slot *s = &pool->slots[list_of(pool, device)[d->at]];
    struct br_pl_slot *next = &pool->slots[list_of(pool, device)[(d->at + 1) % d->n]];
    if (pl_miss(pool, s) > 0) {
        aeg_load(pool, s, aeg_prefetches(pool, s, next) ? next : NULL);
        return;
    }
    if (next != s && pl_miss(pool, next) > 0 && aeg_prefetches(pool, s, next))
        aeg_load(pool, next, s);
}
