/* Algorithm 1: a queue of groups a device; one request at a time from the front group. */
#include "scheduler/core/policies/aegaeon.h"

static double job_s(const struct br_pool *pool, uint32_t device, uint32_t seq)
{
    return pl_prefill_s(pool, device, pool->seqs[seq].model, pool->seqs[seq].left);
}

/* The first group of the model with room, over all prefill devices. */
static int32_t group_find(const struct br_pool *pool, uint32_t model, uint32_t *device)
{
    const struct aeg *a = pool->state;
    for (*device = 0; *device < a->n_prefill; ++*device)
        for (int32_t g = a->devices[*device].first; g >= 0; g = a->groups[g].next)
            if (a->groups[g].model == model && a->groups[g].size < AEG_GROUP && pl_takes(pool, *device, model))
                return g;
    return -1;
}

/* -1: no device that prefills takes the model. */
static int32_t least_loaded(const struct br_pool *pool, uint32_t model)
{
    const struct aeg *a = pool->state;
    int32_t best = -1;
    for (uint32_t i = 0; i < a->n_prefill; i++)
        if (pl_takes(pool, i, model) && (best < 0 || a->devices[i].load_s < a->devices[best].load_s))
            best = (int32_t)i;
    return best;
}

static int32_t group_open(struct br_pool *pool, uint32_t model, uint32_t device)
{
    struct aeg *a = pool->state;
    struct aeg_device *d = &a->devices[device];
    int32_t g = a->free_groups;
    a->free_groups = a->groups[g].next;
    a->groups[g] = (struct aeg_group){.model = model, .next = -1};
    *(d->last >= 0 ? &a->groups[d->last].next : &d->first) = g;
    d->last = g;
    d->load_s += aeg_scale_s(pool, device, model);
    return g;
}

void aeg_prefill_arrive(struct br_pool *pool, uint32_t seq)
{
    struct aeg *a = pool->state;
    uint32_t device, model = pool->seqs[seq].model;
    int32_t g = group_find(pool, model, &device);
    if (g < 0) {
        int32_t least = least_loaded(pool, model);
        if (least < 0)
            return;
        device = (uint32_t)least;
        g = group_open(pool, model, device);
    }
    a->groups[g].size++;
    a->groups[g].pending++;
    a->group_of[seq] = g;
    a->devices[device].load_s += job_s(pool, device, seq);
    pl_assign(pool, seq, pl_slot(pool, device, model));
}

static void job_leave(struct br_pool *pool, uint32_t device, uint32_t seq)
{
    struct aeg *a = pool->state;
    a->groups[a->group_of[seq]].pending--;
    a->group_of[seq] = -1;
    a->devices[device].load_s -= job_s(pool, device, seq);
}

void aeg_prefill_gone(struct br_pool *pool, uint32_t seq)
{
    if (((struct aeg *)pool->state)->group_of[seq] >= 0)
        job_leave(pool, pool->slots[pool->seqs[seq].slot].device, seq);
}

/* The front group with jobs; -1: none. */
static int32_t front(struct br_pool *pool, uint32_t device)
{
    struct aeg *a = pool->state;
    struct aeg_device *d = &a->devices[device];
    while (d->first >= 0 && a->groups[d->first].pending == 0) {
        int32_t g = d->first;
        d->first = a->groups[g].next;
        d->last = d->first < 0 ? -1 : d->last;
        d->load_s = d->first < 0 ? 0 : d->load_s - aeg_scale_s(pool, device, a->groups[g].model);
        a->groups[g].next = a->free_groups;
        a->free_groups = g;
    }
    return d->first;
}

/* The group's oldest job: groups of a model are in order, so it is the slot's oldest of this group. */
static uint32_t job_of(const struct br_pool *pool, uint32_t device, int32_t g)
{
    const struct aeg *a = pool->state;
    int32_t i = pl_slot(pool, device, a->groups[g].model)->wait.first;
    while (a->group_of[i] != g)
        i = pool->seqs[i].next;
    return (uint32_t)i;
}

static void job_begin(struct br_pool *pool, uint32_t seq)
{
    struct br_pl_slot *s = &pool->slots[pool->seqs[seq].slot];
    struct br_pl_running *step = &pool->devices[s->device].step;
    int64_t growth = pool->seqs[seq].left * pl_model(pool, s)->kv_token_bytes;
    struct br_pl_device *d = &pool->devices[s->device];
    for (uint32_t i = d->n_held; i-- > 0 && growth > pl_free(d);)
        if (&pool->slots[d->held[i]] != s) /* the prefetched model makes room */
            pl_evict(pool, &pool->slots[d->held[i]], growth - pl_free(d));
    if (growth > pl_free(d)) {
        if (d->link.slot < 0)
            pl_end(pool, seq, BR_PL_REFUSE);
        return;
    }
    job_leave(pool, s->device, seq);
    pl_admit(pool, seq);
    step->n = 1;
    step->decodes = 0;
    step->prefill = pool->seqs[seq].left;
    step->items[0] = (struct br_pl_item){.seq = seq, .rows = step->prefill, .emits = true};
    pl_begin(pool, s, false);
}

void aeg_prefill_pick(struct br_pool *pool, double now_s, uint32_t device)
{
    struct aeg *a = pool->state;
    int32_t g = front(pool, device);
    for (; pool->options.shed && g >= 0; g = a->groups[g].next)
        pl_shed(pool, now_s, &pl_slot(pool, device, a->groups[g].model)->wait);
    if ((g = front(pool, device)) < 0)
        return;
    struct br_pl_slot *s = pl_slot(pool, device, a->groups[g].model);
    if (pl_miss(pool, s) == 0)
        job_begin(pool, job_of(pool, device, g));
}

/* The front's model, then that of the first group with another one, beside it. */
void aeg_prefill_load(struct br_pool *pool, uint32_t device)
{
    struct aeg *a = pool->state;
    int32_t g = front(pool, device), running = pool->devices[device].step.slot;
    struct br_pl_slot *stepping = running >= 0 ? &pool->slots[running] : NULL;
    for (struct br_pl_slot *first = stepping; g >= 0; g = a->groups[g].next) {
        struct br_pl_slot *s = pl_slot(pool, device, a->groups[g].model);
        if (s == first || (a->groups[g].pending == 0))
            continue;
        if (first && pl_miss(pool, first) == 0) {
            if (pl_miss(pool, s) > 0 && aeg_prefetches(pool, first, s))
                aeg_load(pool, s, first);
            return;
        }
        if (pl_miss(pool, s) > 0) {
            aeg_load(pool, s, stepping);
            return;
        }
        first = s;
    }
}
