#include <stdlib.h>

#include "scheduler/core/device_books.h"
#include "scheduler/core/policies/policy.h"

static int config_check(const struct br_dev_config *c, struct br_err *err)
{
    if (!c->max_slots || !c->max_seqs || c->max_slots > INT32_MAX || c->max_seqs > INT32_MAX)
        return br_err_set(err, BR_EINVAL, "scheduler: max_slots (%u) and max_seqs (%u) must be 1 to %d", c->max_slots,
                          c->max_seqs, INT32_MAX);
    if (!c->max_batch || c->max_batch > BR_DEV_MAX_ITEMS || !c->max_step_tokens || !c->prefill_chunk)
        return br_err_set(err, BR_EINVAL,
                          "scheduler: max_batch (%u) must be 1 to %d, max_step_tokens (%u) and prefill_chunk (%u) at "
                          "least 1",
                          c->max_batch, BR_DEV_MAX_ITEMS, c->max_step_tokens, c->prefill_chunk);
    if (!(c->quota_max_s > 0))
        return br_err_set(err, BR_EINVAL, "scheduler: quota_max_s (%g) must be above 0", c->quota_max_s);
    return 0;
}

static int books_create(struct dev_rr *dev)
{
    const struct br_dev_config *c = &dev->config;
    dev->slots = calloc(c->max_slots, sizeof *dev->slots);
    dev->seqs = calloc(c->max_seqs, sizeof *dev->seqs);
    dev->nodes = calloc(c->max_seqs, sizeof *dev->nodes);
    dev->round.list = calloc(c->max_slots, sizeof *dev->round.list);
    if (!dev->slots || !dev->seqs || !dev->nodes || !dev->round.list)
        return BR_ENOMEM;
    for (uint32_t i = 0; i < c->max_slots; i++)
        dev->slots[i].place = -1;
    dev->round.number = dev->room = 1;
    dev->current = dev->stepping = dev->stepped = -1;
    dev->short_until_s = dev->retry_s = -1;
    return 0;
}

int dev_rr_create(const struct br_dev_config *config, struct br_dev **out, struct br_err *err)
{
    const char *names;
    struct dev_rr *dev = calloc(1, sizeof *dev);
    if (dev) {
        dev->base.kind = &dev_kind_rr;
        dev->config = *config;
        dev->policy = dev_policy_find(config->policy, &names);
        dev->config.policy = dev->policy->name;
    }
    if (!dev || books_create(dev)) {
        if (dev)
            dev_rr_destroy(&dev->base);
        return br_err_set(err, BR_ENOMEM, "scheduler: no memory for %u slots and %u sequences", config->max_slots,
                          config->max_seqs);
    }
    *out = &dev->base;
    return 0;
}

void dev_rr_destroy(struct br_dev *base)
{
    struct dev_rr *dev = (struct dev_rr *)base;
    free(dev->slots);
    free(dev->seqs);
    free(dev->nodes);
    free(dev->round.list);
    free(dev);
}

int br_dev_create(const struct br_dev_config *config, struct br_dev **out, struct br_err *err)
{
    const char *names, *pool_names, *policy = config->policy ? config->policy : "";
    int rc = config_check(config, err);
    if (rc)
        return rc;
    if (dev_policy_find(policy, &names))
        return dev_rr_create(config, out, err);
    if (pl_policy_find(policy, &pool_names))
        return dev_pool_create(config, out, err);
    return br_err_set(err, BR_EINVAL, "scheduler: no policy \"%s\"; there are: %s, %s", policy, names, pool_names);
}
