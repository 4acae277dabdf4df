/* The heap's order, the idealised costs, arrivals; every policy with the books checked after each event; the same seed
 * gives the same tokens at the same times. */
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "sim/heap.h"
#include "tests/cmocka.h"
#include "tests/sim/rows.h"

static void heap_is_stable(void **state)
{
    (void)state;
    enum { N = 500 };
    struct sim_event events[N], e, last = {.at_s = -1};
    struct sim_heap heap = {.events = events, .room = N};
    struct br_rng rng = {.seed = 1};
    for (uint32_t i = 0; i < N; i++)
        sim_heap_push(&heap, floor(20 * br_rng_next(&rng)), 0, i);
    for (uint32_t i = 0; i < N; i++, last = e) {
        assert_true(sim_heap_pop(&heap, &e));
        assert_true(e.at_s > last.at_s || (e.at_s == last.at_s && e.index > last.index));
    }
    assert_false(sim_heap_pop(&heap, &e));
}

static void near(double got, double want)
{
    assert_true(fabs(got - want) <= 1e-4 * want);
}

/* By hand from policy.md: 15.2 GB / (.8 * 3.35 TB/s) = 5.672 ms; 2 * 72.7e9 * 540 / (.55 * 148e12) = .9646 s. */
static void costs_are_the_idealised_ones(void **state)
{
    (void)state;
    near(sim_ideal_step_s(&sim_h800, &sim_qwen7b, 1, 0, 0), .0056716 + .0015);
    near(sim_ideal_step_s(&sim_h20, &sim_qwen72b_int4, 0, 0, 540), .964560 + .005);
    near(sim_ideal_step_s(&sim_h20, &sim_qwen72b_int4, 10, 0, 100), 1.1 * (.0163739 + .1786241) + .005);
    near(sim_usable_bytes(&sim_h800), 71e9);
    near(sim_link_bytes_per_s(&sim_h20), 51.2e9);
}

/* Log-normal with median 540 and sigma .78: mean 540 exp(.78^2 / 2) = 732; cut at 4096 a little less. */
static void arrivals_have_their_means(void **state)
{
    (void)state;
    double rate[50], prompts = 0, outputs = 0;
    uint32_t n;
    for (int i = 0; i < 50; i++)
        rate[i] = .5;
    struct sim_traffic t = {3, 50, rate, 1000, {540, .78, 16, 4096}, {242, .6, 16, 2048}};
    struct sim_request *r = sim_arrivals(&t, &n);
    assert_non_null(r);
    for (uint32_t i = 0; i < n; i++) {
        prompts += r[i].prompt;
        outputs += r[i].output;
        assert_true(i == 0 || r[i].at_s >= r[i - 1].at_s);
    }
    assert_true(fabs(n - 25000.0) < 4 * sqrt(25000));
    assert_true(fabs(prompts / n - 725) < 15);
    assert_true(fabs(outputs / n - 289.5) < 5);
    free(r);
}

static void run(enum row_policy policy, int row, uint32_t models, bool check, struct sim_result *out)
{
    static struct sim_search search;
    struct br_pl_options options = row_options(policy);
    struct sim_scenario scenario = rows[row].scenario;
    struct br_err err = {0};
    scenario.horizon_s = 180;
    sim_search_init(&search, &scenario, &options);
    search.give_up = 0;
    search.check = check;
    if (sim_scenario_run(&search, models, 5, out, &err) < 0)
        fail_msg("%s: %s", options.policy, err.msg);
}

static void books_hold_and_runs_repeat(void **state)
{
    (void)state;
    static const enum row_policy policies[] = {ROW_REQUEST, ROW_MULTIPLEX, ROW_AEGAEON, ROW_SLACK};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct sim_result checked, again;
        run(policies[i], 2, 40, true, &checked);
        run(policies[i], 2, 40, false, &again);
        assert_true(checked.steps > 1000);
        assert_int_equal(checked.digest, again.digest);
        assert_memory_equal(&checked, &again, sizeof again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_is_stable),
        cmocka_unit_test(costs_are_the_idealised_ones),
        cmocka_unit_test(arrivals_have_their_means),
        cmocka_unit_test(books_hold_and_runs_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
