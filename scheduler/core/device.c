#include "scheduler/core/device.h"

#include "scheduler/core/device_kind.h"

void br_dev_destroy(struct br_dev *dev)
{
    if (dev)
        dev->kind->destroy(dev);
}

void br_dev_step(struct br_dev *dev, double now_s, const struct br_dev_event *event, struct br_dev_actions *actions)
{
    actions->n_actions = actions->n_items = 0;
    actions->wake_s = -1;
    dev->kind->step(dev, now_s, event, actions);
}

int32_t br_dev_weights_victim(const struct br_dev *dev, uint32_t target)
{
    return dev->kind->weights_victim(dev, target);
}

int32_t br_dev_kv_victim(const struct br_dev *dev, uint32_t target, uint32_t keep)
{
    return dev->kind->kv_victim(dev, target, keep);
}

int32_t br_dev_next_slot(const struct br_dev *dev)
{
    return dev->kind->next_slot(dev);
}

double br_dev_quota_s(const struct br_dev *dev, uint32_t slot)
{
    return dev->kind->quota_s(dev, slot);
}

bool br_dev_shape(const struct br_dev *dev, uint32_t slot, struct br_step_shape *shape)
{
    return dev->kind->shape && dev->kind->shape(dev, slot, shape);
}

int br_dev_check(const struct br_dev *dev, struct br_err *err)
{
    return dev->kind->check(dev, err);
}
