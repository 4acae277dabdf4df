#include <stdlib.h>

#include "scheduler/core/fleet_books.h"

static int config_check(const struct br_fleet_config *c, struct br_err *err)
{
    if (!c->max_devices || !c->max_models || !c->max_seqs || c->max_devices > INT32_MAX || c->max_models > INT32_MAX ||
        c->max_seqs > INT32_MAX)
        return br_err_set(err, BR_EINVAL, "fleet: max_devices (%u), max_models (%u), max_seqs (%u) must be 1 to %d",
                          c->max_devices, c->max_models, c->max_seqs, INT32_MAX);
    if (c->max_unfinished > c->max_seqs)
        return br_err_set(err, BR_EINVAL, "fleet: max_unfinished (%u) is above max_seqs (%u)", c->max_unfinished,
                          c->max_seqs);
    return 0;
}

static int books_create(struct br_fleet *fleet)
{
    const struct br_fleet_config *c = &fleet->config;
    fleet->devices = calloc(c->max_devices, sizeof *fleet->devices);
    fleet->places = calloc((size_t)c->max_devices * c->max_models, sizeof *fleet->places);
    fleet->models = calloc(c->max_models, sizeof *fleet->models);
    fleet->seqs = calloc(c->max_seqs, sizeof *fleet->seqs);
    fleet->seq_nodes = calloc(c->max_seqs, sizeof *fleet->seq_nodes);
    fleet->model_nodes = calloc(c->max_models, sizeof *fleet->model_nodes);
    if (!fleet->devices || !fleet->places || !fleet->models || !fleet->seqs || !fleet->seq_nodes || !fleet->model_nodes)
        return BR_ENOMEM;
    for (uint32_t i = 0; i < c->max_devices; i++)
        fleet->devices[i].first = -1;
    for (uint32_t i = 0; i < c->max_models; i++) {
        fleet->models[i].last_device = -1;
        ordered_init(&fleet->models[i].waiting);
    }
    ordered_init(&fleet->ready);
    fleet->last_end_s = -1;
    fleet->end_gap_s = 1;
    return 0;
}

int br_fleet_create(const struct br_fleet_config *config, struct br_fleet **out, struct br_err *err)
{
    int rc = config_check(config, err);
    struct br_fleet *fleet;
    if (rc)
        return rc;
    fleet = calloc(1, sizeof *fleet);
    if (fleet)
        fleet->config = *config;
    if (!fleet || books_create(fleet)) {
        br_fleet_destroy(fleet);
        return br_err_set(err, BR_ENOMEM, "fleet: no memory for %u devices, %u models, %u sequences",
                          config->max_devices, config->max_models, config->max_seqs);
    }
    *out = fleet;
    return 0;
}

void br_fleet_destroy(struct br_fleet *fleet)
{
    if (!fleet)
        return;
    free(fleet->devices);
    free(fleet->places);
    free(fleet->models);
    free(fleet->seqs);
    free(fleet->seq_nodes);
    free(fleet->model_nodes);
    free(fleet);
}
