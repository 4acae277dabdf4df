/* `request`: request-level autoscaling as in ServerlessLLM. A device keeps a model until its running requests end; a
 * new request joins a running batch of its model if there is room; an idle device takes the oldest waiting request's
 * model and drains that model's waiting requests with it. */
#include "scheduler/core/policies/pool_books.h"

struct request {
    int32_t slot; /* the device's model; -1: none yet */
};

static struct request *of(struct br_pool *pool, uint32_t device)
{
    return (struct request *)pool->state + device;
}

static size_t request_bytes(const struct br_pl_config *config)
{
    return config->n_devices * sizeof(struct request);
}

static void request_init(struct br_pool *pool)
{
    for (uint32_t i = 0; i < pool->n_devices; i++)
        of(pool, i)->slot = -1;
}

static bool idle(struct br_pool *pool, uint32_t device)
{
    int32_t slot = of(pool, device)->slot;
    return slot < 0 || pl_n(&pool->slots[slot]) == 0;
}

static bool has_room(const struct br_pool *pool, const struct br_pl_slot *s, uint32_t seq)
{
    return pl_room(pool, s, pool->seqs[seq].left, pool->devices[s->device].hw.memory_bytes);
}

/* The device that runs the model with the fewest sequences and has room; -1: none. */
static int32_t joinable(struct br_pool *pool, uint32_t seq)
{
    int32_t best = -1;
    uint32_t model = pool->seqs[seq].model, n = 0;
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        const struct br_pl_slot *s = pl_slot(pool, i, model);
        if (pl_n(s) > 0 && pl_takes(pool, i, model) && has_room(pool, s, seq) && (best < 0 || pl_n(s) < n)) {
            best = (int32_t)i;
            n = pl_n(s);
        }
    }
    return best;
}

static int32_t idle_device(struct br_pool *pool, uint32_t model)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        if (!pool->open[i] || !pl_takes(pool, i, model) || !idle(pool, i))
            continue;
        if (of(pool, i)->slot == (int32_t)pl_index(pool, pl_slot(pool, i, model)))
            return (int32_t)i;
        best = (int32_t)i;
    }
    return best;
}

static void drain(struct br_pool *pool, double now_s, struct br_pl_slot *s);
static struct br_pl_slot *model_choose(struct br_pool *pool, double now_s, uint32_t device);

static void request_arrive(struct br_pool *pool, double now_s, uint32_t seq)
{
    uint32_t model = pool->seqs[seq].model;
    int32_t device = pool->options.no_joining ? -1 : joinable(pool, seq);
    if (device >= 0 && pool->queues[model].n == 1) {
        pl_assign(pool, seq, pl_slot(pool, (uint32_t)device, model));
        return;
    }
    if ((device = idle_device(pool, model)) < 0)
        return;
    pl_touch(pool, (uint32_t)device);
    struct br_pl_slot *s = pool->options.mirror ? model_choose(pool, now_s, (uint32_t)device) : NULL;
    if (s)
        drain(pool, now_s, s);
}

static void drain(struct br_pool *pool, double now_s, struct br_pl_slot *s)
{
    struct br_pl_list *queue = &pool->queues[s->model];
    bool began = pl_n(s) > 0;
    pl_shed(pool, now_s, queue);
    while (queue->n > 0 && (pl_n(s) == 0 || has_room(pool, s, (uint32_t)queue->first))) {
        if ((pool->options.no_joining && began) || (pool->options.no_draining && pl_n(s) > 0))
            return;
        pl_assign(pool, (uint32_t)queue->first, s);
    }
}

/* What a queue's first is by: its arrival, or with request-sjf its length. */
static double rank(const struct br_pool *pool, int32_t seq)
{
    return pool->policy->by_length ? pool->seqs[seq].output : pool->seqs[seq].arrival_s;
}

/* The model of the oldest waiting request that may run on the device; -1: none waits. */
static int32_t oldest(struct br_pool *pool, double now_s, uint32_t device)
{
    int32_t best = -1;
    double least = PL_NEVER;
    for (uint32_t m = 0; m < pool->n_models; m++) {
        if (pool->queues[m].n == 0)
            continue;
        pl_shed(pool, now_s, &pool->queues[m]);
        int32_t first = pool->queues[m].first;
        if (first >= 0 && pl_takes(pool, device, m) && rank(pool, first) < least) {
            least = rank(pool, first);
            best = (int32_t)m;
        }
    }
    return best;
}

