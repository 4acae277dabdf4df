#include "scheduler/core/policies/pool.h"

#include <assert.h>

#include "scheduler/core/policies/pool_books.h"
#include "scheduler/core/policies/pool_events.h"

static void arrive(struct br_pool *pool, double now_s, const struct br_pl_event *event)
{
    struct br_pl_seq *q = &pool->seqs[event->seq];
    assert(q->state == BR_PL_FREE && event->model < pool->n_models && event->prompt > 0);
    *q = (struct br_pl_seq){.state = BR_PL_QUEUED,
                            .model = event->model,
                            .prev = -1,
                            .next = -1,
                            .prompt = event->prompt,
                            .left = event->prompt,
                            .arrival_s = now_s};
    q->due_s = now_s + pool->models[q->model].ttft_s;
    pl_insert(pool, &pool->queues[q->model], event->seq);
    pool->policy->arrive(pool, now_s, event->seq);
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

static void step_done(struct br_pool *pool, double now_s, uint32_t device)
{
    pl_stepped(pool, &pool->devices[device]);
    if (pool->policy->stepped)
        pool->policy->stepped(pool, now_s, device);
    pl_touch(pool, device);
}

static void apply(struct br_pool *pool, double now_s, const struct br_pl_event *event)
{
    switch (event->kind) {
    case BR_PL_ARRIVE:
        arrive(pool, now_s, event);
        break;
    case BR_PL_STEP_DONE:
        step_done(pool, now_s, event->device);
        break;
    case BR_PL_LOAD_DONE:
        pl_loaded(pool, &pool->devices[event->device]);
        pl_touch(pool, event->device);
        break;
    case BR_PL_CANCEL:
        cancel(pool, event->seq);
        break;
    case BR_PL_TICK:
        if (pool->policy->tick)
            pool->policy->tick(pool, now_s);
        break;
    }
}

void br_pl_step(struct br_pool *pool, double now_s, const struct br_pl_event *event, struct br_pl_actions *actions)
{
    actions->n = actions->lost = 0;
    pool->actions = actions;
    apply(pool, now_s, event);
    for (uint32_t i = 0; i < pool->n_touched; i++) {
        uint32_t device = pool->touched[i];
        struct br_pl_device *d = &pool->devices[device];
        if (d->step.slot < 0)
            pool->policy->pick(pool, now_s, device);
        if (d->link.slot < 0)
            pool->policy->load(pool, now_s, device);
        d->touched = false;
    }
    pool->n_touched = 0;
    pool->actions = NULL;
}

double br_pl_switch_s(const struct br_pool *pool)
{
    return pool->policy->switch_s;
}
