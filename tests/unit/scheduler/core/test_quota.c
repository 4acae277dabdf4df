/* Aegaeon, section 4.3: the worked example, and identities that follow from equations 2 and 3. */
#include <math.h>

#include "base/rng.h"
#include "scheduler/core/quota.h"
#include "tests/cmocka.h"

static void close_to(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fmax(1, fabs(want))))
        fail_msg("%.12g is not %.12g", got, want);
}

/* 3 batches, d = 100 ms, t = 25 ms, c = 3 s, Q_MAX = 3 s -> n = 4, alpha = 1, q = 3 s. */
static void worked_example(void **state)
{
    struct quota_round round = {0};
    (void)state;
    for (int i = 0; i < 3; i++)
        quota_add(&round, 0.1 / 0.025, 1);
    close_to(quota_alpha(&round, 3), 1);
    close_to(quota_turn_s(&round, 3, 4, 0.025), 3);
}

struct draw {
    struct quota_round round;
    double n[12], quota_max_s;
    int batches;
};

static struct draw draw(struct br_rng *rng)
{
    struct draw d = {.batches = 1 + (int)(br_rng_next(rng) * 12), .quota_max_s = 0.5 + 8 * br_rng_next(rng)};
    for (int i = 0; i < d.batches; i++) {
        d.n[i] = 1.5 + 40 * br_rng_next(rng);
        quota_add(&d.round, d.n[i], 0.05 + 3 * br_rng_next(rng));
    }
    return d;
}

/* Round length R = c alpha / (alpha - S); every batch earns the same buffer q n = c / (alpha - S) = R / alpha. */
static void identities(void **state)
{
    struct br_rng rng = {.seed = 43};
    (void)state;
    for (int k = 0; k < 20000; k++) {
        struct draw d = draw(&rng);
        double alpha = quota_alpha(&d.round, d.quota_max_s), length = d.round.c;
        for (int i = 0; i < d.batches; i++) {
            double q = quota_turn_s(&d.round, d.quota_max_s, d.n[i], 0);
            length += q;
            close_to(q * d.n[i], d.round.c / (alpha - d.round.sum));
        }
        assert_true(alpha >= 0.5);
        close_to(length, d.round.c * alpha / (alpha - d.round.sum));
    }
}

/* q = Q_MAX min(n) / n_i, the slowest batch getting Q_MAX; with S < 0.5 the smaller of that and c / (n_i (0.5 - S)). */
static void regimes(void **state)
{
    struct br_rng rng = {.seed = 44};
    int floored = 0;
    (void)state;
    for (int k = 0; k < 20000; k++) {
        struct draw d = draw(&rng);
        for (int i = 0; i < d.batches; i++) {
            double want = d.quota_max_s * d.round.min_n / d.n[i];
            double slack = d.round.c / (d.n[i] * (0.5 - d.round.sum));
            if (d.round.sum < 0.5 && slack < want) {
                want = slack;
                floored++;
            }
            close_to(quota_turn_s(&d.round, d.quota_max_s, d.n[i], 0), want);
        }
    }
    assert_true(floored > 100);
}

static void guards(void **state)
{
    struct quota_round light = {0}, heavy = {0};
    (void)state;
    quota_add(&light, 10, 0);
    assert_true(quota_turn_s(&light, 4, 10, 0.01) == 0.01); /* the formula says 0 */
    for (int i = 0; i < 8; i++)
        quota_add(&heavy, 4, 0);
    assert_true(quota_turn_s(&heavy, 4, 4, 0.025) == 0.025); /* the formula says 0 / 0 */
    quota_add(&light, 10, 1e-6);
    assert_true(quota_turn_s(&light, 4, 10, 0.01) == 0.01); /* never less than a step */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(worked_example), cmocka_unit_test(identities),
                                       cmocka_unit_test(regimes), cmocka_unit_test(guards)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
