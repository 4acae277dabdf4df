/* The search on cases whose need follows from arithmetic, and the same answer from any number of threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/plan/plan.h"
#include "tests/cmocka.h"
#include "tests/unit/sim_plan/asks.h"

static struct br_length fixed(uint32_t tokens)
{
    return (struct br_length){.kind = BR_LENGTH_FIXED, .min = tokens, .max = tokens, .median = tokens};
}

static uint32_t need(struct plan_ask *ask, const char *gpu, const char *policy)
{
    struct plan_answer answer;
    struct br_err err = {0};
    ask->gpus[0] = gpu_named(gpu);
    ask->policies[0] = policy;
    ask->n_gpus = ask->n_policies = 1;
    assert_int_equal(plan_solve(ask, &answer, &err), 0);
    uint32_t gpus = answer.results[0].gpus;
    plan_answer_free(&answer);
    return gpus;
}

/* D/D/c: requests of one token every 1/r seconds, each D seconds of prompt; r D devices' worth of work, so that fewer
 * than r D devices fall behind for ever and the next whole number keeps up. */
static void steady_prompts_need_rate_times_seconds(void **state)
{
    struct plan_model m = model_make("Qwen2.5-7B", BR_WEIGHTS_BF16, BR_KV_BF16);
    struct plan_ask ask = ask_make(&m, 1);
    struct br_cost cost;
    struct br_err err;
    (void)state;
    br_cost_init(&cost, &m.footprint, gpu_named("H20"), 1, br_calibration_for(gpu_named("H20")), &err);
    double seconds = br_cost_prefill_s(&cost, 1, 8000, 0);
    for (uint32_t devices = 1; devices <= 4; devices++) {
        m.source = (struct br_source){.process = {.kind = BR_PROCESS_CONSTANT, .rate = (devices - .3) / seconds},
                                      .lengths = {fixed(8000), fixed(1), NULL}};
        assert_int_equal(need(&ask, "H20", "slack"), devices);
    }
}

/* A model that is asked once in a while needs one device, alone or beside others of its kind that fit. */
static void idle_models_share_one_device_and_have_one_each_when_dedicated(void **state)
{
    struct plan_model models[5];
    (void)state;
    for (int i = 0; i < 5; i++) {
        models[i] = model_make("Qwen2.5-7B", BR_WEIGHTS_BF16, BR_KV_BF16);
        snprintf(models[i].name, sizeof models[i].name, "m%d", i);
        models[i].source = (struct br_source){.process = {.kind = BR_PROCESS_POISSON, .rate = .01},
                                              .lengths = {fixed(500), fixed(100), NULL}};
    }
    struct plan_ask ask = ask_make(models, 5);
    assert_int_equal(need(&ask, "H20", "slack"), 1);
    assert_int_equal(need(&ask, "H20", "dedicated"), 5);
    ask.redundancy = 1; /* one spare in the pool, one for every replica */
    assert_int_equal(need(&ask, "H20", "slack"), 2);
    assert_int_equal(need(&ask, "H20", "dedicated"), 10);
    ask.redundancy = 0;
    ask.host_bytes = .1e12; /* 12.5 GB a GPU: 5 x 15.2 GB come with 7 of them */
    assert_int_equal(need(&ask, "H20", "slack"), 7);
}

static void answers_do_not_depend_on_threads(void **state)
{
    struct plan_model models[6];
    struct plan_answer answers[2];
    struct br_err err;
    (void)state;
    for (int i = 0; i < 6; i++) {
        models[i] = model_make(i < 4 ? "Qwen2.5-7B" : "Qwen2.5-72B", BR_WEIGHTS_BF16, BR_KV_BF16);
        snprintf(models[i].name, sizeof models[i].name, "m%d", i);
        models[i].source = (struct br_source){.process = {.kind = BR_PROCESS_POISSON, .rate = .1},
                                              .lengths = {fixed(500), fixed(200), NULL}};
    }
    struct plan_ask ask = ask_make(models, 6);
    ask.gpus[0] = gpu_named("H20");
    ask.policies[0] = "slack";
    ask.n_gpus = ask.n_policies = 1;
    ask.n_seeds = 2;
    for (uint32_t i = 0; i < 2; i++) {
        ask.n_threads = i ? 4 : 1;
        assert_int_equal(plan_solve(&ask, &answers[i], &err), 0);
    }
    const struct plan_result *a = &answers[0].results[0], *b = &answers[1].results[0];
    assert_int_equal(a->gpus, b->gpus);
    assert_int_equal(a->tally.on_time, b->tally.on_time);
    assert_memory_equal(a->tally.ttft_us, b->tally.ttft_us, sizeof *a->tally.ttft_us);
    assert_memory_equal(a->need_by_seed, b->need_by_seed, 2 * sizeof *a->need_by_seed);
    plan_answer_free(&answers[0]);
    plan_answer_free(&answers[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_prompts_need_rate_times_seconds),
        cmocka_unit_test(idle_models_share_one_device_and_have_one_each_when_dedicated),
        cmocka_unit_test(answers_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
