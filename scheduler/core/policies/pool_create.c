#include <stdlib.h>
#include <string.h>

#include "scheduler/core/policies/pool_books.h"
#include "scheduler/core/policies/pool_events.h"

static int memory_get(struct br_pool *p, const struct br_pl_config *c)
{
    size_t slots = (size_t)c->n_devices * c->n_models;
    size_t state = p->policy->state_bytes ? p->policy->state_bytes(c) : 0;
    p->models = calloc(c->n_models, sizeof *p->models);
    p->devices = calloc(c->n_devices, sizeof *p->devices);
    p->slots = calloc(slots, sizeof *p->slots);
    p->seqs = calloc(c->max_seqs, sizeof *p->seqs);
    p->queues = calloc(c->n_models, sizeof *p->queues);
    p->touched = calloc(4 * (size_t)c->n_devices, sizeof *p->touched);
    p->state = calloc(state + 1, 1);
    if (!p->models || !p->devices || !p->slots || !p->seqs || !p->queues || !p->touched || !p->state)
        return -1;
    p->to_place = calloc(c->n_models, sizeof *p->to_place);
    p->leaving = calloc(c->n_models, sizeof *p->leaving);
    p->host_bytes = calloc(c->n_nodes + 1, sizeof *p->host_bytes);
    p->util = calloc(c->n_devices, sizeof *p->util);
    p->open = calloc(c->n_devices, sizeof *p->open);
    p->dirty = calloc(c->n_devices, sizeof *p->dirty);
    p->resident = calloc(slots, sizeof *p->resident);
    p->counts = calloc(slots, sizeof *p->counts);
    if (!p->to_place || !p->leaving || !p->host_bytes || !p->util || !p->open || !p->dirty || !p->resident ||
        !p->counts)
        return -1;
    for (uint32_t i = 0; i < c->n_devices; i++)
        if (!(p->devices[i].held = calloc(c->n_models, sizeof *p->devices[i].held)))
            return -1;
    return 0;
}

static void books_open(struct br_pool *p, const struct br_pl_config *c)
{
    memcpy(p->models, c->models, c->n_models * sizeof *p->models);
    if (c->n_nodes)
        memcpy(p->host_bytes, c->host_bytes, c->n_nodes * sizeof *p->host_bytes);
    for (uint32_t i = 0; i < c->n_models; i++)
        p->queues[i] = (struct br_pl_list){-1, -1, 0};
    for (uint32_t i = 0; i < c->n_devices; i++) {
        struct br_pl_device *d = &p->devices[i];
        d->hw = c->hardware[i];
        d->up = d->hw.memory_bytes > 0;
        d->current = d->loading = d->step.slot = d->link.slot = -1;
        for (uint32_t m = 0; m < c->n_models; m++)
            *pl_slot(p, i, m) = (struct br_pl_slot){.device = i,
                                                    .model = m,
                                                    .wait = {-1, -1, 0},
                                                    .run = {-1, -1, 0},
                                                    .held = -1,
                                                    .barred = c->closed,
                                                    .dirty_key = true};
    }
    for (uint32_t i = 0; i < c->n_devices; i++)
        pl_serve_update(p, i);
}

/* On one device at least, of those that are known. */
static int fits_check(const struct br_pl_config *c, uint32_t m, struct br_err *err)
{
    const struct br_pl_model *model = &c->models[m];
    int64_t most = 0;
    for (uint32_t d = 0; d < c->n_devices; d++)
        most = c->hardware[d].memory_bytes > most ? c->hardware[d].memory_bytes : most;
    if (most == 0 || model->weights_bytes + PL_HEADROOM * model->kv_token_bytes <= most)
        return 0;
    return br_err_set(err, BR_ENOMEM,
                      "model %u needs %.1f GB for weights and some KV, the largest device has %.1f GB for both", m,
                      (double)model->weights_bytes / 1e9, (double)most / 1e9);
}

static int config_check(const struct br_pl_config *c, struct br_err *err)
{
    if (c->n_models == 0 || c->n_devices == 0 || c->max_seqs == 0)
        return br_err_set(err, BR_EINVAL, "a pool needs models, devices and room for sequences");
    int rc = 0;
    for (uint32_t m = 0; m < c->n_models && rc == 0; m++)
        rc = fits_check(c, m, err);
    return rc;
}

static uint32_t batch_of(const struct br_pl_options *o)
{
    uint32_t most = o->max_batch && o->max_batch < BR_PL_MAX_BATCH ? o->max_batch : BR_PL_MAX_BATCH;
    return o->max_step_rows && o->max_step_rows < most ? o->max_step_rows : most;
}

int br_pl_create(const struct br_pl_config *config, struct br_pool **out, struct br_err *err)
{
    const char *names;
    const struct br_pl_policy *policy = pl_policy_find(config->options.policy, &names);
    if (!policy)
        return br_err_set(err, BR_EINVAL, "no policy \"%s\"; there are: %s", config->options.policy, names);
    int rc = config_check(config, err);
    if (rc < 0)
        return rc;
    struct br_pool *p = calloc(1, sizeof *p);
    if (!p)
        return br_err_set(err, BR_ENOMEM, "no memory for a pool");
    p->options = config->options;
    p->options.policy = policy->name;
    p->options.max_batch = batch_of(&config->options);
    p->cost = config->cost;
    p->policy = policy;
    p->n_models = config->n_models;
    p->n_devices = config->n_devices;
    p->max_seqs = config->max_seqs;
    p->n_nodes = config->n_nodes;
    if (memory_get(p, config) < 0) {
        br_pl_destroy(p);
        return br_err_set(err, BR_ENOMEM, "no memory for a pool of %u devices, %u models, %u sequences",
                          config->n_devices, config->n_models, config->max_seqs);
    }
    books_open(p, config);
    if (policy->init)
        policy->init(p);
    *out = p;
    return 0;
}

void br_pl_destroy(struct br_pool *pool)
{
    if (!pool)
        return;
    for (uint32_t i = 0; pool->devices && i < pool->n_devices; i++)
        free(pool->devices[i].held);
    free(pool->models);
    free(pool->devices);
    free(pool->slots);
    free(pool->seqs);
    free(pool->queues);
    free(pool->touched);
    free(pool->state);
    free(pool->to_place);
    free(pool->leaving);
    free(pool->host_bytes);
    free(pool->util);
    free(pool->open);
    free(pool->dirty);
    free(pool->resident);
    free(pool->counts);
    free(pool);
}
