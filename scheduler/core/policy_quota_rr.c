/* Aegaeon's weighted round robin (section 4.3, Algorithm 2), charging only for weights that really have to be loaded
 * again. A slot has one turn a round at most, so a round ends after max_slots turns of bounded length and nobody
 * starves: a slot that comes back after its turn waits for the next round. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "scheduler/core/device_books.h"
#include "scheduler/core/quota.h"

/* What of its weights a slot will have to load for its turn: what is missing now; and when memory was too small in the
 * last round, what it had to load then, for it will have been evicted again. */
static double reload_s(const struct dev_rr *dev, const struct dev_slot *s)
{
    double share = dev_missing(s), again = s->all ? (double)s->loaded / (double)s->all : 0;
    if (dev->round.evicted && again > share)
        share = again < 1 ? again : 1;
    return s->load_s * share;
}

static double n_of(const struct dev_slot *s)
{
    return s->tbt_s / s->step_s;
}

static struct quota_round round_sum(const struct dev_rr *dev)
{
    struct quota_round sum = {0};
    for (uint32_t i = 0; i < dev->round.n; i++) {
        const struct dev_slot *s = &dev->slots[dev->round.list[i]];
        quota_add(&sum, n_of(s), reload_s(dev, s));
    }
    return sum;
}

static void quota_set(struct dev_rr *dev, const struct quota_round *sum, struct dev_slot *s)
{
    s->quota_s = dev->round.n == 1 ? INFINITY : quota_turn_s(sum, dev->config.quota_max_s, n_of(s), s->step_s);
}

static void quotas_set(struct dev_rr *dev)
{
    struct quota_round sum = round_sum(dev);
    for (uint32_t i = 0; i < dev->round.n; i++)
        quota_set(dev, &sum, &dev->slots[dev->round.list[i]]);
}

static void places_set(struct dev_rr *dev, uint32_t from)
{
    for (uint32_t i = from; i < dev->round.n; i++)
        dev->slots[dev->round.list[i]].place = (int32_t)i;
}

/* At the end of this round; after its turn in it, at the end of the next one, which is before the running slot. */
static void rr_join(struct dev_rr *dev, uint32_t slot)
{
    struct dev_round *r = &dev->round;
    struct dev_slot *s = &dev->slots[slot];
    bool again = r->n && s->turn_round == r->number;
    uint32_t at = again ? r->at : r->n;
    struct quota_round sum;
    memmove(r->list + at + 1, r->list + at, (r->n - at) * sizeof *r->list);
    r->list[at] = slot;
    r->at += again;
    r->n++;
    places_set(dev, at);
    if (r->n == 2) {
        quotas_set(dev); /* the other one was alone */
        return;
    }
    sum = round_sum(dev);
    quota_set(dev, &sum, s);
}

static void rr_leave(struct dev_rr *dev, uint32_t slot)
{
    struct dev_round *r = &dev->round;
    uint32_t at = (uint32_t)dev->slots[slot].place;
    r->n--;
    memmove(r->list + at, r->list + at + 1, (r->n - at) * sizeof *r->list);
    places_set(dev, at);
    dev->slots[slot].place = -1;
    if (at < r->at)
        r->at--;
    else if (at == r->at)
        r->in_turn = false;
}

/* The first step is charged at its estimate: the switch before it is not the batch's fault. */
static void rr_stepped(struct dev_rr *dev, uint32_t slot, double now_s)
{
    struct dev_round *r = &dev->round;
    if (!r->in_turn || r->list[r->at] != slot)
        return;
    if (r->steps++ == 0)
        r->clock_s = now_s - dev->slots[slot].step_s;
}

/* To the nearest whole step. A slot that has to compute lost KV again keeps its turn until a token comes out: were it
 * cut short, the others could make it lose that KV again, and so on for ever. */
static bool turn_over(const struct dev_rr *dev, double now_s)
{
    const struct dev_round *r = &dev->round;
    const struct dev_slot *s = &dev->slots[r->list[r->at]];
    if (r->n == 1 || r->steps == 0 || (s->n_redo && r->tokens == 0))
        return false;
    return dev->config.switch_every_step || now_s - r->clock_s + s->step_s / 2 > s->quota_s;
}

static void round_begin(struct dev_rr *dev)
{
    struct dev_round *r = &dev->round;
    quotas_set(dev);
    for (uint32_t i = 0; i < dev->config.max_slots; i++)
        dev->slots[i].loaded = 0;
    r->evicted = false;
    r->number++;
    r->at = 0;
}

static int32_t turn_begin(struct dev_rr *dev)
{
    struct dev_round *r = &dev->round;
    r->in_turn = true;
    r->steps = r->tokens = 0;
    dev->slots[r->list[r->at]].turn_round = r->number;
    return (int32_t)r->list[r->at];
}

static int32_t rr_pick(struct dev_rr *dev, double now_s)
{
    struct dev_round *r = &dev->round;
    if (r->n == 0)
        return -1;
    if (r->in_turn && !turn_over(dev, now_s))
        return (int32_t)r->list[r->at];
    r->at += r->in_turn;
    if (r->at >= r->n)
        round_begin(dev);
    return turn_begin(dev);
}

/* The slots in between lose their turn of this round. */
static void rr_pass(struct dev_rr *dev, uint32_t slot)
{
    uint32_t to = (uint32_t)dev->slots[slot].place;
    if (to <= dev->round.at)
        round_begin(dev);
    dev->round.at = to;
    turn_begin(dev);
}

static int32_t rr_next(const struct dev_rr *dev)
{
    const struct dev_round *r = &dev->round;
    if (r->in_turn)
        return r->n > 1 ? (int32_t)r->list[(r->at + 1) % r->n] : -1;
    return r->n > 0 ? (int32_t)r->list[r->at % r->n] : -1;
}

static uint32_t rr_rank(const struct dev_rr *dev, uint32_t slot)
{
    const struct dev_round *r = &dev->round;
    int32_t place = dev->slots[slot].place;
    if (place < 0)
        return UINT32_MAX;
    return ((uint32_t)place + r->n - r->at) % r->n + !r->in_turn;
}

static const char *rr_broken(const struct dev_rr *dev)
{
    const struct dev_round *r = &dev->round;
    uint32_t working = 0;
    for (uint32_t i = 0; i < dev->config.max_slots; i++) {
        const struct dev_slot *s = &dev->slots[i];
        working += s->used && s->n_seqs > 0;
        if ((s->place >= 0) != (s->used && s->n_seqs > 0))
            return "the work list is not the slots with sequences";
        if (s->place >= 0 && ((uint32_t)s->place >= r->n || r->list[s->place] != i))
            return "a slot's place in the work list is wrong";
        if (s->place >= 0 && !(s->quota_s > 0))
            return "a slot of the work list has no quota";
    }
    if (working != r->n || r->at > r->n || (r->in_turn && r->at == r->n))
        return "the round is outside the work list";
    return NULL;
}

const struct dev_policy dev_policy_quota_rr = {
    .name = "quota-rr",
    .join = rr_join,
    .leave = rr_leave,
    .stepped = rr_stepped,
    .pick = rr_pick,
    .pass = rr_pass,
    .next = rr_next,
    .rank = rr_rank,
    .broken = rr_broken,
};
