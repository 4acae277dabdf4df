/* Loads that the policy asked for in pieces: held while their room is still to become free, then on their way, then
 * told of. One that waits holds up those behind it: the policy has put them in that order. */
#include <string.h>

#include "base/log.h"
#include "worker/turn/internal.h"

static void load_done(struct br_turn *t, uint32_t i)
{
    uint32_t slot = t->loads[i].slot;
    if (t->loads[i].flying) {
        turn_busy_end(&t->busy_load);
        turn_trace_load(t, &t->loads[i]);
    }
    t->n_loads--;
    memmove(&t->loads[i], &t->loads[i + 1], (t->n_loads - i) * sizeof t->loads[0]);
    turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_LOADED, .slot = slot});
}

/* True: it is on its way, or there is nothing of it left to load. Never more than was asked for, unless its next unit
 * alone is: the policy has other plans for the rest. */
static bool load_go(struct br_turn *t, struct turn_load *load, bool victims)
{
    uint64_t bytes = br_residency_whole_bytes(t->residency, load->slot, load->bytes);
    if (!turn_room_load(t, load->slot, bytes, victims) && !br_residency_placed(t->residency, load->slot))
        return false;
    load->flying = true;
    load->from_ns = br_now_ns();
    load->moving_bytes = bytes;
    load->mark = br_residency_mark(t->residency, load->slot);
    turn_busy_begin(&t->busy_load);
    return true;
}

void turn_loads_go(struct br_turn *t)
{
    for (uint32_t i = 0; i < t->n_loads; i++)
        if (!t->loads[i].flying && !load_go(t, &t->loads[i], false))
            return;
}

void turn_load_ask(struct br_turn *t, uint32_t slot, uint64_t bytes)
{
    if (t->n_loads == TURN_MAX_LOADS) { /* the policy asks again */
        turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_LOADED, .slot = slot});
        return;
    }
    t->loads[t->n_loads++] = (struct turn_load){.slot = slot, .bytes = bytes, .step = t->stats.steps};
    turn_loads_go(t);
}

bool turn_loads_flying(const struct br_turn *t)
{
    return t->n_loads && t->loads[0].flying;
}

static struct turn_load *first_held(struct br_turn *t)
{
    for (uint32_t i = 0; i < t->n_loads; i++)
        if (!t->loads[i].flying)
            return &t->loads[i];
    return NULL;
}

/* Beside a step it gives up once another step has ended since it was asked for: otherwise the slot that steps, which
 * cannot be moved nor pushed out, would keep it for as long as it runs. */
void turn_loads_force(struct br_turn *t)
{
    struct turn_load *held = first_held(t);
    if (!held || t->moving || t->n_swaps || turn_loads_flying(t))
        return;
    if (t->step.on && held->step == t->stats.steps)
        return;
    if (!t->step.on && load_go(t, held, true))
        return;
    t->stats.shortages++;
    if (t->step.on || turn_kv_victim(t, held->slot, -1, UINT32_MAX) == KV_ROOM_REFUSED)
        load_done(t, (uint32_t)(held - t->loads));
}

void turn_loads_poll(struct br_turn *t)
{
    if (br_residency_poll(t->residency))
        t->changed = true;
    while (turn_loads_flying(t) && br_residency_reached(t->residency, t->loads[0].slot, t->loads[0].mark))
        load_done(t, 0);
}
