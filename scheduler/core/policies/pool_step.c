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
    c->step->items[c->step->n++] = (struct br_pl_item){.seq = seq, .rows = rows, .emits = emits};
    if (q->left) {
        c->step->prefill += rows;
        c->rows -= rows;
    } else {
        c->step->decodes++;
    }
}

/* Not paused, and its KV is here. */
static bool can_run(const struct compose *c, const struct br_pl_seq *q)
{
    return !q->paused && (!c->pool->options.whole_kv || q->where == BR_PL_HERE);
}

static void add_decodes(struct compose *c)
{
    for (int32_t i = c->slot->run.first; i >= 0; i = c->pool->seqs[i].next)
        if (c->pool->seqs[i].left == 0 && can_run(c, &c->pool->seqs[i]))
            item_add(c, (uint32_t)i, 1);
}

static uint32_t rows_of(const struct compose *c, const struct br_pl_seq *q)
{
    uint32_t most = c->pool->options.max_chunk_rows, rows = q->left < c->rows ? q->left : c->rows;
    return most && rows > most ? most : rows;
}

static bool fits(const struct compose *c, const struct br_pl_seq *q)
{
    const struct br_pl_model *m = pl_model(c->pool, c->slot);
    /* prompts in progress will grow to their length */
    int64_t tokens = q->left + PL_HEADROOM;
    for (int32_t i = c->slot->run.first; c->slot->run.n && i >= 0; i = c->pool->seqs[i].next)
        tokens += c->pool->seqs[i].left;
    return c->slot->run.n < c->pool->options.max_batch &&
           (c->slot->run.n == 0 ||
            m->weights_bytes + c->slot->kv_all + tokens * m->kv_token_bytes <= c->limits->memory);
}

static void add_prompts(struct compose *c, const struct br_pl_list *list, bool late)
{
    for (int32_t i = list->first, next; i >= 0 && c->rows > 0; i = next) {
        const struct br_pl_seq *q = &c->pool->seqs[i];
        next = q->next;
        if (q->left == 0 || (q->due_s < c->now_s) != late || !can_run(c, q))
            continue;
        if (q->state == BR_PL_WAITING && q->kv > 0)
            continue; /* its KV has to come in first: pl_readmit */
        if (q->state == BR_PL_WAITING) {
            if (c->limits->closed || !fits(c, q))
                return;
            pl_admit(c->pool, (uint32_t)i);
        }
        item_add(c, (uint32_t)i, rows_of(c, q));
    }
}

