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

uint64_t turn_kv_bytes(const struct br_turn *t, uint32_t index)
{
    const struct turn_seq *s = &t->seqs[index];
    return br_kv_blocks(t->kv, s->kv) * t->models[s->slot].info.kv_block_bytes;
}

static void swap_copies(struct br_turn *t, const struct br_kv_swap *swap, struct turn_swap *w)
{
    struct br_stream *stream = w->out ? t->kv_out : t->kv_in;
    enum br_copy kind = w->out ? BR_COPY_D2H : BR_COPY_H2D;
    w->bytes = 0;
    if (!w->out)
        turn_room_settle(t, stream);
    for (uint32_t i = 0; i < swap->n_copies; i++) {
        const struct br_kv_copy *c = &swap->copies[i];
        void *device = (void *)(uintptr_t)(t->dev->memory + c->device), *host = t->host_kv + c->host;
        t->dev->ops->copy(stream, kind, w->out ? host : device, w->out ? device : host, c->bytes);
        w->bytes += c->bytes;
    }
    t->dev->ops->event_record(w->done, stream);
    turn_notify(t, stream);
}

/* The books have moved the sequence to GOING_OUT or COMING_IN. */
static void swap_start(struct br_turn *t, uint32_t index, const struct br_kv_swap *swap, bool out)
{
    struct turn_swap *w = &t->swaps[t->n_swaps++];
    w->out = out;
    w->ticket = swap->ticket;
    w->seq = t->seqs[index].id;
    w->index = index;
    w->slot = t->seqs[index].slot;
    w->from_ns = br_now_ns();
    w->room = out ? turn_kv_bytes(t, index) : 0;
    w->found = false;
    swap_copies(t, swap, w);
    t->seqs[index].n_blocks = 0;
    t->n_swaps_in += !out;
    turn_busy_begin(out ? &t->busy_kv_out : &t->busy_kv_in);
    *(out ? &t->stats.kv_out_bytes : &t->stats.kv_in_bytes) += w->bytes;
    *(out ? &t->stats.swaps_out : &t->stats.swaps_in) += 1;
    turn_kv_where(t, index);
}

static bool swap_out_start(struct br_turn *t, uint32_t index)
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

static void wants(struct br_turn *t, uint32_t index, bool in, bool out)
{
    struct turn_seq *s = &t->seqs[index];
    t->n_wants += (uint32_t)(in || out) - (uint32_t)(s->wants_in || s->wants_out);
    s->wants_in = in;
    s->wants_out = out;
}

/* Held back: to the core it is on its way. */
static void swap_hold(struct br_turn *t, uint32_t index, bool out)
{
    wants(t, index, !out, out);
    turn_tell(t, &(struct br_dev_event){
                     .kind = BR_DEV_KV, .slot = t->seqs[index].slot, .seq = index, .kv = BR_DEV_KV_MOVING});
}

/* The room is needed: what finds none on the host is computed again, if the policy has planned with it. */
void turn_swap_out(struct br_turn *t, uint32_t index)
{
    bool there = br_kv_where(t->kv, t->seqs[index].kv) == BR_KV_DEVICE && !t->seqs[index].in_step;
    wants(t, index, false, false);
    if (there && swap_out_start(t, index))
        return;
    if (!there || !t->plans_memory)
        turn_kv_where(t, index); /* it stays */
    else if (t->n_swaps == TURN_MAX_SWAPS || t->moving || turn_disk_room(t, turn_kv_bytes(t, index)))
        swap_hold(t, index, true);
    else
        turn_kv_drop(t, index);
}

static bool swap_in_possible(const struct br_turn *t, uint32_t index)
{
    const struct turn_seq *s = &t->seqs[index];
    return br_kv_where(t->kv, s->kv) == BR_KV_HOST && t->n_swaps < TURN_MAX_SWAPS;
}

static enum kv_room swap_in_room(struct br_turn *t, uint32_t index)
{
    struct turn_seq *s = &t->seqs[index];
    uint64_t blocks = br_kv_blocks(t->kv, s->kv);
    enum kv_room room;
    turn_room_meet(t);
    while (br_kv_device_blocks_free(t->kv, t->models[s->slot].kv_shape) < blocks)
        if ((room = turn_kv_room(t, index, index, blocks)) != KV_ROOM_MADE)
            return room;
    return KV_ROOM_MADE;
}

