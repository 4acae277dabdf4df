/* Two kinds of GPU: large models that one of them holds alone and the other only in groups of four, small ones that are
 * cheaper on the other. One of each is what is needed: with all on the one kind or the other it is more. */
#include <math.h>

#include "sim/plan/plan.h"
#include "tests/cmocka.h"
#include "tests/unit/sim_plan/asks.h"

enum { LARGE = 2, ALL = 8 };
static const struct br_length g_prompt = {
    .kind = BR_LENGTH_LOGNORMAL, .min = 16, .max = 4096, .median = 540, .sigma = .78};
static const struct br_length g_output = {
    .kind = BR_LENGTH_LOGNORMAL, .min = 16, .max = 2048, .median = 242, .sigma = .6};

static struct br_gpu g_big, g_small;
static struct plan_model g_models[ALL];

static struct plan_ask ask_of(double big_price, double small_price)
{
    struct plan_ask ask = ask_make(g_models, ALL);
    g_big = *gpu_named("H20");
    g_small = *gpu_named("A10");
    g_big.price_usd_per_hour = big_price;
    g_small.price_usd_per_hour = small_price;
    for (uint32_t i = 0; i < ALL; i++) {
        bool large = i < LARGE;
        g_models[i] = large ? model_make("Qwen2.5-72B", BR_WEIGHTS_INT4, BR_KV_BF16)
                            : model_make("Qwen2.5-1.5B", BR_WEIGHTS_BF16, BR_KV_BF16);
        snprintf(g_models[i].name, sizeof g_models[i].name, "m%u", i);
        g_models[i].source = (struct br_source){.name = g_models[i].name,
                                                .process = {.kind = BR_PROCESS_POISSON, .rate = large ? .08 : .8},
                                                .lengths = {g_prompt, g_output, NULL}};
    }
    ask.horizon_s = 300;
    ask.gpus[0] = &g_big;
    ask.gpus[1] = &g_small;
    ask.n_gpus = 2;
    ask.policies[0] = "slack";
    ask.n_policies = 1;
    return ask;
}

static void the_split_that_costs_less_is_found(void **state)
{
    struct plan_ask ask = ask_of(1, .3);
    struct plan_answer a;
    struct br_err err;
    uint32_t large = 0;
    (void)state;
    if (plan_solve(&ask, &a, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(a.mix.tried > 0 && a.mix.found);
    assert_int_equal(a.n, 3);
    const struct plan_result *r = &a.results[2];
    assert_string_equal(r->gpu, "H20+A10");
    double alone = fmin(a.results[0].cost_per_hour, a.results[1].cost_per_hour);
    assert_true(r->cost_per_hour < alone && fabs(a.mix.alone_per_hour - alone) < 1e-9);
    assert_true(plan_tally_attainment(&r->tally) >= .99);
    double sum = 0;
    for (uint32_t p = 0; p < r->n_parts; p++) {
        sum += r->parts[p].devices * r->parts[p].kind.tp * r->parts[p].kind.gpu->price_usd_per_hour;
        for (uint32_t i = 0; i < r->parts[p].n_models; i++)
            large += r->parts[p].kind.gpu == &g_big && r->parts[p].models[i] < LARGE;
    }
    assert_true(fabs(sum - r->cost_per_hour) < 1e-9);
    assert_int_equal(large, LARGE); /* both where they fit */
    plan_answer_free(&a);
}

/* At a hundredth of the price the one kind is cheapest for everything. */
static void no_split_is_shown_where_none_costs_less(void **state)
{
    struct plan_ask ask = ask_of(.01, .3);
    struct plan_answer a;
    struct br_err err;
    (void)state;
    if (plan_solve(&ask, &a, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(a.mix.tried > 0 && !a.mix.found);
    assert_int_equal(a.n, 2);
    assert_string_equal(a.mix.alone_gpu, "H20");
    plan_answer_free(&a);
    ask.one_kind = true;
    if (plan_solve(&ask, &a, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(a.mix.tried, 0);
    plan_answer_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_split_that_costs_less_is_found),
        cmocka_unit_test(no_split_is_shown_where_none_costs_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
