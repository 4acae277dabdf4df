/* Sequences between lists and slots, and the counts that go with them. */
#include <assert.h>

#include "scheduler/core/policies/pool_books.h"
#include "scheduler/core/policies/pool_events.h"

void pl_say(struct br_pool *pool, struct br_pl_action action)
{
    struct br_pl_actions *a = pool->actions;
    if (action.kind == BR_PL_EVICT && a->n >= BR_PL_MAX_ACTIONS * 3 / 4) {
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

static void held_set(struct br_pool *pool, struct br_pl_slot *s, bool wanted)
{
    struct br_pl_device *d = &pool->devices[s->device];
    if (wanted == (s->held >= 0))
        return;
    if (wanted) {
        s->held = (int32_t)d->n_held;
        d->held[d->n_held++] = pl_index(pool, s);
        return;
    }
    uint32_t last = d->held[--d->n_held];
    d->held[s->held] = last;
    pool->slots[last].held = s->held;
    s->held = -1;
}

void pl_hold(struct br_pool *pool, struct br_pl_slot *s)
{
    struct br_pl_device *d = &pool->devices[s->device];
    size_t place = (size_t)s->model * pool->n_devices + s->device;
    bool loading = d->link.slot == (int32_t)pl_index(pool, s);
    pl_dirty(pool, s);
    held_set(pool, s, !pl_empty(s) || s->weights > 0 || s->kv > 0 || loading);
    pool->counts[place] = pl_n(s);
    if (!s->served || d->drains)
        pool->resident[place] = -1;
    else
        pool->resident[place] = (double)s->weights / (double)pl_model(pool, s)->weights_bytes;
}

int64_t pl_kv_bytes(const struct br_pool *pool, const struct br_pl_seq *q)
{
    return q->kv * pool->models[q->model].kv_token_bytes;
}

void pl_shrink(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes)
{
    s->kv -= bytes;
    pool->devices[s->device].used -= bytes;
}

/* The slot's KV shrinks by that of one sequence. Without whole_kv: what is gone was on the device as far as anything
 * was. */
static void kv_take(struct br_pool *pool, struct br_pl_slot *s, const struct br_pl_seq *q)
{
    int64_t bytes = pl_kv_bytes(pool, q);
    s->kv_all -= bytes;
    if (!pool->options.whole_kv && s->kv > s->kv_all)
        pl_shrink(pool, s, s->kv - s->kv_all);
    if (pool->options.whole_kv && q->where == BR_PL_HERE)
        pl_shrink(pool, s, bytes);
    if (q->where == BR_PL_COMING)
        pl_coming_over(pool, q);
}

/* Without whole_kv the slot has it on the host until it is loaded. */
static void kv_put(struct br_pool *pool, struct br_pl_slot *s, const struct br_pl_seq *q)
{
    int64_t bytes = pl_kv_bytes(pool, q);
    s->kv_all += bytes;
    if (pool->options.whole_kv && q->where == BR_PL_HERE)
        pl_shrink(pool, s, -bytes);
}

void pl_count(struct br_pool *pool, struct br_pl_slot *s, const struct br_pl_seq *q, int by)
{
    bool waits = q->state == BR_PL_WAITING;
    if (waits)
        s->kv_wait += by * pl_kv_bytes(pool, q);
    if (q->paused) {
        s->paused += (uint32_t)by;
        return;
    }
    s->left += by * (int64_t)q->left;
    s->known += by * (int64_t)q->known;
    s->back += (uint32_t)(waits && q->kv > 0 ? by : 0);
    pool->n_back += (uint32_t)(waits && q->kv > 0 ? by : 0);
    s->away += (uint32_t)(!waits && q->where != BR_PL_HERE ? by : 0);
}

void pl_take(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    struct br_pl_slot *s = &pool->slots[q->slot];
    if (q->state == BR_PL_QUEUED) {
        pl_unlink(pool, &pool->queues[q->model], seq);
        return;
    }
    assert(q->state != BR_PL_FREE);
    pl_unlink(pool, q->state == BR_PL_RUNNING ? &s->run : &s->wait, seq);
    pl_count(pool, s, q, -1);
    if (q->state == BR_PL_RUNNING)
        kv_take(pool, s, q);
    pl_hold(pool, s);
}

void pl_put(struct br_pool *pool, uint32_t seq, struct br_pl_slot *s, enum br_pl_state state)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    q->state = state;
    q->slot = pl_index(pool, s);
    pl_due(pool, q, s->device);
    pl_count(pool, s, q, 1);
    pl_insert(pool, state == BR_PL_RUNNING ? &s->run : &s->wait, seq);
    if (state == BR_PL_RUNNING)
        kv_put(pool, s, q);
    pl_hold(pool, s);
}

static void assigned_say(struct br_pool *pool, uint32_t seq, const struct br_pl_slot *s)
{
    pool->seqs[seq].assigned = true;
    pl_say(pool, (struct br_pl_action){BR_PL_ASSIGN, .device = s->device, .model = s->model, .seq = seq});
}

/* KV that has to go through the host. */
static void kv_leave(struct br_pl_seq *q)
{
    q->where = q->kv > 0 ? BR_PL_HOST : BR_PL_HERE;
}

void pl_assign(struct br_pool *pool, uint32_t seq, struct br_pl_slot *s)
{
    pl_take(pool, seq);
    kv_leave(&pool->seqs[seq]);
    pl_put(pool, seq, s, BR_PL_WAITING);
    assigned_say(pool, seq, s);
    pl_touch(pool, s->device);
}

void pl_admit(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_slot *s = &pool->slots[pool->seqs[seq].slot];
    pl_take(pool, seq);
    pl_put(pool, seq, s, BR_PL_RUNNING);
}

static void kv_forget(struct br_pl_seq *q)
{
    q->left = q->prompt + q->delivered;
    q->redo = q->kv > 0;
    q->kv = 0;
    q->where = BR_PL_HERE;
}

static void move_anew(struct br_pool *pool, struct br_pl_slot *from, struct br_pl_slot *to)
{
    while (pl_n(from) > 0) {
        uint32_t seq = (uint32_t)(from->run.n ? from->run.first : from->wait.first);
        pl_take(pool, seq);
        kv_forget(&pool->seqs[seq]);
        pl_put(pool, seq, to, BR_PL_WAITING);
        assigned_say(pool, seq, to);
    }
}

void pl_move(struct br_pool *pool, struct br_pl_slot *from, struct br_pl_slot *to)
{
    struct br_pl_running *step = &pool->devices[to->device].step;
    step->joined |= step->slot == (int32_t)pl_index(pool, to);
    if (pool->options.recompute)
        move_anew(pool, from, to);
    while (from->run.n > 0) {
        uint32_t seq = (uint32_t)from->run.first;
        pl_take(pool, seq);
        kv_leave(&pool->seqs[seq]);
        pl_put(pool, seq, to, BR_PL_RUNNING);
        assigned_say(pool, seq, to);
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
    bool had = q->kv > 0;
    assert(q->state == BR_PL_RUNNING && !q->stepping);
    pl_take(pool, seq);
    kv_forget(q);
    pl_put(pool, seq, s, BR_PL_WAITING);
    if (had)
        pl_say(pool, (struct br_pl_action){BR_PL_RECOMPUTE, .device = s->device, .model = s->model, .seq = seq});
}

static void gone_say(struct br_pool *pool, uint32_t seq)
{
    if (pool->seqs[seq].state != BR_PL_RUNNING && pool->policy->gone)
        pool->policy->gone(pool, seq);
}

void pl_requeue(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    bool had = q->kv > 0;
    assert(!q->stepping);
    gone_say(pool, seq);
    pl_take(pool, seq);
    kv_forget(q);
    q->unsaid |= had && pool->options.whole_kv;
    q->state = BR_PL_QUEUED;
    q->kept = true;
    pl_insert(pool, &pool->queues[q->model], seq);
    if (!pool->to_place[q->model]) {
        pool->to_place[q->model] = true;
        pool->n_to_place++;
    }
}

void pl_end(struct br_pool *pool, uint32_t seq, enum br_pl_action_kind why)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    assert(!q->stepping);
    gone_say(pool, seq);
    pl_take(pool, seq);
    q->state = BR_PL_FREE;
    pool->n_refused += why == BR_PL_REFUSE;
    if (why != BR_PL_STEP)
        pl_say(pool, (struct br_pl_action){why, .seq = seq, .model = q->model});
}

/* Few enough at once for the list of actions; the rest at the next boundary. */
void pl_shed(struct br_pool *pool, double now_s, struct br_pl_list *list)
{
    for (int32_t i = list->first, next; pool->options.shed && i >= 0; i = next) {
        const struct br_pl_seq *q = &pool->seqs[i];
        next = q->next;
        if (pool->actions->n >= BR_PL_MAX_ACTIONS * 3 / 4)
            return;
        if (now_s >= q->arrival_s + 1.5 * q->ttft_s && q->delivered == 0)
            pl_end(pool, (uint32_t)i, BR_PL_DROP);
        else if (now_s < q->arrival_s + 1.5 * q->ttft_s && !pool->policy->by_length)
            return;
    }
}
