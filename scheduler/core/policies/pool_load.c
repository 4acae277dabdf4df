/* Bytes between device and host: evictions, loads, and with whole_kv the KV of single sequences. */
#include <assert.h>

#include "scheduler/core/policies/pool_books.h"
#include "scheduler/core/policies/pool_events.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Copies of the weights of every model that a device of the node serves, once each. */
static int64_t host_weights(const struct br_pool *pool, uint32_t node)
{
    int64_t bytes = 0;
    for (uint32_t m = 0; m < pool->n_models; m++)
        for (uint32_t i = 0; i < pool->n_devices; i++)
            if (pool->devices[i].hw.node == node && pl_slot(pool, i, m)->served) {
                bytes += pool->models[m].weights_bytes;
                break;
            }
    return bytes;
}

static int64_t host_kv(const struct br_pool *pool, uint32_t node)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        const struct br_pl_device *d = &pool->devices[i];
        for (uint32_t h = 0; d->hw.node == node && h < d->n_held; h++) {
            const struct br_pl_slot *s = &pool->slots[d->held[h]];
            bytes += s->kv_all - s->kv + s->kv_wait;
        }
    }
    return bytes;
}

int64_t pl_host_free(const struct br_pool *pool, uint32_t device)
{
    uint32_t node = pool->devices[device].hw.node;
    if (node >= pool->n_nodes || pool->host_bytes[node] <= 0)
        return INT64_MAX;
    return pool->host_bytes[node] - host_weights(pool, node) - host_kv(pool, node);
}

static int64_t take_part(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes, bool kv)
{
    int64_t *part = kv ? &s->kv : &s->weights;
    bytes = smaller(bytes, *part);
    if (bytes <= 0)
        return 0;
    *part -= bytes;
    pool->devices[s->device].used -= bytes;
    pl_say(pool, (struct br_pl_action){BR_PL_EVICT, .kv = kv, .device = s->device, .model = s->model, .bytes = bytes});
    return bytes;
}

static int64_t weights_evict(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes)
{
    return pl_model(pool, s)->pinned ? 0 : take_part(pool, s, bytes, false);
}

/* What the host has no room for is computed again, the youngest first. */
static int64_t kv_evict(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes)
{
    if (pool->options.whole_kv)
        return pl_swap_out(pool, s, bytes);
    if (bytes <= 0 || s->kv <= 0)
        return 0;
    int64_t before = s->kv;
    take_part(pool, s, smaller(bytes, pl_host_free(pool, s->device)), true);
    while (before - s->kv < bytes && s->kv > 0 && s->run.n > 0)
        pl_preempt(pool, (uint32_t)s->run.last);
    return before - s->kv;
}

static bool full(const struct br_pool *pool)
{
    return pool->options.max_actions && pool->actions->n >= pool->options.max_actions;
}

int64_t pl_evict(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes)
{
    if (full(pool))
        return 0;
    int64_t freed = weights_evict(pool, s, bytes);
    freed += kv_evict(pool, s, bytes - freed);
    pl_hold(pool, s);
    return freed;
}

void pl_demote(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    struct br_pl_slot *s = &pool->slots[q->slot];
    assert(q->state == BR_PL_RUNNING && !q->stepping);
    if (q->where == BR_PL_HERE && q->kv > 0) {
        if (pl_host_free(pool, s->device) < pl_kv_bytes(pool, q)) {
            pl_preempt(pool, seq);
            return;
        }
        if (pool->options.whole_kv)
            pl_say(pool, (struct br_pl_action){BR_PL_SWAP_OUT, .device = s->device, .model = s->model, .seq = seq});
    }
    pl_take(pool, seq);
    if (q->kv > 0 && q->where != BR_PL_GOING)
        q->where = pool->options.whole_kv && q->where == BR_PL_HERE ? BR_PL_GOING : BR_PL_HOST;
    pl_put(pool, seq, s, BR_PL_WAITING);
}

