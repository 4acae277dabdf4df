/* The decision at a token boundary: whose turn it is, what has to come in, and the rows of the step.
 *
 * It cannot deadlock. A decision without a step waits for one of: (1) a move in flight, whose end is an event; (2) a
 * swap-in that this decision asked for, which the worker starts (then 1) or refuses; (3) the retry time, in wake_s.
 * If a swap-in was refused and nothing moves, the turn passes to a slot that can start; its sequences end in finite
 * time and free KV. If no slot can start, no sequence has KV on the device and none moves, so all of the device's KV
 * is free and the swap-in asked for again at the retry time succeeds, or never can, which is for the worker to fail;
 * the turn goes round at each retry, so one that never can does not hold up the others. */
#include <assert.h>

#include "scheduler/core/device_books.h"

/* Room for a load of the running and of the next slot, and the step. What is left after these is for swaps ahead. */
enum { ACTIONS_SWAPS = BR_DEV_MAX_ACTIONS - 3 };

static void act(struct br_dev_actions *actions, enum br_dev_action_kind kind, uint32_t slot, uint32_t seq)
{
    struct br_dev_action *a = &actions->actions[actions->n_actions++];
    assert(actions->n_actions <= BR_DEV_MAX_ACTIONS);
    a->kind = kind;
    a->slot = slot;
    a->seq = seq;
}

/* Tests: all KV of the slot just left goes out. */
static void swap_out_all(struct dev_rr *dev, uint32_t slot, struct br_dev_actions *actions)
{
    static const enum dev_class classes[] = {DEV_PART, DEV_DECODE};
    for (int i = 0; i < 2; i++) {
        const struct ordered *set = &dev->slots[slot].sets[classes[i]];
        int32_t seq;
        while ((seq = ordered_first(set, dev->nodes)) >= 0 && actions->n_actions < ACTIONS_SWAPS) {
            act(actions, BR_DO_SWAP_OUT, slot, (uint32_t)seq);
            dev->seqs[seq].kv = BR_DEV_KV_MOVING;
            dev->seqs[seq].going_out = true;
            dev_seq_place(dev, (uint32_t)seq);
        }
    }
}

/* How many of the sequences on the host to have in: a batch; while KV is short, one and only if there is no other. */
static uint32_t swap_in_limit(const struct dev_rr *dev, const struct dev_slot *s, double now_s)
{
    uint32_t there = dev_ready(s) - s->sets[DEV_NEW].n + s->sets[DEV_MOVING].n;
    if (now_s < dev->short_until_s)
        return there || s->sets[DEV_NEW].n ? 0 : 1;
    return there < dev->config.max_batch ? dev->config.max_batch - there : 0;
}

/* Asks for the oldest that have not been asked for since room became free; returns how many. */
static uint32_t swap_in(struct dev_rr *dev, uint32_t slot, double now_s, struct br_dev_actions *actions)
{
    const struct dev_slot *s = &dev->slots[slot];
    uint32_t limit = swap_in_limit(dev, s, now_s), asked = 0;
    int32_t seq = ordered_first(&s->sets[DEV_HOST], dev->nodes);
    for (; seq >= 0 && limit > 0 && actions->n_actions < ACTIONS_SWAPS; seq = ordered_next(dev->nodes, seq), limit--) {
        if (dev->seqs[seq].asked == dev->room)
            continue;
        dev->seqs[seq].asked = dev->room;
        act(actions, BR_DO_SWAP_IN, slot, (uint32_t)seq);
        asked++;
    }
    return asked;
}

/* The next slot's KV comes in while this one computes: a batch of it, each sequence asked for once a turn, so that one
 * for which there is no room, or which has to make room again, does not go back and forth. */
