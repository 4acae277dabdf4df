/* KV between device and host. A copy out begins after the steps that wrote the blocks (no step of the sequence runs)
 * and blocks are handed out again only after the swap that reads them is reported done. */
#include <assert.h>

#include "worker/turn/internal.h"

static enum br_dev_kv kv_state(enum br_kv_where where)
{
    switch (where) {
    case BR_KV_EMPTY:
        return BR_DEV_KV_NONE;
    case BR_KV_DEVICE:
        return BR_DEV_KV_ON_DEVICE;
    case BR_KV_HOST:
    case BR_KV_DISK:
        return BR_DEV_KV_ON_HOST;
    case BR_KV_GOING_OUT:
    case BR_KV_COMING_IN:
    case BR_KV_GOING_TO_DISK:
    case BR_KV_COMING_FROM_DISK:
        break;
    }
    return BR_DEV_KV_MOVING;
}

void turn_kv_where(struct br_turn *t, uint32_t index)
{
    enum br_dev_kv kv = kv_state(br_kv_where(t->kv, t->seqs[index].kv));
    turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_KV, .slot = t->seqs[index].slot, .seq = index, .kv = kv});
}

/* Enqueues the copies; the books have moved the sequence to GOING_OUT or COMING_IN. */
static void swap_start(struct br_turn *t, uint32_t index, const struct br_kv_swap *swap, bool out)
{
    struct turn_swap *w = &t->swaps[t->n_swaps++];
    struct br_stream *stream = out ? t->kv_out : t->kv_in;
    w->bytes = 0;
    for (uint32_t i = 0; i < swap->n_copies; i++) {
        const struct br_kv_copy *c = &swap->copies[i];
        void *device = (void *)(uintptr_t)(t->kv_base + c->device), *host = t->host_kv + c->host;
        t->dev->ops->copy(stream, out ? BR_COPY_D2H : BR_COPY_H2D, out ? host : device, out ? device : host, c->bytes);
        w->bytes += c->bytes;
    }
    t->dev->ops->event_record(w->done, stream);
    w->ticket = swap->ticket;
    w->seq = t->seqs[index].id;
    w->index = index;
    w->out = out;
    t->seqs[index].n_blocks = 0;
    *(out ? &t->stats.kv_out_bytes : &t->stats.kv_in_bytes) += w->bytes;
    *(out ? &t->stats.swaps_out : &t->stats.swaps_in) += 1;
    turn_kv_where(t, index);
}

bool turn_swap_out(struct br_turn *t, uint32_t index)
{
    struct turn_seq *s = &t->seqs[index];
    struct br_kv_swap swap;
    struct br_err err;
    assert(!s->in_step);
    if (br_kv_where(t->kv, s->kv) != BR_KV_DEVICE || t->n_swaps == TURN_MAX_SWAPS ||
        br_kv_swap_out(t->kv, s->kv, &swap, &err))
        return false;
    swap_start(t, index, &swap, true);
    return true;
}

void turn_swap_in(struct br_turn *t, uint32_t index)
{
    struct turn_seq *s = &t->seqs[index];
    struct br_kv_swap swap;
    struct br_err err;
    uint64_t blocks;
    if (!s->id || br_kv_where(t->kv, s->kv) != BR_KV_HOST || t->n_swaps == TURN_MAX_SWAPS)
        return;
    blocks = br_kv_blocks(t->kv, s->kv);
    while (br_kv_device_blocks_free(t->kv, t->models[s->slot].kv_shape) < blocks)
        if (turn_kv_room(t, index, index, blocks) != KV_ROOM_MADE)
            return; /* the core asks again */
    if (t->n_swaps < TURN_MAX_SWAPS && br_kv_swap_in(t->kv, s->kv, &swap, &err) == 0)
        swap_start(t, index, &swap, false);
}

