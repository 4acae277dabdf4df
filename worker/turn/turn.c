/* The turn thread: commands and the device's events in, a decision whenever something has changed. */
#include "worker/turn/turn.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "worker/turn/internal.h"

static const int64_t HAND_POLL_NS = BR_NS_PER_MS;
static const int64_t PUBLISH_NS = 100 * BR_NS_PER_MS; /* at every boundary, and in a long step this often */

void turn_tell(struct br_turn *t, const struct br_dev_event *event)
{
    br_dev_step(t->core, br_now_s(), event, &t->unused);
    t->changed = true;
}

void turn_wake(void *turn)
{
    inbox_poke(&((struct br_turn *)turn)->inbox);
}

void turn_notify(struct br_turn *t, struct br_stream *stream)
{
    if (t->dev->ops->stream_notify)
        t->dev->ops->stream_notify(stream, turn_wake, t);
}

static void command_cancel(struct br_turn *t, const struct inbox_command *c)
{
    int32_t index = turn_seq_find(t, c->seq);
    struct turn_seq *s = index < 0 ? NULL : &t->seqs[index];
    if (!s || (c->kind == INBOX_CANCEL && c->fence < s->fence))
        return;
    s->cancelled = true;
    s->forgotten = s->forgotten || c->kind != INBOX_CANCEL;
    if (!s->in_step)
        turn_seq_end(t, (uint32_t)index, NULL, BR_END_CANCELLED, NULL);
}

static void command_hand_over(struct br_turn *t, const struct inbox_command *c)
{
    int32_t index = turn_seq_find(t, c->seq);
    turn_hand_announce(t, index < 0 ? NULL : &t->seqs[index], c->seq);
    command_cancel(t, c);
}

static void command_adopt(struct br_turn *t, const struct inbox_command *c)
{
    int32_t index = turn_seq_find(t, c->seq);
    if (index >= 0 && c->fence > t->seqs[index].fence)
        t->seqs[index].fence = c->fence;
}

static void command_pause(struct br_turn *t, const struct inbox_command *c)
{
    int32_t index = turn_seq_find(t, c->seq);
    bool pause = c->kind == INBOX_PAUSE;
    if (index < 0 || c->fence < t->seqs[index].fence || t->seqs[index].paused == pause)
        return;
    t->seqs[index].paused = pause;
    turn_tell(t, &(struct br_dev_event){.kind = pause ? BR_DEV_SEQ_PAUSE : BR_DEV_SEQ_RESUME,
                                        .slot = t->seqs[index].slot,
                                        .seq = (uint32_t)index});
}

static void command_terms(struct br_turn *t, const struct inbox_command *c)
{
    t->models[c->model].terms = c->terms;
    if (t->models[c->model].engine)
        turn_slot_tell(t, c->model);
}

static void take_commands(struct br_turn *t)
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
        case INBOX_HAND_OVER:
            command_hand_over(t, &c);
            break;
        case INBOX_ADOPT:
            command_adopt(t, &c);
            break;
        case INBOX_PAUSE:
        case INBOX_RESUME:
            command_pause(t, &c);
            break;
        case INBOX_TERMS:
            command_terms(t, &c);
            break;
        case INBOX_ORDER:
            turn_order_take(t, &c.order);
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

/* What the device has done since. */
static void take_events(struct br_turn *t)
{
    turn_poll_swaps(t);
    turn_disk_poll(t);
    turn_room_poll(t);
    turn_loads_poll(t);
    if (t->step.on && t->dev->ops->event_done(t->step_done))
        turn_step_finish(t);
    turn_orders_go(t);
    turn_hand_poll(t);
    if (!t->changed)
        return;
    turn_swaps_go(t); /* room may have become free */
    turn_loads_go(t);
}

/* When to decide again if nothing happens. A boundary without a step whose actions changed something (a victim's room
 * is free at once) is followed by another soon, but later each time: it may have been in vain. */
static void plan_retry(struct br_turn *t)
{
    t->retry_ns = -1;
    if (t->step.on || !t->n_seqs) {
        t->fruitless = 0;
        return;
    }
    t->retry_ns = br_now_ns() +
                  (t->changed && t->fruitless < TURN_MAX_FRUITLESS ? TURN_POLL_NS << t->fruitless++ : TURN_GUARD_NS);
}

static bool due(int64_t at_ns, int64_t now_ns)
{
    return at_ns >= 0 && now_ns >= at_ns;
}

static void decide(struct br_turn *t)
{
    int64_t now_ns = br_now_ns();
    if (t->changed)
        t->fruitless = 0;
    else if (!due(t->wake_ns, now_ns) && !due(t->retry_ns, now_ns))
        return;
    t->changed = false;
    t->wake_ns = -1;
    turn_check(t);
    if (t->n_seqs && t->step.on)
        turn_beside(t);
    else if (t->n_seqs)
        turn_boundary(t);
    plan_retry(t);
    t->changed = false;
    if (!t->step.on || t->step.start_ns > t->published_ns || now_ns - t->published_ns > PUBLISH_NS)
        turn_publish(t);
}

