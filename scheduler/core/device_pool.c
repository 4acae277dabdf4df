/* Decisions: the pool's actions in the order in which the worker carries them out. */
#include "scheduler/core/device_pool.h"

#include <assert.h>

static void act(struct br_dev_actions *out, struct br_dev_action action)
{
    assert(out->n_actions < BR_DEV_MAX_ACTIONS);
    out->actions[out->n_actions++] = action;
}

/* Said by events since the last decision, or left over for want of room. */
static void leftovers(struct dev_pool *d, struct br_dev_actions *out)
{
    for (uint32_t i = 0; i < d->config.max_seqs && d->n_to_say && out->n_actions < BR_DEV_MAX_ACTIONS / 4; i++) {
        struct dp_seq *q = &d->seqs[i];
        if (!q->drop && !q->fail)
            continue;
        act(out, (struct br_dev_action){q->fail ? BR_DO_FAIL : BR_DO_DROP, .seq = i});
        q->drop = q->fail = false;
        d->n_to_say--;
    }
}

static void room_first(struct dev_pool *d, const struct br_pl_action *a, struct br_dev_actions *out)
{
    switch (a->kind) {
    case BR_PL_EVICT:
        act(out, (struct br_dev_action){BR_DO_EVICT, .slot = a->model, .bytes = (uint64_t)a->bytes});
        break;
    case BR_PL_SWAP_OUT:
        act(out, (struct br_dev_action){BR_DO_SWAP_OUT, .slot = a->model, .seq = a->seq});
        break;
    case BR_PL_RECOMPUTE:
        act(out, (struct br_dev_action){BR_DO_DROP, .slot = a->model, .seq = a->seq});
        break;
    case BR_PL_REFUSE:
        act(out, (struct br_dev_action){BR_DO_FAIL, .slot = a->model, .seq = a->seq});
        break;
    default:
        break;
    }
    (void)d;
}

static void then_in(struct dev_pool *d, const struct br_pl_action *a, struct br_dev_actions *out)
{
    if (a->kind == BR_PL_SWAP_IN && d->seqs[a->seq].kv != BR_DEV_KV_ON_DEVICE) {
        d->seqs[a->seq].kv = BR_DEV_KV_ON_HOST; /* until it is told */
        act(out, (struct br_dev_action){BR_DO_SWAP_IN, .slot = a->model, .seq = a->seq});
    }
    if (a->kind != BR_PL_LOAD)
        return;
    d->loading = (int32_t)a->model;
    d->load_s = d->now_s;
    d->load_from = d->slots[a->model].resident;
    d->load_bytes = a->bytes;
    act(out, (struct br_dev_action){BR_DO_LOAD, .slot = a->model, .bytes = (uint64_t)a->bytes});
}

/* A step that begins before its weights are there: all of them have to come now. */
static void then_step(struct dev_pool *d, const struct br_pl_action *a, struct br_dev_actions *out)
{
    const struct br_pl_running *step = &d->pool->devices[0].step;
    if (a->kind != BR_PL_STEP)
        return;
    if (step->streamed)
        act(out, (struct br_dev_action){BR_DO_LOAD, .slot = a->model});
    act(out, (struct br_dev_action){BR_DO_STEP, .slot = a->model});
    for (uint32_t i = 0; i < step->n; i++)
        out->items[out->n_items++] =
            (struct br_dev_item){step->items[i].seq, step->items[i].rows, step->items[i].emits};
    d->decodes = d->prefill = 0;
}

static void translate(struct dev_pool *d, struct br_dev_actions *out)
{
    static void (*const passes[])(struct dev_pool *, const struct br_pl_action *,
                                  struct br_dev_actions *) = {room_first, then_in, then_step};
    for (int pass = 0; pass < 3; pass++)
        for (uint32_t i = 0; i < d->did.n; i++)
            passes[pass](d, &d->did.list[i], out);
}

