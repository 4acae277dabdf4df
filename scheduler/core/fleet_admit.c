/* Who is refused before any work is spent on it, and when it may try again.
 *
 * A device needs u of itself to make every token on time: what the policy reckons (br_pl_util), or less if tokens have
 * lately come faster than that would allow; a cost that is thought too high refuses nobody for long. Up to 1 everything
 * is on time. Beyond, a sequence falls behind by (1 - 1/u) of the time, until it has used up how early it is: so many
 * of its tokens are still on time. The share of those, over all sequences of the device and the new one, is the
 * attainment that is predicted. */
#include <math.h>

#include "scheduler/core/fleet_books.h"

/* What is predicted has to be this good; of one that comes when it was told to much less: whoever came since was
 * admitted beside its place. */
static const double ATTAINMENT = .99, ATTAINMENT_TOLD = .5;
/* Up to here nothing is refused, whatever is late now; beyond, so many late ones say that the costs are too low. */
static const double LIGHT = .7, LATE_MOST = .1;
/* Up to here nobody waits for those who were told to come and are not there yet. */
static const double HALF = .5;
/* What a device really gets done of what its steps would allow: models change, loads and prompts come in pieces. And of
 * how early sequences are, so much of a TTFT is left alone. */
static const double REAL = .75, RESERVE = .2;
/* How often in a TTFT the weights of a model come in that does not stay. */
static const double LOADS = 2;
/* Those that were told to come within this part of a TTFT count as if they were here. */
static const double SOON = 1;
/* Places in the queue are this much further apart than ends have been lately; what that leaves is for those who come
 * for the first time. */
static const double GAP_MARGIN = 2.5, RETRY_MOST_S = 600;

void fleet_count_end(struct br_fleet *fleet, double now_s)
{
    if (fleet->last_end_s >= 0)
        fleet->end_gap_s += 0.1 * (now_s - fleet->last_end_s - fleet->end_gap_s);
    fleet->last_end_s = now_s;
}

static double bounded(double retry_s, double most_s)
{
    return retry_s > 1 ? fmin(retry_s, most_s) : 1;
}

static bool runs_on(const struct br_pool *pool, uint32_t device, uint32_t model)
{
    return pool->counts[(size_t)model * pool->n_devices + device] > 0;
}

/* ---- what a device needs ---- */

static double step_s(const struct br_fleet *fleet, const struct br_pl_slot *s, uint32_t n, int64_t kv)
{
    return n ? fleet_step_s(fleet, s->device, s->model, n, kv, 0) : 0;
}

/* Part of the device that n more sequences of the model need: their prompts within TTFT, and what a step of the slot
 * grows by within TBT. Of a batch that is full already each takes its part of another one. */
static double share_more(const struct br_fleet *fleet, uint32_t device, const struct br_fleet_request *r)
{
    const struct br_pl_slot *s = &fleet->pool->slots[(size_t)device * fleet->pool->n_models + r->model];
    const struct br_pl_model *m = &fleet->pool->models[r->model];
    uint32_t n = s->wait.n + s->run.n - s->paused, prompt = r->prompt ? r->prompt : 1;
    double ttft_s = r->ttft_s > 0 ? r->ttft_s : m->ttft_s, tbt_s = r->tbt_s > 0 ? r->tbt_s : m->tbt_s;
    double prefill_s = fleet_step_s(fleet, device, r->model, 0, 0, prompt) * r->n_seqs;
    int64_t kv = s->kv_all + (int64_t)r->n_seqs * prompt * m->kv_token_bytes;
    double grows_s = n + r->n_seqs <= BR_PL_MAX_BATCH
                         ? step_s(fleet, s, n + r->n_seqs, kv) - step_s(fleet, s, n, s->kv_all)
                         : step_s(fleet, s, BR_PL_MAX_BATCH, s->kv_all) * r->n_seqs / BR_PL_MAX_BATCH;
    return prefill_s / ttft_s + fmax(grows_s, 0) / tbt_s;
}

