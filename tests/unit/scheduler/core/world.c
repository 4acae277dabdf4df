#include "tests/unit/scheduler/core/world.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "scheduler/core/policies/pool.h"
#include "tests/cmocka.h"

enum { SEQS = 4096, REQUESTS = 16384 };
static const double FOREVER = 1e18, TICK_S = .25;

struct request {
    uint32_t model, prompt, output;
    uint64_t key;
    double back_s; /* when it comes again; FOREVER: it does not */
};

struct seq {
    bool known;
    int32_t device;
    struct request is;
    double arrived_s;
    uint32_t made;
};

struct device {
    struct br_pool *pool;
    double step_end_s, load_end_s;
};

struct world {
    struct world_config c;
    struct world_result *out;
    struct br_rng rng;
    double now_s, next_s, tick_s;
    struct br_fleet *fleet;
    struct br_fleet_actions *actions;
    struct br_pl_actions *did;
    struct device *devices;
    struct seq seqs[SEQS];
    struct request back[REQUESTS];
    uint32_t n_back;
};

static double true_step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                          uint32_t prefill)
{
    const struct world *w = ctx;
    struct br_step_cost cost;
    (void)device, (void)model;
    br_step_cost_init(&cost, &w->c.shape);
    return br_step_cost_s(&cost, decodes, kv_bytes, prefill);
}

/* ---- devices ---- */

static void tell_fleet(struct world *w, struct br_fleet_event event);

static double streamed_until(const struct world *w, const struct device *d)
{
    const struct br_pl_device *p = &d->pool->devices[0];
    const struct br_pl_slot *s = &d->pool->slots[p->step.slot];
    double miss = (double)(d->pool->models[s->model].weights_bytes + s->kv_all - s->weights - s->kv);
    bool loads = p->link.slot == p->step.slot;
    return (loads ? d->load_end_s : w->now_s) + (miss - (loads ? (double)p->link.bytes : 0)) / p->hw.link_bytes_per_s;
}

static void obey(struct world *w, struct device *d)
{
    const struct br_pl_device *p = &d->pool->devices[0];
    for (uint32_t i = 0; i < w->did->n; i++)
        if (w->did->list[i].kind == BR_PL_LOAD)
            d->load_end_s = w->now_s + (double)p->link.bytes / p->hw.link_bytes_per_s;
    for (uint32_t i = 0; i < w->did->n; i++) {
        if (w->did->list[i].kind != BR_PL_STEP)
            continue;
        d->step_end_s = w->now_s + p->step.cost_s + (p->step.switched ? br_pl_switch_s(d->pool) : 0);
        if (p->step.streamed)
            d->step_end_s = fmax(d->step_end_s, streamed_until(w, d));
    }
}

static void tell_device(struct world *w, uint32_t device, struct br_pl_event event)
{
    struct device *d = &w->devices[device];
    event.device = 0;
    br_pl_step(d->pool, w->now_s, &event, w->did);
    obey(w, d);
}

static void token(struct world *w, uint32_t seq)
{
    struct seq *q = &w->seqs[seq];
    w->out->on_time += w->now_s <= q->arrived_s + w->c.ttft_s + q->made * w->c.tbt_s + 1e-9;
    q->made++;
}

static void step_done(struct world *w, uint32_t device)
{
    struct device *d = &w->devices[device];
    struct br_pl_running *step = &d->pool->devices[0].step;
    uint32_t seqs[BR_PL_MAX_BATCH], n = 0;
    d->step_end_s = FOREVER;
    for (uint32_t i = 0; i < step->n; i++)
        if (step->items[i].emits) {
            seqs[n++] = step->items[i].seq;
            token(w, step->items[i].seq);
            step->items[i].ended = w->seqs[step->items[i].seq].made == w->seqs[step->items[i].seq].is.output;
        }
    tell_device(w, device, (struct br_pl_event){.kind = BR_PL_STEP_DONE});
    for (uint32_t i = 0; i < n; i++) {
        struct seq *q = &w->seqs[seqs[i]];
        if (!q->known)
            continue;
        tell_fleet(w, (struct br_fleet_event){.kind = BR_FLEET_TOKENS, .seq = seqs[i], .delivered = q->made});
        if (q->made == q->is.output) {
            q->known = false;
            tell_fleet(w, (struct br_fleet_event){.kind = BR_FLEET_END, .seq = seqs[i]});
        }
    }
}

/* ---- the leader ---- */