/* Moves in that the worker has not begun: it had no room. With `there`: those that never went out, which are in. */
static void answer(struct dev_pool *d, bool there)
{
    const struct br_pl_link *link = &d->pool->devices[0].link;
    uint32_t seqs[BR_PL_MAX_BATCH], n = 0;
    if (link->slot < 0 || !link->kv)
        return;
    for (int32_t i = d->pool->slots[link->slot].run.first; i >= 0; i = d->pool->seqs[i].next)
        if (d->pool->seqs[i].where == BR_PL_COMING &&
            d->seqs[i].kv == (there ? BR_DEV_KV_ON_DEVICE : BR_DEV_KV_ON_HOST))
            seqs[n++] = (uint32_t)i;
    for (uint32_t i = 0; i < n; i++)
        dp_tell(d, (struct br_pl_event){.kind = BR_PL_KV, .seq = seqs[i], .kv_here = there});
}

/* The books had no room for what the worker has, or the slot may not run here any more beside a pinned one. */
static void differences(struct dev_pool *d, struct br_dev_actions *out)
{
    d->differ = false;
    for (uint32_t i = 0; i < d->config.max_slots; i++) {
        if (!d->slots[i].used || dp_resident_tell(d, i))
            continue;
        d->differ = true;
        if (!d->pool->slots[i].served && out->n_actions < BR_DEV_MAX_ACTIONS / 2)
            act(out, (struct br_dev_action){BR_DO_EVICT, .slot = i, .bytes = (uint64_t)d->slots[i].resident});
    }
}

static void decide(struct dev_pool *d, bool beside, struct br_dev_actions *out)
{
    const struct br_pl_device *device = &d->pool->devices[0];
    if (!beside && device->step.slot >= 0)
        dp_tell(d, (struct br_pl_event){.kind = BR_PL_STEP_END});
    dp_found_tell(d);
    answer(d, false);
    leftovers(d, out);
    if (d->differ)
        differences(d, out);
    br_pl_decide(d->pool, d->now_s, 0, beside, &d->did);
    translate(d, out);
    answer(d, true);
    out->wake_s = d->n_seqs > d->n_paused || d->n_to_say ? d->now_s + DP_WAKE_S : -1;
}

static void dp_step(struct br_dev *base, double now_s, const struct br_dev_event *event, struct br_dev_actions *actions)
{
    struct dev_pool *d = (struct dev_pool *)base;
    d->now_s = now_s;
    if (event->kind == BR_DEV_BOUNDARY || event->kind == BR_DEV_BESIDE)
        decide(d, event->kind == BR_DEV_BESIDE, actions);
    else
        dp_told(d, event);
}

static double dp_quota_s(const struct br_dev *base, uint32_t slot)
{
    (void)base, (void)slot;
    return 0;
}

static bool dp_shape(const struct br_dev *base, uint32_t slot, struct br_step_shape *shape)
{
    const struct dev_pool *d = (const struct dev_pool *)base;
    if (slot >= d->config.max_slots || !d->slots[slot].used)
        return false;
    *shape = br_step_cost_shape(&d->slots[slot].cost);
    return true;
}

static int dp_check(const struct br_dev *base, struct br_err *err)
{
    const struct dev_pool *d = (const struct dev_pool *)base;
    uint32_t used = 0, to_say = 0;
    for (uint32_t i = 0; i < d->config.max_seqs; i++) {
        const struct dp_seq *q = &d->seqs[i];
        used += q->used;
        to_say += q->drop || q->fail;
        if (!q->used && d->pool->seqs[i].state != BR_PL_FREE)
            return br_err_set(err, BR_ECORRUPT, "scheduler: sequence %u has ended, and the pool has it", i);
        if (!q->used && (q->drop || q->fail))
            return br_err_set(err, BR_ECORRUPT, "scheduler: something is to be said of sequence %u, which has ended",
                              i);
    }
    if (used != d->n_seqs || to_say != d->n_to_say)
        return br_err_set(err, BR_ECORRUPT, "scheduler: %u sequences, counted as %u", used, d->n_seqs);
    return br_pl_check(d->pool, err);
}

const struct dev_kind dev_kind_pool = {
    .destroy = dev_pool_destroy,
    .step = dp_step,
    .weights_victim = dp_weights_victim,
    .kv_victim = dp_kv_victim,
    .next_slot = dp_next_slot,
    .quota_s = dp_quota_s,
    .shape = dp_shape,
    .check = dp_check,
};