static struct br_pl_slot *model_choose(struct br_pool *pool, double now_s, uint32_t device)
{
    int32_t model = oldest(pool, now_s, device), old = of(pool, device)->slot;
    if (model < 0)
        return NULL;
    struct br_pl_slot *s = pl_slot(pool, device, (uint32_t)model);
    of(pool, device)->slot = (int32_t)pl_index(pool, s);
    if (old >= 0 && old != of(pool, device)->slot)
        pl_evict(pool, &pool->slots[old], INT64_MAX);
    return s;
}

/* A slot of this device with sequences that were given to it, or go on after a pause. */
static struct br_pl_slot *given(struct br_pool *pool, uint32_t device)
{
    const struct br_pl_device *d = &pool->devices[device];
    for (uint32_t i = 0; i < d->n_held; i++)
        if (pl_n(&pool->slots[d->held[i]]) > 0) {
            of(pool, device)->slot = (int32_t)d->held[i];
            return &pool->slots[d->held[i]];
        }
    return NULL;
}

/* What is left of other models goes: their paused sequences' KV, weights that were there when the device came. */
static bool room_make(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes)
{
    struct br_pl_device *d = &pool->devices[s->device];
    for (uint32_t i = d->n_held; i-- > 0 && bytes > pl_free(d);)
        if (&pool->slots[d->held[i]] != s)
            pl_evict(pool, &pool->slots[d->held[i]], bytes - pl_free(d));
    pl_swap_paused(pool, s, bytes - pl_free(d));
    return bytes <= pl_free(d);
}

static void request_pick(struct br_pool *pool, double now_s, uint32_t device)
{
    struct br_pl_device *d = &pool->devices[device];
    struct request *r = of(pool, device);
    struct br_pl_slot *s = r->slot >= 0 ? &pool->slots[r->slot] : NULL;
    if (s)
        pl_shed(pool, now_s, &s->wait);
    if ((!s || pl_n(s) == 0) && d->link.slot < 0) {
        s = given(pool, device);
        s = s ? s : model_choose(pool, now_s, device);
    }
    if (!s || (pl_n(s) == 0 && d->link.slot >= 0))
        return;
    drain(pool, now_s, s);
    if (!pl_ready(pool, s))
        return;
    struct pl_limits limits = {pl_rows(pool, s, pool->options.prefill_step_s), true, d->hw.memory_bytes, false};
    if (d->n_held > 1 && pl_compose(pool, now_s, s, &limits))
        room_make(pool, s, pl_growth(pool, s));
    if (pl_compose_fit(pool, now_s, s, limits))
        pl_begin(pool, s, false);
}

/* The leader's half: an idle device takes what waits. */
static void request_settle(struct br_pool *pool, uint32_t device)
{
    struct br_pl_slot *s = pool->open[device] && idle(pool, device) ? model_choose(pool, pool->now_s, device) : NULL;
    int32_t slot = of(pool, device)->slot;
    s = s ? s : slot >= 0 && pool->slots[slot].served ? &pool->slots[slot] : NULL;
    if (s)
        drain(pool, pool->now_s, s);
}

static void request_load(struct br_pool *pool, double now_s, uint32_t device)
{
    (void)now_s;
    int32_t slot = of(pool, device)->slot;
    struct br_pl_slot *s = slot >= 0 ? &pool->slots[slot] : NULL;
    int64_t bytes = s && pl_n(s) > 0 ? pl_chunk(pool, s) : 0;
    if (bytes > 0 && room_make(pool, s, bytes))
        pl_load(pool, s);
}

const struct br_pl_policy pl_policy_request_sjf = {
    .name = "request-sjf",
    .switch_s = .01,
    .state_bytes = request_bytes,
    .init = request_init,
    .arrive = request_arrive,
    .pick = request_pick,
    .load = request_load,
    .settle = request_settle,
    .by_length = true,
};

const struct br_pl_policy pl_policy_request = {
    .name = "request",
    .switch_s = .01,
    .state_bytes = request_bytes,
    .init = request_init,
    .arrive = request_arrive,
    .pick = request_pick,
    .load = request_load,
    .settle = request_settle,
};
