/* Every policy under random events in a world with too little memory: the books hold after every event, a step or load
 * is never begun twice, and when nothing new comes every sequence ends. Two pools get the same events and have to
 * answer the same. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "scheduler/core/policies/pool.h"
#include "tests/cmocka.h"

enum { DEVICES = 3, MODELS = 5, SEQS = 24, EVENTS = 150, SEQUENCES = 10000, DRAIN = 20000 };

struct world {
    struct br_pool *pool, *twin;
    struct br_pl_actions did, twin_did;
    struct br_rng rng;
    double now_s;
    bool stepping[DEVICES], loading[DEVICES], busy[SEQS];
    uint64_t events, steps, loads, evicts;
    bool reluctant; /* sequences end only while draining */
};

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

static void world_create(struct world *w, const char *policy, uint64_t seed)
{
    struct br_pl_model models[MODELS];
    struct br_pl_hardware hw[DEVICES];
    struct br_err err;
    *w = (struct world){.rng = {.seed = seed}};
    for (uint32_t i = 0; i < MODELS; i++)
        models[i] = (struct br_pl_model){2000 + draw(w, 5000), 1 + draw(w, 4), .5 + br_rng_next(&w->rng), .05, 1};
    for (uint32_t i = 0; i < DEVICES; i++)
        hw[i] = (struct br_pl_hardware){9000 + draw(w, 8000), 1e5};
    struct br_pl_config config = {MODELS, DEVICES, SEQS, models, hw, {NULL, step_s}, {.policy = policy}};
    config.options.shed = draw(w, 2);
    config.options.admission = draw(w, 4) == 0;
    config.options.hysteresis = .1 + .7 * br_rng_next(&w->rng);
    config.options.q_max_s = .2;
    config.options.n_prefill = 1 + draw(w, 2);
    config.options.chunk_bytes = 300 + draw(w, 3000);
    config.options.prefill_step_s = .03;
    assert_int_equal(br_pl_create(&config, &w->pool, &err), 0);
    assert_int_equal(br_pl_create(&config, &w->twin, &err), 0);
}

static void same(const struct br_pl_actions *a, const struct br_pl_actions *b)
{
    assert_int_equal(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        assert_int_equal(a->list[i].kind, b->list[i].kind);
        assert_int_equal(a->list[i].device, b->list[i].device);
        assert_int_equal(a->list[i].model, b->list[i].model);
        assert_int_equal(a->list[i].bytes, b->list[i].bytes);
        assert_int_equal(a->list[i].seq, b->list[i].seq);
    }
}

static void obey(struct world *w)
{
    for (uint32_t i = 0; i < w->did.n; i++) {
        const struct br_pl_action *a = &w->did.list[i];
        if (a->kind == BR_PL_STEP) {
            assert_false(w->stepping[a->device]);
            w->stepping[a->device] = true;
            w->steps++;
        } else if (a->kind == BR_PL_LOAD) {
            assert_false(w->loading[a->device]);
            w->loading[a->device] = true;
            w->loads++;
        } else if (a->kind == BR_PL_EVICT) {
            w->evicts++;
        } else if (a->kind == BR_PL_REFUSE || a->kind == BR_PL_DROP || a->kind == BR_PL_GONE) {
            w->busy[a->seq] = false;
        }
    }
}

static void happen(struct world *w, struct br_pl_event event)
{
    struct br_err err = {0};
    br_pl_step(w->pool, w->now_s, &event, &w->did);
    br_pl_step(w->twin, w->now_s, &event, &w->twin_did);
    same(&w->did, &w->twin_did);
    obey(w);
    w->events++;
    if (br_pl_check(w->pool, &err) < 0)
        fail_msg("%s", err.msg);
}

static void arrive(struct world *w)
{
    uint32_t seq = draw(w, SEQS), model = draw(w, MODELS), prompt = 1 + draw(w, 300);
    if (w->busy[seq])
        return;
    w->busy[seq] = true;
    happen(w, (struct br_pl_event){.kind = BR_PL_ARRIVE, .seq = seq, .model = model, .prompt = prompt});
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
    return s->weights + s->kv < w->pool->models[s->model].weights_bytes + s->kv_all;
}

static void random_event(struct world *w)
{
    uint32_t device = draw(w, DEVICES);
    w->now_s += .03 * br_rng_next(&w->rng);
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
    for (uint32_t i = 0; i < DRAIN && unfinished(w) > 0; i++) {
        w->now_s += .01;
        load_done(w, i % DEVICES);
        if (!waits_for_load(w, i % DEVICES))
            step_done(w, i % DEVICES, 4);
        if (i % 25 == 0)
            happen(w, (struct br_pl_event){.kind = BR_PL_TICK});
    }
    assert_int_equal(unfinished(w), 0);
}

static void run_policy(const char *policy, bool placed)
{
    uint64_t steps = 0, evicts = 0, events = 0;
    for (uint64_t seed = 0; seed < SEQUENCES; seed++) {
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
    assert_true(steps > 10 * SEQUENCES && (placed || evicts > SEQUENCES)); /* it was not idle */
}

static void request_holds(void **state)
{
    (void)state;
    run_policy("request", false);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_holds), cmocka_unit_test(multiplex_holds), cmocka_unit_test(dedicated_holds),
        cmocka_unit_test(aegaeon_holds), cmocka_unit_test(slack_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
