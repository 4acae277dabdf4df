/* Sequences: which set of their slot they are in, and the events that move them. */
#include <assert.h>

#include "scheduler/core/device_books.h"

enum dev_class dev_seq_class(const struct dev_seq *q)
{
    if (q->kv == BR_DEV_KV_ON_HOST)
        return DEV_HOST;
    if (q->kv == BR_DEV_KV_MOVING)
        return DEV_MOVING;
    if (q->left == 0)
        return DEV_DECODE;
    return q->kv == BR_DEV_KV_NONE ? DEV_NEW : DEV_PART;
}

void dev_seq_take_out(struct dev_rr *dev, uint32_t seq)
{
    struct dev_seq *q = &dev->seqs[seq];
    ordered_remove(&dev->slots[q->slot].sets[q->class], dev->nodes, (int32_t)seq);
}

static void seq_put(struct dev_rr *dev, uint32_t seq)
{
    struct dev_seq *q = &dev->seqs[seq];
    q->class = dev_seq_class(q);
    ordered_add(&dev->slots[q->slot].sets[q->class], dev->nodes, (int32_t)seq, q->key);
}

void dev_seq_place(struct dev_rr *dev, uint32_t seq)
{
    if (dev->seqs[seq].class == dev_seq_class(&dev->seqs[seq]))
        return;
    dev_seq_take_out(dev, seq);
    seq_put(dev, seq);
}

static void seq_add(struct dev_rr *dev, double now_s, const struct br_dev_event *event)
{
    struct dev_seq *q = &dev->seqs[event->seq];
    struct dev_slot *s = &dev->slots[event->slot];
    assert(!q->used && event->slot < dev->config.max_slots && s->used && event->tokens > 0);
    *q = (struct dev_seq){
        .used = true,
        .slot = event->slot,
        .left = event->tokens ? event->tokens : 1,
        .delivered = event->delivered,
        .ttft_s = event->ttft_s,
        .tbt_s = event->tbt_s,
        .key = {now_s - event->age_s, ++dev->n_arrivals},
    };
    seq_put(dev, event->seq);
    dev->n_seqs++;
    if (s->n_seqs++ == 0)
        dev->policy->join(dev, event->slot);
}

static void redo_set(struct dev_rr *dev, struct dev_seq *q, bool redo)
{
    dev->slots[q->slot].n_redo += redo - q->redo;
    q->redo = redo;
}

static bool on_device(const struct dev_seq *q)
{
    return q->kv == BR_DEV_KV_ON_DEVICE;
}

static void seq_end(struct dev_rr *dev, uint32_t seq)
{
    struct dev_seq *q = &dev->seqs[seq];
    dev_seq_take_out(dev, seq);
    if (q->kv != BR_DEV_KV_NONE) {
        dev->room++;
        dev->short_until_s = -1;
    }
    redo_set(dev, q, false);
    q->used = false;
    dev->n_seqs--;
    if (--dev->slots[q->slot].n_seqs == 0)
        dev->policy->leave(dev, q->slot);
}

/* KV of the running slot left the device though no policy asked for it: the slot had no room for its own sequences.
 * Asking for it back at once would only push the next one out. */
static void note_shortage(struct dev_rr *dev, double now_s, const struct dev_seq *q)
{
    if ((int32_t)q->slot == dev->current)
        dev->short_until_s = now_s + DEV_SHORT_S;
}

static void seq_reset(struct dev_rr *dev, double now_s, const struct br_dev_event *event)
{
    struct dev_seq *q = &dev->seqs[event->seq];
    if (on_device(q))
        note_shortage(dev, now_s, q);
    if (q->kv != BR_DEV_KV_NONE)
        dev->room++;
    assert(event->tokens > 0);
    q->kv = BR_DEV_KV_NONE;
    q->left = event->tokens ? event->tokens : 1;
    q->asked = 0;
    q->going_out = false;
    redo_set(dev, q, true);
    dev_seq_place(dev, event->seq);
}

static void seq_stepped(struct dev_rr *dev, const struct br_dev_event *event)
{
    struct dev_seq *q = &dev->seqs[event->seq];
    q->left -= event->tokens < q->left ? event->tokens : q->left;
    q->delivered += event->emitted;
    if ((int32_t)q->slot == dev->current)
        dev->round.tokens += event->emitted;
    if (q->left == 0)
        redo_set(dev, q, false);
    if (q->kv == BR_DEV_KV_NONE)
        q->kv = BR_DEV_KV_ON_DEVICE;
    dev_seq_place(dev, event->seq);
}

/* Blocks are back when a move out is done. A move in that failed frees nothing: it is not asked for again before
 * something else does. */
static void seq_kv(struct dev_rr *dev, double now_s, const struct br_dev_event *event)
{
    struct dev_seq *q = &dev->seqs[event->seq];
    enum br_dev_kv kv = event->kv;
    if (kv == BR_DEV_KV_NONE && q->class == DEV_NEW)
        return;
    if (kv == BR_DEV_KV_NONE)
        kv = BR_DEV_KV_MOVING; /* lost: BR_DEV_SEQ_RESET says what to do again */
    if (on_device(q) && kv != BR_DEV_KV_ON_DEVICE) {
        note_shortage(dev, now_s, q);
        q->going_out = true;
    }
    if (q->going_out && kv == BR_DEV_KV_ON_HOST) {
        dev->room++;
        q->asked = 0;
    }
    if (kv != BR_DEV_KV_MOVING)
        q->going_out = false;
    q->kv = kv;
    dev_seq_place(dev, event->seq);
}

void dev_seq_event(struct dev_rr *dev, double now_s, const struct br_dev_event *event)
{
    assert(event->seq < dev->config.max_seqs);
    if (event->kind == BR_DEV_SEQ_ADD)
        seq_add(dev, now_s, event);
    else if (!dev->seqs[event->seq].used)
        return; /* news of a sequence that has ended meanwhile */
    else if (event->kind == BR_DEV_SEQ_END)
        seq_end(dev, event->seq);
    else if (event->kind == BR_DEV_SEQ_RESET)
        seq_reset(dev, now_s, event);
    else if (event->kind == BR_DEV_SEQ_STEPPED || event->kind == BR_DEV_SEQ_FOUND)
        seq_stepped(dev, event);
    else
        seq_kv(dev, now_s, event);
}
