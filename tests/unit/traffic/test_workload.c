/* Workloads that are made: popularity, independence of models, order, prefix blocks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "traffic/generate.h"
#include "traffic/popularity.h"

#define near(a, b, within) assert_true(fabs((a) - (b)) <= (within))

static struct br_source source(const char *name, double rate)
{
    return (struct br_source){
        .name = name,
        .process = {.kind = BR_PROCESS_GAMMA, .rate = rate, .shape = .5},
        .lengths = {.prompt = {.kind = BR_LENGTH_LOGNORMAL, .median = 540, .sigma = .78, .min = 16, .max = 4096},
                    .output = {.kind = BR_LENGTH_UNIFORM, .min = 1, .max = 99}}};
}

static struct br_workload generate(uint32_t n, uint64_t seed)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    struct br_source sources[10];
    struct br_workload w;
    struct br_err err;
    for (uint32_t i = 0; i < n; i++)
        sources[i] = source(names[i], .2 * (i + 1));
    assert_int_equal(br_workload_generate(sources, n, 1000, seed, &w, &err), 0);
    return w;
}

static void the_same_seed_gives_the_same_bytes(void **state)
{
    struct br_workload a = generate(10, 7), b = generate(10, 7), c = generate(10, 8);
    (void)state;
    assert_true(a.n > 10000); /* 11 requests/s for 1000 s */
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.requests, b.requests, a.n * sizeof *a.requests);
    assert_true(a.n != c.n || memcmp(a.requests, c.requests, a.n * sizeof *a.requests) != 0);
    near(a.duration_s, 1000, 0);
    for (size_t i = 1; i < a.n; i++)
        assert_true(a.requests[i - 1].at_s <= a.requests[i].at_s);
    br_workload_free(&a);
    br_workload_free(&b);
    br_workload_free(&c);
}

/* Model c has the same requests beside two other models and beside nine. */
static void a_model_does_not_depend_on_the_others(void **state)
{
    struct br_workload few = generate(3, 7), many = generate(10, 7);
    size_t at = 0, seen = 0;
    (void)state;
    for (size_t i = 0; i < few.n; i++) {
        const struct br_request *r = &few.requests[i];
        if (r->model != 2)
            continue;
        while (at < many.n && many.requests[at].model != 2)
            at++;
        assert_true(at < many.n);
        assert_memory_equal(r, &many.requests[at++], sizeof *r);
        assert_int_equal(r->number, seen++);
    }
    for (; at < many.n; at++)
        assert_int_not_equal(many.requests[at].model, 2);
    assert_true(seen > 400); /* .6/s * 1000 s, variance 2 * 600 */
    br_workload_free(&few);
    br_workload_free(&many);
}

static void bad_sources_are_refused(void **state)
{
    struct br_source sources[2] = {source("a", 1), source("a", 1)};
    struct br_workload w;
    struct br_err err;
    (void)state;
    assert_int_equal(br_workload_generate(sources, 2, 10, 1, &w, &err), BR_EINVAL);
    assert_string_equal(err.msg, "model 'a' is named twice");
    assert_null(w.requests);
    sources[1] = source("b", -1);
    assert_int_equal(br_workload_generate(sources, 2, 10, 1, &w, &err), BR_EINVAL);
    assert_string_equal(err.msg, "model 'b': rate in requests/s = -1: must be a number from 0 to 1e+06");
    assert_int_equal(br_workload_generate(sources, 1, NAN, 1, &w, &err), BR_EINVAL);
    sources[0] = source("a", 1e5);
    assert_int_equal(br_workload_generate(sources, 1, 3600, 1, &w, &err), BR_ENOMEM);
    assert_string_equal(err.msg,
                        "3.6e+08 requests in 3600 s: more than 50000000; lower the rates or take a shorter time");
}

static void shares_follow_their_law(void **state)
{
    double share[3], weight[3] = {3, 0, 1};
    struct br_err err;
    (void)state;
    assert_int_equal(br_popularity_zipf(share, 3, 1, &err), 0); /* 1 : 1/2 : 1/3 */
    near(share[0], 6 / 11., 1e-15);
    near(share[1], 3 / 11., 1e-15);
    near(share[2], 2 / 11., 1e-15);
    assert_int_equal(br_popularity_equal(share, 3, &err), 0);
    near(share[2], 1 / 3., 1e-15);
    assert_int_equal(br_popularity_weights(share, weight, 3, &err), 0);
    assert_true(share[0] == .75 && share[1] == 0 && share[2] == .25);
}

static void absurd_shares_are_refused(void **state)
{
    double share[3], bad[3] = {1, -1, 1}, nan[3] = {1, 1, NAN}, none[3] = {0};
    struct br_err err;
    (void)state;
    assert_int_equal(br_popularity_weights(share, bad, 3, &err), BR_EINVAL);
    assert_string_equal(err.msg, "weight of model 1 = -1: must be a number from 0 to 1e100");
    assert_int_equal(br_popularity_weights(share, nan, 3, &err), BR_EINVAL);
    assert_int_equal(br_popularity_weights(share, none, 3, &err), BR_EINVAL);
    assert_string_equal(err.msg, "all 3 weights are 0: at least one model needs traffic");
    assert_int_equal(br_popularity_weights(share, none, 0, &err), BR_EINVAL);
    assert_int_equal(br_popularity_zipf(share, 3, -1, &err), BR_EINVAL);
    assert_int_equal(br_popularity_zipf(share, 3, NAN, &err), BR_EINVAL);
}