uint32_t pl_compose(struct br_pool *pool, double now_s, struct br_pl_slot *s, const struct pl_limits *limits)
{
    struct br_pl_running *step = &pool->devices[s->device].step;
    struct compose c = {pool, s, step, limits, now_s, limits->prefill};
    step->n = step->decodes = step->prefill = 0;
    add_decodes(&c);
    uint32_t most = pool->options.max_step_rows;
    if (most && c.rows > most - step->n)
        c.rows = most > step->n ? most - step->n : 0;
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
    return pl_n(s) < pool->options.max_batch && m->weights_bytes + s->kv_all + tokens * m->kv_token_bytes <= memory;
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

/* The last in order that has KV here or none yet; -1: none. */
static int32_t youngest(const struct br_pool *pool, const struct br_pl_slot *s)
{
    int32_t i = s->run.last;
    while (pool->options.whole_kv && i >= 0 && (pool->seqs[i].where != BR_PL_HERE || pool->seqs[i].paused))
        i = pool->seqs[i].prev;
    return i;
}

/* The growth of a single sequence does not fit: as much of its prompt as does, or it waits, or it never can. */
static void single_shrink(struct br_pool *pool, struct br_pl_slot *s, uint32_t seq, struct pl_limits *limits)
{
    int64_t rows = pl_free(&pool->devices[s->device]) / pl_model(pool, s)->kv_token_bytes;
    if (pool->seqs[seq].left > 0 && rows > 0)
        limits->prefill = (uint32_t)rows;
    else if (others_hold(pool, s) || pool->devices[s->device].reserve > 0) {
        pl_preempt(pool, seq);
        pool->devices[s->device].reserve = 0;
    } else
        pl_end(pool, seq, BR_PL_REFUSE);
}

/* With whole_kv it keeps its KV, on the host, and comes back when there is room for a while. */
static void give_way(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    if (pool->options.whole_kv && q->kv > 0)
        q->retry_s = pool->now_s + PL_RETRY_S;
    if (pool->options.whole_kv && q->kv > 0)
        pl_demote(pool, seq);
    else
        pl_preempt(pool, seq);
}

static uint32_t running_here(const struct br_pool *pool, const struct br_pl_slot *s)
{
    uint32_t n = 0;
    for (int32_t i = s->run.first; pool->options.whole_kv && i >= 0; i = pool->seqs[i].next)
        n += pool->seqs[i].where == BR_PL_HERE && !pool->seqs[i].paused;
    return pool->options.whole_kv ? n : s->run.n;
}

uint32_t pl_compose_fit(struct br_pool *pool, double now_s, struct br_pl_slot *s, struct pl_limits limits)
{
    struct br_pl_device *d = &pool->devices[s->device];
    uint32_t n = pl_compose(pool, now_s, s, &limits);
    while (n > 0 && pl_growth(pool, s) > pl_free(d)) {
        limits.closed = true;
        if (pl_swap_paused(pool, s, pl_growth(pool, s) - pl_free(d)) == 0) {
            uint32_t here = running_here(pool, s), seq = (uint32_t)youngest(pool, s);
            if (here > 1)
                give_way(pool, seq);
            else
                single_shrink(pool, s, seq, &limits);
        }
        if (running_here(pool, s) == 0 && (others_hold(pool, s) || pool->options.whole_kv))
            return 0;
        limits.closed = running_here(pool, s) > 0;
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
    step->kv_bytes = pool->options.whole_kv ? s->kv : s->kv_all;
    step->slot = (int32_t)pl_index(pool, s);
    step->switched = d->current != step->slot;
    step->streamed = streamed;
    step->ran = 0;
    step->joined = false;
    s->last_step = ++d->n_steps;
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

/* Rows that did not run have made no KV. */
static void rows_correct(struct br_pool *pool, struct br_pl_slot *s, struct br_pl_item *item, uint32_t rows)
{
    struct br_pl_seq *q = &pool->seqs[item->seq];
    uint32_t less = item->rows - (rows < item->rows ? rows : item->rows);
    int64_t bytes = less * pl_model(pool, s)->kv_token_bytes;
    item->rows -= less;
    q->kv -= less;
    s->kv_all -= bytes;
    pl_shrink(pool, s, bytes);
}

static void item_done(struct br_pool *pool, struct br_pl_slot *s, struct br_pl_item *item)
{
    struct br_pl_seq *q = &pool->seqs[item->seq];
    q->stepping = false;
    item->done = true;
    s->known -= q->paused ? 0 : q->known;
    q->known = 0;
    if (q->left) {
        q->left -= item->rows;
        s->left -= q->paused ? 0 : item->rows;
    }
    q->delivered += item->emits;
    q->redo &= !item->emits;
    pl_due(pool, q, s->device);
    if (q->cancelled || item->ended)
        pl_end(pool, item->seq, q->cancelled && !item->ended ? BR_PL_GONE : BR_PL_STEP);
    else if (q->paused && !pool->options.whole_kv)
        pl_demote(pool, item->seq);
}

static struct br_pl_item *item_of(struct br_pl_device *d, uint32_t seq)
{
    for (uint32_t i = 0; d->step.slot >= 0 && i < d->step.n; i++)
        if (d->step.items[i].seq == seq)
            return &d->step.items[i];
    return NULL;
}

void pl_item_stepped(struct br_pool *pool, const struct br_pl_event *event)
{
    struct br_pl_seq *q = &pool->seqs[event->seq];
    struct br_pl_slot *s = &pool->slots[q->slot];
    struct br_pl_device *d = &pool->devices[s->device];
    struct br_pl_item *item = q->stepping ? item_of(d, event->seq) : NULL;
    if (!item)
        return;
    rows_correct(pool, s, item, event->rows);
    item->emits = event->emitted;
    q->retry_in_s = 0;
    d->step.ran++;
    d->reserve -= d->reserve / 16 + (d->reserve > 0);
    item_done(pool, s, item);
    pl_hold(pool, s);
}

void pl_item_remove(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    if (q->state != BR_PL_WAITING && q->state != BR_PL_RUNNING)
        return;
    struct br_pl_slot *s = &pool->slots[q->slot];
    struct br_pl_device *d = &pool->devices[s->device];
    struct br_pl_item *item = item_of(d, seq);
    if (!item)
        return;
    if (q->stepping)
        rows_correct(pool, s, item, 0);
    q->stepping = false;
    *item = d->step.items[--d->step.n];
}

/* A slot that should have had room for a step and had none lets the others go first for a while. */
void pl_stepped(struct br_pool *pool, struct br_pl_device *d, bool all)
{
    struct br_pl_slot *s = &pool->slots[d->step.slot];
    for (uint32_t i = 0; i < d->step.n; i++) {
        struct br_pl_item *item = &d->step.items[i];
        if (item->done)
            continue;
        if (!all) {
            rows_correct(pool, s, item, 0);
            item->emits = false;
        }
        item_done(pool, s, item);
    }
    if (!all && d->step.ran == 0 && d->step.n > 0) {
        s->blocked_s = pool->now_s + PL_RETRY_S;
        pl_room_lacked(d);
    }
    pl_dirty(pool, s);
    d->step.slot = -1;
    if (!all)
        pl_hold(pool, s);
}

bool pl_redoes(const struct br_pool *pool, const struct br_pl_slot *s)
{
    int32_t i = s->run.first;
    while (i >= 0 && (!pool->seqs[i].redo || pool->seqs[i].paused || pool->seqs[i].where != BR_PL_HERE))
        i = pool->seqs[i].next;
    return i >= 0;
}

/* With whole_kv a ready slot may be unable to step all the same: its batch is full of sequences that are outside. */
static bool could_step(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return pool->options.whole_kv ? s->blocked_s > pool->now_s : pl_ready(pool, s);
}

bool pl_stuck(const struct br_pool *pool, const struct br_pl_device *d)
{
    for (uint32_t i = 0; d->step.slot < 0 && i < d->n_held; i++)
        if (could_step(pool, &pool->slots[d->held[i]]))
            return false;
    return d->step.slot < 0;
}
