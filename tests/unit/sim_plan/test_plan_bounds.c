/* The fluid bound against its closed form, tokens out of reach and the interval against arithmetic by hand. */
#include <math.h>
#include <stdlib.h>

#include "sim/plan/attainable.h"
#include "sim/plan/fluid.h"
#include "sim/plan/plan.h"
#include "tests/cmocka.h"
#include "tests/unit/sim_plan/asks.h"

static const struct br_length g_prompt = {.kind = BR_LENGTH_FIXED, .min = 500, .max = 500, .median = 500};
static const struct br_length g_output = {.kind = BR_LENGTH_FIXED, .min = 290, .max = 290, .median = 290};

/* Poisson arrivals, spans of T = 10 + 290 * .1 = 39 s: the model is busy 1 - exp(-lambda T) of the time, and makes a
 * step a token of a sequence then: (n - 1) / T a second, the first token coming with the prompt. */
static void fluid_is_its_closed_form_for_poisson_arrivals(void **state)
{
    struct plan_model m = model_make("Qwen2.5-7B", BR_WEIGHTS_BF16, BR_KV_BF16);
    struct plan_ask ask = ask_make(&m, 1);
    const double lambda = .04, span = 39;
    struct plan_kind kind = {gpu_named("H20"), 1};
    struct sim_request *list;
    struct br_err err;
    struct br_cost cost;
    uint32_t n, zero = 0;
    (void)state;
    ask.horizon_s = 200000;
    m.source = (struct br_source){
        .name = "m", .process = {.kind = BR_PROCESS_POISSON, .rate = lambda}, .lengths = {g_prompt, g_output, NULL}};
    assert_int_equal(plan_requests(&ask, 1, &list, &n, &err), 0);
    double busy = plan_fluid(&ask, &kind, &zero, 1, list, n, NULL, &err);
    br_cost_init(&cost, &m.footprint, kind.gpu, 1, br_calibration_for(kind.gpu), &err);
    double covered = 1 - exp(-lambda * span), batch = lambda * span / covered;
    double steps = 289 / span * covered * br_cost_decode_s(&cost, batch, batch * (500 + 145));
    double expected = steps + lambda * br_cost_prefill_s(&cost, 1, 500, 0);
    assert_true(fabs(busy / expected - 1) < .03);
    free(list);
}

static void a_prompt_longer_than_ttft_costs_the_tokens_until_it_has_caught_up(void **state)
{
    struct plan_model m = model_make("Qwen2.5-72B", BR_WEIGHTS_BF16, BR_KV_BF16);
    struct plan_ask ask = ask_make(&m, 1);
    uint32_t zero = 0;
    struct plan_pool pool = {.kind = {gpu_named("H20"), 4}, .models = &zero, .n_models = 1};
    struct sim_request two[] = {{100, 0, 100, 200}, {200, 0, 60000, 1000}};
    struct plan_reach reach;
    struct br_cost cost;
    struct br_err err;
    (void)state;
    br_cost_init(&cost, &m.footprint, pool.kind.gpu, 4, br_calibration_for(pool.kind.gpu), &err);
    double behind = br_cost_prefill_s(&cost, 1, 60000, 0) - 10, gain = .1 - br_cost_decode_s(&cost, 1, 60500);
    assert_true(behind > 0 && behind / gain < 1000);
    assert_int_equal(plan_reach_of(&ask, &pool, &(struct plan_requests){two, 2}, &reach, &err), 0);
    assert_int_equal(reach.tokens, 1200);
    assert_true(reach.late == ceil(behind / gain));
}

/* 1 % of 10,000 tokens may be late and 40 are out of reach in the first pool: 60 are left, .6 % of each pool's. */
static void what_is_out_of_reach_comes_off_first(void **state)
{
    struct plan_reach pools[] = {{2000, 40}, {8000, 0}};
    double targets[2], share;
    (void)state;
    assert_true(plan_reach_targets(pools, 2, .99, targets, &share));
    assert_true(fabs(share - .004) < 1e-12);
    assert_true(fabs(targets[0] - (1 - .006 - .02)) < 1e-12);
    assert_true(fabs(targets[1] - (1 - .006)) < 1e-12);
    pools[0].late = 101;
    assert_false(plan_reach_targets(pools, 2, .99, targets, &share));
}

/* Student's t for 2 degrees of freedom is 4.303; the deviation of 1, 2, 3 is 1. */
static void the_interval_is_students(void **state)
{
    const uint32_t needs[] = {1, 2, 3};
    double mean, half;
    (void)state;
    plan_interval(needs, 3, &mean, &half);
    assert_true(mean == 2 && fabs(half - 4.303 / sqrt(3)) < 1e-9);
    plan_interval(needs, 1, &mean, &half);
    assert_true(mean == 1 && isnan(half));
    plan_interval(needs, 2, &mean, &half); /* t = 12.7 says nothing */
    assert_true(isnan(half));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fluid_is_its_closed_form_for_poisson_arrivals),
        cmocka_unit_test(a_prompt_longer_than_ttft_costs_the_tokens_until_it_has_caught_up),
        cmocka_unit_test(what_is_out_of_reach_comes_off_first),
        cmocka_unit_test(the_interval_is_students),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
