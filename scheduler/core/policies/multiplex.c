/* `multiplex`: static placement of as many models as fit (MuxServe-like), spatial sharing approximated by stepwise
 * interleaving. `dedicated`: one device a model. A model without a place is not served: its requests wait for ever
 * (or are dropped). */
#include "scheduler/core/policies/pool_books.h"

/* Of a device with several models this part of the memory stays for KV: static placement cannot get it back later. */
static const double KV_PART = .2;

enum { NOWHERE = -1, UNPLACED = -2 };

static size_t multiplex_bytes(const struct br_pl_config *config)
{
    return config->n_models * sizeof(int32_t) + config->n_devices * (sizeof(int64_t) + 2 * sizeof(uint32_t));
}

/* State: planned[n_devices], then count[n_devices], turn[n_devices], place[n_models]. */
static int64_t *planned_of(const struct br_pool *pool)
{
    return pool->state;
}

static uint32_t *count_of(const struct br_pool *pool)
{
    return (uint32_t *)(planned_of(pool) + pool->n_devices);
}

static uint32_t *turn_of(const struct br_pool *pool)
{
    return count_of(pool) + pool->n_devices;
}

static int32_t *place_of(const struct br_pool *pool)
{
    return (int32_t *)(turn_of(pool) + pool->n_devices);
}

/* The device with the most room left that has room for it. */
static int32_t place_find(const struct br_pool *pool, uint32_t model, uint32_t limit)
{
    const struct br_pl_model *m = &pool->models[model];
    int64_t best_left = 0;
    int32_t best = -1;
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        double part = count_of(pool)[i] ? 1 - KV_PART : 1;
        int64_t left = (int64_t)(part * (double)pool->devices[i].hw.memory_bytes) - planned_of(pool)[i];
        if (!pl_takes(pool, i, model) || left < m->weights_bytes || (limit && count_of(pool)[i] >= limit) ||
            (best >= 0 && left <= best_left))
            continue;
        best = (int32_t)i;
        best_left = left;
    }
    return best;
}

/* Largest first packs best; of equals the first. */
static int32_t largest_unplaced(const struct br_pool *pool)
{
    int32_t best = -1;
    for (uint32_t m = 0; m < pool->n_models; m++)
        if (place_of(pool)[m] == UNPLACED &&
            (best < 0 || pool->models[m].weights_bytes > pool->models[best].weights_bytes))
            best = (int32_t)m;
    return best;
}

static void place(struct br_pool *pool, uint32_t m, uint32_t limit)
{
    int32_t device = place_find(pool, m, limit);
    place_of(pool)[m] = device >= 0 ? device : NOWHERE;
    if (device < 0)
        return;
    count_of(pool)[device]++;
    planned_of(pool)[device] += pool->models[m].weights_bytes;
}

static void place_all(struct br_pool *pool, uint32_t limit)
{
    for (uint32_t m = 0; m < pool->n_models; m++)
        place_of(pool)[m] = UNPLACED;
    for (int32_t m; (m = largest_unplaced(pool)) >= 0;)
        place(pool, (uint32_t)m, limit);
}

/* Where the model is, or could be since its device went or another came. Static otherwise. */
static int32_t place_now(struct br_pool *pool, uint32_t m, uint32_t limit)
{
    int32_t *at = &place_of(pool)[m];
    if (*at >= 0 && !pl_slot(pool, (uint32_t)*at, m)->served) {
        int64_t *planned = &planned_of(pool)[*at];
        count_of(pool)[*at]--;
        *planned -= pool->models[m].weights_bytes < *planned ? pool->models[m].weights_bytes : *planned;
        *at = NOWHERE;
    }
    if (*at < 0)
        place(pool, m, limit);
    return *at;
}

static void multiplex_init(struct br_pool *pool)
{
    place_all(pool, pool->options.per_device);
}

static void dedicated_init(struct br_pool *pool)
{
    place_all(pool, 1);
}

static void arrive(struct br_pool *pool, double now_s, uint32_t seq, uint32_t limit)
{
    int32_t device = place_now(pool, pool->seqs[seq].model, limit);
    if (device < 0 && pool->n_devices == 1 && pl_takes(pool, 0, pool->seqs[seq].model))
        device = 0; /* decided elsewhere */
    if (device >= 0)
        pl_assign(pool, seq, pl_slot(pool, (uint32_t)device, pool->seqs[seq].model));
    else
        pl_shed(pool, now_s, &pool->queues[pool->seqs[seq].model]);
}

static void multiplex_arrive(struct br_pool *pool, double now_s, uint32_t seq)
{
    arrive(pool, now_s, seq, pool->options.per_device);
}

static void dedicated_arrive(struct br_pool *pool, double now_s, uint32_t seq)
{
    arrive(pool, now_s, seq, 1);
}

/* Memory that the slot may have: all that the other models and their KV leave. In the worker's half, which may get
 * more models than have room at once, the slot that steps may have all. */
static int64_t memory_for(const struct br_pool *pool, const struct br_pl_slot *s)
{
    const struct br_pl_device *d = &pool->devices[s->device];
    int64_t bytes = d->hw.memory_bytes;
    for (uint32_t i = 0; i < d->n_held; i++) {
        const struct br_pl_slot *other = &pool->slots[d->held[i]];
        if (other != s && !pool->options.whole_kv)
            bytes -= pl_model(pool, other)->weights_bytes + other->kv_all;
    }
    return bytes;
}

/* Its model has its place elsewhere: what is here was given to this device from outside. */
static bool guest(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return place_of(pool)[s->model] != (int32_t)s->device;
}

