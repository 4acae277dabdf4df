#include "sim/plan/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct device {    /* for stalls */
    double idle_s; /* since when no step runs */
    double load_end_s;
};

struct recorder {
    struct plan_timeline *out;
    const struct plan_part *part;
    const struct sim_request *requests; /* the pool's, models by index in the ask */
    uint32_t cap, n_requests;
};

static uint32_t asked(const void *recorder, uint32_t model)
{
    return ((const struct recorder *)recorder)->part->models[model];
}

static void span_add(struct recorder *r, struct plan_span span)
{
    struct plan_timeline *t = r->out;
    if (span.from_s < t->from_s || span.from_s >= t->to_s)
        return;
    if (t->n_spans == PLAN_MAX_SPANS) {
        t->to_s = span.from_s;
        t->cut = true;
        return;
    }
    if (t->n_spans == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 4096;
        t->spans = br_realloc(t->spans, r->cap * sizeof *t->spans);
    }
    t->spans[t->n_spans++] = span;
}

static void step_begun(void *ctx, double now_s, double end_s, uint32_t device, uint32_t model,
                       const struct br_pl_running *step)
{
    span_add(ctx, (struct plan_span){.kind = PLAN_SPAN_STEP,
                                     .device = device,
                                     .model = asked(ctx, model),
                                     .from_s = now_s,
                                     .to_s = end_s,
                                     .decodes = step->decodes,
                                     .prefill = step->prefill,
                                     .switched = step->switched,
                                     .streamed = step->streamed});
}

static void load_begun(void *ctx, double now_s, double end_s, uint32_t device, uint32_t model, int64_t bytes, bool kv)
{
    span_add(ctx, (struct plan_span){.kind = kv ? PLAN_SPAN_SWAP : PLAN_SPAN_LOAD,
                                     .device = device,
                                     .model = asked(ctx, model),
                                     .from_s = now_s,
                                     .to_s = end_s,
                                     .bytes = (double)bytes});
}

static void evicted(void *ctx, double now_s, uint32_t device, uint32_t model, int64_t bytes, bool kv)
{
    span_add(ctx, (struct plan_span){.kind = kv ? PLAN_SPAN_SWAP_OUT : PLAN_SPAN_EVICT,
                                     .device = device,
                                     .model = asked(ctx, model),
                                     .from_s = now_s,
                                     .to_s = now_s,
                                     .bytes = (double)bytes});
}

static void request_seen(void *ctx, double now_s, enum sim_request_event what, uint32_t index)
{
    struct recorder *r = ctx;
    struct plan_life *life = &r->out->lives[index];
    if (what == SIM_REQUEST_FIRST_TOKEN) {
        life->first_s = now_s;
    } else if (what != SIM_REQUEST_ARRIVED) {
        life->ended_s = now_s;
        life->lost = what == SIM_REQUEST_LOST;
    }
}

/* All of the pool's requests, in the order in which the run has them. */
static void lives_make(struct recorder *r, const struct plan_ask *ask, const struct plan_requests *all)
{
    bool *mine = br_calloc(ask->n_models, sizeof *mine);
    struct plan_timeline *t = r->out;
    for (uint32_t i = 0; i < r->part->n_models; i++)
        mine[r->part->models[i]] = true;
    t->lives = br_calloc(all->n + 1, sizeof *t->lives);
    for (uint32_t i = 0; i < all->n; i++) {
        const struct sim_request *q = &all->list[i];
        if (mine[q->model])
            t->lives[t->n_lives++] = (struct plan_life){.model = q->model,
                                                        .prompt = q->prompt,
                                                        .output = q->output,
                                                        .arrived_s = q->at_s,
                                                        .first_s = NAN,
                                                        .ended_s = NAN};
    }
    free(mine);
}

static void lives_cut(struct plan_timeline *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_lives; i++)
        if (t->lives[i].arrived_s < t->to_s && !(t->lives[i].ended_s < t->from_s))
            t->lives[n++] = t->lives[i];
    t->n_lives = n;
}