/* Only into free room, and not the last of it: the sequences of the running step take a block now and then. */
void turn_swap_in_ahead(struct br_turn *t, uint32_t index)
{
    const struct turn_seq *s = &t->seqs[index];
    struct br_kv_swap swap;
    struct br_err err;
    if (!s->id || br_kv_where(t->kv, s->kv) != BR_KV_HOST || t->n_swaps == TURN_MAX_SWAPS)
        return;
    if (br_kv_device_blocks_free(t->kv, t->models[s->slot].kv_shape) < br_kv_blocks(t->kv, s->kv) + 2 * t->step.n)
        return;
    if (br_kv_swap_in(t->kv, s->kv, &swap, &err) == 0) {
        swap_start(t, index, &swap, false);
        t->stats.swaps_ahead++;
    }
}

void turn_kv_drop(struct br_turn *t, uint32_t index)
{
    struct turn_seq *s = &t->seqs[index];
    assert(!s->in_step);
    br_kv_drop(t->kv, s->kv);
    s->n_blocks = s->n_kv = 0;
    t->stats.drops++;
    turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_SEQ_RESET, .slot = s->slot, .seq = index, .tokens = s->n_ids});
    turn_kv_where(t, index);
}

static uint64_t bytes_going_out(const struct br_turn *t)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->n_swaps; i++)
        bytes += t->swaps[i].out ? t->swaps[i].bytes : 0;
    return bytes;
}

/* A victim that is an item of the step being built leaves it; one of a running step cannot be touched. */
static bool victim_release(struct br_turn *t, uint32_t victim)
{
    if (!t->seqs[victim].in_step)
        return true;
    if (t->step.on)
        return false;
    for (uint32_t i = 0; i < t->step.n; i++)
        if (t->step.seq[i] == victim)
            t->step.dropped[i] = true;
    t->seqs[victim].in_step = false;
    return true;
}

/* Of its own slot a sequence takes from those that came later; the step's oldest from any. */
static bool may_take(const struct br_turn *t, uint32_t index, uint32_t keep, uint32_t victim)
{
    const struct turn_seq *s = &t->seqs[index], *v = &t->seqs[victim];
    return victim != index && (v->slot != s->slot || index == keep || v->arrival_ns > s->arrival_ns);
}

enum kv_room turn_kv_room(struct br_turn *t, uint32_t index, uint32_t keep, uint64_t blocks)
{
    struct turn_seq *s = &t->seqs[index];
    uint64_t bytes = blocks * t->models[s->slot].info.kv_block_bytes;
    int32_t victim;
    if (bytes_going_out(t) >= bytes)
        return KV_ROOM_COMING;
    victim = br_dev_kv_victim(t->core, s->slot, keep);
    if (victim < 0 || !may_take(t, index, keep, (uint32_t)victim) ||
        br_kv_where(t->kv, t->seqs[victim].kv) != BR_KV_DEVICE || !victim_release(t, (uint32_t)victim))
        return KV_ROOM_REFUSED;
    if (turn_swap_out(t, (uint32_t)victim))
        return bytes_going_out(t) >= bytes ? KV_ROOM_COMING : KV_ROOM_MADE;
    if (t->n_swaps == TURN_MAX_SWAPS)
        return KV_ROOM_COMING;
    turn_kv_drop(t, (uint32_t)victim);
    return KV_ROOM_MADE;
}

static void swap_finish(struct br_turn *t, uint32_t i)
{
    struct turn_swap w = t->swaps[i];
    t->swaps[i] = t->swaps[--t->n_swaps];
    t->swaps[t->n_swaps] = w; /* its event goes back to the pool */
    br_kv_swap_done(t->kv, w.ticket);
    if (t->seqs[w.index].id == w.seq)
        turn_kv_where(t, w.index);
}

void turn_poll_swaps(struct br_turn *t)
{
    for (uint32_t i = t->n_swaps; i-- > 0;)
        if (t->dev->ops->event_done(t->swaps[i].done))
            swap_finish(t, i);
}

void turn_block_table(struct br_turn *t, struct turn_seq *s)
{
    uint32_t n = br_kv_blocks(t->kv, s->kv);
    for (uint32_t i = s->n_blocks; i < n; i++)
        s->blocks[i] = t->kv_base + br_kv_block_offset(t->kv, s->kv, i);
    s->n_blocks = n;
}