static void swap_in_ahead(struct dev_rr *dev, uint32_t slot, double now_s, struct br_dev_actions *actions)
{
    int32_t next = dev->policy->next(dev), seq;
    const struct dev_slot *s;
    uint32_t limit;
    if (next < 0 || (uint32_t)next == slot || now_s < dev->short_until_s)
        return;
    s = &dev->slots[next];
    limit = swap_in_limit(dev, s, now_s);
    seq = ordered_first(&s->sets[DEV_HOST], dev->nodes);
    for (; seq >= 0 && limit > 0 && actions->n_actions < BR_DEV_MAX_ACTIONS;
         seq = ordered_next(dev->nodes, seq), limit--) {
        if (dev->seqs[seq].ahead == dev->n_turns)
            continue;
        dev->seqs[seq].ahead = dev->n_turns;
        act(actions, BR_DO_SWAP_IN_AHEAD, (uint32_t)next, (uint32_t)seq);
    }
}

struct batch {
    struct br_dev_actions *actions;
    uint32_t items, rows; /* what may still be added */
};

static void batch_add(struct batch *batch, uint32_t seq, uint32_t tokens, bool last)
{
    struct br_dev_item *item = &batch->actions->items[batch->actions->n_items++];
    item->seq = seq;
    item->tokens = tokens;
    item->last = last;
    batch->items--;
    batch->rows -= tokens;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void batch_decodes(const struct dev_rr *dev, const struct dev_slot *s, struct batch *batch)
{
    int32_t seq = ordered_first(&s->sets[DEV_DECODE], dev->nodes);
    for (; seq >= 0 && batch->items && batch->rows; seq = ordered_next(dev->nodes, seq))
        batch_add(batch, (uint32_t)seq, 1, true);
}

/* The older one of two candidates; moves on in its set. */
static int32_t older(const struct dev_rr *dev, int32_t *a, int32_t *b)
{
    int32_t *pick = *b < 0 || (*a >= 0 && ordered_compare(&dev->nodes[*a].key, &dev->nodes[*b].key) < 0) ? a : b;
    int32_t seq = *pick;
    if (seq >= 0)
        *pick = ordered_next(dev->nodes, seq);
    return seq;
}

/* Prompts by arrival. While KV is short no new one starts beside others. */
static void batch_prefills(const struct dev_rr *dev, const struct dev_slot *s, double now_s, struct batch *batch)
{
    int32_t part = ordered_first(&s->sets[DEV_PART], dev->nodes), new = ordered_first(&s->sets[DEV_NEW], dev->nodes);
    int32_t seq;
    if (now_s < dev->short_until_s) {
        if (part >= 0 || batch->actions->n_items)
            new = -1;
        else
            batch->items = 1;
    }
    while (batch->items && batch->rows && (seq = older(dev, &part, &new)) >= 0) {
        uint32_t left = dev->seqs[seq].left;
        uint32_t tokens = smaller(left, smaller(dev->config.prefill_chunk, batch->rows));
        batch_add(batch, (uint32_t)seq, tokens, tokens == left);
    }
}

static void compose(const struct dev_rr *dev, uint32_t slot, double now_s, struct br_dev_actions *actions)
{
    struct batch batch = {actions, dev->config.max_batch, dev->config.max_step_tokens};
    batch_decodes(dev, &dev->slots[slot], &batch);
    batch_prefills(dev, &dev->slots[slot], now_s, &batch);
}

static bool moves_in_flight(const struct dev_rr *dev)
{
    for (uint32_t i = 0; i < dev->round.n; i++)
        if (dev->slots[dev->round.list[i]].sets[DEV_MOVING].n)
            return true;
    return false;
}

/* The first slot after this one that can start, or with `any` the first one; -1: none. */
static int32_t slot_after(const struct dev_rr *dev, uint32_t slot, bool any)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < dev->round.n; i++) {
        uint32_t other = dev->round.list[i];
        if (other == slot || (!any && !dev_ready(&dev->slots[other])))
            continue;
        if (best < 0 || dev->policy->rank(dev, other) < dev->policy->rank(dev, (uint32_t)best))
            best = (int32_t)other;
    }
    return best;
}

