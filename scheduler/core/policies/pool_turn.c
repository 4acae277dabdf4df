/* switch_every_step, for tests that every switch gives the same tokens: slots take turns, the one whose last step is
 * longest ago first; its predecessor's KV leaves the device, so that every turn moves KV and weights too. */
#include "scheduler/core/policies/pool_books.h"

enum need {
    ANY,   /* has work */
    READY, /* can step */
    WHOLE, /* and with all of its sequences: none of its KV is outside or on its way */
};

static bool has(const struct br_pool *pool, const struct br_pl_slot *s, enum need need)
{
    return pl_n(s) > 0 && (need == ANY || pl_ready(pool, s)) && (need != WHOLE || s->away == 0);
}

/* The slot whose last step is longest ago, other than `but`; NULL: none. */
static struct br_pl_slot *longest_ago(const struct br_pool *pool, const struct br_pl_device *d, enum need need,
                                      int32_t but)
{
    struct br_pl_slot *best = NULL;
    for (uint32_t i = 0; i < d->n_held; i++) {
        struct br_pl_slot *s = &pool->slots[d->held[i]];
        if ((int32_t)d->held[i] != but && has(pool, s, need) && (!best || s->last_step < best->last_step))
            best = s;
    }
    return best;
}

/* From the least needed: slots without work, then those that stepped last. Never the target, what steps or loads. */
static bool make_room(struct br_pool *pool, const struct br_pl_slot *target, int64_t bytes)
{
    struct br_pl_device *d = &pool->devices[target->device];
    pl_swap_paused(pool, (struct br_pl_slot *)target, bytes - pl_free(d));
    while (bytes > pl_free(d)) {
        struct br_pl_slot *best = NULL;
        for (uint32_t i = 0; i < d->n_held; i++) {
            struct br_pl_slot *s = &pool->slots[d->held[i]];
            int32_t index = (int32_t)d->held[i];
            if (s == target || index == d->step.slot || (index == d->current && pl_redoes(pool, &pool->slots[index])) ||
                index == d->link.slot || pl_evictable(pool, s) == 0)
                continue;
            if (!best || (pl_n(s) == 0) > (pl_n(best) == 0) ||
                ((pl_n(s) == 0) == (pl_n(best) == 0) && s->last_step > best->last_step))
                best = s;
        }
        if (!best || pl_evict(pool, best, bytes - pl_free(d)) == 0)
            return false;
    }
    return true;
}

static bool step(struct br_pool *pool, struct br_pl_slot *s)
{
    const struct br_pl_device *d = &pool->devices[s->device];
    struct pl_limits limits = {pl_rows(pool, s, pool->options.prefill_step_s), true, d->hw.memory_bytes, false};
    if (!pl_compose(pool, pool->now_s, s, &limits))
        return false;
    if (!make_room(pool, s, pl_growth(pool, s)) && d->link.slot >= 0)
        return false;
    if (!pl_compose_fit(pool, pool->now_s, s, limits))
        return false;
    pl_begin(pool, s, false);
    return true;
}

static struct br_pl_slot *first_to_load(struct br_pool *pool, const struct br_pl_device *d)
{
    struct br_pl_slot *best = d->loading >= 0 ? &pool->slots[d->loading] : NULL;
    if (best && pl_n(best) > 0 && best->weights < pl_model(pool, best)->weights_bytes)
        return best; /* a started load goes first, also when it has to wait */
    best = NULL;
    for (uint32_t i = 0; i < d->n_held; i++) {
        struct br_pl_slot *s = &pool->slots[d->held[i]];
        if (pl_n(s) > 0 && pl_chunk(pool, s) > 0 && (!best || s->last_step < best->last_step))
            best = s;
    }
    return best;
}

void pl_turn_load(struct br_pool *pool, uint32_t device)
{
    struct br_pl_slot *s = first_to_load(pool, &pool->devices[device]);
    int64_t bytes = s ? pl_chunk(pool, s) : 0;
    if (bytes > 0 && make_room(pool, s, bytes))
        pl_load(pool, s);
}

/* Another one than the last, as soon as there is one; the last again when it is alone or nothing else can come in. */
static struct br_pl_slot *choose(struct br_pool *pool, struct br_pl_device *d, uint32_t device)
{
    if (d->current >= 0 && pl_redoes(pool, &pool->slots[d->current]) && pl_ready(pool, &pool->slots[d->current]))
        return &pool->slots[d->current];
    struct br_pl_slot *s = longest_ago(pool, d, WHOLE, d->current);
    if (s)
        return s;
    if (d->link.slot < 0 && longest_ago(pool, d, ANY, d->current))
        pl_turn_load(pool, device);
    if (d->link.slot >= 0)
        return NULL;
    s = longest_ago(pool, d, READY, d->current);
    return s ? s : longest_ago(pool, d, READY, -1);
}

void pl_turn_pick(struct br_pool *pool, uint32_t device)
{
    struct br_pl_device *d = &pool->devices[device];
    int32_t last = d->current;
    struct br_pl_slot *s = choose(pool, d, device);
    if (!s || !step(pool, s) || last < 0 || last == d->current || !pool->options.whole_kv)
        return;
    pl_swap_out(pool, &pool->slots[last], INT64_MAX);
}
