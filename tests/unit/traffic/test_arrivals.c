/* Every process against its exact law at 10^5 draws (Kolmogorov-Smirnov, fixed seeds, level .001). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/unit/traffic/laws.h"
#include "traffic/process.h"

enum { N = 100000 };
static double g_x[N];

static void check(const struct br_process *p)
{
    struct br_err err;
    assert_int_equal(br_process_check(p, &err), 0);
}

/* The gaps of one long run, the first one left out. */
static void draw_gaps(const struct br_process *p, uint64_t seed)
{
    struct br_arrivals a;
    double last;
    check(p);
    br_arrivals_init(&a, p, seed, 7);
    last = br_arrivals_next(&a);
    for (int i = 0; i < N; i++) {
        double next = br_arrivals_next(&a);
        assert_true(next >= last);
        g_x[i] = next - last;
        last = next;
    }
}

/* The first arrivals of N models: independent of each other, since each has draws of its own. */
static void draw_firsts(const struct br_process *p, uint64_t seed)
{
    check(p);
    for (uint32_t i = 0; i < N; i++) {
        struct br_arrivals a;
        br_arrivals_init(&a, p, seed, i);
        g_x[i] = br_arrivals_next(&a);
    }
}

static void the_laws_themselves_are_right(void **state)
{
    (void)state;
    for (double x = .01; x < 20; x *= 1.3) { /* closed forms at a = 1/2, 1, 2 */
        assert_near(incomplete_gamma(.5, x), erf(sqrt(x)), 1e-13);
        assert_near(incomplete_gamma(1, x), -expm1(-x), 1e-13);
        assert_near(incomplete_gamma(2, x), 1 - exp(-x) * (1 + x), 1e-13);
    }
}

