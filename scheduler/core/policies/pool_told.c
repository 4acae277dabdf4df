/* Events that tell the truth: what a device really did. The books take it over as far as it can be; what they cannot
 * hold (more memory in use than there is) is left out until it is told again. */
#include <assert.h>

#include "scheduler/core/policies/pool_events.h"

static const double RETRY_MOST_S = 5;

static bool known(const struct br_pool *pool, uint32_t seq)
{
    return seq < pool->max_seqs && pool->seqs[seq].state != BR_PL_FREE;
}

/* What is there is there, whatever should be kept free. */
static int64_t unused(const struct br_pl_device *d)
{
    return d->hw.memory_bytes - d->used;
}

static bool placed(const struct br_pl_seq *q)
{
    return q->state == BR_PL_WAITING || q->state == BR_PL_RUNNING;
}

static struct br_pl_slot *slot_of(struct br_pool *pool, const struct br_pl_seq *q)
{
    return &pool->slots[q->slot];
}

static void end(struct br_pool *pool, uint32_t seq)
{
    const struct br_pl_seq *q = &pool->seqs[seq];
    int32_t device = placed(q) ? (int32_t)slot_of(pool, q)->device : -1;
    pl_item_remove(pool, seq);
    pl_end(pool, seq, BR_PL_STEP);
    if (device < 0)
        return;
    pl_touch(pool, (uint32_t)device);
    if (pool->options.mirror && pool->policy->settle)
        pool->policy->settle(pool, (uint32_t)device);
}

static void pause_set(struct br_pool *pool, struct br_pl_seq *q, bool paused)
{
    struct br_pl_slot *s = placed(q) ? slot_of(pool, q) : NULL;
    if (s)
        pl_count(pool, s, q, -1);
    q->paused = paused;
    if (s) {
        pl_count(pool, s, q, 1);
        pl_hold(pool, s);
        pl_touch(pool, s->device);
    }
}

static void pause(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    if (q->paused)
        return;
    pause_set(pool, q, true);
    q->paused_s = pool->now_s;
    bool stays = pool->options.whole_kv && q->where == BR_PL_HERE;
    if (q->state == BR_PL_RUNNING && !q->stepping && !stays && q->where != BR_PL_COMING)
        pl_demote(pool, seq);
}

static void resume(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    if (!q->paused)
        return;
    q->clock_s += pool->now_s - q->paused_s;
    pause_set(pool, q, false);
    if (placed(q))
        pl_due(pool, q, slot_of(pool, q)->device);
}

static void lost(struct br_pool *pool, const struct br_pl_event *e)
{
    struct br_pl_seq *q = &pool->seqs[e->seq];
    uint32_t left = e->left ? e->left : q->prompt + q->delivered;
    if (!placed(q)) {
        q->left = left;
        q->known = 0;
        return;
    }
    struct br_pl_slot *s = slot_of(pool, q);
    pl_item_remove(pool, e->seq);
    pl_take(pool, e->seq);
    q->kv = q->known = 0;
    q->redo = true;
    q->where = BR_PL_HERE;
    q->left = e->left ? e->left : q->prompt + q->delivered;
    pl_put(pool, e->seq, s, BR_PL_WAITING);
    if (pool->policy->hands_over)
        pl_requeue(pool, e->seq); /* where it is does not prefill, perhaps */
    pl_touch(pool, s->device);
}

static uint32_t kv_tokens(const struct br_pl_seq *q)
{
    uint32_t tokens = q->prompt + q->delivered, left = q->left < tokens ? q->left : tokens;
    return tokens - left - (left == 0 && tokens > 0);
}

/* Without whole_kv: KV that grew is on the device as far as there is room. */
static void kv_grew(struct br_pool *pool, struct br_pl_slot *s, uint32_t before, uint32_t after)
{
    int64_t bytes = ((int64_t)after - before) * pl_model(pool, s)->kv_token_bytes;
    if (!pool->options.whole_kv && bytes > 0 && bytes <= pl_free(&pool->devices[s->device]))
        pl_shrink(pool, s, -bytes);
}

static void progress(struct br_pool *pool, const struct br_pl_event *e)
{
    struct br_pl_seq *q = &pool->seqs[e->seq];
    if (!placed(q) || q->stepping) {
        q->known = q->state == BR_PL_QUEUED ? 0 : q->known;
        q->left = q->state == BR_PL_QUEUED ? e->left : q->left;
        q->delivered = q->state == BR_PL_QUEUED ? e->delivered : q->delivered;
        return;
    }
    struct br_pl_slot *s = slot_of(pool, q);
    uint32_t before = q->state == BR_PL_RUNNING ? q->kv : 0;
    pl_take(pool, e->seq);
    q->known = 0;
    q->left = e->left;
    q->delivered = e->delivered;
    q->kv = kv_tokens(q);
    q->where = q->kv == 0 ? BR_PL_HERE : q->where;
    bool runs = q->kv > 0 && (q->state == BR_PL_RUNNING || s->run.n < pool->options.max_batch);
    if (runs && pool->options.whole_kv && pl_kv_bytes(pool, q) > unused(&pool->devices[s->device]))
        runs = false;
    q->where = q->kv == 0 || runs ? BR_PL_HERE : BR_PL_HOST;
    pl_put(pool, e->seq, s, runs ? BR_PL_RUNNING : BR_PL_WAITING);
    if (runs)
        kv_grew(pool, s, before, q->kv);
    pl_hold(pool, s);
}

