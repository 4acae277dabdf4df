/* What stands behind struct br_dev: quota-rr with books of its own (device_rr), or a pool of one device with a policy
 * of policies/ (device_pool). Internal to scheduler/core. */
#ifndef BRIAREUS_SCHEDULER_CORE_DEVICE_KIND_H
#define BRIAREUS_SCHEDULER_CORE_DEVICE_KIND_H

#include "scheduler/core/device.h"

struct dev_kind {
    void (*destroy)(struct br_dev *dev);
    /* actions are empty */
    void (*step)(struct br_dev *dev, double now_s, const struct br_dev_event *event, struct br_dev_actions *actions);
    int32_t (*weights_victim)(const struct br_dev *dev, uint32_t target);
    int32_t (*kv_victim)(const struct br_dev *dev, uint32_t target, uint32_t keep);
    int32_t (*next_slot)(const struct br_dev *dev);
    double (*quota_s)(const struct br_dev *dev, uint32_t slot);
    bool (*shape)(const struct br_dev *dev, uint32_t slot, struct br_step_shape *shape); /* NULL: it keeps none */
    int (*check)(const struct br_dev *dev, struct br_err *err);
};

struct br_dev { /* the first member of both */
    const struct dev_kind *kind;
};

/* In device_create.c, device_pool_create.c; what br_dev_create checks for both has been checked. */
int dev_rr_create(const struct br_dev_config *config, struct br_dev **out, struct br_err *err);
void dev_rr_destroy(struct br_dev *dev);
int dev_pool_create(const struct br_dev_config *config, struct br_dev **out, struct br_err *err);
void dev_pool_destroy(struct br_dev *dev);

#endif
