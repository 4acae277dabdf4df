/* Victims: what is needed latest, by turn order. O(slots). */
#include "scheduler/core/device_books.h"

/* Is a needed later than b? Slots without sequences last, the least recently used of them at the very end. */
static bool later(const struct dev_rr *dev, uint32_t a, uint32_t b)
{
    uint32_t rank_a = dev->policy->rank(dev, a), rank_b = dev->policy->rank(dev, b);
    if (rank_a != rank_b)
        return rank_a > rank_b;
    return dev->slots[a].last_step < dev->slots[b].last_step;
}

/* The slot whose turn it is keeps its weights between two steps too: a prefetch for another must not take them. */
static bool keeps_weights(const struct dev_rr *dev, int32_t slot)
{
    return slot == dev->stepping || (slot == dev->current && dev->slots[slot].n_seqs > 0);
}

int32_t dev_rr_weights_victim(const struct br_dev *base, uint32_t target)
{
    const struct dev_rr *dev = (const struct dev_rr *)base;
    int32_t best = -1;
    for (uint32_t i = 0; i < dev->config.max_slots; i++) {
        if (!dev->slots[i].used || !dev->slots[i].resident || i == target || keeps_weights(dev, (int32_t)i))
            continue;
        if (best < 0 || later(dev, i, (uint32_t)best))
            best = (int32_t)i;
    }
    return best;
}

/* The youngest with its KV on the device, other than keep; -1: none. */
static int32_t youngest(const struct dev_rr *dev, uint32_t slot, uint32_t keep)
{
    static const enum dev_class classes[] = {DEV_PART, DEV_DECODE};
    int32_t best = -1;
    for (int c = 0; c < 2; c++) {
        const struct ordered *set = &dev->slots[slot].sets[classes[c]];
        int32_t i = ordered_last(set, dev->nodes);
        if (i >= 0 && (uint32_t)i == keep)
            i = ordered_prev(dev->nodes, i);
        if (i >= 0 && (best < 0 || ordered_compare(&dev->nodes[best].key, &dev->nodes[i].key) < 0))
            best = i;
    }
    return best;
}

static int32_t other_slots_victim(const struct dev_rr *dev, uint32_t target)
{
    int32_t slot = -1;
    for (uint32_t i = 0; i < dev->config.max_slots; i++) {
        const struct dev_slot *s = &dev->slots[i];
        if (!s->used || i == target || !(s->sets[DEV_PART].n + s->sets[DEV_DECODE].n))
            continue;
        if (slot < 0 || later(dev, i, (uint32_t)slot))
            slot = (int32_t)i;
    }
    return slot < 0 ? -1 : youngest(dev, (uint32_t)slot, UINT32_MAX);
}

/* A sequence that runs may push out any other of its slot. One that only wants in may push out younger ones: else two
 * that do not fit together would push each other out for ever. The oldest there can always go on, so it ends. */
int32_t dev_rr_kv_victim(const struct br_dev *base, uint32_t target, uint32_t keep)
{
    const struct dev_rr *dev = (const struct dev_rr *)base;
    int32_t victim = other_slots_victim(dev, target);
    const struct dev_seq *k = keep < dev->config.max_seqs && dev->seqs[keep].used ? &dev->seqs[keep] : NULL;
    if (victim >= 0 || target >= dev->config.max_slots || !dev->slots[target].used)
        return victim;
    victim = youngest(dev, target, keep);
    if (victim >= 0 && k && k->kv != BR_DEV_KV_ON_DEVICE && ordered_compare(&dev->seqs[victim].key, &k->key) < 0)
        return -1;
    return victim;
}
