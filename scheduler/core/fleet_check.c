#include "scheduler/core/fleet_books.h"

static const char *device_broken(const struct br_fleet *fleet, uint32_t device)
{
    const struct fleet_device *d = &fleet->devices[device];
    uint64_t tokens = 0;
    int64_t load = 0;
    uint32_t n = 0, in_places = 0;
    int32_t before = -1;
    for (int32_t i = d->first; i >= 0; before = i, i = fleet->seqs[i].next) {
        const struct fleet_seq *q = &fleet->seqs[i];
        if (q->state != FLEET_ASSIGNED || q->device != device || q->prev != before || n > fleet->config.max_seqs)
            return "a sequence is in the wrong device's list";
        tokens += q->tokens;
        n++;
    }
    for (uint32_t m = 0; m < fleet->config.max_models; m++) {
        load += fleet_share(fleet_place(fleet, device, m));
        in_places += fleet_place(fleet, device, m)->n_seqs;
    }
    if (n != d->n_seqs || in_places != n || tokens != d->tokens || load != d->load)
        return "a device's counts are wrong";
    return !d->up && n ? "a device that is down has sequences" : NULL;
}

static const char *model_broken(const struct br_fleet *fleet, uint32_t model)
{
    const struct fleet_model *m = &fleet->models[model];
    int32_t oldest = ordered_first(&m->waiting, fleet->seq_nodes);
    uint32_t serving = 0, n = 0;
    for (uint32_t d = 0; d < fleet->config.max_devices; d++)
        serving += fleet_takes(&fleet->devices[d]) && fleet_place(fleet, d, model)->on;
    for (int32_t i = oldest; i >= 0; i = ordered_next(fleet->seq_nodes, i), n++)
        if (fleet->seqs[i].state != FLEET_WAITING || fleet->seqs[i].model != model)
            return "a sequence waits for the wrong model";
    if (serving != m->n_serving || n != m->waiting.n)
        return "a model's counts are wrong";
    if (m->listed != (oldest >= 0 && serving > 0))
        return "a model that could go on is not listed";
    if (m->listed && fleet->model_nodes[model].key.serial != fleet->seqs[oldest].serial)
        return "a model is listed under another sequence than its oldest";
    return NULL;
}

int br_fleet_check(const struct br_fleet *fleet, struct br_err *err)
{
    uint32_t waiting = 0, assigned = 0, in_devices = 0, in_models = 0, listed = 0;
    const char *broken = NULL;
    for (uint32_t i = 0; i < fleet->config.max_seqs; i++) {
        waiting += fleet->seqs[i].state == FLEET_WAITING;
        assigned += fleet->seqs[i].state == FLEET_ASSIGNED;
    }
    for (uint32_t i = 0; i < fleet->config.max_devices && !broken; i++) {
        broken = device_broken(fleet, i);
        in_devices += fleet->devices[i].n_seqs;
    }
    for (uint32_t i = 0; i < fleet->config.max_models && !broken; i++) {
        broken = model_broken(fleet, i);
        in_models += fleet->models[i].waiting.n;
        listed += fleet->models[i].listed;
    }
    if (!broken && (in_devices != assigned || in_models != waiting || waiting != fleet->n_waiting ||
                    waiting + assigned != fleet->n_unfinished || listed != fleet->ready.n))
        broken = "a sequence is nowhere, or in two places";
    return broken ? br_err_set(err, BR_ECORRUPT, "fleet: %s", broken) : 0;
}
