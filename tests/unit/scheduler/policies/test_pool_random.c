/* Every policy under random events in a world with too little memory: the books hold after every event, a step or load
 * is never begun twice, and when nothing new comes every sequence ends. Two pools get the same events and have to
 * answer the same. Devices go and come back, models are barred, removed, pinned and added, sequences are paused,
 * cancelled, adopted and lose their KV; hosts are small. test_pool_random N: N worlds a policy instead of a few. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "scheduler/core/policies/pool.h"
#include "tests/cmocka.h"

enum { DEVICES = 3, MODELS = 5, SEQS = 24, EVENTS = 150, NODES = 2, DRAIN = 20000 };

struct world {
    struct br_pool *pool, *twin;
    struct br_pl_actions did, twin_did;
    struct br_rng rng;
    double now_s;
    bool stepping[DEVICES], loading[DEVICES], busy[SEQS];
    uint64_t events, steps, loads, evicts, changes;
    bool reluctant; /* sequences end only while draining */
    bool calm;      /* nothing changes */
    struct br_pl_model models[MODELS];
};

static uint64_t worlds = 1000;
static uint64_t first; /* the first one: to look at one that failed */

static uint32_t draw(struct world *w, uint32_t n)
{
    return (uint32_t)(br_rng_next(&w->rng) * n);
}

static double step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                     uint32_t prefill)
{
    (void)ctx, (void)device;
    return .002 + .001 * model + .0001 * decodes + 1e-6 * (double)kv_bytes + .0002 * prefill;
}

static void options_set(struct world *w, struct br_pl_options *o)
{
    o->shed = draw(w, 2);
    o->admission = draw(w, 4) == 0;
    o->hysteresis = .1 + .7 * br_rng_next(&w->rng);
    o->q_max_s = .2;
    o->n_prefill = 1 + draw(w, 2);
    o->chunk_bytes = 300 + draw(w, 3000);
    o->prefill_step_s = .03;
    o->max_batch = draw(w, 3) ? 0 : 1 + draw(w, 6);
    o->max_step_rows = draw(w, 3) ? 0 : 4 + draw(w, 60);
    o->max_chunk_rows = draw(w, 3) ? 0 : 1 + draw(w, 60);
    o->no_joining = draw(w, 4) == 0;
    o->no_draining = draw(w, 4) == 0;
}

static void world_create(struct world *w, const char *policy, uint64_t seed)
{
    struct br_pl_hardware hw[DEVICES];
    int64_t hosts[NODES];
    struct br_err err;
    *w = (struct world){.rng = {.seed = seed}, .calm = seed % 4 == 0};
    for (uint32_t i = 0; i < MODELS; i++)
        w->models[i] = (struct br_pl_model){.weights_bytes = 2000 + draw(w, 5000),
                                            .kv_token_bytes = 1 + draw(w, 4),
                                            .ttft_s = .5 + br_rng_next(&w->rng),
                                            .tbt_s = .05,
                                            .rate = 1,
                                            .weight = draw(w, 3),
                                            .pinned = !w->calm && draw(w, 8) == 0};
    for (uint32_t i = 0; i < DEVICES; i++)
        hw[i] = (struct br_pl_hardware){.memory_bytes = 9000 + draw(w, 8000), .link_bytes_per_s = 1e5, .node = i % 2};
    for (uint32_t i = 0; i < NODES; i++)
        hosts[i] = draw(w, 2) ? 0 : 20000 + draw(w, 10000);
    struct br_pl_config config = {.n_models = MODELS,
                                  .n_devices = DEVICES,
                                  .max_seqs = SEQS,
                                  .models = w->models,
                                  .hardware = hw,
                                  .cost = {NULL, step_s},
                                  .options = {.policy = policy},
                                  .n_nodes = NODES,
                                  .host_bytes = hosts};
    options_set(w, &config.options);
    assert_int_equal(br_pl_create(&config, &w->pool, &err), 0);
    assert_int_equal(br_pl_create(&config, &w->twin, &err), 0);
}

