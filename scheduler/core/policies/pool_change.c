/* Devices that come and go, models that may or may not run on them, models that are set and removed. */
#include <math.h>

#include "scheduler/core/policies/pool_events.h"

/* Weights of pinned models that are on the device or on their way. */
static int64_t pinned_bytes(const struct br_pool *pool, uint32_t device, uint32_t but)
{
    const struct br_pl_device *d = &pool->devices[device];
    int64_t bytes = 0;
    for (uint32_t i = 0; i < d->n_held; i++) {
        const struct br_pl_slot *s = &pool->slots[d->held[i]];
        bool there = s->weights > 0 || (d->link.slot == (int32_t)d->held[i] && !d->link.kv);
        if (s->model != but && there && pl_model(pool, s)->pinned)
            bytes += pl_model(pool, s)->weights_bytes;
    }
    return bytes;
}

static bool can_serve(const struct br_pool *pool, const struct br_pl_slot *s)
{
    const struct br_pl_device *d = &pool->devices[s->device];
    const struct br_pl_model *m = pl_model(pool, s);
    if (s->barred || !d->up || m->weights_bytes <= 0 || pool->leaving[s->model])
        return false;
    int64_t needed = m->weights_bytes + PL_HEADROOM * m->kv_token_bytes;
    return needed <= d->hw.memory_bytes && needed + pinned_bytes(pool, s->device, s->model) <= d->hw.memory_bytes;
}

static void place_again(struct br_pool *pool, uint32_t model)
{
    if (pool->queues[model].n == 0 || pool->to_place[model])
        return;
    pool->to_place[model] = true;
    pool->n_to_place++;
}

static void slot_empty(struct br_pool *pool, struct br_pl_slot *s)
{
    struct br_pl_device *d = &pool->devices[s->device];
    int32_t index = (int32_t)pl_index(pool, s);
    for (uint32_t i = 0; d->step.slot == index && i < d->step.n; i++)
        pool->seqs[d->step.items[i].seq].stepping = false;
    if (d->step.slot == index)
        d->step.slot = -1;
    for (struct br_pl_list *lists[] = {&s->run, &s->wait}, **l = lists; l < lists + 2; l++)
        while ((*l)->n > 0)
            pl_requeue(pool, (uint32_t)(*l)->first);
    if (d->link.slot == index)
        pl_load_abort(pool, d);
    d->used -= s->weights + s->kv;
    s->weights = s->kv = 0;
    s->retry_s = s->blocked_s = 0;
    d->current = d->current == index ? -1 : d->current;
    d->loading = d->loading == index ? -1 : d->loading;
    pl_hold(pool, s);
    pl_touch(pool, s->device); /* it may be idle now */
}

static void serve_set(struct br_pool *pool, struct br_pl_slot *s)
{
    struct br_pl_device *d = &pool->devices[s->device];
    bool was = s->served, steps = d->step.slot == (int32_t)pl_index(pool, s);
    s->served = can_serve(pool, s);
    if (was && !s->served && steps && d->up && !s->barred && !pool->leaving[s->model]) {
        s->served = d->recheck = true;
        return;
    }
    if (was && !s->served)
        slot_empty(pool, s);
    pl_hold(pool, s);
    if (s->served && !was)
        place_again(pool, s->model);
}

void pl_serve_update(struct br_pool *pool, uint32_t device)
{
    pool->devices[device].recheck = false;
    pool->open[device] = pool->devices[device].up && !pool->devices[device].drains;
    for (uint32_t m = 0; m < pool->n_models; m++)
        serve_set(pool, pl_slot(pool, device, m));
    pl_touch(pool, device);
}

void pl_pin_changed(struct br_pool *pool, const struct br_pl_slot *s)
{
    struct br_pl_device *d = &pool->devices[s->device];
    if (!pl_model(pool, s)->pinned && d->pinned == 0)
        return;
    int64_t pinned = pinned_bytes(pool, s->device, UINT32_MAX);
    if (pinned == d->pinned)
        return;
    d->pinned = pinned;
    pl_serve_update(pool, s->device);
}