/* RUNNING and out; a paused one does not want to come back. */
static void swap_out_one(struct br_pool *pool, struct br_pl_slot *s, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    int64_t bytes = pl_kv_bytes(pool, q);
    if (q->paused) {
        pl_demote(pool, seq);
        return;
    }
    if (pl_host_free(pool, s->device) < bytes) {
        pl_preempt(pool, seq);
        return;
    }
    q->where = BR_PL_GOING;
    s->away++;
    pl_shrink(pool, s, bytes);
    pl_say(pool, (struct br_pl_action){BR_PL_SWAP_OUT, .device = s->device, .model = s->model, .seq = seq});
}

static int64_t swap_out_pass(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes, bool paused)
{
    int64_t before = s->kv;
    for (int32_t i = s->run.last, prev; i >= 0 && before - s->kv < bytes && !full(pool); i = prev) {
        const struct br_pl_seq *q = &pool->seqs[i];
        prev = q->prev;
        if (q->paused == paused && q->where == BR_PL_HERE && q->kv > 0 && !q->stepping)
            swap_out_one(pool, s, (uint32_t)i);
    }
    return before - s->kv;
}

int64_t pl_swap_paused(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes)
{
    return pool->options.whole_kv && s->paused && bytes > 0 ? swap_out_pass(pool, s, bytes, true) : 0;
}

int64_t pl_swap_out(struct br_pool *pool, struct br_pl_slot *s, int64_t bytes)
{
    int64_t freed = pl_swap_paused(pool, s, bytes);
    freed += swap_out_pass(pool, s, bytes - freed, false);
    pl_hold(pool, s);
    return freed;
}

static int64_t chunk_bytes(const struct br_pool *pool, const struct br_pl_slot *s)
{
    int64_t own = pool->devices[s->device].hw.chunk_bytes;
    return (own > 0 ? own : pool->options.chunk_bytes) << s->grow;
}

enum { MOST_GROWN = 8 };
enum { SWAPS = 48 }; /* of one load, for the list of actions */

/* The oldest whose KV is on the host, until the chunk is full; `begin`: it comes. */
static int64_t kv_coming(struct br_pool *pool, struct br_pl_slot *s, bool begin)
{
    int64_t bytes = 0, most = chunk_bytes(pool, s);
    uint32_t n = 0;
    for (int32_t i = s->run.first; i >= 0 && n < s->away && n < SWAPS && (bytes == 0 || bytes < most);
         i = pool->seqs[i].next) {
        struct br_pl_seq *q = &pool->seqs[i];
        if (q->where != BR_PL_HOST || q->paused)
            continue;
        n++;
        bytes += pl_kv_bytes(pool, q);
        if (!begin)
            continue;
        q->where = BR_PL_COMING;
        pl_say(pool, (struct br_pl_action){BR_PL_SWAP_IN, .device = s->device, .model = s->model, .seq = (uint32_t)i});
    }
    if (begin)
        pool->devices[s->device].link.n = n;
    return bytes;
}

int64_t pl_chunk(const struct br_pool *pool, const struct br_pl_slot *s)
{
    int64_t weights = pl_model(pool, s)->weights_bytes - s->weights;
    if (s->retry_s > pool->now_s)
        return 0;
    if (weights == 0 && pool->options.whole_kv)
        return kv_coming((struct br_pool *)pool, (struct br_pl_slot *)s, false);
    int64_t chunk = chunk_bytes(pool, s);
    if (weights > 0 && chunk < s->least)
        chunk = s->least;
    return smaller(chunk, weights > 0 ? weights : s->kv_all - s->kv);
}

void pl_load(struct br_pool *pool, struct br_pl_slot *s)
{
    struct br_pl_device *d = &pool->devices[s->device];
    int64_t bytes = pl_chunk(pool, s);
    bool kv = s->weights == pl_model(pool, s)->weights_bytes;
    assert(d->link.slot < 0 && bytes > 0 && bytes <= pl_free(d));
    d->link = (struct br_pl_link){(int32_t)pl_index(pool, s), bytes, kv, 0};
    d->loading = d->link.slot;
    d->used += bytes;
    if (kv && pool->options.whole_kv)
        kv_coming(pool, s, true);
    else
        pl_say(pool,
               (struct br_pl_action){BR_PL_LOAD, .kv = kv, .device = s->device, .model = s->model, .bytes = bytes});
    pl_hold(pool, s);
    if (!kv)
        pl_pin_changed(pool, s);
}

