/* quota-rr. Events of slots and steps; sequences are in device_seq.c, the decision in device_step.c. */
#include <assert.h>

#include "scheduler/core/device_books.h"

static void slot_add(struct dev_rr *dev, const struct br_dev_event *event)
{
    struct dev_slot *s = &dev->slots[event->slot];
    if (!s->used) {
        *s = (struct dev_slot){.used = true, .place = -1};
        for (int i = 0; i < DEV_CLASSES; i++)
            ordered_init(&s->sets[i]);
    }
    assert(event->step_s > 0 && event->tbt_s > 0 && event->load_s >= 0);
    s->step_s = event->step_s > 1e-6 ? event->step_s : 1e-6;
    s->tbt_s = event->tbt_s > 1e-6 ? event->tbt_s : 1e-6;
    s->load_s = event->load_s;
}

static void slot_remove(struct dev_rr *dev, uint32_t slot)
{
    assert(dev->slots[slot].used && dev->slots[slot].n_seqs == 0);
    dev->slots[slot] = (struct dev_slot){.place = -1};
    if (dev->current == (int32_t)slot)
        dev->current = -1;
    if (dev->stepping == (int32_t)slot)
        dev->stepping = -1;
    if (dev->stepped == (int32_t)slot)
        dev->stepped = -1;
}

static void weights(struct dev_rr *dev, const struct br_dev_event *event)
{
    struct dev_slot *s = &dev->slots[event->slot];
    assert(event->bytes <= event->bytes_all);
    if (event->bytes > s->resident)
        s->loaded += event->bytes - s->resident;
    if (event->bytes < s->resident)
        dev->round.evicted = true;
    s->resident = event->bytes;
    s->all = event->bytes_all;
}

/* A moving average that one outlier moves by a factor of 1.6 at most. Steps that waited for weights do not count. */
static void estimate(struct dev_slot *s, double step_s)
{
    double low = s->step_s / 4, high = s->step_s * 4;
    if (!(step_s > 0))
        return;
    step_s = step_s < low ? low : step_s > high ? high : step_s;
    s->step_s += 0.2 * (step_s - s->step_s);
}

static void step_done(struct dev_rr *dev, double now_s, const struct br_dev_event *event)
{
    struct dev_slot *s = &dev->slots[event->slot];
    if (!s->used)
        return;
    dev->policy->stepped(dev, event->slot, now_s);
    if (!dev->cold)
        estimate(s, event->step_s);
    dev->cold = false;
    dev->stepping = -1;
    dev->stepped = (int32_t)event->slot;
}

static void rr_step(struct br_dev *base, double now_s, const struct br_dev_event *event, struct br_dev_actions *actions)
{
    struct dev_rr *dev = (struct dev_rr *)base;
    switch (event->kind) {
    case BR_DEV_SLOT_ADD:
        slot_add(dev, event);
        break;
    case BR_DEV_SLOT_REMOVE:
        slot_remove(dev, event->slot);
        break;
    case BR_DEV_SEQ_ADD:
    case BR_DEV_SEQ_END:
    case BR_DEV_SEQ_RESET:
    case BR_DEV_SEQ_STEPPED:
    case BR_DEV_SEQ_FOUND:
    case BR_DEV_KV:
        dev_seq_event(dev, now_s, event);
        break;
    case BR_DEV_STEP_DONE:
        step_done(dev, now_s, event);
        break;
    case BR_DEV_WEIGHTS:
        weights(dev, event);
        break;
    case BR_DEV_BOUNDARY:
        dev_decide(dev, now_s, actions);
        break;
    case BR_DEV_LOADED:
    case BR_DEV_SEQ_PAUSE:
    case BR_DEV_SEQ_RESUME:
    case BR_DEV_BESIDE:
        break;
    }
}

static int32_t rr_next_slot(const struct br_dev *base)
{
    const struct dev_rr *dev = (const struct dev_rr *)base;
    return dev->policy->next(dev);
}

static double rr_quota_s(const struct br_dev *base, uint32_t slot)
{
    return ((const struct dev_rr *)base)->slots[slot].quota_s;
}

const struct dev_kind dev_kind_rr = {
    .destroy = dev_rr_destroy,
    .step = rr_step,
    .weights_victim = dev_rr_weights_victim,
    .kv_victim = dev_rr_kv_victim,
    .next_slot = rr_next_slot,
    .quota_s = rr_quota_s,
    .check = dev_rr_check,
};
