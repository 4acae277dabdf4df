/* Events to the pool, its actions to the caller. */
#include "scheduler/core/fleet.h"

#include <assert.h>

#include "scheduler/core/fleet_books.h"

static const int64_t ENDLESS_BYTES = (int64_t)1 << 60;
static const double ENDLESS_BYTES_PER_S = 1e15;

/* ---- what the pool did ---- */

static void say(struct br_fleet_actions *actions, enum br_fleet_action_kind kind, uint32_t seq, uint32_t device,
                int32_t from)
{
    assert(actions->n < BR_FLEET_MAX_ACTIONS);
    actions->actions[actions->n++] =
        (struct br_fleet_action){.kind = kind, .seq = seq, .device = device, .from = from < 0 ? 0 : (uint32_t)from};
}

static void seq_place(struct br_fleet *fleet, uint32_t seq, int32_t device)
{
    struct fleet_seq *q = &fleet->seqs[seq];
    fleet_pace_count(fleet, q->device, fleet->now_s, -1);
    fleet_pace_count(fleet, device, fleet->now_s, 1);
    fleet->n_waiting += (device < 0) - (q->device < 0);
    q->device = device;
}

static void seq_forget(struct br_fleet *fleet, uint32_t seq)
{
    fleet_pace_end(fleet, fleet->now_s, seq);
    fleet_pace_count(fleet, fleet->seqs[seq].device, fleet->now_s, -1);
    fleet->n_waiting -= fleet->seqs[seq].device < 0;
    fleet->n_unfinished--;
    fleet->seqs[seq] = (struct fleet_seq){.device = -1};
}

static void assigned(struct br_fleet *fleet, uint32_t seq, uint32_t device, struct br_fleet_actions *actions)
{
    int32_t from = fleet->seqs[seq].device;
    if (from == (int32_t)device)
        return;
    seq_place(fleet, seq, (int32_t)device);
    say(actions, from < 0 ? BR_FLEET_ASSIGN : BR_FLEET_MOVE, seq, device, from);
}

static void unassigned(struct br_fleet *fleet, uint32_t seq, struct br_fleet_actions *actions)
{
    int32_t from = fleet->seqs[seq].device;
    if (from < 0)
        return;
    seq_place(fleet, seq, -1);
    say(actions, BR_FLEET_UNASSIGN, seq, 0, from);
}

static void tell(struct br_fleet *fleet, double now_s, const struct br_pl_event *event,
                 struct br_fleet_actions *actions)
{
    br_pl_tell(fleet->pool, now_s, event, fleet->did);
    actions->more |= fleet->did->more;
    for (uint32_t i = 0; i < fleet->did->n; i++) {
        const struct br_pl_action *a = &fleet->did->list[i];
        if (a->kind == BR_PL_ASSIGN)
            assigned(fleet, a->seq, a->device, actions);
        else if (a->kind == BR_PL_UNASSIGN)
            unassigned(fleet, a->seq, actions);
        else if (a->kind == BR_PL_REFUSE || a->kind == BR_PL_DROP || a->kind == BR_PL_GONE) {
            say(actions, BR_FLEET_FAIL, a->seq, 0, fleet->seqs[a->seq].device);
            seq_forget(fleet, a->seq);
        }
    }
}

static void tell_kind(struct br_fleet *fleet, double now_s, enum br_pl_event_kind kind,
                      const struct br_fleet_event *event, struct br_fleet_actions *actions)
{
    tell(fleet, now_s,
         &(struct br_pl_event){.kind = kind, .device = event->device, .model = event->model, .seq = event->seq},
         actions);
}

/* ---- devices and models ---- */

static void unserve(struct br_fleet *fleet, double now_s, uint32_t device, uint32_t model,
                    struct br_fleet_actions *actions)
{
    if (!fleet->pool->slots[(size_t)device * fleet->pool->n_models + model].barred)
        tell(fleet, now_s, &(struct br_pl_event){.kind = BR_PL_UNSERVE, .device = device, .model = model}, actions);
}