/* The policy reckons with one full batch; those beyond it wait for theirs. */
static double beyond_batches(const struct br_fleet *fleet, uint32_t device)
{
    const struct br_pl_device *d = &fleet->pool->devices[device];
    double more = 0;
    for (uint32_t i = 0; i < d->n_held; i++) {
        const struct br_pl_slot *s = &fleet->pool->slots[d->held[i]];
        uint32_t n = s->wait.n + s->run.n - s->paused;
        if (n > BR_PL_MAX_BATCH)
            more += step_s(fleet, s, BR_PL_MAX_BATCH, s->kv_all) / fleet->pool->models[s->model].tbt_s *
                    ((double)n / BR_PL_MAX_BATCH - 1);
    }
    return more;
}

/* Part of its time for which a device loads weights when it cannot keep all that it runs, and one model more: each
 * comes in LOADS times in its TTFT. *beside: a load finds room beside what runs. */
static double link_part(const struct br_fleet *fleet, uint32_t device, uint32_t more, bool *beside)
{
    const struct br_pool *pool = fleet->pool;
    const struct br_pl_device *d = &pool->devices[device];
    double bytes = 0, kv = 0, per_s = 0, first = 0, second = 0;
    bool extra_runs = runs_on(pool, device, more);
    for (uint32_t i = 0; i <= d->n_held; i++) {
        const struct br_pl_slot *s = &pool->slots[i < d->n_held ? d->held[i] : device * pool->n_models + more];
        const struct br_pl_model *m = &pool->models[s->model];
        double weights = (double)m->weights_bytes;
        if (i == d->n_held ? extra_runs : s->run.n + s->wait.n == 0) /* idle ones make room; the one more counts once */
            continue;
        bytes += weights;
        kv += (double)(s->kv_all + s->left * m->kv_token_bytes);
        per_s += LOADS * weights / m->ttft_s;
        second = weights > first ? first : fmax(second, weights);
        first = fmax(first, weights);
    }
    *beside = first + second + kv <= (double)d->hw.memory_bytes;
    return bytes + kv > (double)d->hw.memory_bytes ? per_s / d->hw.link_bytes_per_s : 0;
}

/* With the new ones, those that are about to come in, and `told` others. */
static double util_with(struct br_fleet *fleet, double now_s, uint32_t device, const struct br_fleet_request *r,
                        uint32_t told)
{
    const struct fleet_device *d = &fleet->devices[device];
    double planned = br_pl_util(fleet->pool, device) + beyond_batches(fleet, device), shown, more, link;
    bool beside;
    shown = fmin(planned, fleet_pace_util(fleet, device, now_s));
    more = share_more(fleet, device, r);
    more += more / r->n_seqs * r->pending + (d->n ? planned / d->n : more / r->n_seqs) * told;
    if (planned > 0)
        more *= shown / planned;
    link = link_part(fleet, device, r->model, &beside);
    return beside ? fmax((shown + more) / REAL, link) : (shown + more) / REAL + link;
}

/* ---- what becomes of its sequences ---- */

struct forecast {
    double u, reserve_s, tokens, on_time;
    uint32_t n, late;
};

/* A token's time is tbt; at 1/u of the pace it takes u times as long. */
static void forecast_one(struct forecast *f, double lead_s, double left, double tbt_s)
{
    double lost_s = (f->u - 1) * tbt_s;
    f->tokens += left;
    f->on_time += lost_s > 0 ? fmin(left, fmax(lead_s - f->reserve_s, 0) / lost_s) : left;
}

static void forecast_list(const struct br_fleet *fleet, const struct br_pl_list *list, double now_s, struct forecast *f)
{
    for (int32_t i = list->first; i >= 0; i = fleet->pool->seqs[i].next) {
        const struct br_pl_seq *q = &fleet->pool->seqs[i];
        if (q->paused)
            continue;
        f->n++;
        f->late += q->due_s < now_s;
        if (q->due_s >= now_s) /* the others are late whoever comes */
            forecast_one(f, q->due_s - now_s, fleet_left(fleet, (uint32_t)i), q->tbt_s);
    }
}

