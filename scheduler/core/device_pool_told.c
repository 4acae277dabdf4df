/* br_dev's events as the pool's. */
#include <assert.h>
#include <math.h>

#include "scheduler/core/device_pool.h"

/* What an event made the pool say, to be passed on at the next decision. */
void dp_tell(struct dev_pool *d, struct br_pl_event event)
{
    br_pl_tell(d->pool, d->now_s, &event, &d->did);
    for (uint32_t i = 0; i < d->did.n; i++) {
        const struct br_pl_action *a = &d->did.list[i];
        struct dp_seq *q = &d->seqs[a->seq];
        if ((a->kind != BR_PL_RECOMPUTE && a->kind != BR_PL_REFUSE) || !q->used)
            continue;
        d->n_to_say += !q->drop && !q->fail;
        q->drop |= a->kind == BR_PL_RECOMPUTE;
        q->fail |= a->kind == BR_PL_REFUSE;
    }
}

static double or_else(double x, double otherwise)
{
    return x > 0 && isfinite(x) ? x : otherwise;
}

static bool shaped(const struct br_step_shape *s)
{
    return s->fixed_s > 0 || s->read_s > 0 || s->row_s > 0;
}

static void cost_open(struct dp_slot *s, const struct br_dev_event *e)
{
    struct br_step_shape flat = {.fixed_s = or_else(e->step_s, 1e-3)};
    br_step_cost_init(&s->cost, shaped(&e->shape) ? &e->shape : &flat);
}

/* A size of 0 keeps what it was. */
static void model_tell(struct dev_pool *d, uint32_t slot, struct br_pl_model m)
{
    const struct br_pl_model *was = &d->pool->models[slot];
    struct br_err err;
    m.weights_bytes = m.weights_bytes > 0 ? m.weights_bytes : was->weights_bytes > 0 ? was->weights_bytes : 1;
    m.kv_token_bytes = m.kv_token_bytes > 0 ? m.kv_token_bytes : was->kv_token_bytes;
    if (br_pl_model_set(d->pool, slot, &m, &err) < 0) { /* sizes of one that has sequences stay */
        m.weights_bytes = was->weights_bytes;
        m.kv_token_bytes = was->kv_token_bytes;
        br_pl_model_set(d->pool, slot, &m, &err);
    }
    dp_tell(d, (struct br_pl_event){.kind = BR_PL_TICK});
    d->differ = true;
}

static void slot_add(struct dev_pool *d, const struct br_dev_event *e)
{
    struct dp_slot *s = &d->slots[e->slot];
    assert(e->slot < d->config.max_slots);
    if (!s->used) {
        *s = (struct dp_slot){.used = true};
        cost_open(s, e);
    }
    model_tell(d, e->slot,
               (struct br_pl_model){.weights_bytes = (int64_t)e->bytes_all,
                                    .kv_token_bytes = (int64_t)e->kv_token_bytes,
                                    .ttft_s = or_else(e->ttft_s, 10),
                                    .tbt_s = or_else(e->tbt_s, .1),
                                    .rate = or_else(e->rate, 0),
                                    .weight = or_else(e->weight, 0),
                                    .pinned = e->pinned});
}

static void slot_remove(struct dev_pool *d, uint32_t slot)
{
    dp_tell(d, (struct br_pl_event){.kind = BR_PL_MODEL_GONE, .model = slot});
    d->slots[slot] = (struct dp_slot){0};
    d->loading = d->loading == (int32_t)slot ? -1 : d->loading;
}

static void seq_add(struct dev_pool *d, const struct br_dev_event *e)
{
    assert(!d->seqs[e->seq].used && e->slot < d->config.max_slots && d->slots[e->slot].used);
    uint32_t tokens = e->tokens ? e->tokens : 1;
    d->seqs[e->seq] = (struct dp_seq){.used = true};
    d->n_seqs++;
    dp_tell(d, (struct br_pl_event){.kind = BR_PL_ARRIVE,
                                    .seq = e->seq,
                                    .model = e->slot,
                                    .prompt = tokens > e->delivered ? tokens - e->delivered : tokens,
                                    .left = tokens,
                                    .known = e->known,
                                    .delivered = e->delivered,
                                    .age_s = e->age_s,
                                    .ttft_s = or_else(e->ttft_s, 0),
                                    .tbt_s = or_else(e->tbt_s, 0),
                                    .weight = or_else(e->weight, 0),
                                    .kept = true});
}

