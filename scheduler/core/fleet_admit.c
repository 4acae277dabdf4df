/* Who is refused before any work is spent on it, and when it may try again. */
#include <math.h>

#include "scheduler/core/fleet_books.h"

/* Of a device that needs u of itself at most 1/u of the tokens can be on time: 1.1 keeps nine in ten. Where the model
 * runs already one more sequence costs less than its share, which batching makes smaller: 1.65 (policy.md). */
static const double LIMIT_FRESH = 1.1, LIMIT_ACTIVE = 1.65;

void fleet_count_end(struct br_fleet *fleet, double now_s)
{
    if (fleet->last_end_s >= 0)
        fleet->end_gap_s += 0.1 * (now_s - fleet->last_end_s - fleet->end_gap_s);
    fleet->last_end_s = now_s;
}

static double bounded(double retry_s)
{
    return retry_s > 1 ? fmin(retry_s, 60) : 1;
}

/* The least utilised device that may get it, where it is active if it is anywhere; -1: none takes it. */
static int32_t device_choose(struct br_fleet *fleet, uint32_t model, bool *active)
{
    struct br_pool *pool = fleet->pool;
    int32_t best = -1;
    *active = false;
    for (uint32_t d = 0; d < fleet->config.max_devices; d++) {
        size_t at = (size_t)model * pool->n_devices + d;
        bool runs = pool->counts[at] > 0;
        if (pool->resident[at] < 0 || (*active && !runs))
            continue;
        if (best < 0 || (runs && !*active) || br_pl_util(pool, d) < br_pl_util(pool, (uint32_t)best))
            best = (int32_t)d;
        *active |= runs;
    }
    return best;
}

/* Part of its link that a device needs which cannot keep all that it runs, and one model more: each comes in about once
 * in its TTFT. */
static double link_part(const struct br_fleet *fleet, uint32_t device, uint32_t more)
{
    const struct br_pool *pool = fleet->pool;
    const struct br_pl_device *d = &pool->devices[device];
    double bytes = 0, bytes_per_s = 0;
    for (uint32_t i = 0; i <= d->n_held; i++) {
        const struct br_pl_slot *s = &pool->slots[i < d->n_held ? d->held[i] : device * pool->n_models + more];
        const struct br_pl_model *m = &pool->models[s->model];
        bool extra = i == d->n_held;
        if ((s->run.n + s->wait.n == 0) != extra) /* idle ones make room; the one more is counted once */
            continue;
        bytes += (double)(m->weights_bytes + s->kv_all);
        bytes_per_s += (double)m->weights_bytes / m->ttft_s;
    }
    return bytes > (double)d->hw.memory_bytes ? bytes_per_s / d->hw.link_bytes_per_s : 0;
}

static struct br_fleet_answer full(const struct br_fleet *fleet, uint32_t n_seqs)
{
    /* at each end there is room for one more */
    return (struct br_fleet_answer){BR_FLEET_FULL, bounded(fleet->end_gap_s * n_seqs), 0};
}

struct br_fleet_answer br_fleet_admits(struct br_fleet *fleet, uint32_t model, uint32_t n_seqs)
{
    struct br_fleet_answer answer = {BR_FLEET_ADMIT, 0, 0};
    bool active;
    if (fleet->n_unfinished >= fleet->config.max_unfinished ||
        n_seqs > fleet->config.max_unfinished - fleet->n_unfinished)
        return full(fleet, n_seqs);
    int32_t device = fleet->config.admission ? device_choose(fleet, model, &active) : -1;
    if (device < 0)
        return answer;
    double limit = active ? LIMIT_ACTIVE : LIMIT_FRESH, link = link_part(fleet, (uint32_t)device, model);
    answer.utilisation = br_pl_util(fleet->pool, (uint32_t)device);
    if (!active && link > answer.utilisation) { /* where it runs, one more loads nothing more */
        answer.utilisation = link;
        limit = 1;
    }
    if (answer.utilisation <= limit)
        return answer;
    /* so many of all have to end before its device is below the limit, if all devices end alike */
    double ends = fleet->n_unfinished * (1 - limit / answer.utilisation);
    answer.verdict = BR_FLEET_LATE;
    answer.retry_s = bounded(fleet->end_gap_s * ends);
    return answer;
}
