#include <stdlib.h>

#include "scheduler/core/fleet_books.h"
#include "scheduler/core/policies/policy.h"

static const struct br_pl_policy *config_policy(const struct br_fleet_config *c, const char **names)
{
    return pl_policy_find(c->policy ? c->policy : "slack", names);
}

static int config_check(const struct br_fleet_config *c, struct br_err *err)
{
    if (!c->max_devices || !c->max_models || !c->max_seqs || c->max_devices > INT32_MAX || c->max_models > INT32_MAX ||
        c->max_seqs > INT32_MAX)
        return br_err_set(err, BR_EINVAL, "fleet: max_devices (%u), max_models (%u), max_seqs (%u) must be 1 to %d",
                          c->max_devices, c->max_models, c->max_seqs, INT32_MAX);
    if (c->max_unfinished > c->max_seqs)
        return br_err_set(err, BR_EINVAL, "fleet: max_unfinished (%u) is above max_seqs (%u)", c->max_unfinished,
                          c->max_seqs);
    const char *names;
    const struct br_pl_policy *policy = config_policy(c, &names);
    if (policy && policy->hands_over)
        return br_err_set(err, BR_EINVAL,
                          "placement: %s gives KV from device to device, which workers do not do; use slack or spread "
                          "(the workers' --policy may be %s)",
                          policy->name, policy->name);
    return 0;
}

/* The pool begins with devices that are down and models without sizes. */
static int pool_create(struct br_fleet *fleet, struct br_err *err)
{
    const struct br_fleet_config *c = &fleet->config;
    struct br_pl_model *models = calloc(c->max_models, sizeof *models);
    struct br_pl_hardware *hardware = calloc(c->max_devices, sizeof *hardware);
    struct br_pl_config pool = {
        .n_models = c->max_models,
        .n_devices = c->max_devices,
        .max_seqs = c->max_seqs,
        .models = models,
        .hardware = hardware,
        .cost = {fleet, fleet_step_s},
        .options = {.policy = c->policy ? c->policy : "slack",
                    .hysteresis = c->hysteresis > 0 ? c->hysteresis : BR_PL_HYSTERESIS,
                    .chunk_bytes = 1 << 30,
                    .prefill_step_s = .3,
                    .recompute = true,
                    .mirror = true},
        .closed = true,
    };
    int rc = models && hardware ? br_pl_create(&pool, &fleet->pool, err) : BR_ENOMEM;
    if (rc == BR_ENOMEM)
        br_err_set(err, BR_ENOMEM, "fleet: no memory for %u devices, %u models, %u sequences", c->max_devices,
                   c->max_models, c->max_seqs);
    free(models);
    free(hardware);
    return rc;
}

static int books_create(struct br_fleet *fleet, struct br_err *err)
{
    const struct br_fleet_config *c = &fleet->config;
    size_t places = (size_t)c->max_devices * c->max_models;
    fleet->did = calloc(1, sizeof *fleet->did);
    fleet->costs = calloc(places, sizeof *fleet->costs);
    fleet->models = calloc(c->max_models, sizeof *fleet->models);
    fleet->seqs = calloc(c->max_seqs, sizeof *fleet->seqs);
    fleet->devices = calloc(c->max_devices, sizeof *fleet->devices);
    fleet->promises = calloc(1, fleet_promises_bytes(c->max_devices));
    if (!fleet->devices || !fleet->promises || !fleet->did || !fleet->costs || !fleet->models || !fleet->seqs)
        return br_err_set(err, BR_ENOMEM, "fleet: no memory for %u devices, %u models, %u sequences", c->max_devices,
                          c->max_models, c->max_seqs);
    fleet_promises_init(fleet->promises, c->max_devices);
    for (uint32_t i = 0; i < c->max_models; i++)
        fleet->models[i].is = (struct br_pl_model){.ttft_s = 10, .tbt_s = .1, .weight = 1};
    for (uint32_t i = 0; i < c->max_seqs; i++)
        fleet->seqs[i].device = -1;
    fleet->last_end_s = -1;
    fleet->end_gap_s = 1;
    return pool_create(fleet, err);
}

int br_fleet_create(const struct br_fleet_config *config, struct br_fleet **out, struct br_err *err)
{
    int rc = config_check(config, err);
    struct br_fleet *fleet;
    if (rc)
        return rc;
    fleet = calloc(1, sizeof *fleet);
    if (!fleet)
        return br_err_set(err, BR_ENOMEM, "fleet: no memory");
    fleet->config = *config;
    rc = books_create(fleet, err);
    fleet->config.policy = NULL; /* the caller's; not needed again */
    if (rc) {
        br_fleet_destroy(fleet);
        return rc;
    }
    *out = fleet;
    return 0;
}

void br_fleet_destroy(struct br_fleet *fleet)
{
    if (!fleet)
        return;
    br_pl_destroy(fleet->pool);
    free(fleet->did);
    free(fleet->costs);
    free(fleet->models);
    free(fleet->seqs);
    free(fleet->devices);
    free(fleet->promises);
    free(fleet);
}