static void device_up(struct br_pool *pool, uint32_t device)
{
    struct br_pl_device *d = &pool->devices[device];
    if (d->hw.memory_bytes <= 0)
        return;
    d->up = true;
    d->drains = false;
    pl_serve_update(pool, device);
    for (uint32_t m = 0; m < pool->n_models; m++)
        if (pl_slot(pool, device, m)->served)
            place_again(pool, m);
    pl_touch(pool, device);
}

static void device_down(struct br_pool *pool, uint32_t device)
{
    struct br_pl_device *d = &pool->devices[device];
    if (!d->up)
        return;
    d->up = d->drains = false;
    pl_serve_update(pool, device);
    d->pinned = 0;
    d->current = d->loading = -1;
}

static void device_drain(struct br_pool *pool, uint32_t device)
{
    pool->devices[device].drains = true;
    pl_serve_update(pool, device);
}

static void serve(struct br_pool *pool, const struct br_pl_event *e, bool on)
{
    struct br_pl_slot *s = pl_slot(pool, e->device, e->model);
    s->barred = !on;
    serve_set(pool, s);
    pl_touch(pool, e->device);
}

static void model_gone(struct br_pool *pool, uint32_t model)
{
    if (pool->leaving[model] || pool->models[model].weights_bytes == 0)
        return;
    pool->leaving[model] = true;
    pool->n_leaving++;
    for (uint32_t i = 0; i < pool->n_devices; i++)
        serve_set(pool, pl_slot(pool, i, model));
}

bool pl_changed(struct br_pool *pool, const struct br_pl_event *e)
{
    switch (e->kind) {
    case BR_PL_DEVICE_UP:
        device_up(pool, e->device);
        return true;
    case BR_PL_DEVICE_DOWN:
        device_down(pool, e->device);
        return true;
    case BR_PL_DEVICE_DRAIN:
        device_drain(pool, e->device);
        return true;
    case BR_PL_SERVE:
    case BR_PL_UNSERVE:
        serve(pool, e, e->kind == BR_PL_SERVE);
        return true;
    case BR_PL_MODEL_GONE:
        model_gone(pool, e->model);
        return true;
    default:
        return false;
    }
}

static bool full(struct br_pool *pool)
{
    pool->actions->more |= pool->actions->n >= BR_PL_MAX_ACTIONS / 2;
    return pool->actions->n >= BR_PL_MAX_ACTIONS / 2;
}

static void place_one(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    if (q->unsaid)
        pl_say(pool, (struct br_pl_action){BR_PL_RECOMPUTE, .model = q->model, .seq = seq});
    q->unsaid = false;
    if (q->cancelled) {
        pl_end(pool, seq, BR_PL_GONE);
        return;
    }
    pl_place(pool, seq);
    if (q->state != BR_PL_QUEUED || !q->assigned)
        return;
    q->assigned = false;
    pl_say(pool, (struct br_pl_action){BR_PL_UNASSIGN, .model = q->model, .seq = seq});
}

static void place_queue(struct br_pool *pool, uint32_t model)
{
    for (int32_t i = pool->queues[model].first, next; i >= 0; i = next) {
        if (full(pool))
            return;
        next = pool->seqs[i].next;
        place_one(pool, (uint32_t)i);
        if (next >= 0 && pool->seqs[next].state != BR_PL_QUEUED) { /* the policy has moved more than this one */
            pool->actions->more = true;
            return;
        }
    }
    pool->to_place[model] = false;
    pool->n_to_place--;
}

/* Its slots have been emptied into the queue when they were not served any more. */
static void leave(struct br_pool *pool, uint32_t model)
{
    while (pool->queues[model].n > 0) {
        if (full(pool))
            return;
        pl_end(pool, (uint32_t)pool->queues[model].first, BR_PL_GONE);
    }
    pool->leaving[model] = false;
    pool->n_leaving--;
    pool->models[model] = (struct br_pl_model){0};
}

