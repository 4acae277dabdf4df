#include <stdlib.h>

#include "scheduler/core/device_books.h"

static int config_check(const struct br_dev_config *c, const struct dev_policy **policy, struct br_err *err)
{
    const char *names;
    *policy = dev_policy_find(c->policy, &names);
    if (!*policy)
        return br_err_set(err, BR_EINVAL, "scheduler: no policy \"%s\"; there is: %s", c->policy ? c->policy : "",
                          names);
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

static int books_create(struct br_dev *dev)
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

int br_dev_create(const struct br_dev_config *config, struct br_dev **out, struct br_err *err)
{
    const struct dev_policy *policy;
    struct br_dev *dev;
    int rc = config_check(config, &policy, err);
    if (rc)
        return rc;
    dev = calloc(1, sizeof *dev);
    if (dev) {
        dev->config = *config;
        dev->config.policy = policy->name;
        dev->policy = policy;
    }
    if (!dev || books_create(dev)) {
        br_dev_destroy(dev);
        return br_err_set(err, BR_ENOMEM, "scheduler: no memory for %u slots and %u sequences", config->max_slots,
                          config->max_seqs);
    }
    *out = dev;
    return 0;
}

void br_dev_destroy(struct br_dev *dev)
{
    if (!dev)
        return;
    free(dev->slots);
    free(dev->seqs);
    free(dev->nodes);
    free(dev->round.list);
    free(dev);
}