static bool under_way(const struct br_turn *t)
{
    return t->step.on || t->n_swaps || t->moving || t->n_orders || turn_loads_flying(t);
}

static int64_t sooner(int64_t a_ns, int64_t b_ns)
{
    return a_ns < 0 || (b_ns >= 0 && b_ns < a_ns) ? b_ns : a_ns;
}

/* < 0: until someone pokes. */
static int64_t wait_ns(const struct br_turn *t)
{
    const struct br_device_ops *ops = t->dev->ops;
    int64_t until_ns = sooner(t->wake_ns, t->retry_ns), now_ns = br_now_ns();
    if (t->n_orders)
        until_ns = sooner(until_ns, now_ns + TURN_ORDER_NS);
    if (under_way(t) && !ops->stream_notify)
        until_ns = sooner(until_ns, ops->next_ns ? ops->next_ns(t->dev) : now_ns + TURN_POLL_NS);
    if (t->n_expected)
        until_ns = sooner(until_ns, now_ns + HAND_POLL_NS);
    if (until_ns < 0 || until_ns == INT64_MAX)
        return -1;
    return until_ns < now_ns ? 0 : until_ns - now_ns;
}

static void turn_wait(struct br_turn *t)
{
    int64_t from = br_now_ns();
    bool idle = t->n_seqs && !t->step.on;
    if (!t->n_seqs)
        turn_trace_idle(t);
    inbox_wait(&t->inbox, wait_ns(t));
    if (!idle)
        return;
    int64_t to = br_now_ns();
    turn_count_wait(t, (double)(to - from) / 1e9);
    turn_trace_wait(t, from, to);
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
    turn_trace_begin(t);
    while (!t->stopping) {
        take_commands(t);
        take_events(t);
        decide(t);
        turn_say_drained(t);
        if (!t->stopping)
            turn_wait(t);
    }
    if (t->step.on) {
        t->dev->ops->event_sync(t->step_done);
        turn_step_finish(t);
    }
    turn_trace_idle(t);
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

static void add(struct br_turn *t, struct br_seq_spec *spec, uint64_t fence, const int32_t *ids, uint32_t n,
                double age_s, uint32_t from)
{
    struct inbox_command c = {.kind = INBOX_ADD, .seq = spec->id, .fence = fence, .n_ids = n};
    c.spec = br_malloc(sizeof *c.spec);
    *c.spec = *spec;
    br_seq_spec_init(spec);
    c.ids = br_malloc((n + 1) * sizeof *ids);
    if (n)
        memcpy(c.ids, ids, n * sizeof *ids);
    c.arrival_ns = br_now_ns() - (int64_t)(age_s * 1e9);
    c.from = from;
    send(t, c);
}

void br_turn_add(struct br_turn *t, struct br_seq_spec *spec, uint64_t fence, const int32_t *ids, uint32_t n,
                 double age_s)
{
    add(t, spec, fence, ids, n, age_s, 0);
}

void br_turn_add_from(struct br_turn *t, struct br_seq_spec *spec, uint64_t fence, const int32_t *ids, uint32_t n,
                      double age_s, uint32_t device)
{
    add(t, spec, fence, ids, n, age_s, device + 1);
}

void br_turn_cancel(struct br_turn *t, uint64_t seq, uint64_t fence)
{
    send(t, (struct inbox_command){.kind = INBOX_CANCEL, .seq = seq, .fence = fence});
}

void br_turn_forget(struct br_turn *t, uint64_t seq)
{
    send(t, (struct inbox_command){.kind = INBOX_FORGET, .seq = seq});
}

void br_turn_hand_over(struct br_turn *t, uint64_t seq)
{
    send(t, (struct inbox_command){.kind = INBOX_HAND_OVER, .seq = seq});
}

void br_turn_adopt(struct br_turn *t, uint64_t seq, uint64_t fence)
{
    send(t, (struct inbox_command){.kind = INBOX_ADOPT, .seq = seq, .fence = fence});
}

void br_turn_pause(struct br_turn *t, uint64_t seq, uint64_t fence)
{
    send(t, (struct inbox_command){.kind = INBOX_PAUSE, .seq = seq, .fence = fence});
}

void br_turn_resume(struct br_turn *t, uint64_t seq, uint64_t fence)
{
    send(t, (struct inbox_command){.kind = INBOX_RESUME, .seq = seq, .fence = fence});
}

void br_turn_set_terms(struct br_turn *t, uint32_t model, const struct br_turn_terms *terms)
{
    send(t, (struct inbox_command){.kind = INBOX_TERMS, .model = model, .terms = *terms});
}

void br_turn_order(struct br_turn *t, const struct br_turn_order *order)
{
    send(t, (struct inbox_command){.kind = INBOX_ORDER, .order = *order});
}

void br_turn_drain(struct br_turn *t)
{
    send(t, (struct inbox_command){.kind = INBOX_DRAIN});
}