void pl_change_go_on(struct br_pool *pool)
{
    for (uint32_t m = 0; m < pool->n_models && pool->n_leaving; m++)
        if (pool->leaving[m])
            leave(pool, m);
    for (uint32_t m = 0; m < pool->n_models && pool->n_to_place; m++)
        if (pool->to_place[m] && !pool->leaving[m])
            place_queue(pool, m);
}

static bool positive(double x)
{
    return x > 0 && isfinite(x);
}

static int model_check(uint32_t model, const struct br_pl_model *is, struct br_err *err)
{
    if (is->weights_bytes <= 0 || is->kv_token_bytes < 0)
        return br_err_set(err, BR_EINVAL,
                          "model %u: %.0f bytes of weights, %.0f of KV a token: weights must be above 0", model,
                          (double)is->weights_bytes, (double)is->kv_token_bytes);
    if (!positive(is->ttft_s) || !positive(is->tbt_s))
        return br_err_set(err, BR_EINVAL, "model %u: TTFT %g s and TBT %g s must be above 0", model, is->ttft_s,
                          is->tbt_s);
    if (!(is->rate >= 0) || !isfinite(is->rate) || !(is->weight >= 0) || !isfinite(is->weight))
        return br_err_set(err, BR_EINVAL, "model %u: rate %g and weight %g must be 0 or above", model, is->rate,
                          is->weight);
    return 0;
}

static bool in_use(const struct br_pool *pool, uint32_t model)
{
    for (uint32_t i = 0; i < pool->n_devices; i++)
        if (!pl_empty(pl_slot(pool, i, model)))
            return true;
    return false;
}

int br_pl_model_set(struct br_pool *pool, uint32_t model, const struct br_pl_model *is, struct br_err *err)
{
    struct br_pl_model *m = &pool->models[model];
    bool resized = is->weights_bytes != m->weights_bytes || is->kv_token_bytes != m->kv_token_bytes;
    int rc = model_check(model, is, err);
    if (rc < 0)
        return rc;
    if (pool->leaving[model] || (resized && in_use(pool, model)))
        return br_err_set(err, BR_EINVAL, "model %u: its sizes cannot change while it has sequences", model);
    for (uint32_t i = 0; resized && i < pool->n_devices; i++)
        slot_empty(pool, pl_slot(pool, i, model));
    bool repinned = m->pinned != is->pinned;
    *m = *is;
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        serve_set(pool, pl_slot(pool, i, model));
        if (repinned)
            pl_pin_changed(pool, pl_slot(pool, i, model));
    }
    return 0;
}

int br_pl_hardware_set(struct br_pool *pool, uint32_t device, const struct br_pl_hardware *hw, struct br_err *err)
{
    if (pool->devices[device].up)
        return br_err_set(err, BR_EINVAL, "device %u is up: its hardware cannot change", device);
    if (hw->memory_bytes <= 0 || !positive(hw->link_bytes_per_s) || hw->chunk_bytes < 0)
        return br_err_set(err, BR_EINVAL, "device %u: memory (%.0f bytes) and link (%g bytes/s) must be above 0",
                          device, (double)hw->memory_bytes, hw->link_bytes_per_s);
    pool->devices[device].hw = *hw;
    return 0;
}

void br_pl_link_set(struct br_pool *pool, uint32_t device, double link_bytes_per_s)
{
    if (positive(link_bytes_per_s))
        pool->devices[device].hw.link_bytes_per_s = link_bytes_per_s;
}

void br_pl_rate_set(struct br_pool *pool, uint32_t model, double rate)
{
    if (rate >= 0 && isfinite(rate))
        pool->models[model].rate = rate;
}

void br_pl_least_set(struct br_pool *pool, uint32_t device, uint32_t model, int64_t bytes)
{
    pl_slot(pool, device, model)->least = bytes > 0 ? bytes : 0;
}