/* What of [from, to], when no step ran, a load took: from the first chunk's begin to the last one's end. */
static void stall_add(struct recorder *r, const struct device *d, const struct plan_span *load, double to_s)
{
    double from = fmax(d->idle_s, load->from_s), to = fmin(to_s, d->load_end_s);
    if (to - from > 1e-9) {
        struct plan_span stall = *load;
        stall.kind = PLAN_SPAN_STALL;
        stall.from_s = from;
        stall.to_s = to;
        span_add(r, stall);
    }
}

/* The steps and loads of each device follow each other, so one pass finds where its link was busy and it computed not.
 */
static void stalls_add(struct recorder *r)
{
    struct plan_timeline *t = r->out;
    uint32_t n = t->n_spans;
    struct device *devices = br_calloc(t->n_devices, sizeof *devices);
    struct plan_span *loads = br_calloc(t->n_devices, sizeof *loads); /* spells without a gap */
    for (uint32_t i = 0; i < t->n_devices; i++)
        devices[i] = (struct device){t->from_s, -1};
    for (uint32_t i = 0; i < n; i++) {
        struct plan_span s = t->spans[i];
        struct device *d = &devices[s.device];
        if (s.kind == PLAN_SPAN_STEP) {
            if (d->load_end_s > 0)
                stall_add(r, d, &loads[s.device], s.from_s);
            d->idle_s = s.to_s;
        } else if (s.kind == PLAN_SPAN_LOAD || s.kind == PLAN_SPAN_SWAP) {
            if (s.from_s > d->load_end_s + 1e-6) {
                if (d->load_end_s > d->idle_s)
                    stall_add(r, d, &loads[s.device], s.from_s);
                loads[s.device] = s;
            }
            loads[s.device].model = s.model;
            d->load_end_s = s.to_s;
        }
    }
    free(loads);
    free(devices);
}

static int run(struct recorder *r, const struct plan_ask *ask, const struct plan_requests *requests, struct br_err *err)
{
    const struct plan_part *part = r->part;
    struct plan_tally tally;
    struct sim_observer observer = {
        .ctx = r, .request = request_seen, .step_begun = step_begun, .load_begun = load_begun, .evicted = evicted};
    struct plan_pool pool = {part->kind, part->models, part->n_models, part->weights_bytes};
    struct plan_trial trial = {.ask = ask,
                               .pool = &pool,
                               .policy = strcmp(r->out->policy, "dedicated") == 0 ? "slack" : r->out->policy,
                               .requests = *requests,
                               .n_devices = part->devices - part->redundant,
                               .observer = &observer};
    plan_tally_init(&tally);
    double attainment = plan_trial_run(&trial, &tally, err);
    plan_tally_free(&tally);
    return attainment < 0 ? err->code : 0;
}

int plan_timeline_record(const struct plan_ask *ask, const struct plan_answer *answer, const struct plan_result *result,
                         uint32_t part, double from_s, double to_s, struct plan_timeline *out, struct br_err *err)
{
    struct recorder r = {.out = out, .part = &result->parts[part]};
    *out = (struct plan_timeline){.policy = result->policy,
                                  .kind = r.part->kind,
                                  .n_devices = r.part->devices - r.part->redundant,
                                  .n_models = r.part->n_models,
                                  .from_s = from_s,
                                  .to_s = to_s};
    lives_make(&r, ask, &answer->requests[0]);
    int rc = run(&r, ask, &answer->requests[0], err);
    if (rc < 0) {
        plan_timeline_free(out);
        return rc;
    }
    lives_cut(out);
    stalls_add(&r);
    return 0;
}

void plan_timeline_free(struct plan_timeline *timeline)
{
    free(timeline->spans);
    free(timeline->lives);
    *timeline = (struct plan_timeline){0};
}

int32_t plan_timeline_part(const struct plan_result *result)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < result->n_parts; i++)
        if (best < 0 || result->parts[i].devices > result->parts[best].devices)
            best = (int32_t)i;
    return best;
}