static void device_up(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                      struct br_fleet_actions *actions)
{
    struct br_pl_hardware hw = {
        .memory_bytes = event->memory_bytes > 0 ? event->memory_bytes : ENDLESS_BYTES,
        .link_bytes_per_s = event->link_bytes_per_s > 0 ? event->link_bytes_per_s : ENDLESS_BYTES_PER_S,
        .node = fleet->config.max_nodes ? event->node : 0,
    };
    struct br_err err;
    if (!fleet->pool->devices[event->device].up) {
        for (uint32_t m = 0; m < fleet->config.max_models; m++) /* the pool remembers what it served before */
            unserve(fleet, now_s, event->device, m, actions);
        if (br_pl_hardware_set(fleet->pool, event->device, &hw, &err))
            return;
    }
    tell_kind(fleet, now_s, BR_PL_DEVICE_UP, event, actions);
}

static void list_waits(struct br_fleet *fleet, const struct br_pl_list *list)
{
    for (int32_t i = list->first; i >= 0; i = fleet->pool->seqs[i].next)
        seq_place(fleet, (uint32_t)i, -1);
}

/* Its sequences wait from now on, also those that have to be placed by later calls: none of them is moved from it. */
static void device_down(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                        struct br_fleet_actions *actions)
{
    const struct br_pl_device *d = &fleet->pool->devices[event->device];
    for (uint32_t i = 0; i < d->n_held; i++) {
        list_waits(fleet, &fleet->pool->slots[d->held[i]].run);
        list_waits(fleet, &fleet->pool->slots[d->held[i]].wait);
    }
    tell_kind(fleet, now_s, BR_PL_DEVICE_DOWN, event, actions);
}

static void model_on(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                     struct br_fleet_actions *actions)
{
    if (!fleet->pool->devices[event->device].up)
        return;
    for (uint32_t d = 0; fleet->models[event->model].is.weights_bytes == 0 && d < fleet->config.max_devices; d++)
        unserve(fleet, now_s, d, event->model, actions); /* another model may have had this number */
    fleet_model_sizes(fleet, event);
    tell_kind(fleet, now_s, BR_PL_SERVE, event, actions);
}

static void resident(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                     struct br_fleet_actions *actions)
{
    if (!fleet->pool->devices[event->device].up || fleet->models[event->model].is.weights_bytes == 0)
        return;
    if (event->shape.fixed_s + event->shape.read_s > 0)
        br_step_cost_init(fleet_cost(fleet, event->device, event->model), &event->shape);
    tell(fleet, now_s,
         &(struct br_pl_event){.kind = BR_PL_RESIDENT,
                               .device = event->device,
                               .model = event->model,
                               .bytes = event->bytes,
                               .runs = event->running},
         actions);
}

/* ---- sequences ---- */

static struct br_pl_event arrival_of(const struct br_fleet_event *e)
{
    return (struct br_pl_event){.kind = BR_PL_ARRIVE,
                                .seq = e->seq,
                                .model = e->model,
                                .prompt = e->prompt ? e->prompt : 1,
                                .delivered = e->delivered,
                                .age_s = e->age_s,
                                .ttft_s = e->ttft_s,
                                .tbt_s = e->tbt_s,
                                .weight = e->weight};
}

static void seq_known(struct br_fleet *fleet, const struct br_fleet_event *event)
{
    fleet->seqs[event->seq] = (struct fleet_seq){
        .known = true, .model = event->model, .device = -1, .delivered = event->delivered, .most = event->most};
    fleet->n_unfinished++;
    fleet->n_waiting++;
}

static void arrive(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                   struct br_fleet_actions *actions)
{
    struct br_pl_event arrival = arrival_of(event);
    if (fleet->seqs[event->seq].known)
        return;
    if (event->kind == BR_FLEET_ARRIVE)
        fleet_rate_arrival(&fleet->models[event->model].rate, now_s);
    seq_known(fleet, event);
    tell(fleet, now_s, &arrival, actions);
}

/* One assigned to another device meanwhile stays there: the newer lease wins. */
static void adopt(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                  struct br_fleet_actions *actions)
{
    struct fleet_seq *q = &fleet->seqs[event->seq];
    struct br_pl_event arrival = arrival_of(event);
    if (q->device >= 0 || !fleet->pool->devices[event->device].up)
        return;
    if (q->known) {
        arrival.model = q->model;
        tell_kind(fleet, now_s, BR_PL_END, event, actions);
    } else
        seq_known(fleet, event);
    arrival.placed = true;
    arrival.device = event->device;
    seq_place(fleet, event->seq, (int32_t)event->device);
    tell(fleet, now_s, &arrival, actions);
    if (q->known && br_pl_device_of(fleet->pool, event->seq) < 0)
        unassigned(fleet, event->seq, actions); /* the device does not serve its model */
}