static void same(const struct br_pl_actions *a, const struct br_pl_actions *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->more, b->more);
    for (uint32_t i = 0; i < a->n; i++) {
        assert_int_equal(a->list[i].kind, b->list[i].kind);
        assert_int_equal(a->list[i].kv, b->list[i].kv);
        assert_int_equal(a->list[i].device, b->list[i].device);
        assert_int_equal(a->list[i].model, b->list[i].model);
        assert_int_equal(a->list[i].bytes, b->list[i].bytes);
        assert_int_equal(a->list[i].seq, b->list[i].seq);
    }
}

/* A change may end the step and the load of any device; then another may begin at once. */
static void obey(struct world *w, bool change)
{
    for (uint32_t i = 0; i < w->did.n; i++) {
        const struct br_pl_action *a = &w->did.list[i];
        if (a->kind == BR_PL_STEP) {
            assert_true(change || !w->stepping[a->device]);
            w->stepping[a->device] = true;
            w->steps++;
        } else if (a->kind == BR_PL_LOAD) {
            assert_true(change || !w->loading[a->device]);
            w->loading[a->device] = true;
            w->loads++;
        } else if (a->kind == BR_PL_EVICT) {
            w->evicts++;
        } else if (a->kind == BR_PL_REFUSE || a->kind == BR_PL_DROP || a->kind == BR_PL_GONE) {
            w->busy[a->seq] = false;
        }
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_true(change || w->stepping[i] == (w->pool->devices[i].step.slot >= 0));
        assert_true(change || w->loading[i] == (w->pool->devices[i].link.slot >= 0));
        w->stepping[i] = w->pool->devices[i].step.slot >= 0;
        w->loading[i] = w->pool->devices[i].link.slot >= 0;
    }
}

static void happen(struct world *w, struct br_pl_event event)
{
    struct br_err err = {0};
    br_pl_step(w->pool, w->now_s, &event, &w->did);
    br_pl_step(w->twin, w->now_s, &event, &w->twin_did);
    same(&w->did, &w->twin_did);
    obey(w, !w->calm);
    w->events++;
    if (br_pl_check(w->pool, &err) < 0)
        fail_msg("world %lu, event %lu, kind %d: %s", w->rng.seed, w->events, (int)event.kind, err.msg);
}

/* Now and then decided elsewhere, with or without its KV. */
static void arrive(struct world *w)
{
    uint32_t seq = draw(w, SEQS), model = draw(w, MODELS), prompt = 1 + draw(w, 300);
    if (w->busy[seq] || w->pool->models[model].weights_bytes == 0)
        return;
    struct br_pl_event e = {.kind = BR_PL_ARRIVE, .seq = seq, .model = model, .prompt = prompt};
    e.output = 1 + draw(w, 50);
    if (!w->calm && draw(w, 4) == 0) {
        e.delivered = draw(w, 20);
        e.weight = draw(w, 3);
        e.age_s = br_rng_next(&w->rng);
        e.placed = draw(w, 2);
        e.device = draw(w, DEVICES);
        e.kv = e.placed && e.delivered && draw(w, 2);
        e.kv_here = draw(w, 2);
    }
    w->busy[seq] = true;
    happen(w, e);
}

static void step_done(struct world *w, uint32_t device, uint32_t one_in)
{
    struct br_pl_running *step = &w->pool->devices[device].step, *twin = &w->twin->devices[device].step;
    if (!w->stepping[device])
        return;
    for (uint32_t i = 0; i < step->n; i++) {
        assert_true(w->busy[step->items[i].seq]);
        twin->items[i].ended = step->items[i].ended = step->items[i].emits && draw(w, one_in) == 0;
        if (step->items[i].ended)
            w->busy[step->items[i].seq] = false;
    }
    w->stepping[device] = false;
    happen(w, (struct br_pl_event){.kind = BR_PL_STEP_DONE, .device = device});
}