static void place(struct world *w, uint32_t seq, uint32_t device)
{
    struct seq *q = &w->seqs[seq];
    q->device = (int32_t)device;
    tell_device(w, device,
                (struct br_pl_event){.kind = BR_PL_ARRIVE,
                                     .seq = seq,
                                     .model = q->is.model,
                                     .prompt = q->is.prompt,
                                     .delivered = q->made,
                                     .age_s = w->now_s - q->arrived_s,
                                     .placed = true});
}

static void tell_fleet(struct world *w, struct br_fleet_event event)
{
    br_fleet_step(w->fleet, w->now_s, &event, w->actions);
    assert_false(w->actions->more);
    for (uint32_t i = 0, n = w->actions->n; i < n; i++) {
        struct br_fleet_action a = w->actions->actions[i];
        if (a.kind == BR_FLEET_MOVE)
            tell_device(w, a.from, (struct br_pl_event){.kind = BR_PL_END, .seq = a.seq});
        assert_true(a.kind == BR_FLEET_MOVE || a.kind == BR_FLEET_ASSIGN);
        place(w, a.seq, a.device);
    }
}

static void tick(struct world *w)
{
    w->tick_s = w->now_s + TICK_S;
    for (uint32_t d = 0; d < w->c.devices; d++)
        for (uint32_t m = 0; m < w->c.models; m++)
            tell_fleet(w, (struct br_fleet_event){.kind = BR_FLEET_RESIDENT,
                                                  .device = d,
                                                  .model = m,
                                                  .bytes = w->devices[d].pool->slots[m].weights,
                                                  .shape = w->c.corrected ? w->c.shape : (struct br_step_shape){0}});
    tell_fleet(w, (struct br_fleet_event){.kind = BR_FLEET_TICK});
    for (uint32_t d = 0; d < w->c.devices; d++)
        tell_device(w, d, (struct br_pl_event){.kind = BR_PL_TICK});
}

/* ---- clients ---- */

static uint32_t length(struct world *w, const double law[2])
{
    double normal = sqrt(-2 * log(1 - br_rng_next(&w->rng))) * cos(2 * M_PI * br_rng_next(&w->rng));
    double n = law[0] * exp(law[1] * normal);
    return n < 16 ? 16 : n > 2048 ? 2048 : (uint32_t)n;
}

static uint32_t unfinished(const struct world *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SEQS; i++)
        n += w->seqs[i].known;
    return n;
}

static void enter(struct world *w, const struct request *r)
{
    uint32_t seq = 0;
    while (w->seqs[seq].known)
        seq++;
    assert_true(seq < SEQS);
    w->seqs[seq] = (struct seq){.known = true, .device = -1, .is = *r, .arrived_s = w->now_s};
    w->out->tokens += r->output;
    tell_fleet(w, (struct br_fleet_event){
                      .kind = BR_FLEET_ARRIVE, .seq = seq, .model = r->model, .prompt = r->prompt, .most = 2048});
}

/* Retry-After has whole seconds, rounded up. */
static bool ask(struct world *w, struct request *r)
{
    struct br_fleet_request question = {
        .model = r->model, .n_seqs = 1, .prompt = r->prompt, .most = 2048, .key = r->key};
    struct br_fleet_answer answer = br_fleet_admits(w->fleet, w->now_s, &question);
    if (answer.verdict == BR_FLEET_ADMIT) {
        enter(w, r);
        return true;
    }
    w->out->retry_most_s = fmax(w->out->retry_most_s, answer.retry_s);
    r->back_s = w->now_s + ceil(answer.retry_s);
    return false;
}

static void arrive(struct world *w)
{
    struct request r = {.model = (uint32_t)(br_rng_next(&w->rng) * w->c.models)};
    r.prompt = length(w, w->c.prompt);
    r.output = length(w, w->c.output);
    r.key = ++w->out->offered;
    if (ask(w, &r))
        w->out->accepted++;
    else {
        w->out->refused++;
        assert_true(w->n_back < REQUESTS);
        w->back[w->n_back++] = r;
    }
    w->next_s = w->now_s - log(1 - br_rng_next(&w->rng)) / w->c.rate;
    if (w->next_s > w->c.seconds)
        w->next_s = FOREVER;
}

static void come_back(struct world *w, uint32_t i)
{
    struct request r = w->back[i];
    w->back[i] = w->back[--w->n_back];
    w->out->came_back++;
    w->out->welcome += ask(w, &r);
}

/* ---- time ---- */

