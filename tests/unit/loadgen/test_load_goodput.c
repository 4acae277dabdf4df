/* The search on servers whose goodput is known by formula. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "loadgen/goodput.h"
#include "tests/cmocka.h"

struct server {
    double knee, width, noise; /* attainment = 1 / (1 + exp((rate - knee) / width)) */
    uint64_t seed;
    uint32_t calls;
};

static int probe(void *ctx, double rate, uint32_t run, double *attainment, double *error, struct br_err *err)
{
    struct server *s = ctx;
    double u = br_rng_unit(s->seed, 1, run, 0), v = br_rng_unit(s->seed, 2, run, 0);
    double normal = sqrt(-2 * log(1 - u)) * cos(2 * 3.14159265358979 * v);
    (void)err;
    s->calls++;
    *attainment = 1 / (1 + exp((rate - s->knee) / s->width)) + s->noise * normal;
    *error = s->noise;
    return 0;
}

/* Where it crosses `target`: knee + width * ln(1 / target - 1). */
static double crossing(const struct server *s, double target)
{
    return s->knee + s->width * log(1 / target - 1);
}

static void an_exact_server_is_found(void **state)
{
    const double starts[] = {.1, 1, 40, 900};
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct server s = {.knee = 50, .width = 5};
        double target = i < 4 ? .9 : .99, true_rate = crossing(&s, target);
        struct load_goodput g;
        struct br_err err;
        assert_int_equal(load_goodput_find(target, starts[i % 4], .02, 60, probe, &s, &g, &err), 0);
        assert_true(g.bracketed);
        assert_true(fabs(g.rate / true_rate - 1) < .02);
        assert_true(g.low <= true_rate && true_rate <= g.high && g.high < g.low * 1.021);
        assert_int_equal(g.runs, s.calls);
    }
}

/* Noise of one point: the bounds hold the true rate in at least 90 of 100 searches (95 % at each rate told apart). */
static void bounds_hold_the_truth(void **state)
{
    uint32_t inside = 0;
    double error = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct server s = {.knee = 20, .width = 2, .noise = .01, .seed = seed};
        double true_rate = crossing(&s, .9);
        struct load_goodput g;
        struct br_err err;
        assert_int_equal(load_goodput_find(.9, 5, .05, 40, probe, &s, &g, &err), 0);
        inside += g.low <= true_rate && true_rate <= g.high;
        error += fabs(g.rate / true_rate - 1) / 100;
    }
    assert_true(inside >= 90);
    assert_true(error < .05);
}

static void ends_without_a_crossing(void **state)
{
    struct server never = {.knee = -1e9, .width = 1}, always = {.knee = 1e9, .width = 1};
    struct load_goodput g;
    struct br_err err;
    (void)state;
    assert_int_equal(load_goodput_find(.9, 1, .05, 50, probe, &never, &g, &err), 0);
    assert_false(g.bracketed);
    assert_true(g.rate == 0 && isinf(g.high) == 0);
    assert_int_equal(load_goodput_find(.9, 1, .05, 50, probe, &always, &g, &err), 0);
    assert_false(g.bracketed);
    assert_true(g.rate >= 1000 && isinf(g.high));
    assert_true(g.runs <= 50);
}

/* 20 batches, of which every other is wholly late: attainment 1/2; by the ratio estimator with equal batches the
 * standard error is the batches' standard deviation over sqrt(20): .5 * sqrt(20/19) / sqrt(20). */
static void the_error_of_one_run(void **state)
{
    const struct load_slo slo = {1, 1};
    struct load_journal j;
    double attainment, error;
    (void)state;
    load_journal_init(&j, 200);
    for (uint32_t i = 0; i < 200; i++) {
        j.records[i] = (struct load_record){.scheduled_s = i * .1, .output = 1};
        load_journal_tokens(&j, i, 1, i * .1 + (i / 10 % 2 ? 2 : .5));
        load_journal_end(&j, i, LOAD_OK, 30, NULL);
    }
    j.sending_s = 20;
    load_attainment_error(&j, &slo, 0, &attainment, &error);
    assert_true(fabs(attainment - .5) < 1e-9);
    assert_true(fabs(error - .5 / sqrt(19)) < 1e-9);
    load_journal_free(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_server_is_found),
        cmocka_unit_test(bounds_hold_the_truth),
        cmocka_unit_test(ends_without_a_crossing),
        cmocka_unit_test(the_error_of_one_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
