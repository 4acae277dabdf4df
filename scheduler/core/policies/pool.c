#include "scheduler/core/policies/pool.h"

#include <assert.h>

#include "scheduler/core/policies/pool_books.h"
#include "scheduler/core/policies/pool_events.h"

static double first_above_zero(double a, double b, double c)
{
    return a > 0 ? a : b > 0 ? b : c;
}

static void seq_open(struct br_pool *pool, const struct br_pl_event *e)
{
    struct br_pl_seq *q = &pool->seqs[e->seq];
    const struct br_pl_model *m = &pool->models[e->model];
    *q = (struct br_pl_seq){.state = BR_PL_QUEUED,
                            .model = e->model,
                            .prev = -1,
                            .next = -1,
                            .prompt = e->prompt,
                            .left = e->left || e->kv ? e->left : e->prompt + e->delivered,
                            .known = e->known < e->left ? e->known : 0,
                            .delivered = e->delivered,
                            .output = e->output,
                            .kept = e->kept,
                            .arrival_s = pool->now_s - e->age_s,
                            .ttft_s = first_above_zero(e->ttft_s, m->ttft_s, 10),
                            .tbt_s = first_above_zero(e->tbt_s, m->tbt_s, .1),
                            .weight = first_above_zero(e->weight, m->weight, 1)};
    q->clock_s = q->arrival_s;
    q->due_s = q->clock_s + q->ttft_s;
}

/* Decided elsewhere. With KV on the device it runs there; with KV on the host it waits until it can. */
static void arrive_placed(struct br_pool *pool, const struct br_pl_event *e)
{
    struct br_pl_seq *q = &pool->seqs[e->seq];
    struct br_pl_slot *s = pl_slot(pool, e->device, e->model);
    uint32_t tokens = q->prompt + q->delivered;
    if (e->kv)
        q->kv = tokens - (q->left < tokens ? q->left : tokens) - (q->left == 0);
    bool here = q->kv && e->kv_here && s->run.n < pool->options.max_batch &&
                pl_kv_bytes(pool, q) <= pl_free(&pool->devices[e->device]);
    if (q->kv == 0)
        q->left = tokens;
    q->where = q->kv && !here ? BR_PL_HOST : BR_PL_HERE;
    pl_take(pool, e->seq);
    pl_put(pool, e->seq, s, here ? BR_PL_RUNNING : BR_PL_WAITING);
    if (here && !pool->options.whole_kv)
        pl_shrink(pool, s, -pl_kv_bytes(pool, q));
    pl_hold(pool, s);
    q->assigned = true;
    pl_touch(pool, e->device);
}

void pl_place(struct br_pool *pool, uint32_t seq)
{
    uint32_t model = pool->seqs[seq].model;
    if (!pool->options.switch_every_step || pool->n_devices > 1)
        pool->policy->arrive(pool, pool->now_s, seq);
    else if (pl_takes(pool, 0, model)) /* turns know no queues */
        pl_assign(pool, seq, pl_slot(pool, 0, model));
}

static void arrive(struct br_pool *pool, const struct br_pl_event *e)
{
    assert(e->seq < pool->max_seqs && pool->seqs[e->seq].state == BR_PL_FREE && e->model < pool->n_models &&
           e->prompt > 0 && (!e->placed || e->device < pool->n_devices));
    seq_open(pool, e);
    pl_insert(pool, &pool->queues[e->model], e->seq);
    if (e->placed && !pool->policy->places && pl_slot(pool, e->device, e->model)->served) {
        arrive_placed(pool, e);
        return;
    }
    if (e->kv)
        pool->seqs[e->seq].left = e->prompt + e->delivered;
    pl_place(pool, e->seq);
}

static void cancel(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    if (q->state == BR_PL_FREE)
        return;
    if (q->stepping) {
        q->cancelled = true;
        return;
    }
    if (q->state != BR_PL_QUEUED)
        pl_touch(pool, pool->slots[q->slot].device);
    pl_end(pool, seq, BR_PL_GONE);
}

static void step_over(struct br_pool *pool, uint32_t device, bool all)
{
    if (pool->devices[device].step.slot < 0)
        return;
    pl_stepped(pool, &pool->devices[device], all);
    if (pool->policy->stepped)
        pool->policy->stepped(pool, pool->now_s, device);
    if (pool->devices[device].recheck)
        pl_serve_update(pool, device);
    pl_touch(pool, device);
}

static void load_over(struct br_pool *pool, const struct br_pl_event *e)
{
    struct br_pl_device *d = &pool->devices[e->device];
    if (d->link.slot < 0)
        return;
    pl_loaded(pool, d, e->partial ? e->bytes : d->link.bytes);
    pl_touch(pool, e->device);
}