/* KV that is on disk, or on its way there, comes to the host first. */
static bool from_disk(struct br_turn *t, uint32_t index)
{
    enum br_kv_where where = br_kv_where(t->kv, t->seqs[index].kv);
    if (where != BR_KV_DISK && where != BR_KV_GOING_TO_DISK && where != BR_KV_COMING_FROM_DISK)
        return false;
    if (where == BR_KV_DISK && turn_disk_fetch(t, index, true) == KV_ROOM_REFUSED)
        turn_kv_drop(t, index);
    else
        swap_hold(t, index, false);
    return true;
}

/* A policy that plans memory has seen to the room, which is free once what goes out is gone; others ask again. */
void turn_swap_in(struct br_turn *t, uint32_t index)
{
    struct br_kv_swap swap;
    struct br_err err;
    enum kv_room room;
    bool waited = t->seqs[index].wants_in; /* to the core it moves */
    if (!t->seqs[index].id)
        return;
    wants(t, index, false, false);
    if (from_disk(t, index))
        return;
    if (!swap_in_possible(t, index)) {
        if (t->plans_memory || waited)
            turn_kv_where(t, index);
        return;
    }
    room = swap_in_room(t, index);
    if (room == KV_ROOM_MADE && t->n_swaps < TURN_MAX_SWAPS &&
        br_kv_swap_in(t->kv, t->seqs[index].kv, &swap, &err) == 0)
        swap_start(t, index, &swap, false);
    else if (t->plans_memory && room == KV_ROOM_COMING)
        swap_hold(t, index, false);
    else if (t->plans_memory || waited)
        turn_kv_where(t, index); /* it stays */
}

void turn_swaps_go(struct br_turn *t)
{
    for (uint32_t i = 0; t->n_wants && i < t->config.max_seqs; i++)
        if (t->seqs[i].wants_in)
            turn_swap_in(t, i);
        else if (t->seqs[i].wants_out)
            turn_swap_out(t, i);
}

/* Only into free room, and not the last of it: the sequences of the running step take a block now and then. */
void turn_swap_in_ahead(struct br_turn *t, uint32_t index)
{
    const struct turn_seq *s = &t->seqs[index];
    struct br_kv_swap swap;
    struct br_err err;
    if (s->id && br_kv_where(t->kv, s->kv) == BR_KV_DISK)
        turn_disk_fetch(t, index, false);
    if (!s->id || !swap_in_possible(t, index))
        return;
    turn_room_meet(t);
    if (br_kv_device_blocks_free(t->kv, t->models[s->slot].kv_shape) < br_kv_blocks(t->kv, s->kv) + 2 * t->step.n)
        return;
    if (br_kv_swap_in(t->kv, s->kv, &swap, &err) == 0) {
        swap_start(t, index, &swap, false);
        t->stats.swaps_ahead++;
    }
}

static void kv_gone(struct br_turn *t, uint32_t index)
{
    struct turn_seq *s = &t->seqs[index];
    wants(t, index, false, false);
    s->n_blocks = s->n_kv = s->n_known = s->n_handed = 0;
    t->stats.drops++;
    turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_SEQ_RESET, .slot = s->slot, .seq = index, .tokens = s->n_ids});
    turn_kv_where(t, index);
}

void turn_kv_drop(struct br_turn *t, uint32_t index)
{
    struct turn_seq *s = &t->seqs[index];
    enum br_kv_where where = br_kv_where(t->kv, s->kv);
    assert(!s->in_step);
    if (where != BR_KV_DEVICE && where != BR_KV_HOST && where != BR_KV_DISK) {
        turn_kv_where(t, index);
        return;
    }
    br_kv_drop(t->kv, s->kv);
    kv_gone(t, index);
}

void turn_kv_lost(struct br_turn *t, uint32_t index)
{
    br_kv_forget(t->kv, t->seqs[index].kv);
    kv_gone(t, index);
}

void turn_kv_forget(struct br_turn *t, uint32_t index)
{
    wants(t, index, false, false);
    if (t->seqs[index].kv != BR_KV_NONE)
        br_kv_close(t->kv, t->seqs[index].kv);
}

static uint64_t bytes_going_out(const struct br_turn *t)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->n_swaps; i++)
        bytes += t->swaps[i].room;
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
static bool may_take(const struct br_turn *t, uint32_t slot, int32_t index, uint32_t keep, uint32_t victim)
{
    const struct turn_seq *s = index < 0 ? NULL : &t->seqs[index], *v = &t->seqs[victim];
    return (int32_t)victim != index &&
           (!s || v->slot != slot || (uint32_t)index == keep || v->arrival_ns > s->arrival_ns);
}