void pl_room_lacked(struct br_pl_device *d)
{
    int64_t least = d->hw.memory_bytes / 128, most = d->hw.memory_bytes / 8;
    d->reserve = d->reserve < least ? least : 2 * d->reserve < most ? 2 * d->reserve : most;
}

static void link_free(struct br_pool *pool, struct br_pl_device *d)
{
    struct br_pl_slot *s = &pool->slots[d->link.slot];
    d->link.slot = -1;
    if (pl_miss(pool, s) == 0 || pl_n(s) == 0)
        d->loading = -1;
    pl_hold(pool, s);
}

/* Sequences may have ended while KV came in: what has no owner is dropped. */
void pl_loaded(struct br_pool *pool, struct br_pl_device *d, int64_t came)
{
    struct br_pl_slot *s = &pool->slots[d->link.slot];
    if (d->link.kv && pool->options.whole_kv)
        return;
    int64_t wanted = d->link.kv ? s->kv_all - s->kv : pl_model(pool, s)->weights_bytes - s->weights;
    int64_t bytes = smaller(smaller(came > 0 ? came : 0, d->link.bytes), wanted);
    *(d->link.kv ? &s->kv : &s->weights) += bytes;
    d->used -= d->link.bytes - bytes;
    s->grow = bytes > 0 ? 0 : s->grow + (s->grow < MOST_GROWN);
    if (bytes == 0 && wanted > 0) {
        s->retry_s = pool->now_s + PL_RETRY_S;
        pl_room_lacked(d);
    }
    link_free(pool, d);
}

void pl_load_abort(struct br_pool *pool, struct br_pl_device *d)
{
    struct br_pl_slot *s = d->link.slot >= 0 ? &pool->slots[d->link.slot] : NULL;
    for (int32_t i = s && d->link.n ? s->run.first : -1; i >= 0; i = pool->seqs[i].next)
        if (pool->seqs[i].where == BR_PL_COMING)
            pool->seqs[i].where = BR_PL_HOST;
    d->used -= s ? d->link.bytes : 0;
    if (s)
        link_free(pool, d);
    d->loading = -1;
}

void pl_coming_over(struct br_pool *pool, const struct br_pl_seq *q)
{
    struct br_pl_device *d = &pool->devices[pool->slots[q->slot].device];
    int64_t bytes = pl_kv_bytes(pool, q);
    d->link.bytes -= bytes;
    d->used -= bytes;
    if (--d->link.n == 0)
        link_free(pool, d);
}

static bool readmit_fits(const struct br_pool *pool, const struct br_pl_slot *s, const struct br_pl_seq *q)
{
    const struct br_pl_model *m = pl_model(pool, s);
    int64_t tokens = q->kv + q->left + PL_HEADROOM;
    if (q->paused || q->kv == 0 || q->where != BR_PL_HOST || q->retry_s > pool->now_s ||
        s->run.n >= pool->options.max_batch)
        return false;
    return pl_n(s) == s->back || s->run.n == 0 ||
           m->weights_bytes + s->kv_all + tokens * m->kv_token_bytes <= pool->devices[s->device].hw.memory_bytes;
}

static void readmit(struct br_pool *pool, struct br_pl_slot *s)
{
    for (int32_t i = s->wait.first, next; i >= 0 && s->back > 0; i = next) {
        next = pool->seqs[i].next;
        if (readmit_fits(pool, s, &pool->seqs[i]))
            pl_admit(pool, (uint32_t)i);
    }
}

void pl_readmit(struct br_pool *pool, uint32_t device)
{
    const struct br_pl_device *d = &pool->devices[device];
    for (uint32_t i = 0; i < d->n_held; i++) {
        struct br_pl_slot *s = &pool->slots[d->held[i]];
        bool may = pool->options.whole_kv || d->step.slot != (int32_t)d->held[i];
        if (s->back > 0 && may)
            readmit(pool, s);
    }
}
