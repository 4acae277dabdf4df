/* What core/fleet decides, carried out: leases, assignments, moves. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "scheduler/service_impl.h"

enum { REBALANCE_MS = 250 };

struct lease_ctx {
    struct br_service *s;
    uint64_t id;
};

/* It ended while its lease was under way: its end is stored under the new fence, or would be refused. */
static void leased_too_late(struct br_service *s, struct sched_seq *seq, int rc)
{
    if (rc == BR_ENOENT) { /* nothing is left to be ended */
        seqtab_remove(s->seqs, seq);
        return;
    }
    if (rc)
        service_retry_later(s, seq);
    else
        service_store(s, seq);
}

/* A fence that was given out before is no fence: the queue has forgotten some. */
static void lease_lost(struct br_service *s, struct sched_seq *seq)
{
    seq->unsure = true;
    if (seq->state == SCHED_LEASING) { /* core/fleet keeps the place, the tick tries again */
        seq->device = br_fleet_device_of(s->fleet, seq->index);
        seq->state = SCHED_WAITING;
    }
    service_restore(s, seq);
}

static void on_leased(void *ctx, int rc, uint64_t fence)
{
    struct lease_ctx *lease = ctx;
    struct br_service *s = lease->s;
    struct sched_seq *seq = seqtab_find(s->seqs, lease->id);
    free(lease);
    s->leases--;
    if (!seq || --seq->leases > 0)
        return; /* a later lease is under way: only the last fence is good */
    seq->unsure = rc != 0;
    if (rc == BR_EINVAL || (rc == 0 && fence <= seq->fence)) {
        lease_lost(s, seq);
        return;
    }
    if (rc == 0)
        seq->fence = fence; /* whatever has become of its device: appends need it */
    if (seq->state == SCHED_ENDING) {
        leased_too_late(s, seq, rc);
        return;
    }
    if (rc == BR_ENOENT) {
        service_end(s, seq, BR_END_FAILED, "its record is gone from the queue");
        return;
    }
    if (seq->state != SCHED_LEASING)
        return; /* lost its device */
    seq->device = br_fleet_device_of(s->fleet, seq->index);
    if (rc || seq->device < 0) {
        /* Redis is away: core/fleet keeps the place, the tick tries again. */
        seq->state = SCHED_WAITING;
        service_retry_later(s, seq);
        return;
    }
    seq->state = SCHED_RUNNING;
    service_send_assign(s, seq);
}

void service_lease(struct br_service *s, struct sched_seq *seq)
{
    struct lease_ctx *ctx = br_malloc(sizeof *ctx);
    *ctx = (struct lease_ctx){s, seq->spec.id};
    if (seq->state != SCHED_ENDING)
        seq->state = SCHED_LEASING;
    seq->leases++;
    s->leases++;
    s->queue->ops->lease(s->queue, seq->spec.id, on_leased, ctx);
}

void service_start(struct br_service *s, struct sched_seq *seq)
{
    seq->held = !seq->hopeless && !service_trial_begin(s, seq);
    if (seq->held || seq->hopeless) {
        seq->state = SCHED_WAITING;
        return;
    }
    if (!seq->fresh) {
        service_lease(s, seq);
        return;
    }
    seq->fresh = false;
    seq->state = SCHED_RUNNING;
    service_send_assign(s, seq);
}

/* A sequence that is given from device to device without another token, for whatever reason, must not do so for ever.
 */
enum { MAX_TRIES = 32 };

static void assign(struct br_service *s, struct sched_seq *seq, uint32_t device)
{
    seq->device = (int32_t)device;
    if (++seq->tries > MAX_TRIES)
        service_give_up(s, seq, "given to a device 32 times without another token: it is given up");
    else
        service_start(s, seq);
}

/* Its tokens on the way from the old device are not taken any more: the new one begins behind those that are here, and
 * in exact mode makes the same ones. */
static void move(struct br_service *s, struct sched_seq *seq, uint32_t device)
{
    br_log(BR_INFO, "seq_moved", "seq=%" PRIu64 " req=%s from=%d to=%u tokens=%u", seq->spec.id, seq->spec.request_id,
           seq->device, device, seq->n_tokens);
    if (seq->state == SCHED_RUNNING) {
        service_send_hand_over(s, seq, device);
        seq->device = (int32_t)device;
        service_start(s, seq);
    } else
        seq->device = (int32_t)device; /* waits, or its lease is under way: then it goes there */
}