static void load_done(struct world *w, uint32_t device)
{
    if (!w->loading[device])
        return;
    w->loading[device] = false;
    happen(w, (struct br_pl_event){.kind = BR_PL_LOAD_DONE, .device = device});
}

/* A streamed step ends after its load. */
static bool waits_for_load(const struct world *w, uint32_t device)
{
    const struct br_pl_running *step = &w->pool->devices[device].step;
    if (!w->stepping[device] || !step->streamed)
        return false;
    const struct br_pl_slot *s = &w->pool->slots[step->slot];
    if (s->wait.n + s->run.n == 0)
        return false; /* they have ended meanwhile */
    return s->weights + s->kv < w->pool->models[s->model].weights_bytes + s->kv_all;
}

static void model_again(struct world *w, uint32_t model, bool pinned)
{
    struct br_err err;
    struct br_pl_model m = w->models[model];
    m.pinned = pinned;
    assert_int_equal(br_pl_model_set(w->pool, model, &m, &err), 0);
    assert_int_equal(br_pl_model_set(w->twin, model, &m, &err), 0);
    happen(w, (struct br_pl_event){.kind = BR_PL_TICK});
}

static void hardware_again(struct world *w, uint32_t device)
{
    struct br_err err;
    struct br_pl_hardware hw = {.memory_bytes = 9000 + draw(w, 8000), .link_bytes_per_s = 1e5, .node = draw(w, NODES)};
    assert_int_equal(br_pl_hardware_set(w->pool, device, &hw, &err), 0);
    assert_int_equal(br_pl_hardware_set(w->twin, device, &hw, &err), 0);
}

static void device_change(struct world *w, uint32_t device)
{
    static const enum br_pl_event_kind kinds[] = {BR_PL_DEVICE_DOWN, BR_PL_DEVICE_UP, BR_PL_DEVICE_DRAIN, BR_PL_SERVE,
                                                  BR_PL_UNSERVE};
    uint32_t what = draw(w, 5);
    if (!w->pool->devices[device].up) {
        hardware_again(w, device);
        what = 1;
    }
    happen(w, (struct br_pl_event){.kind = kinds[what], .device = device, .model = draw(w, MODELS)});
}

static void model_change(struct world *w)
{
    uint32_t model = draw(w, MODELS);
    if (w->pool->models[model].weights_bytes == 0 || draw(w, 2))
        model_again(w, model, draw(w, 4) == 0);
    else
        happen(w, (struct br_pl_event){.kind = BR_PL_MODEL_GONE, .model = model});
}

static void seq_change(struct world *w)
{
    static const enum br_pl_event_kind kinds[] = {BR_PL_PAUSE, BR_PL_RESUME, BR_PL_RESUME, BR_PL_LOST, BR_PL_END};
    uint32_t seq = draw(w, SEQS), what = draw(w, 5);
    if (!w->busy[seq])
        return;
    if (kinds[what] == BR_PL_END)
        w->busy[seq] = false;
    happen(w, (struct br_pl_event){.kind = kinds[what], .seq = seq});
}

/* Weights of a slot that does not step: nothing takes them from one that does. */
static void resident(struct world *w, uint32_t device, uint32_t model)
{
    struct br_pl_event e = {.kind = BR_PL_RESIDENT, .device = device, .model = model, .bytes = draw(w, 6000)};
    if (w->pool->devices[device].step.slot != (int32_t)(device * MODELS + model))
        happen(w, e);
}

static void change(struct world *w)
{
    w->changes++;
    switch (draw(w, 6)) {
    case 0:
        device_change(w, draw(w, DEVICES));
        break;
    case 1:
        model_change(w);
        break;
    case 2:
        resident(w, draw(w, DEVICES), draw(w, MODELS));
        break;
    default:
        seq_change(w);
        break;
    }
}

