/* A decision of the core, and what it asks for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "worker/turn/internal.h"

void turn_check(struct br_turn *t)
{
    struct br_err err;
    if (!t->config.check || (br_kv_check(t->kv, &err) == 0 && br_dev_check(t->core, &err) == 0))
        return;
    br_log(BR_ERROR, "books_broken", "why=%s", BR_Q(err.msg));
    abort();
}

static void drop(struct br_turn *t, uint32_t seq)
{
    if (!t->seqs[seq].id)
        return;
    if (t->seqs[seq].in_step)
        turn_kv_where(t, seq);
    else
        turn_kv_drop(t, seq);
}

static void fail(struct br_turn *t, uint32_t seq)
{
    const struct turn_model *m = &t->models[t->seqs[seq].slot];
    char why[256];
    if (!t->seqs[seq].id || t->seqs[seq].in_step)
        return;
    snprintf(why, sizeof why,
             "the KV of %u tokens, %" PRIu64 " bytes each, does not fit the device beside the weights of %s",
             t->seqs[seq].n_ids, m->info.kv_block_bytes / BR_KV_TOKENS, m->info.name);
    turn_seq_end(t, seq, NULL, BR_END_FAILED, why);
}

static void evict(struct br_turn *t, uint32_t slot, uint64_t bytes)
{
    if (t->step.on && t->step.slot == slot)
        br_log(BR_WARN, "evict_of_running_slot", "model=%s", t->models[slot].info.name);
    else {
        turn_trace_evict(t, slot);
        br_residency_evict(t->residency, slot, bytes);
    }
}

/* What makes room, then what takes it; the step, if there is one, comes after these. */
static const struct br_dev_action *actions_before_step(struct br_turn *t)
{
    const struct br_dev_action *step = NULL;
    for (uint32_t i = 0; i < t->actions.n_actions; i++) {
        const struct br_dev_action *a = &t->actions.actions[i];
        switch (a->kind) {
        case BR_DO_STEP:
            step = a;
            break;
        case BR_DO_SWAP_OUT:
            if (t->seqs[a->seq].id)
                turn_swap_out(t, a->seq);
            break;
        case BR_DO_DROP:
            drop(t, a->seq);
            break;
        case BR_DO_FAIL:
            fail(t, a->seq);
            break;
        case BR_DO_EVICT:
            evict(t, a->slot, a->bytes);
            break;
        case BR_DO_LOAD:
            if (a->bytes)
                turn_load_ask(t, a->slot, a->bytes);
            break;
        case BR_DO_SWAP_IN:
        case BR_DO_SWAP_IN_AHEAD:
            break;
        }
    }
    return step;
}

/* What the next turn needs, while this one computes. */
static void actions_beside_step(struct br_turn *t)
{
    for (uint32_t i = 0; i < t->actions.n_actions; i++) {
        const struct br_dev_action *a = &t->actions.actions[i];
        if (a->kind == BR_DO_LOAD && !a->bytes)
            turn_room_load(t, a->slot, UINT64_MAX, !t->plans_memory);
        else if (a->kind == BR_DO_SWAP_IN)
            turn_swap_in(t, a->seq);
        else if (a->kind == BR_DO_SWAP_IN_AHEAD && t->step.on)
            turn_swap_in_ahead(t, a->seq);
    }
}

static void wake_plan(struct br_turn *t)
{
    t->wake_ns = t->actions.wake_s < 0 ? -1 : (int64_t)(t->actions.wake_s * 1e9);
}

void turn_boundary(struct br_turn *t)
{
    const struct br_dev_action *step;
    br_dev_step(t->core, br_now_s(), &(struct br_dev_event){.kind = BR_DEV_BOUNDARY}, &t->actions);
    wake_plan(t);
    step = actions_before_step(t);
    if (step) /* if nothing of it can run, the core decides again after the next event */
        turn_step_start(t, step->slot, t->actions.items, t->actions.n_items);
    actions_beside_step(t);
    turn_loads_force(t);
}

void turn_beside(struct br_turn *t)
{
    br_dev_step(t->core, br_now_s(), &(struct br_dev_event){.kind = BR_DEV_BESIDE}, &t->actions);
    wake_plan(t);
    actions_before_step(t);
    actions_beside_step(t);
}
