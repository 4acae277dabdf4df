/* Degrees, shards and nodes on cases that can be counted by hand. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sim/plan/place.h"
#include "tests/cmocka.h"
#include "tests/unit/sim_plan/asks.h"

static void check_degrees(const char *base, enum br_weight_format weights, enum br_kv_format kv, const char *gpu,
                          uint32_t first, uint32_t second)
{
    struct plan_model m = model_make(base, weights, kv);
    struct plan_ask ask = ask_make(&m, 1);
    struct plan_degrees d;
    struct br_err err;
    assert_int_equal(plan_degrees_of(&ask, &m, gpu_named(gpu), &d, &err), 0);
    assert_int_equal(d.tp[0], first);
    assert_int_equal(d.n > 1 ? d.tp[1] : d.tp[0], second);
}

/* H20: .9 * 96 - 1 = 85.4 GB a GPU. 72B in BF16 is 145.4 GB: two GPUs hold one, four hold two. In INT4 it is 41.5 GB.
 * L20 has 42.2 GB: one GPU holds that with 4096 tokens of KV in FP8 (.67 GB), not in BF16 (1.34 GB); two hold two. */
static void a_model_goes_onto_the_fewest_gpus_that_hold_it(void **state)
{
    (void)state;
    check_degrees("Qwen2.5-7B", BR_WEIGHTS_BF16, BR_KV_BF16, "H20", 1, 1);
    check_degrees("Qwen2.5-72B", BR_WEIGHTS_BF16, BR_KV_BF16, "H20", 2, 4);
    check_degrees("Qwen2.5-72B", BR_WEIGHTS_INT4, BR_KV_BF16, "L20", 2, 2);
    check_degrees("Qwen2.5-72B", BR_WEIGHTS_INT4, BR_KV_FP8, "L20", 1, 2);
}

static void what_fits_nowhere_is_refused_with_the_numbers(void **state)
{
    struct plan_model m = model_make("Qwen3-235B-A22B", BR_WEIGHTS_BF16, BR_KV_BF16);
    struct plan_ask ask = ask_make(&m, 1);
    struct plan_degrees d;
    struct br_err err;
    (void)state;
    assert_int_equal(plan_degrees_of(&ask, &m, gpu_named("RTX 4090"), &d, &err), BR_ENOMEM);
    assert_non_null(strstr(err.msg, "Qwen3-235B-A22B does not fit"));
    assert_non_null(strstr(err.msg, "8 x RTX 4090 have 164.8 GB")); /* 8 * (.9 * 24 - 1) */
}

/* Thirteen times 145.4 GB are 1.89 TB, .9 of 2 TB hold twelve: two shards, seven and six. */
static void models_that_one_node_cannot_remember_are_split(void **state)
{
    struct plan_model models[13];
    struct plan_kind kinds[13];
    double load[13];
    struct plan_layout layout;
    struct br_err err;
    (void)state;
    for (int i = 0; i < 13; i++) {
        models[i] = model_make("Qwen2.5-72B", BR_WEIGHTS_BF16, BR_KV_BF16);
        kinds[i] = (struct plan_kind){gpu_named("H20"), 4};
        load[i] = .1;
    }
    struct plan_ask ask = ask_make(models, 12);
    assert_int_equal(plan_layout_make(&ask, kinds, load, &layout, &err), 0);
    assert_int_equal(layout.n_pools, 1);
    plan_layout_free(&layout);
    ask.n_models = 13;
    assert_int_equal(plan_layout_make(&ask, kinds, load, &layout, &err), 0);
    assert_int_equal(layout.n_pools, 2);
    assert_int_equal(layout.pools[0].n_models + layout.pools[1].n_models, 13);
    assert_in_range(layout.pools[0].n_models, 6, 7);
    plan_layout_free(&layout);
    assert_int_equal(plan_host_floor(&ask), 8); /* 1.89 TB at .25 TB a GPU */
}

/* Two groups of four and nine singles: seventeen GPUs, three nodes of eight; the middle one of 100 GB and 50 GB. */
static void devices_fill_nodes(void **state)
{
    struct plan_model model = model_make("Qwen2.5-7B", BR_WEIGHTS_BF16, BR_KV_BF16);
    struct plan_ask ask = ask_make(&model, 1);
    struct plan_pool pools[] = {{.kind = {gpu_named("H20"), 1}, .weights_bytes = 50e9},
                                {.kind = {gpu_named("H20"), 4}, .weights_bytes = 100e9}};
    struct plan_layout layout = {pools, 2};
    struct plan_nodes nodes;
    struct br_err err;
    (void)state;
    assert_int_equal(plan_nodes_fill(&ask, &layout, (const uint32_t[]){9, 3}, (const double[]){9e9, 3e9}, &nodes, &err),
                     0);
    assert_int_equal(nodes.n, 3);
    assert_true(nodes.most_bytes == 155e9); /* a group, four singles and their KV */
    assert_int_equal(plan_nodes_fill(&ask, &layout, (const uint32_t[]){1, 0}, (const double[]){0, 0}, &nodes, &err), 0);
    assert_int_equal(nodes.n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_goes_onto_the_fewest_gpus_that_hold_it),
        cmocka_unit_test(what_fits_nowhere_is_refused_with_the_numbers),
        cmocka_unit_test(models_that_one_node_cannot_remember_are_split),
        cmocka_unit_test(devices_fill_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
