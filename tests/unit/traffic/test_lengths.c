/* Lengths against their laws, and samples from elsewhere. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/unit/traffic/laws.h"
#include "traffic/lengths.h"

enum { N = 100000, MAX = 30000 };
static double g_share[2][MAX + 1]; /* of N draws: share of prompts, outputs that are at most this */
static double g_mean[2], g_square[2];

static void draw(const struct br_lengths *lengths, uint64_t seed)
{
    struct br_err err;
    memset(g_share, 0, sizeof g_share);
    g_mean[0] = g_mean[1] = g_square[0] = g_square[1] = 0;
    assert_int_equal(br_lengths_check(lengths, &err), 0);
    for (uint64_t k = 0; k < N; k++) {
        uint32_t n[2];
        br_lengths_draw(lengths, seed, (uint32_t)(k % 10), k / 10, &n[0], &n[1]);
        for (int i = 0; i < 2; i++) {
            assert_in_range(n[i], 1, MAX);
            g_share[i][n[i]] += 1. / N;
            g_mean[i] += (double)n[i] / N;
            g_square[i] += (double)n[i] * n[i] / N;
        }
    }
    for (int i = 0; i < 2; i++)
        for (int n = 1; n <= MAX; n++)
            g_share[i][n] += g_share[i][n - 1];
}

static struct br_length lognormal(double median, double sigma, uint32_t min, uint32_t max)
{
    return (struct br_length){.kind = BR_LENGTH_LOGNORMAL, .median = median, .sigma = sigma, .min = min, .max = max};
}

/* The lengths of the policy table; a whole number n stands for (n - .5, n + .5). */
static void lognormal_lengths_follow_their_law(void **state)
{
    struct br_lengths l = {.prompt = lognormal(540, .78, 16, 4096), .output = lognormal(242, .6, 16, 2048)};
    double worst = 0;
    (void)state;
    draw(&l, 1);
    for (int n = 16; n < 4096; n++)
        worst = fmax(worst, fabs(g_share[0][n] - law_normal(log((n + .5) / 540) / .78)));
    for (int n = 16; n < 2048; n++)
        worst = fmax(worst, fabs(g_share[1][n] - law_normal(log((n + .5) / 242) / .6)));
    assert_true(worst * sqrt(N) < KS_LIMIT);
    assert_true(g_share[0][15] <= 0 && g_share[0][4096] > 1 - 1e-9);
}

/* E of the clamped law by Simpson's rule over the normal variable. */
static double mean_by_integration(const struct br_length *l)
{
    const int steps = 200000;
    double h = 20. / steps, sum = 0;
    for (int i = 0; i <= steps; i++) {
        double z = -10 + i * h, x = fmin(fmax(l->median * exp(l->sigma * z), l->min), l->max);
        sum += (i == 0 || i == steps ? 1 : i % 2 ? 4 : 2) * x * exp(-z * z / 2);
    }
    return sum * h / 3 / sqrt(2 * M_PI);
}

static void the_mean_is_that_of_the_clamped_law(void **state)
{
    struct br_length a = lognormal(540, .78, 16, 4096), b = lognormal(100, 2, 50, 300), c = lognormal(9, 0, 1, 5);
    (void)state;
    assert_near(br_length_mean(&a), mean_by_integration(&a), .01);
    assert_near(br_length_mean(&b), mean_by_integration(&b), .01);
    assert_near(br_length_mean(&c), 5, 0);
}

static void uniform_and_fixed_lengths(void **state)
{
    struct br_lengths l = {.prompt = {.kind = BR_LENGTH_UNIFORM, .min = 11, .max = 1010},
                           .output = {.kind = BR_LENGTH_FIXED, .median = 77}};
    double worst = 0;
    (void)state;
    draw(&l, 2);
    for (int n = 10; n <= 1010; n++)
        worst = fmax(worst, fabs(g_share[0][n] - (n - 10) / 1000.));
    assert_true(worst * sqrt(N) < KS_LIMIT);
    assert_true(g_share[1][76] <= 0 && g_share[1][77] > 1 - 1e-9);
    assert_near(br_length_mean(&l.prompt), 510.5, 0);
    assert_near(br_length_mean(&l.output), 77, 0);
}

