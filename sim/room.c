/* A virtual device's memory by the books of kvcache: what the policy grants and the books cannot give (blocks that are
 * rounded up, holes) goes as in worker/turn: KV is moved together, weights of the slot that is needed latest make way,
 * what then finds no room does not run or come, and the policy is told so. */
#include <assert.h>

#include "base/buf.h"
#include "sim/world.h"

void room_tell_later(struct sim *s, struct br_pl_event event)
{
    if (s->n_later == s->cap_later) {
        s->cap_later = s->cap_later ? 2 * s->cap_later : 64;
        s->later = br_realloc(s->later, s->cap_later * sizeof *s->later);
    }
    s->later[s->n_later++] = event;
}

double room_wait_s(const struct sim *s, uint32_t device, int64_t bytes)
{
    const struct device_clock *clock = &s->clocks[device];
    double left = clock->out_end_s - s->now_s;
    if (!s->books || left <= 0)
        return 0;
    double leaving = left * s->pool->devices[device].hw.link_bytes_per_s;
    return (double)sim_books_free(s->books, device) - leaving >= (double)bytes ? 0 : left;
}

/* Of the slots that neither step, load nor are `but`: the one without sequences, or whose turn comes latest. */
static struct br_pl_slot *weights_victim(const struct sim *s, uint32_t device, int32_t but)
{
    const struct br_pl_device *d = &s->pool->devices[device];
    struct br_pl_slot *best = NULL;
    double latest = 0;
    for (uint32_t i = 0; i < d->n_held; i++) {
        int32_t index = (int32_t)d->held[i];
        struct br_pl_slot *slot = &s->pool->slots[index];
        if (index == but || index == d->step.slot || index == d->link.slot || slot->weights == 0 ||
            s->pool->models[slot->model].pinned)
            continue;
        double key = br_pl_slot_key(s->pool, s->now_s, device, slot->model);
        if (!best || key > latest) {
            best = slot;
            latest = key;
        }
    }
    return best;
}

/* The pool is told at once: its books are read before the next victim is looked for. */
static int64_t weights_push_out(struct sim *s, uint32_t device, int32_t but, int64_t bytes)
{
    struct br_pl_slot *victim = weights_victim(s, device, but);
    struct br_pl_actions ignored[1];
    if (!victim)
        return 0;
    bytes = bytes < victim->weights ? bytes : victim->weights;
    sim_books_evict(s->books, device, bytes);
    ignored->n = 0;
    br_pl_tell(s->pool, s->now_s,
               &(struct br_pl_event){
                   .kind = BR_PL_RESIDENT, .device = device, .model = victim->model, .bytes = victim->weights - bytes},
               ignored);
    assert(ignored->n == 0);
    return bytes;
}

static bool extend(struct sim *s, uint32_t device, uint32_t seq, int32_t slot, uint32_t tokens)
{
    uint32_t model = s->pool->slots[slot].model;
    while (!sim_books_extend(s->books, device, model, seq, tokens)) {
        int64_t lacking = sim_books_lacking(s->books, device, model, seq, tokens);
        if (lacking <= 0 || weights_push_out(s, device, slot, lacking) == 0)
            return false;
    }
    return true;
}

bool room_step(struct sim *s, uint32_t device)
{
    const struct br_pl_running *step = &s->pool->devices[device].step;
    struct device_clock *clock = &s->clocks[device];
    if (!s->books)
        return true;
    clock->n_left_out = 0;
    for (uint32_t i = 0; i < step->n; i++) {
        const struct br_pl_seq *q = &s->pool->seqs[step->items[i].seq];
        clock->left_out[i] = !extend(s, device, step->items[i].seq, step->slot, q->kv);
        clock->n_left_out += clock->left_out[i];
    }
    s->out->left_out += clock->n_left_out;
    if (clock->n_left_out < step->n)
        return true;
    room_tell_later(s, (struct br_pl_event){.kind = BR_PL_STEP_END, .device = device});
    return false;
}

void room_load(struct sim *s, uint32_t device)
{
    struct br_pl_device *d = &s->pool->devices[device];
    s->clocks[device].load_granted = s->books ? sim_books_load(s->books, device, d->link.bytes) : d->link.bytes;
    s->out->short_loads += s->clocks[device].load_granted < d->link.bytes;
}

void room_coming_add(struct sim *s, uint32_t device, uint32_t seq)
{
    struct device_clock *clock = &s->clocks[device];
    assert(clock->n_coming < SIM_MOST_COMING);
    clock->coming[clock->n_coming++] = seq;
}

int64_t room_coming_begin(struct sim *s, uint32_t device)
{
    struct device_clock *clock = &s->clocks[device];
    int64_t bytes = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < clock->n_coming; i++) {
        uint32_t seq = clock->coming[i];
        const struct br_pl_seq *q = &s->pool->seqs[seq];
        if (!extend(s, device, seq, (int32_t)q->slot, q->kv)) {
            s->out->left_out++;
            room_tell_later(s, (struct br_pl_event){.kind = BR_PL_KV, .seq = seq});
            continue;
        }
        bytes += q->kv * s->pool->models[q->model].kv_token_bytes;
        clock->coming[n++] = seq;
    }
    clock->n_coming = n;
    return bytes;
}

void room_coming_done(struct sim *s, uint32_t device)
{
    struct device_clock *clock = &s->clocks[device];
    for (uint32_t i = 0; i < clock->n_coming; i++)
        room_tell_later(s, (struct br_pl_event){.kind = BR_PL_KV, .seq = clock->coming[i], .kv_here = true});
    clock->n_coming = 0;
}

void room_leaves(struct sim *s, uint32_t device, uint32_t seq)
{
    struct device_clock *clock = &s->clocks[device];
    const struct br_pl_seq *q = &s->pool->seqs[seq];
    if (!s->books)
        return;
    double bytes = (double)q->kv * (double)s->pool->models[q->model].kv_token_bytes;
    double from = clock->out_end_s > s->now_s ? clock->out_end_s : s->now_s;
    clock->out_end_s = from + bytes / s->pool->devices[device].hw.link_bytes_per_s;
    sim_books_drop(s->books, seq);
    room_tell_later(s, (struct br_pl_event){.kind = BR_PL_KV, .seq = seq});
}

void room_assigned(struct sim *s, uint32_t device, uint32_t seq)
{
    if (s->books && sim_books_device(s->books, seq) != (int32_t)device)
        sim_books_drop(s->books, seq);
}
