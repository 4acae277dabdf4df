/* `slack`: ours. Every device does prefill and decode; several models stay resident; loads overlap compute; the slot
 * whose most urgent token is due first runs; late sequences do not drag the others down; work moves. Here: arrivals
 * and rebalancing. */
#include "scheduler/core/policies/slack.h"

enum { MOST_MOVED = BR_PL_MAX_ACTIONS / 2 }; /* waiting sequences of a slot that moves: each is an action */

static double resident(const struct br_pool *pool, const struct br_pl_slot *s)
{
    return (double)s->weights / (double)pl_model(pool, s)->weights_bytes;
}

/* The least utilised device where the model is active; -1: nowhere. */
static int32_t active_device(const struct br_pool *pool, uint32_t model, double *util)
{
    const uint32_t *counts = pool->counts + (size_t)model * pool->n_devices;
    int32_t best = -1;
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        if (counts[i] == 0 || !pl_takes(pool, i, model))
            continue;
        double u = pool->util[i];
        if (best < 0 || u < *util) {
            best = (int32_t)i;
            *util = u;
        }
    }
    return best;
}

/* -1: no device takes the model. */
static int32_t fresh_device(const struct br_pool *pool, uint32_t model, double *util)
{
    const double *part = pool->resident + (size_t)model * pool->n_devices;
    int32_t best = -1;
    double best_cost = PL_NEVER;
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        double cost = pool->util[i] + .3 * (1 - part[i]);
        if (part[i] >= 0 && cost < best_cost) {
            best = (int32_t)i;
            best_cost = cost;
            *util = pool->util[i];
        }
    }
    return best;
}

/* Answers still grow, some to many times their prompt: a batch is split well before its KV has no room, or its youngest
 * would be preempted and prefilled again over and over. Not where compute is the limit: smaller batches need more; nor
 * small ones. */
static const double FILLED = .3;
enum { FILLED_LEAST = 32 };

static bool filled(const struct br_pool *pool, const struct br_pl_slot *s)
{
    double room = (double)(pool->devices[s->device].hw.memory_bytes - pl_model(pool, s)->weights_bytes);
    return pl_n(s) >= FILLED_LEAST && (double)(s->kv_all + s->kv_wait) > FILLED * room;
}

/* A batch that outgrows its device is split when it is large enough to be worth it; prompts that fill their TTFT and
 * KV that has no room are reasons whatever the batch. */
static bool replica_helps(const struct br_pool *pool, struct br_pl_slot *s, uint32_t prompt, double util,
                          double other_util)
{
    const struct br_pl_model *m = pl_model(pool, s);
    if (filled(pool, s) && util < 1 && other_util < util - .05)
        return true;
    if (other_util >= util - .3)
        return false;
    bool prompts = pl_prefill_s(pool, s->device, s->model, (uint32_t)(s->left - s->known) + prompt) > .8 * m->ttft_s;
    bool full = !pl_room(pool, s, prompt, pool->devices[s->device].hw.memory_bytes);
    return (util > 1 && pl_share(pool, s) > .8 && pl_n(s) >= 8) || (prompts && s->left > 0) || full;
}

static int32_t slack_choose(struct br_pool *pool, uint32_t model, uint32_t prompt)
{
    double util = 0, other_util = 0;
    pl_utils(pool);
    int32_t device = active_device(pool, model, &util), other = fresh_device(pool, model, &other_util);
    bool fresh = device < 0 || replica_helps(pool, pl_slot(pool, (uint32_t)device, model), prompt, util, other_util);
    return fresh ? other : device;
}

static bool active(const struct br_pool *pool, uint32_t model)
{
    double util;
    return active_device(pool, model, &util) >= 0;
}