static bool happen(struct world *w)
{
    double at = fmin(w->next_s, w->n_back || unfinished(w) || w->next_s < FOREVER ? w->tick_s : FOREVER);
    int32_t step = -1, load = -1, back = -1;
    for (uint32_t d = 0; d < w->c.devices; d++) {
        if (w->devices[d].step_end_s < at)
            at = w->devices[d].step_end_s, step = (int32_t)d, load = -1;
        if (w->devices[d].load_end_s < at)
            at = w->devices[d].load_end_s, load = (int32_t)d, step = -1;
    }
    for (uint32_t i = 0; i < w->n_back; i++)
        if (w->back[i].back_s < at)
            at = w->back[i].back_s, back = (int32_t)i;
    if (at >= FOREVER)
        return false;
    w->now_s = at;
    if (back >= 0)
        come_back(w, (uint32_t)back);
    else if (load >= 0) {
        w->devices[load].load_end_s = FOREVER;
        tell_device(w, (uint32_t)load, (struct br_pl_event){.kind = BR_PL_LOAD_DONE});
    } else if (step >= 0)
        step_done(w, (uint32_t)step);
    else if (at == w->next_s)
        arrive(w);
    else
        tick(w);
    return true;
}

static void devices_open(struct world *w)
{
    struct br_pl_model *models = calloc(w->c.models, sizeof *models);
    struct br_pl_hardware hw = {(int64_t)w->c.memory_bytes, w->c.link_bytes_per_s, 0, 0};
    struct br_err err;
    for (uint32_t m = 0; m < w->c.models; m++)
        models[m] = (struct br_pl_model){
            (int64_t)w->c.weights_bytes, (int64_t)w->c.kv_token_bytes, w->c.ttft_s, w->c.tbt_s, 0, 1, false};
    for (uint32_t d = 0; d < w->c.devices; d++) {
        struct br_pl_config config = {
            .n_models = w->c.models,
            .n_devices = 1,
            .max_seqs = SEQS,
            .models = models,
            .hardware = &hw,
            .cost = {w, true_step_s},
            .options = {
                .policy = "slack", .hysteresis = BR_PL_HYSTERESIS, .chunk_bytes = 1 << 30, .prefill_step_s = .3}};
        w->devices[d].step_end_s = w->devices[d].load_end_s = FOREVER;
        assert_int_equal(br_pl_create(&config, &w->devices[d].pool, &err), 0);
    }
    free(models);
}

static void leader_open(struct world *w)
{
    struct br_fleet_config config = {.max_devices = w->c.devices,
                                     .max_models = w->c.models,
                                     .max_seqs = SEQS,
                                     .max_unfinished = SEQS,
                                     .admission = w->c.admission};
    struct br_step_shape s = w->c.shape;
    double by = w->c.believed;
    struct br_err err;
    assert_int_equal(br_fleet_create(&config, &w->fleet, &err), 0);
    for (uint32_t m = 0; m < w->c.models; m++)
        tell_fleet(w, (struct br_fleet_event){
                          .kind = BR_FLEET_MODEL_SET, .model = m, .ttft_s = w->c.ttft_s, .tbt_s = w->c.tbt_s});
    for (uint32_t d = 0; d < w->c.devices; d++) {
        tell_fleet(w, (struct br_fleet_event){.kind = BR_FLEET_DEVICE_UP,
                                              .device = d,
                                              .memory_bytes = (int64_t)w->c.memory_bytes,
                                              .link_bytes_per_s = w->c.link_bytes_per_s});
        for (uint32_t m = 0; m < w->c.models; m++)
            tell_fleet(
                w, (struct br_fleet_event){.kind = BR_FLEET_MODEL_ON,
                                           .device = d,
                                           .model = m,
                                           .weights_bytes = (int64_t)w->c.weights_bytes,
                                           .kv_token_bytes = (int64_t)w->c.kv_token_bytes,
                                           .shape = {s.fixed_s * by, s.read_s * by, s.kv_byte_s * by, s.row_s * by}});
    }
}

void world_run(const struct world_config *config, struct world_result *out)
{
    struct world *w = calloc(1, sizeof *w);
    *out = (struct world_result){0};
    w->c = *config;
    w->out = out;
    w->rng.seed = config->seed;
    w->actions = calloc(1, sizeof *w->actions);
    w->did = calloc(1, sizeof *w->did);
    w->devices = calloc(config->devices, sizeof *w->devices);
    devices_open(w);
    leader_open(w);
    while (happen(w))
        ;
    br_fleet_destroy(w->fleet);
    for (uint32_t d = 0; d < config->devices; d++)
        br_pl_destroy(w->devices[d].pool);
    free(w->devices);
    free(w->did);
    free(w->actions);
    free(w);
}
