/* Whoever watches a run sees what its totals say: every step and load begun and ended, every request from arrival to
 * end, in order of time. */
#include <stdlib.h>

#include "sim/sim.h"
#include "tests/cmocka.h"

struct seen {
    uint32_t requests[4], steps, steps_ended, loads, loads_ended;
    double last_s, loaded;
    uint32_t running[2]; /* steps at once on a device */
};

static void at(struct seen *s, double now_s)
{
    assert_true(now_s >= s->last_s);
    s->last_s = now_s;
}

static void request(void *ctx, double now_s, enum sim_request_event what, uint32_t index)
{
    struct seen *s = ctx;
    at(s, now_s);
    assert_in_range(index, 0, 19);
    s->requests[what]++;
}

static void step_begun(void *ctx, double now_s, double end_s, uint32_t device, uint32_t model,
                       const struct br_pl_running *step)
{
    struct seen *s = ctx;
    at(s, now_s);
    assert_true(end_s > now_s && model < 2 && step->n > 0);
    assert_int_equal(s->running[device]++, 0);
    s->steps++;
}

static void step_ended(void *ctx, double now_s, uint32_t device, uint32_t model)
{
    struct seen *s = ctx;
    at(s, now_s);
    assert_true(model < 2);
    assert_int_equal(--s->running[device], 0);
    s->steps_ended++;
}

static void load_begun(void *ctx, double now_s, double end_s, uint32_t device, uint32_t model, int64_t bytes, bool kv)
{
    struct seen *s = ctx;
    at(s, now_s);
    assert_true(end_s > now_s && device < 2 && model < 2);
    s->loads++;
    s->loaded += kv ? 0 : (double)bytes;
}

static void load_ended(void *ctx, double now_s, uint32_t device, uint32_t model)
{
    struct seen *s = ctx;
    at(s, now_s);
    assert_true(device < 2 && model < 2);
    s->loads_ended++;
}

static double step_cost(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                        uint32_t prefill)
{
    (void)ctx, (void)device, (void)model, (void)kv_bytes;
    return .01 + .001 * decodes + 1e-5 * prefill;
}

static void a_run_is_seen_whole(void **state)
{
    const struct br_pl_model model = {
        .weights_bytes = 10000000000, .kv_token_bytes = 1000, .ttft_s = 10, .tbt_s = .1, .rate = .1};
    struct br_pl_model models[] = {model, model};
    struct br_pl_hardware hw[] = {{.memory_bytes = 30000000000, .link_bytes_per_s = 1e10},
                                  {.memory_bytes = 30000000000, .link_bytes_per_s = 1e10}};
    struct sim_request requests[20];
    struct seen seen = {0};
    struct sim_observer observer = {&seen, request, step_begun, step_ended, load_begun, load_ended, NULL};
    struct sim_result result;
    struct br_err err;
    (void)state;
    for (uint32_t i = 0; i < 20; i++)
        requests[i] = (struct sim_request){i, i % 2, 100, 10};
    struct sim_run run = {
        .pool = {.n_models = 2,
                 .n_devices = 2,
                 .models = models,
                 .hardware = hw,
                 .cost = {NULL, step_cost},
                 .options = {.policy = "slack", .hysteresis = .35, .chunk_bytes = 1000000000, .prefill_step_s = .3}},
        .requests = requests,
        .n_requests = 20,
        .horizon_s = 20,
        .run_on_s = 60,
        .observer = &observer};
    assert_int_equal(sim_run(&run, &result, &err), 0);
    assert_int_equal(seen.requests[SIM_REQUEST_ARRIVED], 20);
    assert_int_equal(seen.requests[SIM_REQUEST_FIRST_TOKEN], 20);
    assert_int_equal(seen.requests[SIM_REQUEST_ENDED], 20);
    assert_int_equal(seen.requests[SIM_REQUEST_LOST], 0);
    assert_int_equal(seen.steps, result.steps);
    assert_int_equal(seen.steps_ended, seen.steps);
    assert_int_equal(seen.loads_ended, seen.loads);
    assert_true(seen.loaded >= 2e10 && seen.loaded <= result.bytes_loaded); /* both models at least once */
    double parts = result.decode_busy + result.prefill_busy + result.switch_busy;
    assert_true(parts - result.compute_busy < 1e-9 && result.compute_busy - parts < 1e-9);
    assert_true(result.stalled > 0 &&
                result.stalled + result.compute_busy < 1); /* the first requests wait for a load */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_is_seen_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
