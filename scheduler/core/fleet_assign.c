/* Who waits, and where the oldest one goes. */
#include <assert.h>

#include "scheduler/core/fleet_books.h"

/* A model is ready while sequences of it wait and a device serves it; its place is that of its oldest sequence. */
static void model_relist(struct br_fleet *fleet, uint32_t model)
{
    struct fleet_model *m = &fleet->models[model];
    int32_t oldest = ordered_first(&m->waiting, fleet->seq_nodes);
    if (m->listed)
        ordered_remove(&fleet->ready, fleet->model_nodes, (int32_t)model);
    m->listed = oldest >= 0 && m->n_serving > 0;
    if (m->listed)
        ordered_add(&fleet->ready, fleet->model_nodes, (int32_t)model, fleet->seq_nodes[oldest].key);
}

void fleet_wait(struct br_fleet *fleet, uint32_t seq)
{
    struct fleet_seq *q = &fleet->seqs[seq];
    q->state = FLEET_WAITING;
    ordered_add(&fleet->models[q->model].waiting, fleet->seq_nodes, (int32_t)seq, (struct ordered_key){0, q->serial});
    fleet->n_waiting++;
    model_relist(fleet, q->model);
}

void fleet_wait_end(struct br_fleet *fleet, uint32_t seq)
{
    struct fleet_seq *q = &fleet->seqs[seq];
    assert(q->state == FLEET_WAITING);
    ordered_remove(&fleet->models[q->model].waiting, fleet->seq_nodes, (int32_t)seq);
    fleet->n_waiting--;
    q->state = FLEET_FREE;
    model_relist(fleet, q->model);
}

void fleet_serve(struct br_fleet *fleet, uint32_t model, int change)
{
    fleet->models[model].n_serving += change;
    model_relist(fleet, model);
}

static void count(struct br_fleet *fleet, uint32_t seq, uint32_t device, int change)
{
    struct fleet_seq *q = &fleet->seqs[seq];
    struct fleet_device *d = &fleet->devices[device];
    struct fleet_place *p = fleet_place(fleet, device, q->model);
    d->load -= fleet_share(p);
    p->n_seqs += change;
    d->load += fleet_share(p);
    d->n_seqs += change;
    if (change > 0)
        d->tokens += q->tokens;
    else
        d->tokens -= q->tokens;
}

void fleet_attach(struct br_fleet *fleet, uint32_t seq, uint32_t device)
{
    struct fleet_seq *q = &fleet->seqs[seq];
    struct fleet_device *d = &fleet->devices[device];
    assert(q->state == FLEET_FREE);
    q->state = FLEET_ASSIGNED;
    q->device = device;
    q->prev = -1;
    q->next = d->first;
    if (d->first >= 0)
        fleet->seqs[d->first].prev = (int32_t)seq;
    d->first = (int32_t)seq;
    count(fleet, seq, device, 1);
    fleet->models[q->model].last_device = (int32_t)device;
}

void fleet_detach(struct br_fleet *fleet, uint32_t seq)
{
    struct fleet_seq *q = &fleet->seqs[seq];
    assert(q->state == FLEET_ASSIGNED);
    if (q->next >= 0)
        fleet->seqs[q->next].prev = q->prev;
    if (q->prev >= 0)
        fleet->seqs[q->prev].next = q->next;
    else
        fleet->devices[q->device].first = q->next;
    count(fleet, seq, q->device, -1);
    q->state = FLEET_FREE;
}

/* Where the model runs now beats all else: a second copy splits its batch. Then the load, with a bonus of 0.3 where
 * its weights may still be; then the tokens still to do. */
struct score {
    bool active;
    int64_t load;
    uint64_t tokens;
};

static bool better(struct score a, struct score b)
{
    if (a.active != b.active)
        return a.active;
    return a.load != b.load ? a.load < b.load : a.tokens < b.tokens;
}

static int32_t choose(const struct br_fleet *fleet, uint32_t model)
{
    struct score best = {0};
    int32_t device = -1;
    for (uint32_t i = 0; i < fleet->config.max_devices; i++) {
        const struct fleet_device *d = &fleet->devices[i];
        const struct fleet_place *p = fleet_place(fleet, i, model);
        struct score score = {p->n_seqs > 0, d->load, d->tokens};
        if (!fleet_takes(d) || !p->on)
            continue;
        if (fleet->models[model].last_device == (int32_t)i)
            score.load -= FLEET_LOAD_ONE * 3 / 10;
        if (device < 0 || better(score, best)) {
            best = score;
            device = (int32_t)i;
        }
    }
    return device;
}

void fleet_dispatch(struct br_fleet *fleet, struct br_fleet_actions *actions)
{
    while (fleet->ready.n && actions->n < BR_FLEET_MAX_ACTIONS) {
        uint32_t model = (uint32_t)ordered_first(&fleet->ready, fleet->model_nodes);
        uint32_t seq = (uint32_t)ordered_first(&fleet->models[model].waiting, fleet->seq_nodes);
        int32_t device = choose(fleet, model);
        assert(device >= 0);
        fleet_wait_end(fleet, seq);
        fleet_attach(fleet, seq, (uint32_t)device);
        actions->actions[actions->n++] =
            (struct br_fleet_action){.kind = BR_FLEET_ASSIGN, .seq = seq, .device = (uint32_t)device};
    }
    actions->more = fleet->ready.n > 0;
}
