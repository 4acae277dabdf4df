/* Virtual devices' memory by kvcache's books: rooms and roundings by hand; every policy with all books checked after
 * each event; what the books cannot give is left out, and served all the same; what moves without KV is computed again.
 */
#include <math.h>
#include <stdlib.h>

#include "sim/books.h"
#include "tests/cmocka.h"
#include "tests/sim/rows.h"

enum { MIB = 1 << 20 };
static const int64_t GIB = 1 << 30;

/* Blocks of 16 tokens: 1 MiB and 640 KiB. Slabs: four of the largest block, 4 MiB; six of the smaller ones fit. */
static struct sim_books *books_make(void)
{
    static const struct br_pl_model models[] = {{.weights_bytes = 1, .kv_token_bytes = 65536},
                                                {.weights_bytes = 1, .kv_token_bytes = 40960}};
    static const struct br_pl_hardware hw = {.memory_bytes = 1 << 30, .link_bytes_per_s = 1e9};
    struct br_pl_config pool = {.n_models = 2, .n_devices = 1, .max_seqs = 64, .models = models, .hardware = &hw};
    struct sim_books *books;
    struct br_err err;
    assert_int_equal(sim_books_create(&pool, 1000, &books, &err), 0);
    return books;
}

static void kv_is_counted_in_blocks_and_slabs(void **state)
{
    struct sim_books *b = books_make();
    (void)state;
    assert_int_equal(sim_books_token_bytes(b, 0), 65536);
    assert_int_equal(sim_books_token_bytes(b, 1), (4 * MIB + 95) / 96); /* a sixth of what is left over behind six */
    assert_int_equal(sim_books_planned(b, 0), GIB - 2 * 4 * MIB);
    assert_true(sim_books_extend(b, 0, 0, 7, 17));
    assert_int_equal(sim_books_free(b, 0), GIB - 2 * MIB);
    assert_true(sim_books_extend(b, 0, 0, 7, 32)); /* has room for them */
    assert_int_equal(sim_books_free(b, 0), GIB - 2 * MIB);
    assert_int_equal(sim_books_device(b, 7), 0);
    sim_books_drop(b, 7);
    assert_int_equal(sim_books_device(b, 7), -1);
    assert_int_equal(sim_books_free(b, 0), GIB);
    sim_books_destroy(b);
}

/* Ten sequences of a slab each; the nine at the far end go, and the tenth moves there. */
static void weights_get_what_kv_leaves_in_one_piece(void **state)
{
    struct sim_books *b = books_make();
    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        assert_true(sim_books_extend(b, 0, 0, i, 64));
    for (uint32_t i = 0; i < 9; i++)
        sim_books_drop(b, i);
    assert_int_equal(sim_books_load(b, 0, GIB), GIB - 4 * MIB);
    assert_int_equal(sim_books_load(b, 0, 1), 0);
    assert_false(sim_books_extend(b, 0, 1, 20, 16)); /* another shape: a slab of its own */
    assert_int_equal(sim_books_lacking(b, 0, 1, 20, 16), 4 * MIB);
    assert_int_equal(sim_books_lacking(b, 0, 1, 20, 97), 2 * 4 * MIB); /* seven blocks */
    sim_books_evict(b, 0, 4 * MIB);
    assert_true(sim_books_extend(b, 0, 1, 20, 96));
    assert_false(sim_books_extend(b, 0, 1, 20, 97));
    assert_int_equal(sim_books_free(b, 0), 4 * MIB - 6 * 640 * 1024);
    sim_books_destroy(b);
}

static void run(enum row_policy policy, int row, uint32_t models, bool recompute, struct sim_result *out)
{
    static struct sim_search search;
    struct br_pl_options options = row_options(policy);
    struct sim_scenario scenario = rows[row].scenario;
    struct br_err err = {0};
    scenario.horizon_s = 125;
    options.recompute = recompute;
    sim_search_init(&search, &scenario, &options);
    search.give_up = 0;
    search.check = search.books = true;
    if (sim_scenario_run(&search, models, 5, out, &err) < 0)
        fail_msg("%s: %s", options.policy, err.msg);
}

static void all_books_hold_with_every_policy(void **state)
{
    static const enum row_policy policies[] = {ROW_REQUEST, ROW_MULTIPLEX, ROW_AEGAEON, ROW_SLACK};
    struct sim_result result;
    uint64_t shortages = 0;
    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        for (int recompute = 0; recompute < 2; recompute++) {
            run(policies[i], 2, 40, recompute, &result);
            assert_true(result.steps > 1000 && result.on_time > 0);
            shortages += result.short_loads;
        }
    assert_true(shortages > 0); /* two of three models fill a device: roundings must have been felt */
}

