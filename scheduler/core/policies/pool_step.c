/* Steps: what they are made of, their begin and end. */
#include <assert.h>

#include "scheduler/core/policies/pool_books.h"
#include "scheduler/core/policies/pool_events.h"

struct compose {
    struct br_pool *pool;
    struct br_pl_slot *slot;
    struct br_pl_running *step;
    const struct pl_limits *limits;
    double now_s;
    uint32_t rows; /* of prompt, left */
};

static void item_add(struct compose *c, uint32_t seq, uint32_t rows)
{
    const struct br_pl_seq *q = &c->pool->seqs[seq];
    bool emits = q->left == 0 || rows == q->left;
    c->step->items[c->step->n++] = (struct br_pl_item){seq, rows, emits, false};
    if (q->left) {
        c->step->prefill += rows;
        c->rows -= rows;
    } else {
        c->step->decodes++;
    }
}

static void add_decodes(struct compose *c)
{
    for (int32_t i = c->slot->run.first; i >= 0; i = c->pool->seqs[i].next)
        if (c->pool->seqs[i].left == 0)
            item_add(c, (uint32_t)i, 1);
}

static bool fits(const struct compose *c, const struct br_pl_seq *q)
{
    const struct br_pl_model *m = pl_model(c->pool, c->slot);
    /* prompts in progress will grow to their length */
    int64_t tokens = q->left + PL_HEADROOM;
    for (int32_t i = c->slot->run.first; c->slot->run.n && i >= 0; i = c->pool->seqs[i].next)
        tokens += c->pool->seqs[i].left;
    return c->slot->run.n < BR_PL_MAX_BATCH &&
           (c->slot->run.n == 0 ||
            m->weights_bytes + c->slot->kv_all + tokens * m->kv_token_bytes <= c->limits->memory);
}

static void add_prompts(struct compose *c, const struct br_pl_list *list, bool late)
{
    for (int32_t i = list->first, next; i >= 0 && c->rows > 0; i = next) {
        const struct br_pl_seq *q = &c->pool->seqs[i];
        next = q->next;
        if (q->left == 0 || (q->due_s < c->now_s) != late)
            continue;
        if (q->state == BR_PL_WAITING) {
            if (c->limits->closed || !fits(c, q))
                return;
            pl_admit(c->pool, (uint32_t)i);
        }
        item_add(c, (uint32_t)i, q->left < c->rows ? q->left : c->rows);
    }
}

uint32_t pl_compose(struct br_pool *pool, double now_s, struct br_pl_slot *s, const struct pl_limits *limits)
{
    struct br_pl_running *step = &pool->devices[s->device].step;
    struct compose c = {pool, s, step, limits, now_s, limits->prefill};
    step->n = step->decodes = step->prefill = 0;
    add_decodes(&c);
    add_prompts(&c, &s->run, false);
    add_prompts(&c, &s->wait, false);
    if (limits->late || step->n == 0) {
        add_prompts(&c, &s->run, true);
        add_prompts(&c, &s->wait, true);
    }
    return step->n;
}

int64_t pl_growth(const struct br_pool *pool, const struct br_pl_slot *s)
{
    const struct br_pl_running *step = &pool->devices[s->device].step;
    return (step->decodes + (int64_t)step->prefill) * pl_model(pool, s)->kv_token_bytes;
}

bool pl_room(const struct br_pool *pool, const struct br_pl_slot *s, uint32_t prompt, int64_t memory)
{
    const struct br_pl_model *m = pl_model(pool, s);
    int64_t tokens = s->left + prompt + PL_HEADROOM;
    return pl_n(s) < BR_PL_MAX_BATCH && m->weights_bytes + s->kv_all + tokens * m->kv_token_bytes <= memory;
}

/* Other slots' KV or a chunk in flight take memory that will come back. */
static bool others_hold(const struct br_pool *pool, const struct br_pl_slot *s)
{
    const struct br_pl_device *d = &pool->devices[s->device];
    for (uint32_t i = 0; i < d->n_held; i++)
        if (&pool->slots[d->held[i]] != s && pool->slots[d->held[i]].kv > 0)
            return true;
    return d->link.slot >= 0;
}

/* The growth of a single sequence does not fit: as much of its prompt as does, or it waits, or it never can. */
static void single_shrink(struct br_pool *pool, struct br_pl_slot *s, struct pl_limits *limits)
{
    uint32_t seq = (uint32_t)s->run.first;
    int64_t rows = pl_free(&pool->devices[s->device]) / pl_model(pool, s)->kv_token_bytes;
    if (pool->seqs[seq].left > 0 && rows > 0)
        limits->prefill = (uint32_t)rows;
    else if (others_hold(pool, s))
        pl_preempt(pool, seq);
    else
        pl_end(pool, seq, BR_PL_REFUSE);
}

uint32_t pl_compose_fit(struct br_pool *pool, double now_s, struct br_pl_slot *s, struct pl_limits limits)
{
    struct br_pl_device *d = &pool->devices[s->device];
    uint32_t n = pl_compose(pool, now_s, s, &limits);
    while (n > 0 && pl_growth(pool, s) > pl_free(d)) {
        limits.closed = true;
        if (s->run.n > 1)
            pl_preempt(pool, (uint32_t)s->run.last);
        else
            single_shrink(pool, s, &limits);
        if (s->run.n == 0 && others_hold(pool, s))
            return 0;
        limits.closed = s->run.n > 0;
        n = pl_compose(pool, now_s, s, &limits);
    }
    return n;
}

void pl_begin(struct br_pool *pool, struct br_pl_slot *s, bool streamed)
{
    struct br_pl_device *d = &pool->devices[s->device];
    struct br_pl_running *step = &d->step;
    int64_t growth = pl_growth(pool, s);
    assert(step->slot < 0 && step->n > 0 && growth <= pl_free(d));
    step->kv_bytes = s->kv_all;
    step->slot = (int32_t)pl_index(pool, s);
    step->switched = d->current != step->slot;
    step->streamed = streamed;
    step->cost_s = pool->cost.step_s(pool->cost.ctx, s->device, s->model, step->decodes, step->kv_bytes, step->prefill);
    d->current = step->slot;
    d->used += growth;
    s->kv += growth;
    s->kv_all += growth;
    for (uint32_t i = 0; i < step->n; i++) {
        struct br_pl_seq *q = &pool->seqs[step->items[i].seq];
        q->stepping = true;
        q->kv += step->items[i].rows;
    }
    pl_say(pool, (struct br_pl_action){BR_PL_STEP, .device = s->device, .model = s->model});
}

static void item_done(struct br_pool *pool, struct br_pl_slot *s, const struct br_pl_item *item)
{
    struct br_pl_seq *q = &pool->seqs[item->seq];
    const struct br_pl_model *m = pl_model(pool, s);
    q->stepping = false;
    if (q->left) {
        q->left -= item->rows;
        s->left -= item->rows;
    }
    q->delivered += item->emits;
    q->due_s = q->arrival_s + m->ttft_s + q->delivered * m->tbt_s - pl_prefill_s(pool, s->device, s->model, q->left);
    if (q->cancelled || item->ended)
        pl_end(pool, item->seq, q->cancelled && !item->ended ? BR_PL_GONE : BR_PL_STEP);
}

void pl_stepped(struct br_pool *pool, struct br_pl_device *d)
{
    struct br_pl_slot *s = &pool->slots[d->step.slot];
    for (uint32_t i = 0; i < d->step.n; i++)
        item_done(pool, s, &d->step.items[i]);
    pl_dirty(pool, s);
    d->step.slot = -1;
}