static void wait_longer(struct br_pool *pool, struct br_pl_seq *q)
{
    q->retry_in_s = q->retry_in_s <= 0 ? PL_RETRY_S : 2 * q->retry_in_s;
    q->retry_in_s = q->retry_in_s < RETRY_MOST_S ? q->retry_in_s : RETRY_MOST_S;
    q->retry_s = pool->now_s + q->retry_in_s;
}

/* On the device: where it is expected, or what did not leave. Without room for it in the books it counts as outside:
 * bringing it back is quick. */
static void kv_here(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    struct br_pl_slot *s = slot_of(pool, q);
    if (q->where == BR_PL_HERE)
        return;
    bool fits = q->where == BR_PL_COMING || pl_kv_bytes(pool, q) <= unused(&pool->devices[s->device]);
    bool runs = fits && (q->state == BR_PL_RUNNING || s->run.n < pool->options.max_batch);
    pl_take(pool, seq);
    q->where = runs ? BR_PL_HERE : BR_PL_HOST;
    if (!fits)
        wait_longer(pool, q);
    pl_put(pool, seq, s, runs ? BR_PL_RUNNING : BR_PL_WAITING);
}

/* Outside: a move in that was refused, or a move out, asked for or not. It waits, so that its slot goes on. */
static void kv_outside(struct br_pool *pool, uint32_t seq, bool moving)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    struct br_pl_slot *s = slot_of(pool, q);
    bool planned = q->where == BR_PL_GOING || q->where == BR_PL_HOST;
    bool waits = q->state == BR_PL_WAITING || q->paused || !planned;
    pl_item_remove(pool, seq);
    pl_take(pool, seq);
    if (!planned) {
        wait_longer(pool, q);
        pl_room_lacked(&pool->devices[s->device]);
    }
    q->where = moving ? BR_PL_GOING : BR_PL_HOST;
    pl_put(pool, seq, s, waits ? BR_PL_WAITING : BR_PL_RUNNING);
}

static void kv(struct br_pool *pool, const struct br_pl_event *e)
{
    const struct br_pl_seq *q = &pool->seqs[e->seq];
    if (!placed(q) || q->kv == 0 || !pool->options.whole_kv)
        return;
    if (e->kv_here)
        kv_here(pool, e->seq);
    else
        kv_outside(pool, e->seq, e->moving);
    if (placed(q))
        pl_touch(pool, slot_of(pool, q)->device);
}

static void resident(struct br_pool *pool, const struct br_pl_event *e)
{
    struct br_pl_slot *s = pl_slot(pool, e->device, e->model);
    struct br_pl_device *d = &pool->devices[e->device];
    int64_t all = pl_model(pool, s)->weights_bytes, bytes = e->bytes < 0 ? 0 : e->bytes > all ? all : e->bytes;
    int64_t most = s->weights + unused(d);
    bool loading = d->link.slot == (int32_t)pl_index(pool, s) && !d->link.kv;
    if (!s->served)
        return;
    if (loading && most > s->weights)
        most = s->weights; /* the chunk in flight has its own room until it is over */
    bytes = bytes < most ? bytes : most;
    d->used += bytes - s->weights;
    s->weights = bytes;
    if (e->runs)
        d->current = (int32_t)pl_index(pool, s);
    pl_hold(pool, s);
    pl_pin_changed(pool, s);
    pl_touch(pool, e->device);
}

static bool told_of_seq(struct br_pool *pool, const struct br_pl_event *e)
{
    switch (e->kind) {
    case BR_PL_END:
        end(pool, e->seq);
        return true;
    case BR_PL_PAUSE:
        pause(pool, e->seq);
        return true;
    case BR_PL_RESUME:
        resume(pool, e->seq);
        return true;
    case BR_PL_LOST:
        lost(pool, e);
        return true;
    case BR_PL_PROGRESS:
        progress(pool, e);
        return true;
    case BR_PL_KV:
        kv(pool, e);
        return true;
    case BR_PL_STEPPED:
        pl_item_stepped(pool, e);
        return true;
    default:
        return false;
    }
}

bool pl_told(struct br_pool *pool, const struct br_pl_event *e)
{
    bool of_seq = e->kind >= BR_PL_END && e->kind <= BR_PL_STEPPED;
    if (of_seq)
        return known(pool, e->seq) ? told_of_seq(pool, e) : true;
    if (e->kind != BR_PL_RESIDENT)
        return false;
    resident(pool, e);
    return true;
}
