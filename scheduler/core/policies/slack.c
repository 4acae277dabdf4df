/* `slack`: ours. Every device does prefill and decode; several models stay resident; loads overlap compute; the slot
 * whose most urgent token is due first runs; late sequences do not drag the others down; work moves. Here: arrivals
 * and rebalancing. */
#include "scheduler/core/policies/slack.h"

static double resident(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return (double)s->weights / (double)pl_model(pool, s)->weights_bytes;
}

/* The least utilised device where the model is active; -1: nowhere. */
static int32_t active_device(const struct br_pool *pool, uint32_t model, double *util)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        if (pl_n(pl_slot(pool, i, model)) == 0)
            continue;
        double u = pl_util(pool, i);
        if (best < 0 || u < *util) {
            best = (int32_t)i;
            *util = u;
        }
    }
    return best;
}

static uint32_t fresh_device(const struct br_pool *pool, uint32_t model, double *util)
{
    uint32_t best = 0;
    double best_cost = PL_NEVER;
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        double u = pl_util(pool, i), cost = u + .3 * (1 - resident(pool, pl_slot(pool, i, model)));
        if (cost < best_cost) {
            best = i;
            best_cost = cost;
            *util = u;
        }
    }
    return best;
}

/* A batch that outgrows its device is split when it is large enough to be worth it; prompts that fill their TTFT and
 * KV that has no room are reasons whatever the batch. */
static bool replica_helps(const struct br_pool *pool, struct br_pl_slot *s, uint32_t prompt, double util,
                          double other_util)
{
    const struct br_pl_model *m = pl_model(pool, s);
    if (other_util >= util - .3)
        return false;
    bool prompts = pl_prefill_s(pool, s->device, s->model, (uint32_t)s->left + prompt) > .8 * m->ttft_s;
    bool full = !pl_room(pool, s, prompt, pool->devices[s->device].hw.memory_bytes);
    return (util > 1 && pl_share(pool, s) > .8 && pl_n(s) >= 8) || (prompts && s->left > 0) || full;
}

static void slack_arrive(struct br_pool *pool, double now_s, uint32_t seq)
{
    (void)now_s;
    uint32_t model = pool->seqs[seq].model;
    double util = 0, other_util = 0;
    int32_t device = active_device(pool, model, &util);
    double limit = device >= 0 ? 1.65 : 1.1;
    uint32_t other = fresh_device(pool, model, &other_util);
    if (device < 0 ||
        replica_helps(pool, pl_slot(pool, (uint32_t)device, model), pool->seqs[seq].prompt, util, other_util)) {
        device = (int32_t)other;
        util = other_util;
    }
    if (pool->options.admission && util > limit)
        pl_end(pool, seq, BR_PL_REFUSE);
    else
        pl_assign(pool, seq, pl_slot(pool, (uint32_t)device, model));
}

/* The slot of the busier device that is best moved; NULL: none. */
static struct br_pl_slot *move_choose(struct br_pool *pool, uint32_t from, uint32_t to, double difference)
{
    struct br_pl_device *d = &pool->devices[from];
    struct br_pl_slot *best = NULL;
    double best_score = 0;
    for (uint32_t i = 0; i < d->n_held; i++) {
        struct br_pl_slot *s = &pool->slots[d->held[i]], *there = pl_slot(pool, to, s->model);
        int32_t index = (int32_t)d->held[i];
        double share = pl_share(pool, s);
        if (pl_n(s) == 0 || index == d->step.slot || index == d->link.slot || index == d->loading ||
            share > .7 * difference || s->run.n + there->run.n > BR_PL_MAX_BATCH)
            continue;
        double score = share / difference - .7 * resident(pool, s) + .7 * resident(pool, there);
        if (!best || score > best_score) {
            best = s;
            best_score = score;
        }
    }
    return best;
}

static void rebalance(struct br_pool *pool)
{
    uint32_t most = 0, least = 0;
    double high = pl_util(pool, 0), low = high;
    for (uint32_t i = 1; i < pool->n_devices; i++) {
        double u = pl_util(pool, i);
        if (u > high) {
            high = u;
            most = i;
        }
        if (u < low) {
            low = u;
            least = i;
        }
    }
    struct br_pl_slot *s = high - low > .1 ? move_choose(pool, most, least, high - low) : NULL;
    if (s)
        pl_move(pool, s, pl_slot(pool, least, s->model));
}

static void slack_tick(struct br_pool *pool, double now_s)
{
    (void)now_s;
    rebalance(pool);
}

static void slack_stepped(struct br_pool *pool, double now_s, uint32_t device)
{
    (void)now_s;
    if (pl_util(pool, device) <= 0)
        rebalance(pool);
}

const struct br_pl_policy pl_policy_slack = {
    .name = "slack",
    .switch_s = .002,
    .arrive = slack_arrive,
    .stepped = slack_stepped,
    .pick = slack_pick,
    .load = slack_load,
    .tick = slack_tick,
};
