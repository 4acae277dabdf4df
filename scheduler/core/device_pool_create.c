#include <math.h>
#include <stdlib.h>

#include "scheduler/core/device_pool.h"

/* What the link carries in 20 ms: short enough that a load in flight holds nobody up for long. */
static const double CHUNK_S = .02;

static double step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                     uint32_t prefill)
{
    const struct dev_pool *d = ctx;
    (void)device;
    return br_step_cost_s(&d->slots[model].cost, decodes, kv_bytes, prefill);
}

static int config_check(const struct br_dev_config *c, struct br_err *err)
{
    if (c->memory_bytes <= 0 || !(c->link_bytes_per_s > 0) || !isfinite(c->link_bytes_per_s) || c->chunk_bytes < 0)
        return br_err_set(err, BR_EINVAL,
                          "scheduler: policy \"%s\" needs the device's memory (%.0f bytes) and link (%g bytes/s), both "
                          "above 0",
                          c->policy, (double)c->memory_bytes, c->link_bytes_per_s);
    if (!(c->hysteresis >= 0) || c->hysteresis > 10)
        return br_err_set(err, BR_EINVAL, "scheduler: hysteresis (%g) must be 0 to 10 times the TTFT", c->hysteresis);
    return 0;
}

static struct br_pl_options options_of(const struct br_dev_config *c)
{
    double chunk = CHUNK_S * c->link_bytes_per_s;
    int64_t bytes = c->chunk_bytes ? c->chunk_bytes : chunk < 1e15 ? (int64_t)chunk + 1 : (int64_t)1e15;
    return (struct br_pl_options){
        .policy = c->policy,
        .hysteresis = c->hysteresis > 0 ? c->hysteresis : BR_PL_HYSTERESIS,
        .q_max_s = c->quota_max_s,
        .chunk_bytes = bytes < 1LL << 40 ? bytes : 1LL << 40, /* it may grow, see br_pl_slot */
        .prefill_step_s = .3,
        .max_batch = c->max_batch,
        .max_step_rows = c->max_step_tokens,
        .max_chunk_rows = c->prefill_chunk,
        .max_actions = 64,
        .switch_every_step = c->switch_every_step,
        .whole_kv = true,
    };
}

static int pool_create(struct dev_pool *d, struct br_err *err)
{
    const struct br_dev_config *c = &d->config;
    struct br_pl_model *models = calloc(c->max_slots, sizeof *models);
    struct br_pl_hardware hw = {.memory_bytes = c->memory_bytes, .link_bytes_per_s = c->link_bytes_per_s};
    struct br_pl_config config = {.n_models = c->max_slots,
                                  .n_devices = 1,
                                  .max_seqs = c->max_seqs,
                                  .models = models,
                                  .hardware = &hw,
                                  .cost = {d, step_s},
                                  .options = options_of(c)};
    int rc = models ? br_pl_create(&config, &d->pool, err) : br_err_set(err, BR_ENOMEM, "scheduler: no memory");
    free(models);
    return rc;
}

int dev_pool_create(const struct br_dev_config *config, struct br_dev **out, struct br_err *err)
{
    int rc = config_check(config, err);
    struct dev_pool *d = rc ? NULL : calloc(1, sizeof *d);
    if (rc)
        return rc;
    if (!d)
        return br_err_set(err, BR_ENOMEM, "scheduler: no memory for a device");
    d->base.kind = &dev_kind_pool;
    d->config = *config;
    d->loading = -1;
    d->slots = calloc(config->max_slots, sizeof *d->slots);
    d->seqs = calloc(config->max_seqs, sizeof *d->seqs);
    rc = d->slots && d->seqs ? pool_create(d, err)
                             : br_err_set(err, BR_ENOMEM, "scheduler: no memory for %u sequences", config->max_seqs);
    if (rc) {
        dev_pool_destroy(&d->base);
        return rc;
    }
    d->config.policy = d->pool->options.policy;
    *out = &d->base;
    return 0;
}

void dev_pool_destroy(struct br_dev *base)
{
    struct dev_pool *d = (struct dev_pool *)base;
    br_pl_destroy(d->pool);
    free(d->slots);
    free(d->seqs);
    free(d);
}