static void end(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                struct br_fleet_actions *actions)
{
    if (!fleet->seqs[event->seq].known)
        return;
    seq_forget(fleet, event->seq);
    fleet_count_end(fleet, now_s);
    tell_kind(fleet, now_s, BR_PL_END, event, actions);
}

static void tokens(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                   struct br_fleet_actions *actions)
{
    fleet_pace_tokens(fleet, now_s, event->seq, event->delivered);
    if (fleet->seqs[event->seq].device >= 0)
        tell(fleet, now_s,
             &(struct br_pl_event){.kind = BR_PL_PROGRESS, .seq = event->seq, .delivered = event->delivered}, actions);
}

static void seq_event(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                      struct br_fleet_actions *actions)
{
    if (event->kind == BR_FLEET_ARRIVE || event->kind == BR_FLEET_RECOVER)
        arrive(fleet, now_s, event, actions);
    else if (event->kind == BR_FLEET_ADOPT)
        adopt(fleet, now_s, event, actions);
    else if (event->kind == BR_FLEET_END)
        end(fleet, now_s, event, actions);
    else if (!fleet->seqs[event->seq].known)
        return;
    else if (event->kind == BR_FLEET_TOKENS)
        tokens(fleet, now_s, event, actions);
    else if (event->kind == BR_FLEET_PAUSE)
        tell_kind(fleet, now_s, BR_PL_PAUSE, event, actions);
    else if (event->kind == BR_FLEET_RESUME)
        tell_kind(fleet, now_s, BR_PL_RESUME, event, actions);
}

static void place_event(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                        struct br_fleet_actions *actions)
{
    switch (event->kind) {
    case BR_FLEET_DEVICE_UP:
        device_up(fleet, now_s, event, actions);
        break;
    case BR_FLEET_DEVICE_DOWN:
        device_down(fleet, now_s, event, actions);
        break;
    case BR_FLEET_DEVICE_DRAIN:
        tell_kind(fleet, now_s, BR_PL_DEVICE_DRAIN, event, actions);
        break;
    case BR_FLEET_MODEL_SET:
        fleet_model_set(fleet, event);
        break;
    case BR_FLEET_MODEL_ON:
        model_on(fleet, now_s, event, actions);
        break;
    case BR_FLEET_MODEL_OFF:
        tell_kind(fleet, now_s, BR_PL_UNSERVE, event, actions);
        break;
    case BR_FLEET_MODEL_GONE:
        fleet->models[event->model].is.weights_bytes = fleet->models[event->model].is.kv_token_bytes = 0;
        fleet->models[event->model].rate = (struct fleet_rate){0};
        fleet->models[event->model].length = 0;
        tell_kind(fleet, now_s, BR_PL_MODEL_GONE, event, actions);
        break;
    case BR_FLEET_LINK:
        br_pl_link_set(fleet->pool, event->device, event->link_bytes_per_s);
        break;
    case BR_FLEET_RESIDENT:
        resident(fleet, now_s, event, actions);
        break;
    default: /* BR_FLEET_TICK */
        fleet_rates_tell(fleet, now_s);
        tell_kind(fleet, now_s, BR_PL_TICK, event, actions);
        break;
    }
}

static bool of_sequence(enum br_fleet_event_kind kind)
{
    return kind == BR_FLEET_ARRIVE || kind == BR_FLEET_RECOVER || kind == BR_FLEET_ADOPT || kind == BR_FLEET_TOKENS ||
           kind == BR_FLEET_PAUSE || kind == BR_FLEET_RESUME || kind == BR_FLEET_END;
}

void br_fleet_step(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                   struct br_fleet_actions *actions)
{
    assert(event->device < fleet->config.max_devices && event->model < fleet->config.max_models &&
           event->seq < fleet->config.max_seqs);
    actions->n = 0;
    actions->more = false;
    fleet->now_s = now_s;
    if (of_sequence(event->kind))
        seq_event(fleet, now_s, event, actions);
    else
        place_event(fleet, now_s, event, actions);
}

uint32_t br_fleet_waiting(const struct br_fleet *fleet)
{
    return fleet->n_waiting;
}

int32_t br_fleet_device_of(const struct br_fleet *fleet, uint32_t seq)
{
    return fleet->seqs[seq].device;
}

double br_fleet_utilisation(struct br_fleet *fleet, uint32_t device)
{
    return br_pl_util(fleet->pool, device);
}
