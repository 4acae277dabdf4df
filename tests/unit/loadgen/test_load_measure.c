/* Figures from journals written by hand, against the definitions. */
#include <math.h>
#include <stdlib.h>

#include "loadgen/goodput.h"
#include "loadgen/watch.h"
#include "tests/cmocka.h"

static void near(double value, double expected)
{
    if (fabs(value - expected) > 1e-6)
        fail_msg("%.9g is not %.9g", value, expected);
}

static const struct load_bounds none = {0};

/* One request at 0 with these token times. */
static void journal_of(struct load_journal *j, const double *at, uint32_t n, uint32_t output, enum load_outcome outcome)
{
    load_journal_init(j, 1);
    j->records[0].output = output;
    for (uint32_t i = 0; i < n; i++)
        load_journal_tokens(j, 0, 1, at[i]);
    load_journal_end(j, 0, outcome, n ? at[n - 1] : 0, "why");
    j->wall_s = n ? at[n - 1] : 0;
}

/* Tokens at 3, 6, 7, 8 s under TTFT 3 s, TBT 2 s are due at 3, 5, 7, 9: three of four on time; gap by gap 3 <= 3,
 * 3 > 2, 1, 1: three; Aegaeon's artifact works this case out as 5/8. */
static void the_worked_case(void **state)
{
    const double at[] = {3, 6, 7, 8};
    const struct load_slo slo = {3, 2};
    struct load_journal j;
    struct load_measure m;
    (void)state;
    journal_of(&j, at, 4, 4, LOAD_OK);
    load_measure_make(&j, 1, 0, &slo, &none, &m);
    near(load_attainment(&m.all), .75);
    near(load_gap_attainment(&m.all), .75);
    near(load_qos(&m.all), 5. / 8);
    near(load_dist_quantile(&m.all.ttft, .5), 3);
    near(load_dist_mean(&m.all.tpot), 5. / 3);
    near(load_dist_quantile(&m.all.itl, 1), 3);
    near(load_dist_mean(&m.all.itl), 5. / 3);
    near(load_dist_mean(&m.all.e2e), 8);
    load_measure_free(&m);
    load_journal_free(&j);
}

/* A failed request that owed ten and had four, three on time: 3 of 10. Cancelled: it owes what it had. A slow reader is
 * not judged. One that was never sent does not count. */
static void what_is_owed(void **state)
{
    const double at[] = {3, 6, 7, 8};
    const struct load_slo slo = {3, 2};
    struct load_journal j;
    struct load_measure m;
    (void)state;
    for (int k = 0; k < 4; k++) {
        static const enum load_outcome outcomes[] = {LOAD_CLOSED, LOAD_CANCELLED, LOAD_OK, LOAD_PENDING};
        static const double attainment[] = {.3, .75, 1, 1};
        static const uint64_t owed[] = {10, 4, 0, 0};
        journal_of(&j, at, 4, 10, outcomes[k]);
        j.records[0].traits = k == 2 ? LOAD_SLOW : 0;
        load_measure_make(&j, 1, 0, &slo, &none, &m);
        near(load_attainment(&m.all), attainment[k]);
        assert_int_equal(m.all.owed, owed[k]);
        assert_int_equal(load_failed(&m.all), k == 0);
        assert_int_equal(m.all.requests, k < 3);
        load_measure_free(&m);
        load_journal_free(&j);
    }
}

/* Two numbers in one piece share the gap; the first piece's later tokens have none. */
static void tokens_that_come_together(void **state)
{
    const struct load_slo slo = {1, .5};
    struct load_journal j;
    struct load_measure m;
    (void)state;
    load_journal_init(&j, 1);
    load_journal_tokens(&j, 0, 2, 1);
    load_journal_tokens(&j, 0, 2, 2);
    load_journal_end(&j, 0, LOAD_OK, 2, NULL);
    load_measure_make(&j, 1, 0, &slo, &none, &m);
    assert_int_equal(m.all.itl.n, 2);
    near(load_dist_quantile(&m.all.itl, 0), .5);
    near(load_gap_attainment(&m.all), 1);
    near(load_attainment(&m.all), 1); /* due at 1, 1.5, 2, 2.5 */
    load_measure_free(&m);
    load_journal_free(&j);
}

/* Scheduled at 1, sent at 2, tokens at 4 and 5: from the schedule 3 and 4 s, from the send 2 and 3. Bounds count from
 * the send. A second request lies before the warm-up's end. */