static void one_stream_is_divided_by_shares(void **state)
{
    static const char *const names[] = {"x", "y", "z", "none"};
    struct br_source one = source("all", 100);
    struct br_workload w;
    struct br_err err;
    double share[4], back[4], wrong[4] = {.5, .2, .2, 0};
    uint32_t next[4] = {0};
    (void)state;
    assert_int_equal(br_popularity_zipf(share, 3, 1, &err), 0);
    share[3] = 0;
    assert_int_equal(br_workload_generate(&one, 1, 1000, 3, &w, &err), 0);
    assert_int_equal(br_workload_assign(&w, names, wrong, 4, 9, &err), BR_EINVAL);
    assert_string_equal(err.msg, "shares of 4 models add up to 0.9, not to 1");
    assert_int_equal(w.n_models, 1); /* as it was */
    assert_int_equal(br_workload_assign(&w, names, share, 4, 9, &err), 0);
    assert_string_equal(w.names[2], "z");
    assert_int_equal(br_popularity_workload(back, &w, &err), 0);
    for (int i = 0; i < 4; i++)
        near(back[i], share[i], 3 * sqrt(share[i] * (1 - share[i]) / (double)w.n));
    for (size_t i = 0; i < w.n; i++)
        assert_int_equal(w.requests[i].number, next[w.requests[i].model]++);
    br_workload_free(&w);
}

static void add(struct br_workload *w, double at_s, const char *model, const uint64_t *blocks, uint32_t n)
{
    struct br_request r = {.at_s = at_s, .prompt = 1, .output = 2, .n_blocks = n};
    struct br_err err;
    assert_int_equal(br_workload_model(w, model, &r.model, &err), 0);
    assert_int_equal(br_workload_add(w, &r, blocks, &err), 0);
}

static void requests_are_sorted_and_numbered(void **state)
{
    struct br_workload w = {0};
    const uint64_t blocks[] = {1, 2, 3};
    (void)state;
    add(&w, 5, "a", blocks, 1);
    add(&w, 1, "b", blocks, 2);
    add(&w, 5, "b", blocks, 3);
    add(&w, 0, "a", blocks, 0);
    br_workload_sort(&w);
    assert_true(w.requests[0].at_s == 0 && w.requests[1].at_s == 1 && w.requests[3].at_s == 5);
    assert_true(w.requests[2].model == 0 && w.requests[2].number == 1); /* equal times as they came */
    assert_true(w.requests[3].model == 1 && w.requests[3].number == 1);
    assert_true(w.requests[3].n_blocks == 3 && w.blocks[w.requests[3].first_block + 2] == 3);
    near(w.duration_s, 5, 0);
    br_workload_free(&w);
}

/* By hand: a prefix counts up to the first block that is new, and models share nothing. */
static void leading_blocks_hit(void **state)
{
    struct br_workload w = {0};
    struct br_workload_sums sums;
    (void)state;
    add(&w, 0, "a", (const uint64_t[]){1, 2, 3}, 3);    /* 0 */
    add(&w, 1, "a", (const uint64_t[]){1, 2, 4, 3}, 4); /* 2: block 3 comes after a new one */
    add(&w, 2, "b", (const uint64_t[]){1, 2}, 2);       /* 0 */
    add(&w, 3, "b", (const uint64_t[]){1, 2, 9}, 3);    /* 2 */
    br_workload_sort(&w);
    br_workload_sum(&w, &sums);
    assert_int_equal(sums.blocks, 12);
    assert_int_equal(sums.block_hits, 4);
    assert_true(sums.prompt == 4 && sums.output == 8);
    br_workload_free(&w);
}

static void wrong_requests_are_not_taken(void **state)
{
    static const struct br_request bad[] = {
        {.at_s = -1, .prompt = 1, .output = 1},
        {.at_s = NAN, .prompt = 1, .output = 1},
        {.at_s = INFINITY, .prompt = 1, .output = 1},
        {.prompt = 0, .output = 1},
        {.prompt = 1, .output = 1 << 25},
        {.prompt = 1, .output = 1, .model = 1},
    };
    struct br_workload w = {0};
    struct br_err err;
    uint32_t model;
    char name[200] = {0};
    (void)state;
    assert_int_equal(br_workload_model(&w, "m", &model, &err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(br_workload_add(&w, &bad[i], NULL, &err), BR_EINVAL);
    assert_int_equal(w.n, 0);
    assert_int_equal(br_workload_model(&w, "", &model, &err), BR_EINVAL);
    assert_int_equal(br_workload_model(&w, "a\tb", &model, &err), BR_EINVAL);
    memset(name, 'x', sizeof name - 1);
    assert_int_equal(br_workload_model(&w, name, &model, &err), BR_EINVAL);
    for (int i = 0; i < BR_WORKLOAD_MAX_MODELS - 1; i++) {
        snprintf(name, sizeof name, "m%d", i);
        assert_int_equal(br_workload_model(&w, name, &model, &err), 0);
        assert_int_equal(model, i + 1);
    }
    assert_int_equal(br_workload_model(&w, "one more", &model, &err), BR_ENOMEM);
    assert_int_equal(br_workload_model(&w, "m77", &model, &err), 0);
    assert_int_equal(model, 78);
    br_workload_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_bytes),
        cmocka_unit_test(a_model_does_not_depend_on_the_others),
        cmocka_unit_test(bad_sources_are_refused),
        cmocka_unit_test(shares_follow_their_law),
        cmocka_unit_test(absurd_shares_are_refused),
        cmocka_unit_test(one_stream_is_divided_by_shares),
        cmocka_unit_test(requests_are_sorted_and_numbered),
        cmocka_unit_test(leading_blocks_hit),
        cmocka_unit_test(wrong_requests_are_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
