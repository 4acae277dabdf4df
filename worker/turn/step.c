/* One step: which rows, KV for them, weights under way, the forward pass, and what comes out of it. */
#include <assert.h>
#include <inttypes.h>

#include "base/log.h"
#include "worker/turn/internal.h"

/* Device blocks for the rows up to `tokens`; false: not in this step. */
static bool kv_extend(struct br_turn *t, uint32_t index, uint32_t keep, uint32_t tokens)
{
    struct turn_seq *s = &t->seqs[index];
    enum br_kv_where before = br_kv_where(t->kv, s->kv);
    struct br_err err;
    if (before != BR_KV_EMPTY && before != BR_KV_DEVICE)
        return false;
    turn_room_meet(t);
    while (!br_kv_can_extend(t->kv, s->kv, tokens)) {
        uint64_t more = (tokens + BR_KV_TOKENS - 1) / BR_KV_TOKENS - br_kv_blocks(t->kv, s->kv);
        if (turn_kv_room(t, index, keep, more) != KV_ROOM_MADE)
            return false;
    }
    if (br_kv_extend(t->kv, s->kv, tokens, &err))
        return false;
    if (before == BR_KV_EMPTY)
        turn_kv_where(t, index);
    return true;
}

/* KV that another device hands over: rows that need not be computed. False: not in this step. */
static bool handed_in(struct br_turn *t, const struct br_dev_item *item, uint32_t keep)
{
    struct turn_seq *s = &t->seqs[item->seq];
    struct br_parcel parcel;
    enum turn_hand hand = turn_hand_look(t, item->seq, &parcel);
    uint32_t rows;
    if (hand != HAND_HERE)
        return hand == HAND_NOTHING;
    rows = s->n_ids - parcel.label.tokens;
    rows = item->tokens < rows ? item->tokens : rows;
    if (!kv_extend(t, item->seq, keep, parcel.label.tokens + rows))
        return false;
    turn_hand_in(t, item->seq, &parcel);
    t->step.handed = true;
    return true;
}

static void item_pick(struct br_turn *t, const struct br_dev_item *item, uint32_t keep)
{
    struct turn_step *step = &t->step;
    struct turn_seq *s = &t->seqs[item->seq];
    uint32_t rows;
    if (!s->id || s->slot != step->slot || item->tokens == 0 || s->in_step || step->n == t->config.max_batch ||
        !handed_in(t, item, keep))
        return;
    turn_prefix_adopt(t, item->seq);
    rows = s->n_ids - s->n_kv;
    rows = item->tokens < rows ? item->tokens : rows;
    if (rows == 0)
        return;
    if (!kv_extend(t, item->seq, keep, s->n_kv + rows))
        return;
    s->in_step = true;
    s->first_step_ns = s->first_step_ns ? s->first_step_ns : br_now_ns();
    step->seq[step->n] = item->seq;
    step->dropped[step->n] = false;
    step->items[step->n++] = (struct br_step_item){
        .ids = s->ids + s->n_kv, .n_ids = rows, .pos = s->n_kv, .want_logits = s->n_kv + rows == s->n_ids};
}

/* The one that came first is never a victim of the others: it gets on whatever the rest needs. */
static uint32_t oldest_of(const struct br_turn *t, const struct br_dev_item *items, uint32_t n)
{
    uint32_t oldest = items[0].seq;
    for (uint32_t i = 1; i < n; i++)
        if (t->seqs[items[i].seq].arrival_ns < t->seqs[oldest].arrival_ns)
            oldest = items[i].seq;
    return oldest;
}

/* Closes the gaps that victims left and fills in addresses, which are final now. */
static void items_settle(struct br_turn *t)
{
    struct turn_step *step = &t->step;
    uint32_t n = 0;
    step->rows = 0;
    for (uint32_t i = 0; i < step->n; i++) {
        if (step->dropped[i])
            continue;
        step->seq[n] = step->seq[i];
        step->items[n] = step->items[i];
        turn_block_table(t, &t->seqs[step->seq[n]]);
        step->items[n].blocks = t->seqs[step->seq[n]].blocks;
        step->items[n].logits = t->logits + (size_t)n * t->vocab_max;
        step->rows += step->items[n].n_ids;
        n++;
    }
    step->n = n;
}

static void step_fail(struct br_turn *t, const char *why)
{
    struct turn_step *step = &t->step;
    br_log(BR_ERROR, "step_failed", "model=%s why=%s", t->models[step->slot].info.name, BR_Q(why));
    for (uint32_t i = 0; i < step->n; i++) {
        t->seqs[step->seq[i]].in_step = false;
        turn_seq_end(t, step->seq[i], NULL, BR_END_FAILED, why);
    }
}