/* x is the p-quantile: at most a share p below, at least p up to it; 3 sigma of a share of N draws. */
static void check_quantile(int side, double x, double p)
{
    double slack = 3 * sqrt(p * (1 - p) / N);
    assert_true(g_share[side][(int)x - 1] < p + slack && g_share[side][(int)x] > p - slack);
}

/* Statistics as in servegen_tail_models.csv, lines 1 and 5 (prompts): they come back out. */
static void published_statistics_are_met(void **state)
{
    static const double stats[2][4] = {{2062.5, 2294, 3496, 3909}, {1735.1, 824, 2799, 29116}};
    struct br_lengths l = {0};
    (void)state;
    br_length_from_stats(&l.prompt, stats[0][0], stats[0][1], stats[0][2], stats[0][3]);
    br_length_from_stats(&l.output, stats[1][0], stats[1][1], stats[1][2], stats[1][3]);
    draw(&l, 3);
    for (int i = 0; i < 2; i++) {
        double deviation = sqrt(g_square[i] - g_mean[i] * g_mean[i]);
        check_quantile(i, stats[i][1], .5);
        check_quantile(i, stats[i][2], .9);
        check_quantile(i, stats[i][3], .99);
        assert_near(g_mean[i], stats[i][0], 3 * deviation / sqrt(N));
        assert_near(br_length_mean(i ? &l.output : &l.prompt), stats[i][0], 1e-6);
    }
}

static void statistics_that_lack_are_filled_in(void **state)
{
    struct br_length l;
    (void)state;
    br_length_from_stats(&l, 0, 100, 0, 0);
    assert_true(l.median == 100 && l.p90 == 100 && l.p99 == 100 && l.max == 100);
    br_length_from_stats(&l, 0, 100, 200, 0); /* log-normal: p99 = 100 * 2^(2.3263 / 1.2816) = 351.9 */
    assert_near(l.p99, 351.9, .1);
    br_length_from_stats(&l, 1, 1, 1, 1);
    assert_int_equal(l.min, 1);
    assert_int_equal(l.max, 1);
}

/* The k-th request's lengths do not depend on what was drawn before. */
static void lengths_are_keyed(void **state)
{
    struct br_lengths l = {.prompt = lognormal(540, .78, 16, 4096), .output = lognormal(242, .6, 16, 2048)};
    uint32_t a[2], b[2], differ = 0;
    (void)state;
    for (uint64_t k = 100; k-- > 0;) {
        br_lengths_draw(&l, 5, 3, k, &a[0], &a[1]);
        br_lengths_draw(&l, 5, 3, k, &b[0], &b[1]);
        assert_memory_equal(a, b, sizeof a);
        br_lengths_draw(&l, 5, 4, k, &b[0], &b[1]);
        differ += memcmp(a, b, sizeof a) != 0;
    }
    assert_true(differ > 95);
}

static void a_sample_keeps_pairs_together(void **state)
{
    uint32_t pairs[4][2] = {{1, 100}, {2, 200}, {3, 300}, {4, 400}};
    struct br_length_sample sample = {pairs, 4};
    struct br_lengths l = {.sample = &sample};
    (void)state;
    draw(&l, 6);
    for (int n = 1; n <= 4; n++)
        assert_near(g_share[0][n], n / 4., 3 * .5 / sqrt(N));
    for (uint64_t k = 0; k < 1000; k++) {
        uint32_t prompt, output;
        br_lengths_draw(&l, 6, 0, k, &prompt, &output);
        assert_int_equal(output, 100 * prompt);
    }
}

