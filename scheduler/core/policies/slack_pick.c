/* Which slot runs at a token boundary, and with what. */
#include <math.h>

#include "scheduler/core/policies/slack.h"

struct boundary {
    struct br_pool *pool;
    struct br_pl_device *device;
    double now_s;
    double min_key; /* over all slots with sequences */
};

static double key(const struct boundary *b, struct br_pl_slot *s)
{
    return pl_key(b->pool, s, b->now_s);
}

static void shed(const struct boundary *b)
{
    for (uint32_t i = b->device->n_held; b->pool->options.shed && i-- > 0;)
        pl_shed(b->pool, b->now_s, &b->pool->slots[b->device->held[i]].wait);
}

/* The ready slot with the least key, but not `but`; sets min_key. */
static struct br_pl_slot *most_urgent(struct boundary *b, const struct br_pl_slot *but)
{
    struct br_pl_slot *best = NULL;
    double best_key = 0;
    b->min_key = PL_NEVER;
    for (uint32_t i = 0; i < b->device->n_held; i++) {
        struct br_pl_slot *s = &b->pool->slots[b->device->held[i]];
        if (pl_n(s) == 0)
            continue;
        double k = key(b, s);
        b->min_key = fmin(b->min_key, k);
        if (s != but && pl_ready(b->pool, s) && (!best || k < best_key)) {
            best = s;
            best_key = k;
        }
    }
    return best;
}

static double hysteresis(const struct boundary *b, const struct br_pl_slot *s)
{
    return b->pool->options.hysteresis * pl_model(b->pool, s)->ttft_s;
}

static struct br_pl_slot *stay(const struct boundary *b, struct br_pl_slot *best)
{
    if (b->device->current < 0)
        return best;
    struct br_pl_slot *c = &b->pool->slots[b->device->current];
    double k = key(b, best);
    if (c == best || !pl_ready(b->pool, c) || key(b, c) >= k + hysteresis(b, c))
        return best;
    return k > 2 * pl_decode_s(b->pool, c) + .2 * pl_model(b->pool, best)->tbt_s ? c : best;
}

/* The slot that is not ready and whose load has to start first. */
static struct br_pl_slot *most_pressing(const struct boundary *b)
{
    struct br_pl_slot *t = NULL;
    double least = 0;
    for (uint32_t i = 0; i < b->device->n_held; i++) {
        struct br_pl_slot *s = &b->pool->slots[b->device->held[i]];
        if (pl_n(s) == 0 || pl_miss(b->pool, s) == 0 || pl_chunk(b->pool, s) == 0)
            continue;
        double lst = slack_lst(b->pool, s, b->now_s);
        if (!t || lst < least) {
            t = s;
            least = lst;
        }
    }
    return t;
}

/* The chosen slot gives its memory to one that has to start now, when it has time to come back. True: it did, and
 * cannot run. */
static bool yield(const struct boundary *b, struct br_pl_slot *best)
{
    struct br_pool *pool = b->pool;
    struct br_pl_slot *t = b->device->link.slot < 0 ? most_pressing(b) : NULL;
    if (!t || pl_model(pool, best)->pinned)
        return false;
    double ttft = pl_model(pool, t)->ttft_s;
    double back = (double)(best->weights + best->kv) / b->device->hw.link_bytes_per_s;
    if (slack_lst(pool, t, b->now_s) >= .03 * ttft || key(b, best) <= pl_load_s(pool, t) + .6 * ttft + back ||
        slack_room(pool, b->now_s, t, pl_chunk(pool, t), SLACK_LATER, best))
        return false;
    if (pl_chunk(pool, t) > pl_free(b->device) + best->weights + best->kv)
        return false; /* nothing would come of it */
    pl_evict(pool, best, pl_chunk(pool, t) - pl_free(b->device));
    if (pl_chunk(pool, t) <= pl_free(b->device)) /* else its KV had to stay: the host is full */
        pl_load(pool, t);
    return true;
}

static bool run(const struct boundary *b, struct br_pl_slot *s, double chunk_s, bool streamed)
{
    struct br_pool *pool = b->pool;
    struct br_pl_device *d = b->device;
    double ttft = pl_model(pool, s)->ttft_s;
    struct pl_limits limits = {pl_rows(pool, s, chunk_s), b->min_key >= ttft, d->hw.memory_bytes, false};
    if (!pl_compose(pool, b->now_s, s, &limits))
        return false;
    int64_t growth = pl_growth(pool, s);
    if (growth > pl_free(d) && !slack_room(pool, b->now_s, s, growth, SLACK_ANY, NULL) && d->link.slot >= 0)
        return false; /* what is in flight can go when it is there */
    if (!pl_compose_fit(pool, b->now_s, s, limits))
        return false;
    pl_begin(pool, s, streamed);
    return true;
}

static double chunk_s(const struct boundary *b, const struct br_pl_slot *s)
{
    double ttft = pl_model(b->pool, s)->ttft_s;
    return fmin(fmax(.3 * b->min_key, .003 * ttft), b->pool->options.prefill_step_s);
}

/* Seconds of prompt that can still be on time. */
static double on_time_work(const struct boundary *b, const struct br_pl_slot *s)
{
    const struct br_pl_list *lists[] = {&s->run, &s->wait};
    uint32_t tokens = 0;
    for (int l = 0; l < 2; l++)
        for (int32_t i = lists[l]->first; i >= 0; i = b->pool->seqs[i].next)
            if (b->pool->seqs[i].due_s >= b->now_s)
                tokens += b->pool->seqs[i].left;
    return pl_prefill_s(b->pool, s->device, s->model, tokens);
}

/* A slot that is nearly in runs layer by layer behind its load. */
static bool stream(const struct boundary *b, struct br_pl_slot *best)
{
    struct br_pool *pool = b->pool;
    struct br_pl_device *d = b->device;
    struct br_pl_slot *t = d->loading >= 0 ? &pool->slots[d->loading] : NULL;
    if (!t || pl_n(t) == 0 || pl_miss(pool, t) == 0 || d->link.slot != d->loading)
        return false;
    double rest = pl_load_s(pool, t), work = on_time_work(b, t);
    if (rest > (best ? .3 : 1) * work || (best && key(b, t) >= key(b, best) - hysteresis(b, t)))
        return false;
    int64_t to_come = pl_miss(pool, t) - d->link.bytes;
    if (to_come < 0) /* KV in flight of a sequence that has ended since: no room that the growth may count on */
        to_come = 0;
    if (!slack_room(pool, b->now_s, t, to_come, SLACK_LATER, NULL))
        return false;
    struct pl_limits limits = {pl_rows(pool, t, fmax(chunk_s(b, t), rest)), false, d->hw.memory_bytes, false};
    if (!pl_compose(pool, b->now_s, t, &limits) ||
        !slack_room(pool, b->now_s, t, to_come + pl_growth(pool, t), SLACK_LATER, NULL))
        return false;
    pl_begin(pool, t, true);
    return true;
}

void slack_pick(struct br_pool *pool, double now_s, uint32_t device)
{
    struct boundary b = {pool, &pool->devices[device], now_s, 0};
    shed(&b);
    struct br_pl_slot *best = most_urgent(&b, NULL);
    if (stream(&b, best) || !best)
        return;
    best = stay(&b, best);
    if (yield(&b, best) && !(best = most_urgent(&b, best)))
        return;
    if (run(&b, best, chunk_s(&b, best), false) || !pool->options.whole_kv)
        return;
    if ((best = most_urgent(&b, best)))
        run(&b, best, chunk_s(&b, best), false);
}