void service_unplace(struct br_service *s, struct sched_seq *seq)
{
    (void)s;
    if (seq->state == SCHED_RUNNING || seq->state == SCHED_LEASING || seq->state == SCHED_WAITING)
        seq->state = SCHED_WAITING;
    seq->device = -1;
    seq->held = false;
}

static void carry_out(struct br_service *s, const struct br_fleet_action *a)
{
    struct sched_seq *seq = seqtab_at(s->seqs, a->seq);
    if (!seq || seq->state == SCHED_ENDING)
        return;
    switch (a->kind) {
    case BR_FLEET_ASSIGN:
        assign(s, seq, a->device);
        break;
    case BR_FLEET_MOVE:
        move(s, seq, a->device);
        break;
    case BR_FLEET_UNASSIGN:
        service_send_release(s, seq);
        service_unplace(s, seq);
        break;
    case BR_FLEET_FAIL:
        service_send_cancel(s, seq);
        service_give_up(s, seq, "its model is no longer served, or it is too large for every device");
        break;
    }
}

void service_fleet_event(struct br_service *s, const struct br_fleet_event *event)
{
    struct br_fleet_event tick = {.kind = BR_FLEET_TICK};
    do {
        br_fleet_step(s->fleet, br_now_s(), event, s->actions);
        for (uint32_t i = 0; i < s->actions->n; i++)
            carry_out(s, &s->actions->actions[i]);
        event = &tick;
    } while (s->actions->more);
}

struct br_fleet_event service_seq_event(const struct sched_seq *seq, enum br_fleet_event_kind kind)
{
    return (struct br_fleet_event){.kind = kind,
                                   .seq = seq->index,
                                   .model = seq->model,
                                   .prompt = seq->spec.n_prompt,
                                   .delivered = seq->n_tokens,
                                   .most = seq->spec.max_tokens,
                                   .age_s = service_age_s(seq),
                                   .ttft_s = seq->spec.ttft_s,
                                   .tbt_s = seq->spec.tbt_s,
                                   .weight = seq->spec.weight};
}

/* The same request, asked again, has the same key: its seed may be another one then. */
static uint64_t key_of(const struct br_seq_spec *spec, uint32_t n)
{
    uint64_t of[] = {XXH3_64bits(spec->model, strlen(spec->model)),
                     XXH3_64bits(spec->prompt, spec->n_prompt * sizeof *spec->prompt),
                     (uint64_t)spec->max_tokens << 32 | n};
    return XXH3_64bits(of, sizeof of);
}

struct br_fleet_request service_request_of(const struct br_service *s, uint32_t model, const struct br_seq_spec *specs,
                                           uint32_t n)
{
    struct br_fleet_request r = {.model = model,
                                 .n_seqs = n,
                                 .pending = s->accepting,
                                 .ttft_s = specs[0].ttft_s,
                                 .tbt_s = specs[0].tbt_s,
                                 .key = key_of(&specs[0], n)};
    for (uint32_t i = 0; i < n; i++) {
        r.prompt = specs[i].n_prompt > r.prompt ? specs[i].n_prompt : r.prompt;
        r.most = specs[i].max_tokens > r.most ? specs[i].max_tokens : r.most;
    }
    return r;
}

/* A request that has just been accepted counts for its model's rate; one that comes again does not. */
void service_enter_fleet(struct br_service *s, struct sched_seq *seq)
{
    struct br_fleet_event event = service_seq_event(seq, seq->fresh ? BR_FLEET_ARRIVE : BR_FLEET_RECOVER);
    seq->state = SCHED_WAITING;
    seq->device = -1;
    seq->held = false;
    service_fleet_event(s, &event);
    if (seq->paused)
        service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_PAUSE, .seq = seq->index});
}

void service_tick_fleet(struct br_service *s)
{
    int64_t now_ns = br_now_ns();
    if (now_ns < s->rebalance_ns)
        return;
    s->rebalance_ns = now_ns + REBALANCE_MS * (BR_NS_PER_S / 1000);
    service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_TICK});
}
