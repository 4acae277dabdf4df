/* What the pool refuses, and the rules of slack that were traps in simulation. */
#include <math.h>
#include <string.h>

#include "scheduler/core/policies/pool.h"
#include "tests/cmocka.h"

static double step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                     uint32_t prefill)
{
    (void)ctx, (void)device, (void)model, (void)kv_bytes;
    return .01 + (decodes ? .001 * decodes : 0) + .0001 * prefill;
}

static struct br_pl_model model(int64_t weights_bytes)
{
    return (struct br_pl_model){
        .weights_bytes = weights_bytes, .kv_token_bytes = 1, .ttft_s = 10, .tbt_s = .1, .rate = .1};
}

static struct br_pl_hardware hardware(int64_t memory_bytes)
{
    return (struct br_pl_hardware){.memory_bytes = memory_bytes, .link_bytes_per_s = 1e4};
}

static struct br_pl_config config(const char *policy, const struct br_pl_model *models, uint32_t n_models,
                                  const struct br_pl_hardware *hw, uint32_t n_devices)
{
    return (struct br_pl_config){.n_models = n_models,
                                 .n_devices = n_devices,
                                 .max_seqs = 8,
                                 .models = models,
                                 .hardware = hw,
                                 .cost = {NULL, step_s},
                                 .options = {.policy = policy,
                                             .hysteresis = .1,
                                             .q_max_s = 4,
                                             .n_prefill = 1,
                                             .chunk_bytes = 1000,
                                             .prefill_step_s = .3}};
}

static void unknown_policy_is_refused(void **state)
{
    (void)state;
    struct br_pl_model m = model(1000);
    struct br_pl_hardware hw = hardware(5000);
    struct br_pl_config c = config("slak", &m, 1, &hw, 1);
    struct br_pool *pool;
    struct br_err err;
    assert_int_equal(br_pl_create(&c, &pool, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "slack"));
}

static void too_large_model_is_refused(void **state)
{
    (void)state;
    struct br_pl_model m = model(5000);
    struct br_pl_hardware hw = hardware(5000);
    struct br_pl_config c = config("slack", &m, 1, &hw, 1);
    struct br_pool *pool;
    struct br_err err;
    assert_int_equal(br_pl_create(&c, &pool, &err), BR_ENOMEM);
}

/* Two models of which one fits: the second evicts the first only when that is needed later. */
static void slack_loads_beside_a_running_step(void **state)
{
    (void)state;
    struct br_pl_model models[2] = {model(3000), model(3000)};
    struct br_pl_hardware hw = hardware(8000);
    struct br_pl_config c = config("slack", models, 2, &hw, 1);
    struct br_pool *pool;
    struct br_err err;
    static struct br_pl_actions did;
    assert_int_equal(br_pl_create(&c, &pool, &err), 0);
    br_pl_step(pool, 0, &(struct br_pl_event){.kind = BR_PL_ARRIVE, .seq = 0, .model = 0, .prompt = 100}, &did);
    for (int i = 1; i <= 3; i++)
        br_pl_step(pool, .1 * i, &(struct br_pl_event){.kind = BR_PL_LOAD_DONE}, &did);
    assert_int_equal(pool->devices[0].step.slot, 0);
    assert_int_equal(pool->devices[0].link.slot, -1);
    br_pl_step(pool, .31, &(struct br_pl_event){.kind = BR_PL_ARRIVE, .seq = 1, .model = 1, .prompt = 100}, &did);
    assert_int_equal(pool->devices[0].link.slot, 1); /* while the step runs */
    assert_int_equal(pool->devices[0].step.slot, 0);
    br_pl_destroy(pool);
}

/* A prompt of 1000 tokens of which 960 will probably be found takes the time of 40, in one step. When its first step
 * has found none of them, the rest takes its full time. */
static void known_tokens_take_no_time(void **state)
{
    (void)state;
    struct br_pl_model m = model(1000);
    struct br_pl_hardware hw = hardware(5000);
    struct br_pl_config c = config("slack", &m, 1, &hw, 1);
    struct br_pool *pool;
    struct br_err err;
    static struct br_pl_actions did;
    uint32_t rows;
    c.options.max_chunk_rows = 200;
    assert_int_equal(br_pl_create(&c, &pool, &err), 0);
    br_pl_step(pool, 0,
               &(struct br_pl_event){.kind = BR_PL_ARRIVE, .seq = 0, .prompt = 1000, .left = 1000, .known = 960}, &did);
    assert_true(fabs(pool->seqs[0].due_s - (10 - step_s(NULL, 0, 0, 0, 0, 40))) < 1e-9);
    assert_int_equal(br_pl_check(pool, &err), 0);
    br_pl_step(pool, .1, &(struct br_pl_event){.kind = BR_PL_LOAD_DONE}, &did);
    assert_int_equal(pool->devices[0].step.slot, 0);
    rows = pool->devices[0].step.items[0].rows;
    assert_true(rows <= 200);
    br_pl_step(pool, .2, &(struct br_pl_event){.kind = BR_PL_STEP_DONE}, &did);
    assert_int_equal(br_pl_check(pool, &err), 0);
    assert_true(fabs(pool->seqs[0].due_s - (10 - step_s(NULL, 0, 0, 0, 0, 1000 - rows))) < 1e-9);
    br_pl_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_policy_is_refused),
        cmocka_unit_test(too_large_model_is_refused),
        cmocka_unit_test(slack_loads_beside_a_running_step),
        cmocka_unit_test(known_tokens_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
