/* Sequences that kill the devices they run on.
 *
 * When a device process dies, every sequence there that had not made a token since it was given to it may have done it,
 * and is blamed. One that is blamed twice is a suspect: of the suspects on a device one at a time is on trial, the
 * others are held. It passes with its first token; if its device dies three times more, it is given up. So what kills
 * devices is found after a handful of deaths, and its bystanders only wait.
 *
 * It may be the device, too: one that dies twice without a token in between rests for some seconds while another one
 * can serve, so that what died with it is tried there. */
#include <inttypes.h>

#include "scheduler/service_impl.h"

enum { SUSPECT = 2, GUILTY = SUSPECT + 3, REST_AFTER = 2, REST_MOST_S = 30 };

/* A paused one is not computed: it can do nothing. */
static bool suspect(const struct sched_seq *seq)
{
    return seq->blame >= SUSPECT && !seq->paused;
}

static struct sched_seq *on_trial(struct br_service *s, struct sched_device *d)
{
    struct sched_seq *seq = d->trial ? seqtab_find(s->seqs, d->trial) : NULL;
    bool there = seq && suspect(seq) && seq->device == (int32_t)(d - s->devices) &&
                 (seq->state == SCHED_RUNNING || seq->state == SCHED_LEASING);
    if (!there)
        d->trial = 0;
    return there ? seq : NULL;
}

static void blame(struct br_service *s, struct sched_seq *seq)
{
    if (++seq->blame < SUSPECT)
        return;
    br_log(BR_WARN, "seq_suspect", "seq=%" PRIu64 " req=%s model=%s deaths=%u", seq->spec.id, seq->spec.request_id,
           seq->spec.model, seq->blame);
    if (seq->blame >= GUILTY)
        service_give_up(s, seq, "its device has died each time it was computed: it is given up");
}

/* Done it: it may have been in the step that ran. */
static bool may_have(const struct sched_seq *seq)
{
    return seq->state == SCHED_RUNNING && seq->given && !seq->progress && !seq->paused;
}

void service_device_died(struct br_service *s, struct sched_device *d)
{
    struct sched_seq *tried = on_trial(s, d);
    d->trial = 0;
    d->deaths++;
    if (tried) {
        if (may_have(tried))
            blame(s, tried);
        return;
    }
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        struct sched_seq *seq = seqtab_at(s->seqs, i);
        if (seq && seq->device == (int32_t)(d - s->devices) && may_have(seq))
            blame(s, seq);
    }
}

bool service_trial_begin(struct br_service *s, struct sched_seq *seq)
{
    struct sched_device *d = &s->devices[seq->device];
    struct sched_seq *tried = on_trial(s, d);
    if (!suspect(seq))
        return true;
    if (tried && tried != seq) {
        s->held = true;
        return false;
    }
    d->trial = seq->spec.id;
    return true;
}

void service_trial_passed(struct sched_device *d, struct sched_seq *seq)
{
    d->deaths = 0;
    seq->blame = seq->tries = 0;
    seq->progress = true;
}

static bool other_serves(const struct br_service *s, const struct sched_device *d)
{
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct sched_device *other = &s->devices[i];
        if (other != d && other->in_fleet && other->peer && !other->rests_until_ns)
            return true;
    }
    return false;
}

bool service_rests(struct br_service *s, struct sched_device *d)
{
    int64_t rest_s = d->deaths < 5 ? 1 << d->deaths : REST_MOST_S;
    if (d->deaths < REST_AFTER || !other_serves(s, d))
        return false;
    d->rests_until_ns = br_now_ns() + rest_s * BR_NS_PER_S;
    br_log(BR_WARN, "device_rests", "node=%s device=%u deaths=%u for_s=%d", d->node, d->number, d->deaths, (int)rest_s);
    return true;
}

static void rests_end(struct br_service *s)
{
    for (uint32_t i = 0; i < s->n_devices; i++) {
        struct sched_device *d = &s->devices[i];
        if (!d->rests_until_ns || (br_now_ns() < d->rests_until_ns && other_serves(s, d)))
            continue;
        d->rests_until_ns = 0;
        if (d->in_fleet && d->peer)
            service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_DEVICE_UP, .device = i});
    }
}

/* The next one's turn. */
void service_tick_trials(struct br_service *s)
{
    rests_end(s);
    if (!s->held)
        return;
    s->held = false;
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        struct sched_seq *seq = seqtab_at(s->seqs, i);
        if (seq && seq->held && seq->state == SCHED_WAITING && seq->device >= 0)
            service_start(s, seq);
    }
}
