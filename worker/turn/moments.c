/* What the device does for sequences that somebody traces: their turns and the moves of their KV. */
#include "worker/turn/internal.h"

static bool traced(const struct br_turn *t, const struct turn_seq *s)
{
    return t->cb.moment && s->spec.traceparent[0];
}

/* The turn that is under way, if there is one, is over. */
void turn_moments_end(struct br_turn *t, struct turn_seq *s)
{
    if (s->turn.steps && traced(t, s))
        t->cb.moment(t->cb.ctx, &s->turn);
    s->turn.steps = 0;
}

/* A turn goes on until the device steps for another slot. Before turn_count_step, which counts the switch. */
void turn_moments_step(struct br_turn *t, struct turn_seq *s, uint32_t rows)
{
    bool switched = t->last_slot != (int32_t)t->step.slot;
    if (!traced(t, s))
        return;
    if (switched || s->turn_switches != t->stats.switches)
        turn_moments_end(t, s);
    if (!s->turn.steps)
        s->turn = (struct br_turn_moment){.kind = BR_TURN_MOMENT_TURN, .seq = s->id, .begin_ns = t->step.start_ns};
    s->turn_switches = t->stats.switches + (switched && t->last_slot >= 0);
    s->turn.steps++;
    s->turn.rows += rows;
    s->turn.end_ns = br_now_ns();
}

void turn_moments_swap(struct br_turn *t, const struct turn_swap *swap)
{
    const struct turn_seq *s = &t->seqs[swap->index];
    if (s->id != swap->seq || !traced(t, s))
        return;
    t->cb.moment(t->cb.ctx,
                 &(struct br_turn_moment){.kind = swap->out ? BR_TURN_MOMENT_SWAP_OUT : BR_TURN_MOMENT_SWAP_IN,
                                          .seq = s->id,
                                          .begin_ns = swap->from_ns,
                                          .end_ns = br_now_ns(),
                                          .bytes = swap->bytes});
}