bool turn_step_start(struct br_turn *t, uint32_t slot, const struct br_dev_item *items, uint32_t n)
{
    struct turn_step *step = &t->step;
    struct br_err err;
    uint32_t keep;
    assert(!step->on);
    if (n == 0)
        return false;
    step->slot = slot;
    step->n = 0;
    step->handed = false;
    keep = oldest_of(t, items, n);
    if (!turn_room_require(t, slot, keep))
        return false;
    for (uint32_t i = 0; i < n; i++)
        item_pick(t, &items[i], keep);
    items_settle(t);
    if (step->n == 0)
        return false;
    step->cold = step->handed || !br_residency_ready(t->residency, slot);
    step->start_ns = br_now_ns();
    turn_room_settle(t, t->compute);
    if (br_engine_step(t->engine, t->models[slot].engine, t->compute, step->items, step->n, &err)) {
        step_fail(t, err.msg);
        return false;
    }
    t->dev->ops->event_record(t->step_done, t->compute);
    turn_notify(t, t->compute);
    br_residency_running(t->residency, (int32_t)slot);
    step->on = true;
    return true;
}

static void item_emit(struct br_turn *t, uint32_t index, const float *logits)
{
    struct turn_seq *s = &t->seqs[index];
    struct turn_model *m = &t->models[s->slot];
    const struct br_model_shape *shape = &m->image->layout.shape;
    struct br_token token;
    struct br_err err;
    enum br_end end;
    if (br_sampler_draw(m->sampler, &s->spec, s->ids, s->n_ids, logits, shape->eos, shape->n_eos, &token, &err)) {
        turn_seq_end(t, index, NULL, BR_END_FAILED, err.msg);
        return;
    }
    assert(s->n_ids < s->cap);
    s->ids[s->n_ids++] = token.id;
    end = br_end_watch_push(s->watch, token.id);
    if (end == BR_END_NONE && s->n_ids == s->cap)
        end = BR_END_LENGTH;
    if (end == BR_END_NONE)
        turn_emit(t, s, &token, BR_END_NONE, NULL);
    else
        turn_seq_end(t, index, &token, end, NULL);
}

static void item_stepped(struct br_turn *t, uint32_t index, const struct br_step_item *item)
{
    struct turn_seq *s = &t->seqs[index];
    s->in_step = false;
    s->n_kv += item->n_ids;
    turn_moments_step(t, s, item->n_ids);
    turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_SEQ_STEPPED,
                                        .slot = s->slot,
                                        .seq = index,
                                        .tokens = item->n_ids,
                                        .emitted = item->want_logits});
    if (s->n_handed) /* these were nobody's rows */
        turn_tell(t, &(struct br_dev_event){
                         .kind = BR_DEV_SEQ_STEPPED, .slot = s->slot, .seq = index, .tokens = s->n_handed});
    s->n_handed = 0;
}

static void item_finish(struct br_turn *t, uint32_t index, const struct br_step_item *item)
{
    turn_prefix_publish(t, index);
    if (t->seqs[index].cancelled)
        turn_seq_end(t, index, NULL, BR_END_CANCELLED, NULL);
    else if (item->want_logits)
        item_emit(t, index, item->logits);
}

/* Weights that could not be had: nothing that was computed with them counts. True: the slot's sequences have ended. */
static bool weights_lost(struct br_turn *t, uint32_t slot)
{
    struct br_err why;
    if (!br_weight_image_failed(t->models[slot].image, &why))
        return false;
    br_log(BR_ERROR, "model_lost", "model=%s why=%s", t->models[slot].info.name, BR_Q(why.msg));
    for (uint32_t i = 0; i < t->config.max_seqs; i++)
        if (t->seq_ids[i] && t->seqs[i].slot == slot)
            turn_seq_end(t, i, NULL, BR_END_FAILED, why.msg);
    br_residency_evict(t->residency, slot, UINT64_MAX);
    return true;
}

void turn_step_finish(struct br_turn *t)
{
    struct turn_step *step = &t->step;
    double wall_s;
    wall_s = (double)(br_now_ns() - step->start_ns) / 1e9;
    step->on = false;
    br_residency_running(t->residency, -1);
    for (uint32_t i = 0; i < step->n; i++)
        item_stepped(t, step->seq[i], &step->items[i]);
    turn_tell(t, &(struct br_dev_event){
                     .kind = BR_DEV_STEP_DONE, .slot = step->slot, .step_s = wall_s, .waited = step->cold});
    turn_trace_step(t, wall_s);
    turn_count_step(t, wall_s);
    if (weights_lost(t, step->slot))
        return;
    for (uint32_t i = 0; i < step->n; i++)
        item_finish(t, step->seq[i], &step->items[i]);
}
