/* Sequences between lists and slots, bytes between device and host. */
#include <assert.h>

#include "scheduler/core/policies/pool_books.h"
#include "scheduler/core/policies/pool_events.h"

void pl_say(struct br_pool *pool, struct br_pl_action action)
{
    struct br_pl_actions *a = pool->actions;
    bool informative = action.kind == BR_PL_ASSIGN || action.kind == BR_PL_EVICT;
    if (informative && a->n >= BR_PL_MAX_ACTIONS / 2) {
        a->lost++;
        return;
    }
    assert(a->n < BR_PL_MAX_ACTIONS);
    a->list[a->n++] = action;
}

void pl_touch(struct br_pool *pool, uint32_t device)
{
    if (pool->devices[device].touched || pool->n_touched == 4 * pool->n_devices)
        return;
    pool->devices[device].touched = true;
    pool->touched[pool->n_touched++] = device;
}

static void slot_hold(struct br_pool *pool, struct br_pl_slot *s)
{
    struct br_pl_device *d = &pool->devices[s->device];
    uint32_t index = pl_index(pool, s);
    bool wanted = pl_n(s) > 0 || s->weights > 0 || s->kv > 0 || d->link.slot == (int32_t)index;
    pl_dirty(pool, s);
    if (wanted == (s->held >= 0))
        return;
    if (wanted) {
        s->held = (int32_t)d->n_held;
        d->held[d->n_held++] = index;
        return;
    }
    uint32_t last = d->held[--d->n_held];
    d->held[s->held] = last;
    pool->slots[last].held = s->held;
    s->held = -1;
}

static int64_t seq_kv_bytes(const struct br_pool *pool, const struct br_pl_seq *q)
{
    return q->kv * pool->models[q->model].kv_token_bytes;
}

/* The slot's KV shrinks: what is gone was on the device as far as anything was. */
static void kv_take(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes)
{
    s->kv_all -= bytes;
    int64_t over = s->kv - s->kv_all;
    if (over > 0) {
        s->kv -= over;
        pool->devices[s->device].used -= over;
    }
}

static void seq_take(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    struct br_pl_slot *s = &pool->slots[q->slot];
    if (q->state == BR_PL_QUEUED) {
        pl_unlink(pool, &pool->queues[q->model], seq);
        return;
    }
    assert(q->state != BR_PL_FREE);
    pl_unlink(pool, q->state == BR_PL_RUNNING ? &s->run : &s->wait, seq);
    s->left -= q->left;
    if (q->state == BR_PL_RUNNING)
        kv_take(pool, s, seq_kv_bytes(pool, q));
    slot_hold(pool, s);
}

static void seq_put(struct br_pool *pool, uint32_t seq, struct br_pl_slot *s, enum br_pl_state state)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    const struct br_pl_model *m = &pool->models[q->model];
    q->state = state;
    q->slot = pl_index(pool, s);
    q->due_s = q->arrival_s + m->ttft_s + q->delivered * m->tbt_s - pl_prefill_s(pool, s->device, s->model, q->left);
    s->left += q->left;
    pl_insert(pool, state == BR_PL_RUNNING ? &s->run : &s->wait, seq);
    if (state == BR_PL_RUNNING)
        s->kv_all += seq_kv_bytes(pool, q);
    slot_hold(pool, s);
}

void pl_assign(struct br_pool *pool, uint32_t seq, struct br_pl_slot *s)
{
    seq_take(pool, seq);
    seq_put(pool, seq, s, BR_PL_WAITING);
    pl_say(pool, (struct br_pl_action){BR_PL_ASSIGN, .device = s->device, .model = s->model, .seq = seq});
    pl_touch(pool, s->device);
}

void pl_admit(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_slot *s = &pool->slots[pool->seqs[seq].slot];
    seq_take(pool, seq);
    seq_put(pool, seq, s, BR_PL_RUNNING);
}