static void absurd_lengths_are_refused(void **state)
{
    static const struct {
        struct br_length length;
        const char *message;
    } cases[] = {
        {{.kind = BR_LENGTH_FIXED, .median = 0}, "prompt length: 0 tokens: must be 1 to 16777216"},
        {{.kind = BR_LENGTH_FIXED, .median = NAN}, "prompt length: nan tokens: must be 1 to 16777216"},
        {{.kind = BR_LENGTH_UNIFORM, .min = 9, .max = 8},
         "prompt length: 9 to 8 tokens: must be a span within 1 to 16777216"},
        {{.kind = BR_LENGTH_LOGNORMAL, .median = 5, .sigma = -1, .min = 1, .max = 8},
         "prompt length: sigma -1: must be a number from 0 to 10"},
        {{.kind = BR_LENGTH_QUANTILES, .median = 5, .p90 = 4, .p99 = 9, .min = 1, .max = 9},
         "prompt length: min 1, median 5, p90 4, p99 9, max 9: must not descend"},
    };
    struct br_length_sample nothing = {0};
    struct br_lengths l = {.sample = &nothing};
    struct br_err err;
    (void)state;
    assert_int_equal(br_lengths_check(&l, &err), BR_EINVAL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        l = (struct br_lengths){.prompt = cases[i].length, .output = {.median = 1}};
        assert_int_equal(br_lengths_check(&l, &err), BR_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
    }
}

static int sharegpt(const char *text, const struct br_sharegpt_options *o, struct br_length_sample *out,
                    struct br_err *err)
{
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    int rc = br_length_sample_sharegpt_read(out, stream, "f.json", o, err);
    fclose(stream);
    return rc;
}

static uint32_t count_words(void *context, const char *text, size_t len)
{
    uint32_t n = 1;
    (void)context;
    for (size_t i = 0; i < len; i++)
        n += text[i] == ' ';
    return n;
}

static const char g_conversations[] =
    "[{\"id\": \"a\", \"conversations\": [{\"from\": \"human\", \"value\": \"one two three\"},\n"
    "  {\"from\": \"gpt\", \"value\": \"four five\"}, {\"from\": \"human\", \"value\": \"six\"}]},\n"
    " {\"id\": \"b\", \"conversations\": [{\"from\": \"human\", \"value\": \"alone\"}]},\n"
    " {\"id\": \"c\", \"conversations\": [{\"from\": \"system\", \"value\": \"be kind\"},\n"
    "  {\"from\": \"user\", \"value\": \"12345\"}, {\"from\": \"assistant\", \"value\": \"1234\"}]}\n]\n";

static void conversations_give_pairs(void **state)
{
    size_t left_out;
    struct br_sharegpt_options words = {.count = count_words, .left_out = &left_out}, plain = {0};
    struct br_length_sample sample;
    struct br_err err;
    (void)state;
    assert_int_equal(sharegpt(g_conversations, &words, &sample, &err), 0);
    assert_int_equal(sample.n, 2);
    assert_int_equal(left_out, 1);
    assert_true(sample.pairs[0][0] == 3 && sample.pairs[0][1] == 2);
    br_length_sample_free(&sample);
    assert_int_equal(sharegpt(g_conversations, &plain, &sample, &err), 0);
    assert_true(sample.pairs[1][0] == 2 && sample.pairs[1][1] == 1); /* quarters of 5 and 4 bytes, rounded up */
    br_length_sample_free(&sample);
    plain.max_pairs = 1;
    assert_int_equal(sharegpt(g_conversations, &plain, &sample, &err), 0);
    assert_int_equal(sample.n, 1);
    br_length_sample_free(&sample);
}

static void bad_conversations_are_refused_with_their_line(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "f.json:1: not a JSON list of conversations"},
        {"\n[]", "f.json:2: no conversations"},
        {"[{}]", "f.json:1: no conversation in which a human asks and gpt answers"},
        {"[{},\n{\"a\": nan}]", "f.json:2: invalid token near 'nan'"},
        {"[{}\n {}]", "f.json:2: expected ',' or ']' after a conversation"},
        {"[{},", "f.json:1: '[' or '{' expected near end of file"},
    };
    struct br_sharegpt_options options = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct br_length_sample sample;
        struct br_err err;
        assert_int_equal(sharegpt(cases[i].text, &options, &sample, &err), BR_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
        assert_null(sample.pairs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lognormal_lengths_follow_their_law),
        cmocka_unit_test(the_mean_is_that_of_the_clamped_law),
        cmocka_unit_test(uniform_and_fixed_lengths),
        cmocka_unit_test(published_statistics_are_met),
        cmocka_unit_test(statistics_that_lack_are_filled_in),
        cmocka_unit_test(lengths_are_keyed),
        cmocka_unit_test(a_sample_keeps_pairs_together),
        cmocka_unit_test(absurd_lengths_are_refused),
        cmocka_unit_test(conversations_give_pairs),
        cmocka_unit_test(bad_conversations_are_refused_with_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
