/* The turn thread: commands in, a decision at every boundary, its actions carried out. */
#include "worker/turn/turn.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "worker/turn/internal.h"

void turn_tell(struct br_turn *t, const struct br_dev_event *event)
{
    br_dev_step(t->core, br_now_s(), event, &t->unused);
}

static void command_cancel(struct br_turn *t, const struct inbox_command *c)
{
    int32_t index = turn_seq_find(t, c->seq);
    struct turn_seq *s = index < 0 ? NULL : &t->seqs[index];
    if (!s || (c->kind == INBOX_CANCEL && c->fence < s->fence))
        return;
    s->cancelled = true;
    s->forgotten = s->forgotten || c->kind == INBOX_FORGET;
    if (!s->in_step)
        turn_seq_end(t, (uint32_t)index, NULL, BR_END_CANCELLED, NULL);
}

static void command_adopt(struct br_turn *t, const struct inbox_command *c)
{
    int32_t index = turn_seq_find(t, c->seq);
    if (index >= 0 && c->fence > t->seqs[index].fence)
        t->seqs[index].fence = c->fence;
}

void turn_take_commands(struct br_turn *t)
{
    struct inbox_command c;
    while (inbox_take(&t->inbox, &c)) {
        switch (c.kind) {
        case INBOX_ADD:
            turn_seq_add(t, &c);
            break;
        case INBOX_CANCEL:
        case INBOX_FORGET:
            command_cancel(t, &c);
            break;
        case INBOX_ADOPT:
            command_adopt(t, &c);
            break;
        case INBOX_DRAIN:
            t->draining = true;
            break;
        case INBOX_STOP:
            t->stopping = true;
            break;
        }
    }
}

static void actions_before_step(struct br_turn *t, const struct br_dev_action **step)
{
    *step = NULL;
    for (uint32_t i = 0; i < t->actions.n_actions; i++) {
        const struct br_dev_action *a = &t->actions.actions[i];
        if (a->kind == BR_DO_STEP)
            *step = a;
        else if (a->kind == BR_DO_SWAP_OUT && t->seqs[a->seq].id && !turn_swap_out(t, a->seq))
            turn_kv_where(t, a->seq); /* it stays */
    }
}

/* What the next turn needs, while this one computes. */
static void actions_beside_step(struct br_turn *t, bool ran)
{
    for (uint32_t i = 0; i < t->actions.n_actions; i++) {
        const struct br_dev_action *a = &t->actions.actions[i];
        if (a->kind == BR_DO_LOAD)
            br_residency_prefetch(t->residency, a->slot);
        else if (a->kind == BR_DO_SWAP_IN)
            turn_swap_in(t, a->seq);
        else if (a->kind == BR_DO_SWAP_IN_AHEAD && ran)
            turn_swap_in_ahead(t, a->seq);
    }
}

static void turn_check(struct br_turn *t)
{
    struct br_err err;
    if (!t->config.check || (br_kv_check(t->kv, &err) == 0 && br_dev_check(t->core, &err) == 0))
        return;
    br_log(BR_ERROR, "books_broken", "why=%s", BR_Q(err.msg));
    abort();
}

/* One boundary; true when a step was run. */
static bool turn_once(struct br_turn *t)
{
    const struct br_dev_action *step;
    bool ran = false;
    turn_poll_swaps(t);
    turn_check(t);
    br_dev_step(t->core, br_now_s(), &(struct br_dev_event){.kind = BR_DEV_BOUNDARY}, &t->actions);
    actions_before_step(t, &step);
    if (step) /* if nothing of it can run, the core decides again after the next event */
        ran = turn_step_start(t, step->slot, t->actions.items, t->actions.n_items);
    actions_beside_step(t, ran);
    if (ran)
        turn_step_finish(t);
    return ran;
}

static void turn_wait(struct br_turn *t)
{
    int64_t from = br_now_ns(), timeout_ns = t->n_swaps ? TURN_POLL_NS : 10 * TURN_POLL_NS;
    inbox_wait(&t->inbox, t->n_seqs ? timeout_ns : -1);
    if (t->n_seqs)
        t->stats.stalled_s += (double)(br_now_ns() - from) / 1e9;
}

static void turn_say_drained(struct br_turn *t)
{
    if (!t->draining || t->n_seqs || t->drained_said)
        return;
    t->drained_said = true;
    if (t->cb.drained)
        t->cb.drained(t->cb.ctx);
}

static void *turn_main(void *arg)
{
    struct br_turn *t = arg;
    t->start_ns = br_now_ns();
    while (!t->stopping) {
        bool ran = false;
        turn_take_commands(t);
        if (t->n_seqs && !t->stopping)
            ran = turn_once(t);
        turn_publish(t);
        turn_say_drained(t);
        if (!ran && !t->stopping)
            turn_wait(t);
    }
    return NULL;
}

int turn_start(struct br_turn *t, struct br_err *err)
{
    int rc = pthread_create(&t->thread, NULL, turn_main, t);
    if (rc)
        return br_err_set(err, BR_EIO, "turn thread: %s", strerror(rc));
    t->has_thread = true;
    return 0;
}

static void send(struct br_turn *t, struct inbox_command command)
{
    inbox_put(&t->inbox, &command);
}

void br_turn_destroy(struct br_turn *t)
{
    if (!t)
        return;
    if (t->has_thread) {
        send(t, (struct inbox_command){.kind = INBOX_STOP});
        pthread_join(t->thread, NULL);
    }
    turn_release(t);
}

void br_turn_add(struct br_turn *t, struct br_seq_spec *spec, uint64_t fence, const int32_t *ids, uint32_t n,
                 double age_s)
{
    struct inbox_command c = {.kind = INBOX_ADD, .seq = spec->id, .fence = fence, .n_ids = n};
    c.spec = br_malloc(sizeof *c.spec);
    *c.spec = *spec;
    br_seq_spec_init(spec);
    c.ids = br_malloc((n + 1) * sizeof *ids);
    if (n)
        memcpy(c.ids, ids, n * sizeof *ids);
    c.arrival_ns = br_now_ns() - (int64_t)(age_s * 1e9);
    send(t, c);
}

void br_turn_cancel(struct br_turn *t, uint64_t seq, uint64_t fence)
{
    send(t, (struct inbox_command){.kind = INBOX_CANCEL, .seq = seq, .fence = fence});
}

void br_turn_forget(struct br_turn *t, uint64_t seq)
{
    send(t, (struct inbox_command){.kind = INBOX_FORGET, .seq = seq});
}

void br_turn_adopt(struct br_turn *t, uint64_t seq, uint64_t fence)
{
    send(t, (struct inbox_command){.kind = INBOX_ADOPT, .seq = seq, .fence = fence});
}

void br_turn_drain(struct br_turn *t)
{
    send(t, (struct inbox_command){.kind = INBOX_DRAIN});
}