static void gaps_follow_their_law(void **state)
{
    static const struct {
        struct br_process process;
        struct law law;
    } cases[] = {
        {{.kind = BR_PROCESS_POISSON, .rate = .037}, {law_exponential, 1, .037}},
        {{.kind = BR_PROCESS_GAMMA, .rate = 2, .shape = 1}, {law_exponential, 1, 2}}, /* burstiness 1 is Poisson */
        {{.kind = BR_PROCESS_GAMMA, .rate = 2, .shape = .25}, {law_gamma, .25, 2}},
        {{.kind = BR_PROCESS_GAMMA, .rate = .1, .shape = 4}, {law_gamma, 4, .1}},
        {{.kind = BR_PROCESS_WEIBULL, .rate = 3, .shape = 1}, {law_exponential, 1, 3}},
        {{.kind = BR_PROCESS_WEIBULL, .rate = 3, .shape = .5}, {law_weibull, .5, 3}},
        {{.kind = BR_PROCESS_WEIBULL, .rate = .5, .shape = 2.5}, {law_weibull, 2.5, .5}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        draw_gaps(&cases[i].process, 11 + i);
        assert_true(ks_distance(g_x, N, &cases[i].law) < KS_LIMIT);
    }
}

static void the_first_gap_is_that_of_a_process_that_always_ran(void **state)
{
    static const struct {
        struct br_process process;
        struct law law;
    } cases[] = {
        {{.kind = BR_PROCESS_POISSON, .rate = .037}, {law_exponential, 1, .037}},
        {{.kind = BR_PROCESS_GAMMA, .rate = 2, .shape = .25}, {law_gamma_equilibrium, .25, 2}},
        {{.kind = BR_PROCESS_GAMMA, .rate = 2, .shape = 4}, {law_gamma_equilibrium, 4, 2}},
        {{.kind = BR_PROCESS_WEIBULL, .rate = .5, .shape = .5}, {law_weibull_equilibrium, .5, .5}},
        {{.kind = BR_PROCESS_CONSTANT, .rate = 4}, {law_uniform, 0, 4}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        draw_firsts(&cases[i].process, 101 + i);
        assert_true(ks_distance(g_x, N, &cases[i].law) < KS_LIMIT);
    }
}

/* What the limit is worth: a shape that is 3 % off does not pass. */
static void a_law_slightly_off_is_noticed(void **state)
{
    struct br_process p = {.kind = BR_PROCESS_GAMMA, .rate = 2, .shape = .25};
    struct law off = {law_gamma, .2575, 2};
    (void)state;
    draw_gaps(&p, 13);
    assert_true(ks_distance(g_x, N, &off) > KS_LIMIT);
}

static void constant_gaps_are_constant(void **state)
{
    struct br_process p = {.kind = BR_PROCESS_CONSTANT, .rate = 8};
    (void)state;
    draw_gaps(&p, 3);
    for (int i = 0; i < N; i++)
        assert_near(g_x[i], .125, 1e-10);
}

/* Integral of a rate that goes from a to b in T and stays: what the time-rescaling theorem needs (Brown et al. 2002):
 * differences of it between arrivals are exponential of mean 1. */
static double ramp_integral(double a, double b, double T, double t)
{
    return t < T ? a * t + (b - a) / T * t * t / 2 : (a + b) / 2 * T + b * (t - T);
}

static void a_ramp_rescaled_by_its_rate_is_poisson(void **state)
{
    static const struct br_process cases[] = {
        {.kind = BR_PROCESS_RAMP, .rate = 5, .end_rate = 80, .ramp_s = 2000}, /* 85,000 in the ramp, the rest behind */
        {.kind = BR_PROCESS_RAMP, .rate = 120, .end_rate = 1, .ramp_s = 1600},
        {.kind = BR_PROCESS_RAMP, .rate = 0, .end_rate = 50, .ramp_s = 5000},
    };
    struct law law = {law_exponential, 1, 1};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const struct br_process *p = &cases[c];
        struct br_arrivals a;
        double last = 0;
        check(p);
        br_arrivals_init(&a, p, 23 + c, 1);
        for (int i = 0; i < N; i++) {
            double now = ramp_integral(p->rate, p->end_rate, p->ramp_s, br_arrivals_next(&a));
            g_x[i] = now - last;
            last = now;
        }
        assert_true(ks_distance(g_x, N, &law) < KS_LIMIT);
    }
}

static void a_ramp_down_to_nothing_ends(void **state)
{
    struct br_process p = {.kind = BR_PROCESS_RAMP, .rate = 10, .end_rate = 0, .ramp_s = 100};
    struct br_arrivals a;
    double last = 0, next;
    int n = 0;
    (void)state;
    check(&p);
    br_arrivals_init(&a, &p, 1, 0);
    while ((next = br_arrivals_next(&a)) < INFINITY) {
        assert_true(next >= last && next <= 100);
        last = next;
        n++;
    }
    assert_true(fabs((double)n - 500) < 3 * sqrt(500)); /* Poisson of mean 10 * 100 / 2 */
    assert_true(br_arrivals_next(&a) == INFINITY);
}

/* P(first arrival > t) = pi exp((Q - diag(lambda)) t) 1 with pi the stationary state: two exponentials, whose weights
 * follow from the value 1 and the slope -mean rate at t = 0. */
static double mmpp_first(const struct law *law, double t)
{
    const double burst_s = 5, calm_s = 20, burst = law->rate * 4, calm = law->rate * .25;
    double a = -(1 / calm_s + calm), d = -(1 / burst_s + burst), bc = 1 / calm_s / burst_s;
    double middle = (a + d) / 2, root = sqrt((a - d) * (a - d) / 4 + bc);
    double s1 = middle + root, s2 = middle - root, c1 = (-law->rate - s2) / (s1 - s2);
    return 1 - c1 * exp(s1 * t) - (1 - c1) * exp(s2 * t);
}

static void the_first_arrival_of_an_mmpp_follows_its_law(void **state)
{
    struct br_process p = {.kind = BR_PROCESS_MMPP, .rate = .6, .peak = 4, .burst_s = 5, .calm_s = 20};
    struct law law = {mmpp_first, 0, .6};
    (void)state;
    draw_firsts(&p, 31);
    assert_true(ks_distance(g_x, N, &law) < KS_LIMIT);
}

static void windows_have_their_own_law_each(void **state)
{
    static const struct br_window windows[] = {
        {100, 200100, .25, .5, BR_PROCESS_GAMMA},
        {300000, 400000, .5, 2, BR_PROCESS_WEIBULL},
    };
    struct br_process p = {.kind = BR_PROCESS_WINDOWS, .windows = windows, .n_windows = 2};
    struct law laws[] = {{law_gamma, .5, .25}, {law_weibull, 2, .5}};
    struct br_arrivals a;
    double next, last = 0;
    size_t n[2] = {0};
    static double gaps[2][N];
    (void)state;
    check(&p);
    br_arrivals_init(&a, &p, 5, 0);
    while ((next = br_arrivals_next(&a)) < INFINITY) {
        int w = next >= 300000;
        assert_true(next >= windows[w].start_s && next < windows[w].end_s);
        if (last >= windows[w].start_s)
            gaps[w][n[w]++] = next - last;
        last = next;
    }
    for (int w = 0; w < 2; w++) {
        assert_true(n[w] > 40000);
        assert_true(ks_distance(gaps[w], n[w], &laws[w]) < KS_LIMIT);
    }
}

static void filling_is_the_same_as_stepping(void **state)
{
    struct br_process p = {.kind = BR_PROCESS_MMPP, .rate = 3, .peak = 4, .burst_s = 5, .calm_s = 20};
    struct br_arrivals one, many;
    double some[37];
    uint32_t n, total = 0;
    (void)state;
    br_arrivals_init(&one, &p, 9, 4);
    br_arrivals_init(&many, &p, 9, 4);
    do {
        n = br_arrivals_fill(&many, 100, some, 37);
        for (uint32_t i = 0; i < n; i++)
            assert_true(some[i] == br_arrivals_next(&one));
        total += n;
    } while (n == 37);
    assert_true(total > 0 && br_arrivals_next(&one) >= 100);
}

static void nothing_arrives_at_rate_zero(void **state)
{
    (void)state;
    for (int kind = 0; kind <= BR_PROCESS_WINDOWS; kind++) {
        struct br_process p = {
            .kind = (enum br_process_kind)kind, .shape = 1, .peak = 1, .burst_s = 1, .calm_s = 1, .ramp_s = 1};
        struct br_arrivals a;
        check(&p);
        br_arrivals_init(&a, &p, 1, 1);
        assert_true(br_arrivals_next(&a) == INFINITY);
    }
}

static void absurd_parameters_are_refused_with_their_value(void **state)
{
    static const struct br_window backwards[] = {{0, 600, 1, 1, BR_PROCESS_GAMMA}, {300, 900, 1, 1, BR_PROCESS_GAMMA}};
    static const struct br_window nested[] = {{0, 600, 1, 1, BR_PROCESS_RAMP}};
    const struct {
        struct br_process process;
        const char *message;
    } cases[] = {
        {{.rate = -1}, "rate in requests/s = -1: must be a number from 0 to 1e+06"},
        {{.rate = NAN}, "rate in requests/s = nan: must be a number from 0 to 1e+06"},
        {{.rate = INFINITY}, "rate in requests/s = inf: must be a number from 0 to 1e+06"},
        {{.kind = BR_PROCESS_GAMMA, .rate = 1}, "shape (burstiness) = 0: must be a number from 0.01 to 1000"},
        {{.kind = BR_PROCESS_RAMP, .rate = 1, .end_rate = 1}, "ramp in s = 0: must be a number from 0.001 to 1e+09"},
        {{.kind = BR_PROCESS_MMPP, .rate = 1, .peak = 6, .burst_s = 1, .calm_s = 4},
         "peak (rate in a burst over the mean rate) = 6: must be a number from 1 to 5"},
        {{.kind = BR_PROCESS_MMPP, .rate = 1e-5, .peak = 2, .burst_s = 1, .calm_s = 4},
         "5e-05 requests in a calm and a burst together: fewer than 1e-4; use poisson"},
        {{.kind = BR_PROCESS_WINDOWS, .windows = backwards, .n_windows = 2},
         "window 1 from 300 s to 900 s: has to end after its start, which is not before 600 s"},
        {{.kind = BR_PROCESS_WINDOWS, .windows = nested, .n_windows = 1},
         "window 0: must be poisson, gamma, weibull or constant"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct br_err err;
        assert_int_equal(br_process_check(&cases[i].process, &err), BR_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
    }
}

static void names_are_known(void **state)
{
    enum br_process_kind kind;
    struct br_err err;
    (void)state;
    for (int i = 0; i <= BR_PROCESS_WINDOWS; i++) {
        assert_int_equal(br_process_kind_parse(br_process_kind_name((enum br_process_kind)i), &kind, &err), 0);
        assert_int_equal(kind, i);
    }
    assert_int_equal(br_process_kind_parse("poison", &kind, &err), BR_EINVAL);
    assert_string_equal(err.msg, "no arrival process 'poison'; did you mean 'poisson'?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_laws_themselves_are_right),
        cmocka_unit_test(gaps_follow_their_law),
        cmocka_unit_test(the_first_gap_is_that_of_a_process_that_always_ran),
        cmocka_unit_test(a_law_slightly_off_is_noticed),
        cmocka_unit_test(constant_gaps_are_constant),
        cmocka_unit_test(a_ramp_rescaled_by_its_rate_is_poisson),
        cmocka_unit_test(a_ramp_down_to_nothing_ends),
        cmocka_unit_test(the_first_arrival_of_an_mmpp_follows_its_law),
        cmocka_unit_test(windows_have_their_own_law_each),
        cmocka_unit_test(filling_is_the_same_as_stepping),
        cmocka_unit_test(nothing_arrives_at_rate_zero),
        cmocka_unit_test(absurd_parameters_are_refused_with_their_value),
        cmocka_unit_test(names_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
