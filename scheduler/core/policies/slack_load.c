/* What is loaded next, and who makes room. */
#include "scheduler/core/policies/slack.h"

double slack_next_use(const struct br_pool *pool, struct br_pl_slot *s, double now_s)
{
    const struct br_pl_model *m = pl_model(pool, s);
    if (pl_n(s) > 0)
        return pl_key(pool, s, now_s);
    return m->rate > 0 ? m->ttft_s + 1 / m->rate : PL_NEVER;
}

double slack_lst(const struct br_pool *pool, struct br_pl_slot *s, double now_s)
{
    return pl_key(pool, s, now_s) - pl_load_s(pool, s);
}

struct room {
    struct br_pool *pool;
    struct br_pl_device *device;
    const struct br_pl_slot *target, *spare;
    double now_s, use_s; /* when the target is needed */
    enum slack_force force;
};

/* 0: may not go; 1: a whole slot; 2: one that is incomplete already. */
static int victim_class(const struct room *r, struct br_pl_slot *s, double use_s)
{
    int32_t index = (int32_t)pl_index(r->pool, s);
    if (s == r->target || s == r->spare || index == r->device->step.slot || index == r->device->link.slot ||
        pl_evictable(r->pool, s) == 0)
        return 0;
    bool idle = pl_n(s) == 0, incomplete = pl_miss(r->pool, s) > 0;
    if (r->force == SLACK_ANY)
        return incomplete || idle ? 2 : 1;
    if (incomplete && (idle || use_s > r->use_s))
        return 2;
    double margin =
        idle ? 0 : .5 * (double)pl_model(r->pool, r->target)->weights_bytes / r->device->hw.link_bytes_per_s;
    return use_s > r->use_s + margin;
}

static struct br_pl_slot *victim(const struct room *r, int64_t *evictable)
{
    struct br_pl_slot *best = NULL;
    int best_class = 0;
    double best_use = 0;
    *evictable = 0;
    for (uint32_t i = 0; i < r->device->n_held; i++) {
        struct br_pl_slot *s = &r->pool->slots[r->device->held[i]];
        double use = slack_next_use(r->pool, s, r->now_s);
        int class = victim_class(r, s, use);
        if (class == 0)
            continue;
        *evictable += pl_evictable(r->pool, s);
        if (class > best_class || (class == best_class && use > best_use)) {
            best = s;
            best_class = class;
            best_use = use;
        }
    }
    return best;
}

bool slack_room(struct br_pool *pool, double now_s, struct br_pl_slot *target, int64_t bytes, enum slack_force force,
                const struct br_pl_slot *spare)
{
    struct br_pl_device *d = &pool->devices[target->device];
    pl_swap_paused(pool, target, bytes - pl_free(d));
    if (bytes <= pl_free(d))
        return true;
    struct room r = {pool, d, target, spare, now_s, slack_next_use(pool, target, now_s), force};
    int64_t evictable;
    struct br_pl_slot *s = victim(&r, &evictable);
    if (pl_free(d) + evictable < bytes)
        return false;
    while (s && bytes > pl_free(d)) {
        if (pl_evict(pool, s, bytes - pl_free(d)) == 0)
            return false;
        s = victim(&r, &evictable);
    }
    return bytes <= pl_free(d);
}

static bool wanted(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return pl_n(s) > 0 && pl_miss(pool, s) > 0 && pl_chunk(pool, s) > 0;
}

/* A started load first, otherwise two models can starve each other for ever; then the least latest start. */
static uint32_t candidates(struct br_pool *pool, double now_s, struct br_pl_device *d, struct br_pl_slot *first[2])
{
    double lst[2] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n_held; i++) {
        struct br_pl_slot *s = &pool->slots[d->held[i]];
        if (!wanted(pool, s))
            continue;
        double at = (int32_t)d->held[i] == d->loading ? -PL_NEVER : slack_lst(pool, s, now_s);
        uint32_t place = n > 0 && at >= lst[0] ? 1 : 0;
        if (place == 1 && n == 2 && at >= lst[1])
            continue;
        if (place == 0) {
            first[1] = first[0];
            lst[1] = lst[0];
        }
        first[place] = s;
        lst[place] = at;
        n += n < 2;
    }
    return n;
}

/* A step runs behind the slot's own load: it ends no sooner than that is whole, and until then nobody else computes. */
static bool awaited(const struct br_pool *pool, const struct br_pl_device *d, const struct br_pl_slot *s)
{
    return d->step.streamed && d->step.slot == (int32_t)pl_index(pool, s);
}

void slack_load(struct br_pool *pool, double now_s, uint32_t device)
{
    struct br_pl_device *d = &pool->devices[device];
    struct br_pl_slot *first[2] = {0};
    uint32_t n = candidates(pool, now_s, d, first);
    for (uint32_t i = 0; i < n; i++) {
        enum slack_force force = awaited(pool, d, first[i]) ? SLACK_ANY : SLACK_LATER;
        if (slack_room(pool, now_s, first[i], pl_chunk(pool, first[i]), force, NULL)) {
            pl_load(pool, first[i]);
            return;
        }
    }
    if (n > 0 && pl_stuck(pool, d) && slack_room(pool, now_s, first[0], pl_chunk(pool, first[0]), SLACK_ANY, NULL))
        pl_load(pool, first[0]);
}