static void two_clocks_and_a_warmup(void **state)
{
    const struct load_slo slo = {10, 1};
    const struct load_bounds tight = {.ttft_s = 2.5, .e2el_s = 2.9}, wide = {.ttft_s = 2.5, .e2el_s = 3.1};
    struct load_journal j;
    struct load_measure m;
    (void)state;
    load_journal_init(&j, 2);
    j.records[0].scheduled_s = .5;
    j.records[1] = (struct load_record){.scheduled_s = 1, .sent_s = 2, .output = 2};
    load_journal_tokens(&j, 1, 1, 4);
    load_journal_tokens(&j, 1, 1, 5);
    load_journal_end(&j, 0, LOAD_CONNECT, .5, "refused");
    load_journal_end(&j, 1, LOAD_OK, 5, NULL);
    load_measure_make(&j, 1, .75, &slo, &wide, &m);
    assert_int_equal(m.all.requests, 1);
    assert_int_equal(m.all.good, 1);
    near(load_dist_mean(&m.all.ttft), 3);
    near(load_dist_mean(&m.all.ttft_sent), 2);
    near(load_dist_mean(&m.all.e2e), 4);
    near(load_dist_mean(&m.all.e2e_sent), 3);
    near(load_dist_mean(&m.all.dispatch), 1);
    load_measure_free(&m);
    load_measure_make(&j, 1, 0, &slo, &tight, &m);
    assert_int_equal(m.all.requests, 2);
    assert_int_equal(m.all.good, 0);
    load_measure_free(&m);
    load_journal_free(&j);
}

/* numpy.percentile([1, 2, 3, 4, 10], [0, 25, 50, 90, 99, 100]) */
static void percentiles_as_numpy(void **state)
{
    const double expected[][2] = {{0, 1}, {.25, 2}, {.5, 3}, {.9, 7.6}, {.99, 9.76}, {1, 10}};
    struct load_dist d = {0};
    (void)state;
    for (int i = 0; i < 5; i++)
        load_dist_add(&d, (double[]){4, 1, 10, 3, 2}[i]);
    for (int i = 0; i < 6; i++)
        near(load_dist_quantile(&d, expected[i][0]), expected[i][1]);
    near(load_dist_mean(&d), 4);
    near(load_dist_std(&d), sqrt(10));
    load_dist_free(&d);
}

/* Two requests of four tokens, due at 3, 5, 7, 9 and 13, 15, 17, 19; of eight tokens the bound loses each one that is
 * late, as soon as that is certain, and no other. */
static void what_can_still_be(void **state)
{
    static const struct {
        double now_s, bound;
    } whole[] = {{2, 1},        {4, 1},        {5.5, 1},       {6.5, 1},     {7.2, 7. / 8},
                 {8.9, 7. / 8}, {9.5, 6. / 8}, {13.5, 5. / 8}, {100, 2. / 8}};
    const struct load_slo slo = {3, 2};
    struct load_journal j;
    struct load_watch w;
    (void)state;
    load_journal_init(&j, 2);
    j.records[0] = (struct load_record){.scheduled_s = 0, .output = 4};
    j.records[1] = (struct load_record){.scheduled_s = 10, .output = 4};
    load_watch_init(&w, &j, &slo, 0, true);
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (whole[i].now_s > 2 && j.n_pieces == 0)
            load_journal_tokens(&j, 0, 1, 3);
        if (whole[i].now_s > 5 && j.n_pieces == 1)
            load_journal_tokens(&j, 0, 1, 4.5);
        if (whole[i].now_s > 7.5 && j.n_pieces == 2)
            load_journal_tokens(&j, 0, 1, 7.5); /* late */
        near(load_watch_bound(&w, &j, whole[i].now_s), whole[i].bound);
    }
    load_watch_free(&w);
    load_watch_init(&w, &j, &slo, 0, false); /* an answer may be over without another token */
    near(load_watch_bound(&w, &j, 100), 7. / 8);
    load_journal_end(&j, 1, LOAD_HTTP_503, 100, "why"); /* and one that failed owes all */
    near(load_watch_bound(&w, &j, 100), 3. / 8);
    load_watch_free(&w);
    load_watch_init(&w, &j, &slo, 5, true); /* of the warm-up nothing counts */
    near(load_watch_bound(&w, &j, 100), 0);
    load_watch_free(&w);
    load_journal_free(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_case),           cmocka_unit_test(what_is_owed),
        cmocka_unit_test(tokens_that_come_together), cmocka_unit_test(two_clocks_and_a_warmup),
        cmocka_unit_test(percentiles_as_numpy),      cmocka_unit_test(what_can_still_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
