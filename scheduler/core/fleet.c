/* Events of devices, models and sequences; the assignment is in fleet_assign.c. */
#include "scheduler/core/fleet.h"

#include <assert.h>

#include "scheduler/core/fleet_books.h"

/* All models that are on there count one device more or less. O(models); devices change rarely. */
static void device_serves(struct br_fleet *fleet, uint32_t device, int change)
{
    for (uint32_t m = 0; m < fleet->config.max_models; m++)
        if (fleet_place(fleet, device, m)->on)
            fleet_serve(fleet, m, change);
}

static void device_up(struct br_fleet *fleet, uint32_t device)
{
    struct fleet_device *d = &fleet->devices[device];
    if (d->up && d->draining)
        device_serves(fleet, device, 1);
    d->up = true;
    d->draining = false;
}

static void device_drain(struct br_fleet *fleet, uint32_t device)
{
    struct fleet_device *d = &fleet->devices[device];
    if (!fleet_takes(d))
        return;
    device_serves(fleet, device, -1);
    d->draining = true;
}

/* Sequences there wait again; of one model, or of all (-1). */
static void sequences_back(struct br_fleet *fleet, uint32_t device, int64_t model)
{
    int32_t next;
    for (int32_t i = fleet->devices[device].first; i >= 0; i = next) {
        next = fleet->seqs[i].next;
        if (model >= 0 && fleet->seqs[i].model != model)
            continue;
        fleet_detach(fleet, (uint32_t)i);
        fleet_wait(fleet, (uint32_t)i);
    }
}

static void device_down(struct br_fleet *fleet, uint32_t device)
{
    struct fleet_device *d = &fleet->devices[device];
    device_drain(fleet, device);
    sequences_back(fleet, device, -1);
    for (uint32_t m = 0; m < fleet->config.max_models; m++) {
        *fleet_place(fleet, device, m) = (struct fleet_place){0};
        if (fleet->models[m].last_device == (int32_t)device)
            fleet->models[m].last_device = -1;
    }
    d->up = d->draining = false;
}

static void model_on(struct br_fleet *fleet, const struct br_fleet_event *event)
{
    struct fleet_device *d = &fleet->devices[event->device];
    struct fleet_place *p = fleet_place(fleet, event->device, event->model);
    if (!d->up)
        return;
    d->load -= fleet_share(p);
    p->step_us = event->step_s > 0 ? (int64_t)(event->step_s * 1e6) + 1 : 1;
    d->load += fleet_share(p);
    if (!p->on && fleet_takes(d))
        fleet_serve(fleet, event->model, 1);
    p->on = true;
}

static void model_off(struct br_fleet *fleet, uint32_t device, uint32_t model)
{
    struct fleet_place *p = fleet_place(fleet, device, model);
    if (p->on && fleet_takes(&fleet->devices[device]))
        fleet_serve(fleet, model, -1);
    p->on = false;
    sequences_back(fleet, device, model);
}

static void seq_new(struct br_fleet *fleet, const struct br_fleet_event *event)
{
    fleet->seqs[event->seq] =
        (struct fleet_seq){.model = event->model, .tokens = event->tokens, .serial = ++fleet->n_arrivals};
    fleet->n_unfinished++;
}

/* The mean time between two ends, at which room for one more is made. */
static double retry_s(const struct br_fleet *fleet)
{
    double s = fleet->end_gap_s;
    return s < 1 ? 1 : s > 60 ? 60 : s;
}

static void arrive(struct br_fleet *fleet, const struct br_fleet_event *event, struct br_fleet_actions *actions)
{
    assert(fleet->seqs[event->seq].state == FLEET_FREE);
    if (!br_fleet_admits(fleet, 1)) {
        actions->actions[actions->n++] =
            (struct br_fleet_action){.kind = BR_FLEET_REFUSE, .seq = event->seq, .retry_s = retry_s(fleet)};
        return;
    }
    seq_new(fleet, event);
    fleet_wait(fleet, event->seq);
}

static void recover(struct br_fleet *fleet, const struct br_fleet_event *event)
{
    if (fleet->seqs[event->seq].state != FLEET_FREE)
        return;
    seq_new(fleet, event);
    fleet_wait(fleet, event->seq);
}

/* One assigned to another device meanwhile stays there: the newer lease wins. */
static void adopt(struct br_fleet *fleet, const struct br_fleet_event *event)
{
    struct fleet_seq *q = &fleet->seqs[event->seq];
    if (q->state == FLEET_ASSIGNED || !fleet->devices[event->device].up)
        return;
    if (q->state == FLEET_WAITING)
        fleet_wait_end(fleet, event->seq);
    else
        seq_new(fleet, event);
    fleet_attach(fleet, event->seq, event->device);
}

static void end(struct br_fleet *fleet, double now_s, uint32_t seq)
{
    struct fleet_seq *q = &fleet->seqs[seq];
    if (q->state == FLEET_FREE)
        return;
    if (q->state == FLEET_WAITING)
        fleet_wait_end(fleet, seq);
    else
        fleet_detach(fleet, seq);
    fleet->n_unfinished--;
    if (fleet->last_end_s >= 0)
        fleet->end_gap_s += 0.1 * (now_s - fleet->last_end_s - fleet->end_gap_s);
    fleet->last_end_s = now_s;
}

void br_fleet_step(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                   struct br_fleet_actions *actions)
{
    assert(event->device < fleet->config.max_devices && event->model < fleet->config.max_models &&
           event->seq < fleet->config.max_seqs);
    actions->n = 0;
    switch (event->kind) {
    case BR_FLEET_DEVICE_UP:
        device_up(fleet, event->device);
        break;
    case BR_FLEET_DEVICE_DOWN:
        device_down(fleet, event->device);
        break;
    case BR_FLEET_DEVICE_DRAIN:
        device_drain(fleet, event->device);
        break;
    case BR_FLEET_MODEL_ON:
        model_on(fleet, event);
        break;
    case BR_FLEET_MODEL_OFF:
        model_off(fleet, event->device, event->model);
        break;
    case BR_FLEET_ARRIVE:
        arrive(fleet, event, actions);
        break;
    case BR_FLEET_RECOVER:
        recover(fleet, event);
        break;
    case BR_FLEET_ADOPT:
        adopt(fleet, event);
        break;
    case BR_FLEET_END:
        end(fleet, now_s, event->seq);
        break;
    case BR_FLEET_TICK:
        break;
    }
    fleet_dispatch(fleet, actions);
}

bool br_fleet_admits(const struct br_fleet *fleet, uint32_t n_seqs)
{
    return fleet->n_unfinished < fleet->config.max_unfinished &&
           n_seqs <= fleet->config.max_unfinished - fleet->n_unfinished;
}

uint32_t br_fleet_waiting(const struct br_fleet *fleet)
{
    return fleet->n_waiting;
}

int32_t br_fleet_device_of(const struct br_fleet *fleet, uint32_t seq)
{
    return fleet->seqs[seq].state == FLEET_ASSIGNED ? (int32_t)fleet->seqs[seq].device : -1;
}
