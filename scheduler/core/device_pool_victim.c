/* Victims on an unplanned shortage: what is needed latest, as the policy sees it. O(slots), O(sequences of one). */
#include "scheduler/core/device_pool.h"
#include "scheduler/core/policies/slack.h"

static double next_use(const struct dev_pool *d, uint32_t slot)
{
    return slack_next_use(d->pool, &d->pool->slots[slot], d->now_s);
}

int32_t dp_weights_victim(const struct br_dev *base, uint32_t target)
{
    const struct dev_pool *d = (const struct dev_pool *)base;
    const struct br_pl_device *device = &d->pool->devices[0];
    int32_t best = -1;
    double latest = 0;
    for (uint32_t i = 0; i < d->config.max_slots; i++) {
        const struct dp_slot *s = &d->slots[i];
        if (!s->used || s->resident == 0 || i == target || (int32_t)i == device->step.slot ||
            (int32_t)i == d->loading || d->pool->models[i].pinned)
            continue;
        double use = next_use(d, i);
        if (best < 0 || use > latest) {
            best = (int32_t)i;
            latest = use;
        }
    }
    return best;
}

/* Before the step that is being put together, if it is in one. */
static bool has_kv_here(const struct dev_pool *d, uint32_t seq)
{
    const struct br_pl_seq *q = &d->pool->seqs[seq];
    const struct br_pl_running *step = &d->pool->devices[0].step;
    uint32_t tokens = q->kv;
    for (uint32_t i = 0; q->stepping && i < step->n; i++)
        if (step->items[i].seq == seq)
            tokens -= step->items[i].rows;
    return tokens > 0 && q->where == BR_PL_HERE;
}

/* Paused ones first, then the youngest; -1: none. */
static int32_t youngest(const struct dev_pool *d, uint32_t slot, uint32_t keep, bool stepping)
{
    int32_t best = -1;
    for (int32_t i = d->pool->slots[slot].run.last; i >= 0; i = d->pool->seqs[i].prev) {
        const struct br_pl_seq *q = &d->pool->seqs[i];
        if ((uint32_t)i == keep || !has_kv_here(d, (uint32_t)i) || (q->stepping && !stepping))
            continue;
        if (q->paused)
            return i;
        best = best < 0 ? i : best;
    }
    return best;
}

static int32_t of_others(const struct dev_pool *d, uint32_t target)
{
    int32_t best = -1;
    double latest = 0;
    for (uint32_t i = 0; i < d->config.max_slots; i++) {
        if (i == target || d->pool->slots[i].kv == 0 || (int32_t)i == d->pool->devices[0].step.slot)
            continue;
        double use = next_use(d, i);
        if (best < 0 || use > latest) {
            best = (int32_t)i;
            latest = use;
        }
    }
    return best < 0 ? -1 : youngest(d, (uint32_t)best, UINT32_MAX, false);
}

static bool younger(const struct br_pl_seq *a, const struct br_pl_seq *b)
{
    return a->weight < b->weight || (a->weight <= b->weight && a->arrival_s > b->arrival_s);
}

/* As for quota-rr: one of the step that is being put together may push out any other of its slot, one that only wants
 * in just younger ones. */
int32_t dp_kv_victim(const struct br_dev *base, uint32_t target, uint32_t keep)
{
    const struct dev_pool *d = (const struct dev_pool *)base;
    int32_t victim = of_others(d, target);
    if (victim >= 0 || target >= d->config.max_slots || !d->slots[target].used)
        return victim;
    const struct br_pl_seq *k = keep < d->config.max_seqs && d->seqs[keep].used ? &d->pool->seqs[keep] : NULL;
    victim = youngest(d, target, keep, k && k->stepping);
    bool outside = k && (k->where != BR_PL_HERE || k->kv == 0) && !k->stepping;
    if (victim >= 0 && outside && !d->pool->seqs[victim].paused && !younger(&d->pool->seqs[victim], k))
        return -1;
    return victim;
}

int32_t dp_next_slot(const struct br_dev *base)
{
    const struct dev_pool *d = (const struct dev_pool *)base;
    const struct br_pl_device *device = &d->pool->devices[0];
    int32_t best = -1;
    double least = 0;
    for (uint32_t i = 0; i < device->n_held; i++) {
        struct br_pl_slot *s = &d->pool->slots[device->held[i]];
        if (pl_n(s) == 0 || (int32_t)device->held[i] == device->current)
            continue;
        double start = slack_lst(d->pool, s, d->now_s);
        if (best < 0 || start < least) {
            best = (int32_t)device->held[i];
            least = start;
        }
    }
    return best;
}