static double step_cost(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                        uint32_t prefill)
{
    (void)ctx, (void)device, (void)model, (void)kv_bytes;
    return .02 + .0001 * decodes + 1e-5 * prefill;
}

/* 120 short answers at once, of KV that takes as much again in part-filled blocks as the policy keeps free: some rows
 * have no room, and every token is made in the end. */
static void what_has_no_room_is_left_out_and_served_later(void **state)
{
    enum { N = 120 };
    struct sim_request requests[N];
    struct br_pl_model model = {
        .weights_bytes = 4 * GIB, .kv_token_bytes = 1 * MIB, .ttft_s = 100, .tbt_s = .1, .rate = 1};
    struct br_pl_hardware hw = {.memory_bytes = 8 * GIB, .link_bytes_per_s = 1e10};
    struct sim_result r;
    struct br_err err;
    (void)state;
    for (uint32_t i = 0; i < N; i++)
        requests[i] = (struct sim_request){1 + .01 * i, 0, 18, 60};
    struct sim_run run = {.pool = {.n_models = 1,
                                   .n_devices = 1,
                                   .models = &model,
                                   .hardware = &hw,
                                   .cost = {NULL, step_cost},
                                   .options = {.policy = "slack", .chunk_bytes = 1 << 30, .prefill_step_s = .3}},
                          .requests = requests,
                          .n_requests = N,
                          .horizon_s = 10,
                          .run_on_s = 1000,
                          .books = true,
                          .check = true};
    assert_int_equal(sim_run(&run, &r, &err), 0);
    assert_true(r.left_out > 0);
    assert_int_equal(r.tokens, N * 60);
    assert_int_equal(r.on_time, N * 60); /* 100 s are enough for all */
}

struct rows_seen {
    uint64_t prefill;
};

static void step_seen(void *ctx, double now_s, double end_s, uint32_t device, uint32_t model,
                      const struct br_pl_running *step)
{
    struct rows_seen *seen = ctx;
    (void)now_s, (void)end_s, (void)device, (void)model;
    seen->prefill += step->prefill;
}

/* Four models on two devices, two each; answers of the one device's are short, so that it runs empty and gets a model
 * of the other's in the middle of its answers. */
static uint64_t prompt_rows(bool recompute, uint64_t *prompts)
{
    enum { N = 48 };
    struct sim_request requests[N];
    struct br_pl_model models[4];
    struct br_pl_hardware hw[2] = {{.memory_bytes = 40 * GIB, .link_bytes_per_s = 1e11},
                                   {.memory_bytes = 40 * GIB, .link_bytes_per_s = 1e11}};
    struct rows_seen seen = {0};
    struct sim_observer observer = {.ctx = &seen, .step_begun = step_seen};
    struct sim_result r;
    struct br_err err;
    *prompts = 0;
    for (uint32_t i = 0; i < 4; i++)
        models[i] = (struct br_pl_model){
            .weights_bytes = 2 * GIB, .kv_token_bytes = 65536, .ttft_s = 10, .tbt_s = .1, .rate = 1};
    for (uint32_t i = 0; i < N; i++) {
        requests[i] = (struct sim_request){1 + .2 * i, i % 4, 100, i % 2 == 0 ? 200 : 20};
        *prompts += 100;
    }
    struct sim_run run = {
        .pool = {.n_models = 4,
                 .n_devices = 2,
                 .models = models,
                 .hardware = hw,
                 .cost = {NULL, step_cost},
                 .options = {.policy = "slack", .chunk_bytes = 1 << 30, .prefill_step_s = .3, .recompute = recompute}},
        .requests = requests,
        .n_requests = N,
        .horizon_s = 30,
        .run_on_s = 100,
        .books = true,
        .check = true,
        .observer = &observer};
    assert_int_equal(sim_run(&run, &r, &err), 0);
    assert_int_equal(r.tokens, N / 2 * 220);
    return seen.prefill;
}

static void what_moves_without_its_kv_is_computed_again(void **state)
{
    uint64_t prompts, ran;
    (void)state;
    ran = prompt_rows(false, &prompts);
    assert_int_equal(ran, prompts);
    ran = prompt_rows(true, &prompts);
    assert_true(ran > prompts + 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kv_is_counted_in_blocks_and_slabs),
        cmocka_unit_test(weights_get_what_kv_leaves_in_one_piece),
        cmocka_unit_test(all_books_hold_with_every_policy),
        cmocka_unit_test(what_has_no_room_is_left_out_and_served_later),
        cmocka_unit_test(what_moves_without_its_kv_is_computed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
