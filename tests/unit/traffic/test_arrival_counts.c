/* How much is offered: counts within 3 sigma of rate x time for every process, and the burstiness of counts. */
#include <math.h>
#include <stdio.h>

#include "tests/cmocka.h"
#include "tests/unit/traffic/laws.h"
#include "traffic/process.h"

enum { RUNS = 50000 };

struct moments {
    double mean, variance, fourth; /* central */
};

static double count(const struct br_process *p, uint64_t seed, uint32_t model, double t_s)
{
    struct br_arrivals a;
    double n = 0;
    br_arrivals_init(&a, p, seed, model);
    while (br_arrivals_next(&a) < t_s)
        n++;
    return n;
}

/* Counts in [0, t) of RUNS independent models. */
static struct moments counts(const struct br_process *p, uint64_t seed, double t_s)
{
    static double n[RUNS];
    struct moments m = {0};
    struct br_err err;
    assert_int_equal(br_process_check(p, &err), 0);
    for (uint32_t i = 0; i < RUNS; i++)
        m.mean += (n[i] = count(p, seed, i, t_s)) / RUNS;
    for (uint32_t i = 0; i < RUNS; i++) {
        m.variance += pow(n[i] - m.mean, 2) / (RUNS - 1);
        m.fourth += pow(n[i] - m.mean, 4) / RUNS;
    }
    return m;
}

/* Of one long run: the variance of a renewal count tends to cv^2 * rate * t. */
static void a_long_run_offers_rate_times_time(void **state)
{
    const double weibull_cv2 = tgamma(5) / pow(tgamma(3), 2) - 1; /* shape .5: moments Gamma(1 + n / shape) */
    const struct {
        struct br_process process;
        double cv2;
    } cases[] = {
        {{.kind = BR_PROCESS_POISSON, .rate = 10}, 1},
        {{.kind = BR_PROCESS_GAMMA, .rate = 10, .shape = .25}, 4},
        {{.kind = BR_PROCESS_GAMMA, .rate = 10, .shape = 4}, .25},
        {{.kind = BR_PROCESS_WEIBULL, .rate = 10, .shape = .5}, weibull_cv2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double n = count(&cases[i].process, 41 + i, 3, 20000);
        assert_near(br_process_count(&cases[i].process, 20000), 200000, 1e-6);
        assert_true(fabs(n - 200000) < 3 * sqrt(cases[i].cv2 * 200000));
    }
}

static const struct br_window g_windows[] = {
    {2, 6, .1, .05, BR_PROCESS_GAMMA}, {6, 9, .3, .4, BR_PROCESS_WEIBULL}, {12, 30, .05, 1, BR_PROCESS_POISSON}};

/* Rare models, where an ordinary start of a renewal process would offer far too much: with gamma .05 gaps and one
 * request expected, (cv^2 - 1) / 2 = 9.5 more in the long run. */
static void short_runs_offer_rate_times_time_on_average(void **state)
{
    static const struct {
        struct br_process process;
        double t_s, expected;
    } cases[] = {
        {{.kind = BR_PROCESS_POISSON, .rate = .1}, 10, 1},
        {{.kind = BR_PROCESS_GAMMA, .rate = .1, .shape = .05}, 10, 1},
        {{.kind = BR_PROCESS_GAMMA, .rate = .1, .shape = 5}, 7, .7},
        {{.kind = BR_PROCESS_WEIBULL, .rate = .1, .shape = .4}, 10, 1},
        {{.kind = BR_PROCESS_CONSTANT, .rate = .1}, 25, 2.5},
        {{.kind = BR_PROCESS_MMPP, .rate = .5, .peak = 5, .burst_s = 2, .calm_s = 8}, 10, 5},
        {{.kind = BR_PROCESS_RAMP, .rate = 1, .end_rate = 0, .ramp_s = 4}, 10, 2},
        {{.kind = BR_PROCESS_RAMP, .rate = 0, .end_rate = 1, .ramp_s = 4}, 6, 4},
        {{.kind = BR_PROCESS_WINDOWS, .windows = g_windows, .n_windows = 3}, 22, .4 + .9 + .5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct moments m = counts(&cases[i].process, 51 + i, cases[i].t_s);
        assert_near(br_process_count(&cases[i].process, cases[i].t_s), cases[i].expected, 1e-9);
        assert_true(fabs(m.mean - cases[i].expected) < 3 * sqrt(m.variance / RUNS));
    }
}

/* A constant process offers floor or ceil of rate * time, never more apart. */
static void a_constant_process_has_no_noise(void **state)
{
    struct br_process p = {.kind = BR_PROCESS_CONSTANT, .rate = 3};
    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        double n = count(&p, 5, i, 100.1);
        assert_true(n == 300 || n == 301);
    }
}

/* Index of dispersion of counts of a two-state MMPP (Fischer and Meier-Hellstern, "The Markov-modulated Poisson process
 * cookbook", 1993, with r = sum of the rates of leaving):
 * Var N(t) / E N(t) = 1 + 2 r1 r2 (l1 - l2)^2 / (r^2 (l1 r2 + l2 r1)) * (1 - (1 - exp(-r t)) / (r t)) */
static double dispersion(double l1, double l2, double r1, double r2, double t)
{
    double r = r1 + r2;
    return 1 + 2 * r1 * r2 * (l1 - l2) * (l1 - l2) / (r * r * (l1 * r2 + l2 * r1)) * (1 - (1 - exp(-r * t)) / (r * t));
}

static void mmpp_counts_are_as_bursty_as_the_formula(void **state)
{
    struct br_process p = {.kind = BR_PROCESS_MMPP, .rate = 2, .peak = 3, .burst_s = 4, .calm_s = 12};
    const double burst = 6, calm = (2 * 16 - 6 * 4) / 12.; /* so that the mean is 2 */
    (void)state;
    for (double t = .5; t < 100; t *= 5) {
        struct moments m = counts(&p, 61, t);
        double variance = 2 * t * dispersion(burst, calm, 1 / 4., 1 / 12., t);
        double sigma = sqrt((m.fourth - m.variance * m.variance) / RUNS); /* of a sample's variance */
        assert_true(fabs(m.mean - 2 * t) < 3 * sqrt(variance / RUNS));
        assert_true(fabs(m.variance - variance) < 3 * sigma);
        assert_true(variance > (t > 10 ? 10 : 2.2) * t); /* it is no Poisson process */
    }
}

static void the_same_key_gives_the_same_arrivals(void **state)
{
    struct br_process p = {.kind = BR_PROCESS_GAMMA, .rate = 1, .shape = .5};
    double a[100], b[100];
    struct br_arrivals one, other;
    (void)state;
    br_arrivals_init(&one, &p, 1, 2);
    br_arrivals_init(&other, &p, 1, 2);
    assert_int_equal(br_arrivals_fill(&one, INFINITY, a, 100), 100);
    br_arrivals_fill(&other, INFINITY, b, 100);
    assert_memory_equal(a, b, sizeof a);
    br_arrivals_init(&other, &p, 1, 3);
    br_arrivals_fill(&other, INFINITY, b, 100);
    assert_memory_not_equal(a, b, sizeof a);
    br_arrivals_init(&other, &p, 2, 2);
    br_arrivals_fill(&other, INFINITY, b, 100);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_run_offers_rate_times_time),
        cmocka_unit_test(short_runs_offer_rate_times_time_on_average),
        cmocka_unit_test(a_constant_process_has_no_noise),
        cmocka_unit_test(mmpp_counts_are_as_bursty_as_the_formula),
        cmocka_unit_test(the_same_key_gives_the_same_arrivals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