static void slack_arrive(struct br_pool *pool, double now_s, uint32_t seq)
{
    (void)now_s;
    const struct br_pl_seq *q = &pool->seqs[seq];
    int32_t device = slack_choose(pool, q->model, q->prompt);
    if (device < 0)
        return;
    if (pool->options.admission && !q->kept && pool->util[device] > (active(pool, q->model) ? 1.65 : 1.1))
        pl_end(pool, seq, BR_PL_REFUSE);
    else
        pl_assign(pool, seq, pl_slot(pool, (uint32_t)device, q->model));
}

/* Where KV does not travel: the part of a TTFT that computing the slot's KV again takes. Up to a tenth of the
 * difference is worth it, and twice of it counts against the move. In the simulator this holds as many models at 99 %
 * as moves that cost nothing (row 1 of the table), or nearly (row 3, where unweighed moves would lose two models in
 * five). */
static const double AGAIN_MOST = .1, AGAIN_COUNTS = 2;

static double again(const struct br_pool *pool, const struct br_pl_slot *s)
{
    const struct br_pl_model *m = pl_model(pool, s);
    int64_t kv = s->kv_all + s->kv_wait;
    if (!pool->options.recompute || kv == 0)
        return 0;
    return pl_prefill_s(pool, s->device, s->model, (uint32_t)(kv / m->kv_token_bytes)) / m->ttft_s;
}

/* Of what the weights leave, the share that two slots' KV may take together: a slot that is not here in whole cannot
 * run, and one that will never fit blocks its device for as long as its sequences last. */
static const double MERGED_MOST = .8;

static bool merges(const struct br_pool *pool, const struct br_pl_slot *s, const struct br_pl_slot *there)
{
    const struct br_pl_model *m = pl_model(pool, s);
    int64_t room = pool->devices[there->device].hw.memory_bytes - m->weights_bytes;
    int64_t kv = s->kv_all + s->kv_wait + there->kv_all + there->kv_wait + (s->left + there->left) * m->kv_token_bytes;
    return (double)kv <= MERGED_MOST * (double)room;
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
        double share = pl_share(pool, s), cost = again(pool, s);
        if (pl_n(s) == 0 || index == d->step.slot || index == d->link.slot || index == d->loading ||
            share > .7 * difference || s->run.n + there->run.n > pool->options.max_batch || s->wait.n > MOST_MOVED ||
            !pl_takes(pool, to, s->model) || !merges(pool, s, there) || (pool->options.mirror && index == d->current) ||
            cost > AGAIN_MOST * difference || share <= 0) /* paused ones alone relieve nobody */
            continue;
        double score =
            share / difference - .7 * resident(pool, s) + .7 * resident(pool, there) - AGAIN_COUNTS * cost / difference;
        if (!best || score > best_score) {
            best = s;
            best_score = score;
        }
    }
    return best;
}

static void rebalance(struct br_pool *pool)
{
    int32_t most = -1, least = -1;
    pl_utils(pool);
    for (uint32_t i = 0; i < pool->n_devices; i++) {
        if (!pool->open[i])
            continue;
        if (most < 0 || pool->util[i] > pool->util[most])
            most = (int32_t)i;
        if (least < 0 || pool->util[i] < pool->util[least])
            least = (int32_t)i;
    }
    double difference = most >= 0 ? pool->util[most] - pool->util[least] : 0;
    struct br_pl_slot *s = difference > .1 ? move_choose(pool, (uint32_t)most, (uint32_t)least, difference) : NULL;
    if (s)
        pl_move(pool, s, pl_slot(pool, (uint32_t)least, s->model));
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

static void slack_settle(struct br_pool *pool, uint32_t device)
{
    slack_stepped(pool, pool->now_s, device);
}

const struct br_pl_policy pl_policy_slack = {
    .name = "slack",
    .switch_s = .002,
    .streams = true,
    .arrive = slack_arrive,
    .choose = slack_choose,
    .stepped = slack_stepped,
    .settle = slack_settle,
    .pick = slack_pick,
    .load = slack_load,
    .tick = slack_tick,
};
