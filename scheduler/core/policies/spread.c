/* `spread`: the simplest placement that keeps batches together. A model goes where it runs, to the least utilised such
 * device; else to the least utilised of all, where resident weights are worth .3 of a device. No replicas, no
 * admission, nothing moves. On a device it does as `slack` does. */
#include "scheduler/core/policies/slack.h"

static double cost(const struct br_pool *pool, uint32_t device, uint32_t model)
{
    double resident = (double)pl_slot(pool, device, model)->weights;
    return pool->util[device] - .3 * resident / (double)pool->models[model].weights_bytes;
}

static int32_t spread_choose(struct br_pool *pool, uint32_t model, uint32_t prompt)
{
    const uint32_t *counts = pool->counts + (size_t)model * pool->n_devices;
    int32_t best = -1;
    bool active = false;
    (void)prompt;
    pl_utils(pool);
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        if (!pl_takes(pool, i, model) || (active && counts[i] == 0))
            continue;
        bool first = best < 0 || (counts[i] > 0 && !active);
        if (first || cost(pool, i, model) < cost(pool, (uint32_t)best, model))
            best = (int32_t)i;
        active |= counts[i] > 0;
    }
    return best;
}

static void spread_arrive(struct br_pool *pool, double now_s, uint32_t seq)
{
    uint32_t model = pool->seqs[seq].model;
    int32_t device = spread_choose(pool, model, pool->seqs[seq].prompt);
    (void)now_s;
    if (device >= 0)
        pl_assign(pool, seq, pl_slot(pool, (uint32_t)device, model));
}

const struct br_pl_policy pl_policy_spread = {
    .name = "spread",
    .switch_s = .002,
    .arrive = spread_arrive,
    .choose = spread_choose,
    .pick = slack_pick,
    .load = slack_load,
};