static void found_set(struct dev_pool *d, struct dp_seq *q, uint32_t found)
{
    d->n_found += (found > 0) - (q->found > 0);
    q->found = found;
}

static void said_clear(struct dev_pool *d, struct dp_seq *q)
{
    d->n_to_say -= q->drop || q->fail;
    q->drop = q->fail = false;
}

static void seq_end(struct dev_pool *d, uint32_t seq)
{
    struct dp_seq *q = &d->seqs[seq];
    d->n_paused -= q->paused;
    d->n_seqs--;
    said_clear(d, q);
    found_set(d, q, 0);
    *q = (struct dp_seq){0};
    dp_tell(d, (struct br_pl_event){.kind = BR_PL_END, .seq = seq});
}

static void seq_reset(struct dev_pool *d, const struct br_dev_event *e)
{
    struct dp_seq *q = &d->seqs[e->seq];
    if (q->drop)
        said_clear(d, q);
    found_set(d, q, 0);
    q->kv = BR_DEV_KV_NONE;
    dp_tell(d, (struct br_pl_event){.kind = BR_PL_LOST, .seq = e->seq, .left = e->tokens ? e->tokens : 1});
}

static void seq_pause(struct dev_pool *d, uint32_t seq, bool paused)
{
    d->n_paused += paused - d->seqs[seq].paused;
    d->seqs[seq].paused = paused;
    dp_tell(d, (struct br_pl_event){.kind = paused ? BR_PL_PAUSE : BR_PL_RESUME, .seq = seq});
}

/* Rows of the step that runs; or, if the pool had taken the sequence out of it meanwhile, what it is now. */
static void seq_stepped(struct dev_pool *d, const struct br_dev_event *e)
{
    const struct br_pl_seq *q = &d->pool->seqs[e->seq];
    d->seqs[e->seq].kv = BR_DEV_KV_ON_DEVICE;
    if (q->state == BR_PL_FREE)
        return;
    if (q->state == BR_PL_QUEUED) { /* it lost its slot while the step ran; its KV is to be dropped */
        dp_tell(d, (struct br_pl_event){.kind = BR_PL_PROGRESS,
                                        .seq = e->seq,
                                        .left = q->left + e->emitted,
                                        .delivered = q->delivered + e->emitted});
        return;
    }
    if (q->stepping) {
        *(q->left ? &d->prefill : &d->decodes) += e->tokens;
        dp_tell(d, (struct br_pl_event){
                       .kind = BR_PL_STEPPED, .seq = e->seq, .rows = e->tokens, .emitted = e->emitted > 0});
        return;
    }
    dp_tell(d, (struct br_pl_event){.kind = BR_PL_PROGRESS,
                                    .seq = e->seq,
                                    .left = q->left - (e->tokens < q->left ? e->tokens : q->left),
                                    .delivered = q->delivered + e->emitted});
}

static void found_tell(struct dev_pool *d, uint32_t seq)
{
    const struct br_pl_seq *q = &d->pool->seqs[seq];
    uint32_t tokens = d->seqs[seq].found;
    found_set(d, &d->seqs[seq], 0);
    if (q->state != BR_PL_FREE)
        dp_tell(d, (struct br_pl_event){.kind = BR_PL_PROGRESS,
                                        .seq = seq,
                                        .left = q->left - (tokens < q->left ? tokens : q->left),
                                        .delivered = q->delivered});
}

/* The pool knows how many rows of the step it asked for: it hears of tokens that no step computed when that is over. */
static void seq_found(struct dev_pool *d, const struct br_dev_event *e)
{
    d->seqs[e->seq].kv = BR_DEV_KV_ON_DEVICE;
    found_set(d, &d->seqs[e->seq], e->tokens);
    if (!d->pool->seqs[e->seq].stepping)
        found_tell(d, e->seq);
}

void dp_found_tell(struct dev_pool *d)
{
    for (uint32_t i = 0; i < d->config.max_seqs && d->n_found; i++)
        if (d->seqs[i].found)
            found_tell(d, i);
}

static void step_done(struct dev_pool *d, const struct br_dev_event *e)
{
    const struct br_pl_running *step = &d->pool->devices[0].step;
    if (step->slot != (int32_t)e->slot)
        return;
    if (!e->waited && !step->streamed && d->decodes + d->prefill > 0)
        br_step_cost_seen(&d->slots[e->slot].cost, d->decodes, step->kv_bytes, d->prefill, e->step_s);
    dp_tell(d, (struct br_pl_event){.kind = BR_PL_STEP_END});
    dp_found_tell(d);
}