/* KV that is here although the core has it elsewhere, since it did not fit its plan; -1: none. */
static int32_t stray(const struct br_turn *t, uint32_t slot, int32_t index)
{
    for (uint32_t i = 0; t->plans_memory && i < t->config.max_seqs; i++)
        if (t->seq_ids[i] && !t->seqs[i].in_step && (t->seqs[i].slot != slot || index < 0) &&
            br_kv_where(t->kv, t->seqs[i].kv) == BR_KV_DEVICE)
            return (int32_t)i;
    return -1;
}

enum kv_room turn_kv_victim(struct br_turn *t, uint32_t slot, int32_t index, uint32_t keep)
{
    int32_t victim = br_dev_kv_victim(t->core, slot, keep);
    if (victim < 0)
        victim = stray(t, slot, index);
    if (victim < 0 || !may_take(t, slot, index, keep, (uint32_t)victim) ||
        br_kv_where(t->kv, t->seqs[victim].kv) != BR_KV_DEVICE || !victim_release(t, (uint32_t)victim))
        return t->n_swaps > t->n_swaps_in ? KV_ROOM_COMING : KV_ROOM_REFUSED;
    if (swap_out_start(t, (uint32_t)victim))
        return KV_ROOM_COMING;
    if (t->n_swaps == TURN_MAX_SWAPS || t->moving || turn_disk_room(t, turn_kv_bytes(t, (uint32_t)victim)))
        return KV_ROOM_COMING;
    turn_kv_drop(t, (uint32_t)victim);
    return KV_ROOM_MADE;
}

/* Others' KV, until as many bytes are on their way out. */
static enum kv_room room_of_victims(struct br_turn *t, uint32_t index, uint32_t keep, uint64_t bytes)
{
    while (bytes_going_out(t) < bytes) {
        uint32_t swaps = t->n_swaps;
        enum kv_room room = turn_kv_victim(t, t->seqs[index].slot, (int32_t)index, keep);
        if (room != KV_ROOM_COMING || t->n_swaps == swaps)
            return room;
    }
    return KV_ROOM_COMING;
}

enum kv_room turn_kv_room(struct br_turn *t, uint32_t index, uint32_t keep, uint64_t blocks)
{
    const struct turn_seq *s = &t->seqs[index];
    uint64_t bytes = blocks * t->models[s->slot].info.kv_block_bytes;
    if (turn_room_kv(t, s->slot, blocks))
        return KV_ROOM_MADE;
    if (bytes_going_out(t) >= bytes || turn_room_merge(t))
        return KV_ROOM_COMING;
    if (t->plans_memory && (t->n_swaps > t->n_swaps_in || (t->step.on && t->step.slot != s->slot)))
        return KV_ROOM_COMING; /* it was planned, and what is in the way now will not be then */
    if (turn_room_kv_for_weights(t, s->slot, blocks))
        return KV_ROOM_MADE;
    return room_of_victims(t, index, keep, bytes);
}

void turn_swap_fetch(struct br_turn *t, uint32_t index, const struct br_kv_swap *swap)
{
    swap_start(t, index, swap, false);
    t->swaps[t->n_swaps - 1].found = true;
    t->stats.prefixes_in++;
}

static void swap_tell(struct br_turn *t, const struct turn_swap *w)
{
    turn_kv_where(t, w->index);
    if (w->found)
        turn_prefix_fetched(t, w->index);
}

static void swap_finish(struct br_turn *t, uint32_t i)
{
    struct turn_swap w = t->swaps[i];
    t->swaps[i] = t->swaps[--t->n_swaps];
    t->swaps[t->n_swaps] = w; /* its event goes back to the pool */
    br_kv_swap_done(t->kv, w.ticket);
    t->n_swaps_in -= !w.out;
    turn_busy_end(w.out ? &t->busy_kv_out : &t->busy_kv_in);
    turn_trace_swap(t, &w);
    turn_moments_swap(t, &w);
    t->changed = true;
    if (t->seqs[w.index].id == w.seq) {
        t->seqs[w.index].out_stamp = ++t->out_stamps;
        swap_tell(t, &w);
    }
    if (w.out)
        turn_disk_ahead(t);
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
        s->blocks[i] = t->dev->memory + br_kv_block_offset(t->kv, s->kv, i);
    s->n_blocks = n;
}