static void apply(struct br_pool *pool, const struct br_pl_event *e)
{
    switch (e->kind) {
    case BR_PL_ARRIVE:
        arrive(pool, e);
        break;
    case BR_PL_STEP_DONE:
    case BR_PL_STEP_END:
        step_over(pool, e->device, e->kind == BR_PL_STEP_DONE);
        break;
    case BR_PL_LOAD_DONE:
        load_over(pool, e);
        break;
    case BR_PL_CANCEL:
        cancel(pool, e->seq);
        break;
    case BR_PL_TICK:
        if (pool->policy->tick)
            pool->policy->tick(pool, pool->now_s);
        break;
    default:
        if (!pl_told(pool, e))
            pl_changed(pool, e);
        break;
    }
}

static void untouch(struct br_pool *pool)
{
    for (uint32_t i = 0; i < pool->n_touched; i++)
        pool->devices[pool->touched[i]].touched = false;
    pool->n_touched = 0;
}

static void open_actions(struct br_pool *pool, double now_s, struct br_pl_actions *actions)
{
    actions->n = actions->lost = 0;
    actions->more = false;
    pool->actions = actions;
    pool->now_s = now_s;
}

static void tell(struct br_pool *pool, const struct br_pl_event *event)
{
    apply(pool, event);
    if (pool->n_to_place || pool->n_leaving)
        pl_change_go_on(pool);
}

/* A refusal may leave the device without a step though others could have one. */
static void pick(struct br_pool *pool, uint32_t device)
{
    uint64_t refused;
    do {
        refused = pool->n_refused;
        pool->options.switch_every_step ? pl_turn_pick(pool, device) : pool->policy->pick(pool, pool->now_s, device);
    } while (pool->devices[device].step.slot < 0 && pool->n_refused != refused);
}

static void decide(struct br_pool *pool, uint32_t device, bool beside)
{
    struct br_pl_device *d = &pool->devices[device];
    if (!d->up)
        return;
    if (pool->n_back > 0 && (!pool->policy->hands_over || pool->options.switch_every_step))
        pl_readmit(pool, device);
    if (d->step.slot < 0 && !beside)
        pick(pool, device);
    if (d->link.slot >= 0)
        return;
    pool->options.switch_every_step ? pl_turn_load(pool, device) : pool->policy->load(pool, pool->now_s, device);
    if (d->link.slot >= 0 && d->step.slot < 0 && !beside && pool->policy->streams && !pool->options.switch_every_step)
        pick(pool, device); /* a step may follow the load that has just begun */
}

void br_pl_tell(struct br_pool *pool, double now_s, const struct br_pl_event *event, struct br_pl_actions *actions)
{
    open_actions(pool, now_s, actions);
    tell(pool, event);
    untouch(pool);
    if (pool->options.mirror)
        pl_utils(pool);
    pool->actions = NULL;
}

void br_pl_decide(struct br_pool *pool, double now_s, uint32_t device, bool beside, struct br_pl_actions *actions)
{
    open_actions(pool, now_s, actions);
    decide(pool, device, beside);
    untouch(pool);
    pool->actions = NULL;
}

void br_pl_step(struct br_pool *pool, double now_s, const struct br_pl_event *event, struct br_pl_actions *actions)
{
    open_actions(pool, now_s, actions);
    tell(pool, event);
    for (uint32_t i = 0; i < pool->n_touched; i++) {
        decide(pool, pool->touched[i], false);
        pool->devices[pool->touched[i]].touched = false;
    }
    pool->n_touched = 0;
    pool->actions = NULL;
}

double br_pl_switch_s(const struct br_pool *pool)
{
    return pool->policy->switch_s;
}

int32_t br_pl_device_of(const struct br_pool *pool, uint32_t seq)
{
    const struct br_pl_seq *q = &pool->seqs[seq];
    bool has = seq < pool->max_seqs && (q->state == BR_PL_WAITING || q->state == BR_PL_RUNNING);
    return has ? (int32_t)pool->slots[q->slot].device : -1;
}

int32_t br_pl_choose(struct br_pool *pool, uint32_t model, uint32_t prompt)
{
    return pool->policy->choose ? pool->policy->choose(pool, model, prompt) : -1;
}

double br_pl_util(struct br_pool *pool, uint32_t device)
{
    return pl_util(pool, device);
}

double br_pl_slot_key(struct br_pool *pool, double now_s, uint32_t device, uint32_t model)
{
    struct br_pl_slot *s = pl_slot(pool, device, model);
    return pl_n(s) ? pl_key(pool, s, now_s) : PL_NEVER;
}
