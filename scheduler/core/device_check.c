#include "scheduler/core/device_books.h"

static const char *set_broken(const struct dev_rr *dev, uint32_t slot, enum dev_class class)
{
    const struct ordered *set = &dev->slots[slot].sets[class];
    int32_t i = ordered_first(set, dev->nodes), before = -1;
    uint32_t n = 0;
    for (; i >= 0 && n <= dev->n_seqs; before = i, i = ordered_next(dev->nodes, i), n++) {
        const struct dev_seq *q = &dev->seqs[i];
        if (!q->used || q->slot != slot || q->class != class || dev_seq_class(q) != class)
            return "a sequence is in the wrong set";
        if (before >= 0 && ordered_compare(&dev->nodes[before].key, &dev->nodes[i].key) >= 0)
            return "a set is out of order";
    }
    return n == set->n ? NULL : "a set's count is wrong";
}

static const char *slot_broken(const struct dev_rr *dev, uint32_t slot)
{
    const struct dev_slot *s = &dev->slots[slot];
    const char *broken = NULL;
    uint32_t n = 0;
    if (!s->used)
        return s->n_seqs || s->place >= 0 ? "a removed slot has sequences" : NULL;
    for (int class = 0; class < DEV_CLASSES && !broken; class ++) {
        broken = set_broken(dev, slot, (enum dev_class) class);
        n += s->sets[class].n;
    }
    if (!broken && n != s->n_seqs)
        broken = "a slot's count of sequences is wrong";
    if (!broken && (!(s->step_s > 0) || s->resident > s->all))
        broken = "a slot's step time or residency is impossible";
    return broken;
}

int dev_rr_check(const struct br_dev *base, struct br_err *err)
{
    const struct dev_rr *dev = (const struct dev_rr *)base;
    const char *broken = dev->policy->broken(dev);
    uint32_t in_slots = 0, used = 0, redo = 0, redo_counted = 0;
    for (uint32_t i = 0; i < dev->config.max_slots && !broken; i++) {
        broken = slot_broken(dev, i);
        in_slots += dev->slots[i].n_seqs;
        redo_counted += dev->slots[i].n_redo;
    }
    for (uint32_t i = 0; i < dev->config.max_seqs; i++) {
        used += dev->seqs[i].used;
        redo += dev->seqs[i].redo;
    }
    if (!broken && (used != dev->n_seqs || in_slots != used))
        broken = "a sequence is in no slot";
    if (!broken && redo != redo_counted)
        broken = "the count of sequences to compute again is wrong";
    if (!broken && dev->current >= 0 && !dev->slots[dev->current].used)
        broken = "the current slot was removed";
    return broken ? br_err_set(err, BR_ECORRUPT, "scheduler: %s", broken) : 0;
}