static uint32_t turn_to(struct dev_rr *dev, uint32_t slot)
{
    dev->policy->pass(dev, slot);
    dev->current = (int32_t)slot;
    dev->n_turns++;
    dev->short_until_s = -1;
    return slot;
}

/* Can the slot run now? With switch_every_step all its KV has to be in, so that every sequence gets its token. */
static bool can_start(const struct dev_rr *dev, const struct dev_slot *s, uint32_t asked)
{
    if (dev->config.switch_every_step && (asked || s->sets[DEV_MOVING].n))
        return false;
    return dev_ready(s) > 0;
}

/* The slot cannot start. Waits for its KV if that is under way; else gives its turn away. Returns whose turn it is,
 * and whether it runs in *run. */
static uint32_t other_or_wait(struct dev_rr *dev, uint32_t slot, double now_s, uint32_t asked, bool *run,
                              struct br_dev_actions *actions)
{
    int32_t other;
    *run = false;
    if (asked || moves_in_flight(dev))
        return slot;
    other = slot_after(dev, slot, false);
    if (other >= 0) {
        slot = turn_to(dev, (uint32_t)other);
        asked = swap_in(dev, slot, now_s, actions);
        *run = can_start(dev, &dev->slots[slot], asked);
    } else if (dev->retry_s >= 0 && now_s >= dev->retry_s) {
        dev->room++;
        dev->retry_s = -1;
        other = slot_after(dev, slot, true);
        slot = other >= 0 ? turn_to(dev, (uint32_t)other) : slot;
        swap_in(dev, slot, now_s, actions);
    }
    return slot;
}

static void loads(const struct dev_rr *dev, uint32_t slot, struct br_dev_actions *actions)
{
    int32_t next = dev->policy->next(dev);
    if (dev_missing(&dev->slots[slot]) > 0)
        act(actions, BR_DO_LOAD, slot, 0);
    if (next >= 0 && (uint32_t)next != slot && dev_missing(&dev->slots[next]) > 0)
        act(actions, BR_DO_LOAD, (uint32_t)next, 0);
}

static void step_begin(struct dev_rr *dev, uint32_t slot, double now_s, struct br_dev_actions *actions)
{
    compose(dev, slot, now_s, actions);
    assert(actions->n_items > 0);
    act(actions, BR_DO_STEP, slot, 0);
    dev->stepping = (int32_t)slot;
    dev->slots[slot].last_step = ++dev->n_steps;
    dev->cold = dev_missing(&dev->slots[slot]) > 0;
    dev->retry_s = -1;
}

static uint32_t current_set(struct dev_rr *dev, int32_t picked, struct br_dev_actions *actions)
{
    if (dev->config.switch_every_step && dev->stepped >= 0 && dev->stepped != picked)
        swap_out_all(dev, (uint32_t)dev->stepped, actions);
    if (picked != dev->current) {
        dev->short_until_s = -1;
        dev->n_turns++;
    }
    dev->stepped = -1;
    dev->current = picked;
    return (uint32_t)picked;
}

void dev_decide(struct dev_rr *dev, double now_s, struct br_dev_actions *actions)
{
    int32_t picked = dev->policy->pick(dev, now_s);
    uint32_t slot, asked;
    bool run;
    dev->stepping = -1;
    if (picked < 0) {
        dev->current = dev->stepped = -1;
        return;
    }
    slot = current_set(dev, picked, actions);
    asked = swap_in(dev, slot, now_s, actions);
    run = can_start(dev, &dev->slots[slot], asked);
    if (!run)
        slot = other_or_wait(dev, slot, now_s, asked, &run, actions);
    loads(dev, slot, actions);
    if (run) {
        step_begin(dev, slot, now_s, actions);
        swap_in_ahead(dev, slot, now_s, actions);
        return;
    }
    if (dev->retry_s <= now_s)
        dev->retry_s = now_s + DEV_RETRY_S;
    actions->wake_s = dev->retry_s;
}
