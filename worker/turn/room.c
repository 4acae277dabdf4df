/* The one memory: weights from its beginning, KV from its end, and what is free between them for whichever needs it
 * first. Both can be moved together within the device, so free bytes are never lost for being in pieces, but for one
 * part-filled slab of each KV shape. */
#include <assert.h>

#include "worker/turn/internal.h"

static void kv_limit(struct br_turn *t, uint64_t weights)
{
    uint64_t most = t->kv_end - weights;
    struct br_err err;
    if (br_kv_device_limit(t->kv, most < t->kv_most ? most : t->kv_most, &err))
        assert(!"KV and weights overlap");
}

/* Weights may lie where KV is only cached. What they have been written over is not known any more, even if they have
 * been moved away from there again. */
void turn_room_meet(struct br_turn *t)
{
    kv_limit(t, br_residency_high(t->residency));
    br_residency_end(t->residency, t->kv_end - br_kv_device_floor_bytes(t->kv));
    kv_limit(t, br_residency_top(t->residency));
}

void turn_room_settle(struct br_turn *t, struct br_stream *stream)
{
    struct br_event *cooling = br_residency_cooling(t->residency, t->kv_end - br_kv_device_used_bytes(t->kv));
    if (cooling)
        t->dev->ops->event_wait(stream, cooling);
}

/* The copies go behind the running step and in front of the next one, which reads the blocks where they will be: so
 * none of them needs to be pinned. */
bool turn_room_copy(struct br_turn *t, const struct br_kv_moves *moves)
{
    if (moves->ticket == BR_KV_NONE)
        return false;
    turn_room_settle(t, t->compute);
    for (uint32_t i = 0; i < moves->n_moves; i++) {
        const struct br_kv_move *m = &moves->moves[i];
        t->dev->ops->copy(t->compute, BR_COPY_D2D, (void *)(uintptr_t)(t->dev->memory + m->to),
                          (const void *)(uintptr_t)(t->dev->memory + m->from), m->bytes);
        t->stats.kv_moved_bytes += m->bytes;
    }
    t->dev->ops->event_record(t->moved, t->compute);
    turn_notify(t, t->compute);
    t->moving = true;
    turn_busy_begin(&t->busy_moves);
    t->move_ticket = moves->ticket;
    for (uint32_t i = 0; i < t->config.max_seqs; i++)
        if (t->seq_ids[i])
            t->seqs[i].n_blocks = 0; /* addresses are asked for again */
    return true;
}

/* KV leaves the slabs nearest to the weights; true: room is coming. What is only cached is moved along where that costs
 * no one anything, and goes where it is in the way. */
static bool compact(struct br_turn *t)
{
    struct br_kv_moves moves;
    if (t->moving)
        return true;
    turn_room_meet(t); /* what has given its place to weights is not moved */
    br_kv_compact(t->kv, TURN_MAX_MOVES, &moves);
    if (moves.ticket == BR_KV_NONE && br_kv_evict_device(t->kv))
        br_kv_compact(t->kv, TURN_MAX_MOVES, &moves);
    return turn_room_copy(t, &moves);
}

void turn_room_poll(struct br_turn *t)
{
    if (!t->moving || !t->dev->ops->event_done(t->moved))
        return;
    t->moving = false;
    turn_busy_end(&t->busy_moves);
    br_kv_moves_done(t->kv, t->move_ticket);
    t->changed = true;
}

/* Would the next unit fit if KV lay as close as it can? */
static bool compaction_helps(const struct br_turn *t, uint64_t bytes)
{
    struct br_kv_stats kv;
    br_kv_stats(t->kv, &kv);
    return br_residency_used(t->residency) + bytes + kv.device_bytes_owned + kv.device_bytes_in_flight <= t->kv_end;
}

uint64_t turn_room_load(struct br_turn *t, uint32_t slot, uint64_t bytes, bool victims)
{
    uint64_t taken, next;
    turn_room_meet(t);
    taken = br_residency_load(t->residency, slot, bytes, false);
    next = taken < bytes ? br_residency_next_bytes(t->residency, slot) : 0;
    if (next && compaction_helps(t, next) && compact(t))
        return taken;
    if (next && victims)
        taken += br_residency_load(t->residency, slot, bytes - taken, true);
    return taken;
}

bool turn_room_require(struct br_turn *t, uint32_t slot, uint32_t keep)
{
    if (!br_residency_placed(t->residency, slot) && t->plans_memory)
        turn_room_load(t, slot, UINT64_MAX, false);
    while (!br_residency_placed(t->residency, slot)) {
        if (t->plans_memory && (t->moving || t->n_swaps > t->n_swaps_in))
            return false;
        if (turn_room_load(t, slot, UINT64_MAX, true))
            continue;
        if (t->moving || turn_kv_victim(t, slot, -1, keep) != KV_ROOM_MADE)
            return false;
    }
    return true;
}

/* How far KV has to reach for so many more blocks. */
static uint64_t reach(const struct br_turn *t, const struct turn_model *m, uint64_t blocks)
{
    uint64_t free = br_kv_device_blocks_free(t->kv, m->kv_shape), limit = br_kv_device_limit_bytes(t->kv);
    uint64_t per_slab = t->config.slab_bytes / m->info.kv_block_bytes;
    return blocks <= free ? limit : limit + (blocks - free + per_slab - 1) / per_slab * t->config.slab_bytes;
}

/* Has KV reach so far, if weights lie or can be moved out of its way. */
static bool kv_reaches(struct br_turn *t, uint64_t limit)
{
    if (limit > t->kv_most || !br_residency_lower(t->residency, t->kv_end - limit))
        return false;
    turn_room_meet(t);
    return true;
}

bool turn_room_kv(struct br_turn *t, uint32_t slot, uint64_t blocks)
{
    const struct turn_model *m = &t->models[slot];
    turn_room_meet(t);
    return br_kv_device_blocks_free(t->kv, m->kv_shape) >= blocks || kv_reaches(t, reach(t, m, blocks));
}

bool turn_room_merge(struct br_turn *t)
{
    struct br_kv_moves moves;
    if (t->moving)
        return true;
    br_kv_merge(t->kv, TURN_MAX_MOVES, &moves);
    return turn_room_copy(t, &moves);
}

bool turn_room_kv_for_weights(struct br_turn *t, uint32_t slot, uint64_t blocks)
{
    uint64_t limit = reach(t, &t->models[slot], blocks);
    while (limit <= t->kv_most) {
        int32_t victim = br_dev_weights_victim(t->core, slot);
        if (victim < 0 || (t->step.on && victim == (int32_t)t->step.slot) ||
            !br_residency_evict(t->residency, (uint32_t)victim, 1))
            return false;
        if (kv_reaches(t, limit))
            return true;
    }
    return false;
}