bool dp_resident_tell(struct dev_pool *d, uint32_t slot)
{
    int64_t resident = d->slots[slot].resident;
    if (resident != d->pool->slots[slot].weights)
        dp_tell(d, (struct br_pl_event){.kind = BR_PL_RESIDENT, .model = slot, .bytes = resident});
    return resident == d->pool->slots[slot].weights;
}

static void weights(struct dev_pool *d, const struct br_dev_event *e)
{
    struct dp_slot *s = &d->slots[e->slot];
    struct br_pl_model m = d->pool->models[e->slot];
    if (!s->used)
        return;
    if (e->bytes_all > 0 && (int64_t)e->bytes_all != m.weights_bytes) {
        m.weights_bytes = (int64_t)e->bytes_all;
        model_tell(d, e->slot, m);
    }
    s->resident = (int64_t)e->bytes;
    br_pl_least_set(d->pool, 0, e->slot, (int64_t)e->bytes_next);
    d->differ |= !dp_resident_tell(d, e->slot);
}

/* The link's rate follows its loads like a step's cost its steps: no outlier moves it far. */
static void link_seen(struct dev_pool *d, int64_t came)
{
    double seconds = d->now_s - d->load_s, rate = d->pool->devices[0].hw.link_bytes_per_s;
    if (came * 2 < d->load_bytes || came <= 0 || !(seconds > 0))
        return;
    double off = .2 * log((double)came / seconds / rate);
    off = off > .05 ? .05 : off < -.05 ? -.05 : off;
    br_pl_link_set(d->pool, 0, rate * exp(off));
}

static void loaded(struct dev_pool *d, uint32_t slot)
{
    const struct br_pl_link *link = &d->pool->devices[0].link;
    int64_t resident = d->slots[slot].resident;
    if (link->slot == (int32_t)slot && !link->kv) {
        int64_t came = resident - d->pool->slots[slot].weights;
        link_seen(d, resident - d->load_from);
        dp_tell(d, (struct br_pl_event){.kind = BR_PL_LOAD_DONE, .partial = true, .bytes = came > 0 ? came : 0});
        d->loading = -1;
    }
    d->differ |= !dp_resident_tell(d, slot);
}

static void kv(struct dev_pool *d, const struct br_dev_event *e)
{
    const struct br_pl_seq *q = &d->pool->seqs[e->seq];
    bool coming = q->where == BR_PL_COMING, leaves = q->where == BR_PL_HERE;
    d->seqs[e->seq].kv = e->kv;
    if (e->kv == BR_DEV_KV_ON_DEVICE || e->kv == BR_DEV_KV_ON_HOST)
        dp_tell(d, (struct br_pl_event){.kind = BR_PL_KV, .seq = e->seq, .kv_here = e->kv == BR_DEV_KV_ON_DEVICE});
    else if (leaves || (coming && e->kv == BR_DEV_KV_NONE))
        dp_tell(d, (struct br_pl_event){.kind = BR_PL_KV, .seq = e->seq, .moving = true});
}

static void told_of_seq(struct dev_pool *d, const struct br_dev_event *e)
{
    assert(e->seq < d->config.max_seqs);
    if (e->kind == BR_DEV_SEQ_ADD) {
        seq_add(d, e);
        return;
    }
    if (!d->seqs[e->seq].used) /* news of a sequence that has ended meanwhile */
        return;
    if (e->kind == BR_DEV_SEQ_END)
        seq_end(d, e->seq);
    else if (e->kind == BR_DEV_SEQ_RESET)
        seq_reset(d, e);
    else if (e->kind == BR_DEV_SEQ_STEPPED)
        seq_stepped(d, e);
    else if (e->kind == BR_DEV_SEQ_FOUND)
        seq_found(d, e);
    else if (e->kind == BR_DEV_KV)
        kv(d, e);
    else
        seq_pause(d, e->seq, e->kind == BR_DEV_SEQ_PAUSE);
}

void dp_told(struct dev_pool *d, const struct br_dev_event *e)
{
    switch (e->kind) {
    case BR_DEV_SLOT_ADD:
        slot_add(d, e);
        break;
    case BR_DEV_SLOT_REMOVE:
        slot_remove(d, e->slot);
        break;
    case BR_DEV_STEP_DONE:
        step_done(d, e);
        break;
    case BR_DEV_WEIGHTS:
        weights(d, e);
        break;
    case BR_DEV_LOADED:
        loaded(d, e->slot);
        break;
    default:
        told_of_seq(d, e);
        break;
    }
}