static double arrived(const struct br_pool *pool, const struct br_pl_slot *s)
{
    double run = s->run.n ? pool->seqs[s->run.first].arrival_s : PL_NEVER;
    double wait = s->wait.n ? pool->seqs[s->wait.first].arrival_s : PL_NEVER;
    return run < wait ? run : wait;
}

/* The slot of the device's oldest sequence; NULL: none has any. */
static struct br_pl_slot *elder(const struct br_pool *pool, const struct br_pl_device *d)
{
    struct br_pl_slot *best = NULL;
    for (uint32_t i = 0; i < d->n_held; i++) {
        struct br_pl_slot *s = &pool->slots[d->held[i]];
        if (pl_n(s) && (!best || arrived(pool, s) < arrived(pool, best)))
            best = s;
    }
    return best;
}

/* Room for the target from models that have their place elsewhere and nothing to do, then if stuck from all others; but
 * nobody takes from the slot of the oldest sequence: two that have no room together would take from each other for
 * ever. */
static bool room_make(struct br_pool *pool, struct br_pl_slot *target, int64_t bytes, bool any)
{
    struct br_pl_device *d = &pool->devices[target->device];
    const struct br_pl_slot *first = pool->options.whole_kv ? NULL : elder(pool, d);
    for (uint32_t i = d->n_held; i-- > 0 && bytes > pl_free(d);) {
        struct br_pl_slot *s = &pool->slots[d->held[i]];
        bool may = (any && s != first) || (guest(pool, s) && pl_n(s) == 0);
        if (s != target && (int32_t)d->held[i] != d->step.slot && may)
            pl_evict(pool, s, bytes - pl_free(d));
    }
    return bytes <= pl_free(d);
}

static bool try_slot(struct br_pool *pool, double now_s, struct br_pl_slot *s)
{
    if (!pl_ready(pool, s))
        return false;
    struct pl_limits limits = {pl_rows(pool, s, pool->options.prefill_step_s), true, memory_for(pool, s), false};
    if (pool->options.whole_kv && pl_compose(pool, now_s, s, &limits))
        room_make(pool, s, pl_growth(pool, s), true);
    if (!pl_compose_fit(pool, now_s, s, limits))
        return false;
    pl_begin(pool, s, false);
    return true;
}

static void multiplex_pick(struct br_pool *pool, double now_s, uint32_t device)
{
    struct br_pl_device *d = &pool->devices[device];
    for (uint32_t i = d->n_held; i-- > 0;) { /* first: it takes slots out of the list */
        struct br_pl_slot *s = &pool->slots[d->held[i]];
        pl_shed(pool, now_s, &s->wait);
        if (guest(pool, s) && pl_n(s) == 0 && (int32_t)pl_index(pool, s) != d->link.slot)
            pl_evict(pool, s, INT64_MAX);
    }
    for (uint32_t i = 0; i < d->n_held; i++) {
        uint32_t at = ++turn_of(pool)[device] % d->n_held;
        if (try_slot(pool, now_s, &pool->slots[d->held[at]]))
            return;
    }
    const struct br_pl_slot *first = pool->options.whole_kv ? NULL : elder(pool, d);
    for (uint32_t i = 0; d->link.slot < 0 && i < d->n_held; i++) {
        struct br_pl_slot *s = &pool->slots[d->held[i]];
        if (!pl_ready(pool, s) || (first && s != first))
            continue;
        room_make(pool, s, PL_HEADROOM * pl_model(pool, s)->kv_token_bytes, true);
        if (try_slot(pool, now_s, s))
            return;
    }
}

static struct br_pl_slot *wanting(const struct br_pool *pool, const struct br_pl_device *d)
{
    if (d->loading >= 0 && pl_n(&pool->slots[d->loading]) && pl_chunk(pool, &pool->slots[d->loading]))
        return &pool->slots[d->loading];
    struct br_pl_slot *first = pl_stuck(pool, d) ? elder(pool, d) : NULL;
    if (first && pl_chunk(pool, first))
        return first;
    for (uint32_t i = 0; i < d->n_held; i++)
        if (pl_n(&pool->slots[d->held[i]]) && pl_chunk(pool, &pool->slots[d->held[i]]))
            return &pool->slots[d->held[i]];
    return NULL;
}

static void multiplex_load(struct br_pool *pool, double now_s, uint32_t device)
{
    (void)now_s;
    const struct br_pl_device *d = &pool->devices[device];
    for (uint32_t i = 0; i < d->n_held; i++) {
        struct br_pl_slot *s = &pool->slots[d->held[i]];
        bool idle = pl_n(s) == 0 && (guest(pool, s) || pool->options.whole_kv);
        int64_t bytes = idle ? 0 : pl_chunk(pool, s);
        if (bytes > 0 && bytes <= pl_free(d)) {
            pl_load(pool, s);
            return;
        }
    }
    struct br_pl_slot *s = wanting(pool, d);
    if (s && room_make(pool, s, pl_chunk(pool, s), pl_stuck(pool, d)))
        pl_load(pool, s);
}

const struct br_pl_policy pl_policy_multiplex = {
    .name = "multiplex",
    .switch_s = .002,
    .state_bytes = multiplex_bytes,
    .init = multiplex_init,
    .arrive = multiplex_arrive,
    .places = true,
    .pick = multiplex_pick,
    .load = multiplex_load,
};

const struct br_pl_policy pl_policy_dedicated = {
    .name = "dedicated",
    .switch_s = .002,
    .state_bytes = multiplex_bytes,
    .init = dedicated_init,
    .arrive = dedicated_arrive,
    .places = true,
    .pick = multiplex_pick,
    .load = multiplex_load,
};