static double attainment(struct br_fleet *fleet, double now_s, uint32_t device, const struct br_fleet_request *r,
                         double u)
{
    const struct br_pl_device *d = &fleet->pool->devices[device];
    const struct br_pl_model *m = &fleet->pool->models[r->model];
    double ttft_s = r->ttft_s > 0 ? r->ttft_s : m->ttft_s, tbt_s = r->tbt_s > 0 ? r->tbt_s : m->tbt_s;
    struct forecast f = {.u = u, .reserve_s = RESERVE * ttft_s};
    if (u <= LIGHT)
        return 1;
    for (uint32_t i = 0; i < d->n_held; i++) {
        forecast_list(fleet, &fleet->pool->slots[d->held[i]].run, now_s, &f);
        forecast_list(fleet, &fleet->pool->slots[d->held[i]].wait, now_s, &f);
    }
    if (f.n == 0)
        return 1; /* nobody else is there: it could not be served better later */
    if (f.late > LATE_MOST * f.n)
        return 1 - (double)f.late / f.n;
    forecast_one(&f, ttft_s, fleet_length(fleet, r->model, r->most), tbt_s);
    return f.on_time / f.tokens;
}

/* ---- the answer ---- */

static bool good_enough(struct br_fleet *fleet, double now_s, int32_t device, const struct br_fleet_request *r,
                        bool told, struct br_fleet_answer *answer)
{
    double soon_s = SOON * fleet->pool->models[r->model].ttft_s;
    uint32_t others = told ? 0 : fleet_promises_due(fleet->promises, (uint32_t)device, now_s, soon_s);
    answer->utilisation = util_with(fleet, now_s, (uint32_t)device, r, 0);
    if (others && answer->utilisation > HALF)
        answer->utilisation = util_with(fleet, now_s, (uint32_t)device, r, others);
    answer->attainment = attainment(fleet, now_s, (uint32_t)device, r, answer->utilisation);
    return answer->attainment >= (told ? ATTAINMENT_TOLD : ATTAINMENT);
}

/* Its place in the device's queue: behind the others by the time in which the device gets one more of them done. That
 * is seen when it is full; what its sequences need of it says the same before, and when it was idle for want of them.
 */
static double retry_promise(struct br_fleet *fleet, double now_s, uint32_t device, const struct br_fleet_request *r,
                            double u)
{
    const struct fleet_device *d = &fleet->devices[device];
    double stay_s = fleet_length(fleet, r->model, r->most) * fleet->pool->models[r->model].tbt_s;
    double gap_s = fmin(u, 2) / (d->n + r->n_seqs) * stay_s;
    gap_s = GAP_MARGIN * (d->gap_s > 0 ? fmin(gap_s, d->gap_s) : gap_s) * r->n_seqs;
    return bounded(fleet_promise(fleet->promises, r->key, device, now_s, gap_s, fmax(gap_s, 1)), RETRY_MOST_S);
}

static struct br_fleet_answer full(const struct br_fleet *fleet, uint32_t n_seqs)
{
    /* at each end there is room for one more */
    return (struct br_fleet_answer){.verdict = BR_FLEET_FULL, .retry_s = bounded(fleet->end_gap_s * n_seqs, 60)};
}

struct br_fleet_answer br_fleet_admits(struct br_fleet *fleet, double now_s, const struct br_fleet_request *r)
{
    struct br_fleet_answer answer = {.verdict = BR_FLEET_ADMIT, .attainment = 1};
    uint32_t more = r->n_seqs + r->pending;
    double in_s = 0;
    if (fleet->n_unfinished >= fleet->config.max_unfinished ||
        more > fleet->config.max_unfinished - fleet->n_unfinished)
        return full(fleet, r->n_seqs);
    int32_t device = fleet->config.admission ? br_pl_choose(fleet->pool, r->model, r->prompt ? r->prompt : 1) : -1;
    if (device < 0)
        return answer; /* it waits for a device */
    bool told = r->key && fleet_promised(fleet->promises, r->key, now_s, &in_s) && in_s <= 0;
    bool good = good_enough(fleet, now_s, device, r, told, &answer);
    if (r->key && (good || told))
        fleet_promise_kept(fleet->promises, r->key);
    if (good)
        return answer;
    answer.verdict = BR_FLEET_LATE;
    answer.retry_s =
        in_s > 0 ? bounded(in_s, RETRY_MOST_S) : retry_promise(fleet, now_s, (uint32_t)device, r, answer.utilisation);
    return answer;
}