void pl_move(struct br_pool *pool, struct br_pl_slot *from, struct br_pl_slot *to)
{
    while (from->run.n > 0) {
        uint32_t seq = (uint32_t)from->run.first;
        seq_take(pool, seq);
        seq_put(pool, seq, to, BR_PL_RUNNING);
        pl_say(pool, (struct br_pl_action){.kind = BR_PL_ASSIGN, .device = to->device, .model = to->model, .seq = seq});
    }
    while (from->wait.n > 0)
        pl_assign(pool, (uint32_t)from->wait.first, to);
    pl_touch(pool, from->device);
    pl_touch(pool, to->device);
}

void pl_preempt(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    struct br_pl_slot *s = &pool->slots[q->slot];
    assert(q->state == BR_PL_RUNNING && !q->stepping);
    seq_take(pool, seq);
    q->left = q->prompt + q->delivered;
    q->kv = 0;
    seq_put(pool, seq, s, BR_PL_WAITING);
}

void pl_end(struct br_pool *pool, uint32_t seq, enum br_pl_action_kind why)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    assert(!q->stepping);
    if (q->state != BR_PL_RUNNING && pool->policy->gone)
        pool->policy->gone(pool, seq);
    seq_take(pool, seq);
    q->state = BR_PL_FREE;
    if (why != BR_PL_STEP)
        pl_say(pool, (struct br_pl_action){why, .seq = seq, .model = q->model});
}

/* Few enough at once for the list of actions; the rest at the next boundary. */
void pl_shed(struct br_pool *pool, double now_s, struct br_pl_list *list)
{
    for (int32_t i = list->first, next; pool->options.shed && i >= 0; i = next) {
        const struct br_pl_seq *q = &pool->seqs[i];
        next = q->next;
        if (now_s < q->arrival_s + 1.5 * pool->models[q->model].ttft_s || pool->actions->n >= BR_PL_MAX_ACTIONS * 3 / 4)
            return;
        if (q->delivered == 0)
            pl_end(pool, (uint32_t)i, BR_PL_DROP);
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t evict_part(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes, bool kv)
{
    int64_t *part = kv ? &s->kv : &s->weights;
    bytes = smaller(bytes, *part);
    if (bytes <= 0)
        return 0;
    *part -= bytes;
    pool->devices[s->device].used -= bytes;
    pl_say(pool, (struct br_pl_action){BR_PL_EVICT, .kv = kv, .device = s->device, .model = s->model, .bytes = bytes});
    return bytes;
}

int64_t pl_evict(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes)
{
    int64_t freed = evict_part(pool, s, bytes, false);
    freed += evict_part(pool, s, bytes - freed, true);
    slot_hold(pool, s);
    return freed;
}

int64_t pl_chunk(const struct br_pool *pool, const struct br_pl_slot *s)
{
    int64_t weights = pl_model(pool, s)->weights_bytes - s->weights;
    return smaller(pool->options.chunk_bytes, weights > 0 ? weights : s->kv_all - s->kv);
}

void pl_load(struct br_pool *pool, struct br_pl_slot *s)
{
    struct br_pl_device *d = &pool->devices[s->device];
    int64_t bytes = pl_chunk(pool, s);
    assert(d->link.slot < 0 && bytes > 0 && bytes <= pl_free(d));
    d->link.slot = (int32_t)pl_index(pool, s);
    d->link.bytes = bytes;
    d->link.kv = s->weights == pl_model(pool, s)->weights_bytes;
    d->loading = d->link.slot;
    d->used += bytes;
    slot_hold(pool, s);
    pl_say(pool,
           (struct br_pl_action){BR_PL_LOAD, .kv = d->link.kv, .device = s->device, .model = s->model, .bytes = bytes});
}

/* Sequences may have ended while KV came in: what has no owner is dropped. */
void pl_loaded(struct br_pool *pool, struct br_pl_device *d)
{
    struct br_pl_slot *s = &pool->slots[d->link.slot];
    int64_t wanted = d->link.kv ? s->kv_all - s->kv : pl_model(pool, s)->weights_bytes - s->weights;
    int64_t bytes = smaller(d->link.bytes, wanted);
    *(d->link.kv ? &s->kv : &s->weights) += bytes;
    d->used -= d->link.bytes - bytes;
    d->link.slot = -1;
    if (pl_miss(pool, s) == 0 || pl_n(s) == 0)
        d->loading = -1;
    slot_hold(pool, s);
}