/* Everything is there again. */
static void mend(struct world *w)
{
    for (uint32_t m = 0; m < MODELS; m++)
        model_again(w, m, false);
    for (uint32_t i = 0; i < DEVICES; i++) {
        happen(w, (struct br_pl_event){.kind = BR_PL_DEVICE_UP, .device = i});
        for (uint32_t m = 0; m < MODELS; m++)
            happen(w, (struct br_pl_event){.kind = BR_PL_SERVE, .device = i, .model = m});
    }
    for (uint32_t i = 0; i < SEQS; i++)
        happen(w, (struct br_pl_event){.kind = BR_PL_RESUME, .seq = i});
}

static void random_event(struct world *w)
{
    uint32_t device = draw(w, DEVICES);
    w->now_s += .03 * br_rng_next(&w->rng);
    if (!w->calm && draw(w, 10) == 0) {
        change(w);
        return;
    }
    switch (draw(w, 8)) {
    case 0:
    case 1:
        arrive(w);
        break;
    case 2:
    case 3:
    case 4:
        if (!waits_for_load(w, device))
            step_done(w, device, 20);
        break;
    case 5:
    case 6:
        load_done(w, device);
        break;
    case 7:
        happen(w, draw(w, 2) ? (struct br_pl_event){.kind = BR_PL_TICK}
                             : (struct br_pl_event){.kind = BR_PL_CANCEL, .seq = draw(w, SEQS)});
        break;
    }
}

static uint32_t unfinished(const struct world *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SEQS; i++)
        n += w->pool->seqs[i].state != BR_PL_FREE && !(w->pool->seqs[i].state == BR_PL_QUEUED && w->reluctant);
    return n;
}

/* Steps and loads go on until all have ended; what a static placement has no place for may wait. */
static void drain(struct world *w, bool placed)
{
    w->reluctant = placed;
    if (!w->calm)
        mend(w);
    for (uint32_t i = 0; i < DRAIN && unfinished(w) > 0; i++) {
        w->now_s += .01;
        load_done(w, i % DEVICES);
        if (!waits_for_load(w, i % DEVICES))
            step_done(w, i % DEVICES, 4);
        if (i % 25 == 0)
            happen(w, (struct br_pl_event){.kind = BR_PL_TICK});
    }
    if (unfinished(w))
        fail_msg("world %lu: %u sequences did not end", w->rng.seed, unfinished(w));
}

static void run_policy(const char *policy, bool placed)
{
    uint64_t steps = 0, evicts = 0, events = 0;
    for (uint64_t seed = first; seed < first + worlds; seed++) {
        static struct world w;
        world_create(&w, policy, seed);
        for (uint32_t i = 0; i < EVENTS; i++)
            random_event(&w);
        drain(&w, placed);
        steps += w.steps;
        evicts += w.evicts;
        events += w.events;
        br_pl_destroy(w.pool);
        br_pl_destroy(w.twin);
    }
    printf("%s: %lu events, %lu steps, %lu evictions\n", policy, events, steps, evicts);
    assert_true(steps > 10 * worlds && (placed || evicts > worlds)); /* it was not idle */
}

static void request_holds(void **state)
{
    (void)state;
    run_policy("request", false);
}

static void request_sjf_holds(void **state)
{
    (void)state;
    run_policy("request-sjf", false);
}

static void multiplex_holds(void **state)
{
    (void)state;
    run_policy("multiplex", true);
}

static void dedicated_holds(void **state)
{
    (void)state;
    run_policy("dedicated", true);
}

static void aegaeon_holds(void **state)
{
    (void)state;
    run_policy("aegaeon", false);
}

static void slack_holds(void **state)
{
    (void)state;
    run_policy("slack", false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_holds),   cmocka_unit_test(request_sjf_holds), cmocka_unit_test(multiplex_holds),
        cmocka_unit_test(dedicated_holds), cmocka_unit_test(aegaeon_holds),     cmocka_unit_test(slack_holds),
    };
    if (argc > 1)
        worlds = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        first = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
