#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loadgen/load.h"
#include "loadgen/schedule.h"
#include "loadgen/sse.h"
#include "loadgen/stats.h"
#include "tests/cmocka.h"

/* Counts of a Poisson process lie within five standard deviations of rate * time; gaps are exponential (mean and
 * variance); a seed gives the same schedule again, another seed another. */
static void arrivals_are_poisson(void **state)
{
    const double rates[] = {5.0, 0.0, 0.5}, duration = 4000;
    struct load_arrival *a, *b, *c;
    uint32_t n = load_schedule(rates, 3, duration, 1, &a), count[3] = {0};
    double last[3] = {0}, sum = 0, squares = 0;
    (void)state;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(i == 0 || a[i].at_s >= a[i - 1].at_s);
        assert_true(a[i].at_s < duration);
        if (a[i].model == 0) {
            double gap = a[i].at_s - last[0];
            sum += gap;
            squares += gap * gap;
            last[0] = a[i].at_s;
        }
        count[a[i].model]++;
    }
    for (int m = 0; m < 3; m++)
        assert_true(fabs(count[m] - rates[m] * duration) <= 5 * sqrt(rates[m] * duration));
    /* exponential: E[x^2] = 2 E[x]^2 */
    assert_true(fabs(squares / count[0] / pow(sum / count[0], 2) - 2) < 0.15);
    assert_int_equal(load_schedule(rates, 3, duration, 1, &b), n);
    assert_memory_equal(a, b, n * sizeof *a);
    assert_true(load_schedule(rates, 3, duration, 2, &c) != n || memcmp(a, c, n * sizeof *a) != 0);
    free(a);
    free(b);
    free(c);
}

/* Tokens at 3, 6, 7, 8 s under TTFT 3 s, TBT 2 s are due at 3, 5, 7, 9: three of four on time. A failed request that
 * owed ten and had those four: three of ten. */
static void attainment_counts_cumulative_deadlines(void **state)
{
    const double at[] = {3, 6, 7, 8};
    const struct load_slo slo = {3, 2};
    struct load_model_stats *s = malloc(sizeof *s);
    (void)state;
    for (int failed = 0; failed < 2; failed++) {
        struct load_progress p = {0};
        load_stats_init(s);
        for (uint32_t k = 0; k < 4; k++)
            load_stats_tokens(s, &p, &slo, k + 1, at[k]);
        if (failed)
            load_stats_fail(s, &p, 10);
        else
            load_stats_finish(s, &p);
        assert_true(fabs(load_attainment(s) - (failed ? 0.3 : 0.75)) < 1e-12);
        assert_true(br_hist_quantile(&s->ttft_us, 0.5) == 3000000);
        assert_int_equal(s->tbt_us.total, 3);
    }
    free(s);
}

struct seen {
    struct br_buf all;
    int n;
};

static void on_event(void *ctx, const char *data, size_t len)
{
    struct seen *seen = ctx;
    br_buf_printf(&seen->all, "[%.*s]", (int)len, data);
    seen->n++;
}

static void events_survive_any_cut(void **state)
{
    const char *text = ": comment\r\ndata: {\"a\":1}\r\n\r\ndata: one\ndata: two\n\n\nevent: x\ndata:[DONE]\n\n";
    size_t len = strlen(text);
    (void)state;
    for (size_t cut = 0; cut <= len; cut++) {
        struct load_sse sse = {0};
        struct seen seen = {0};
        assert_int_equal(load_sse_feed(&sse, text, cut, on_event, &seen), 0);
        assert_int_equal(load_sse_feed(&sse, text + cut, len - cut, on_event, &seen), 0);
        assert_string_equal(seen.all.data, "[{\"a\":1}][one\ntwo][[DONE]]");
        br_buf_free(&seen.all);
        load_sse_free(&sse);
    }
}

static void endless_line_is_refused(void **state)
{
    struct load_sse sse = {0};
    struct seen seen = {0};
    char chunk[4096];
    int rc = 0;
    (void)state;
    memset(chunk, 'x', sizeof chunk);
    for (int i = 0; rc == 0 && i < 1000; i++)
        rc = load_sse_feed(&sse, chunk, sizeof chunk, on_event, &seen);
    assert_int_equal(rc, -1);
    assert_true(sse.line.len <= LOAD_SSE_MAX_LINE);
    load_sse_free(&sse);
}

/* Not an attainment of 100 %. */
static void a_run_without_requests_is_no_success(void **state)
{
    char *none[] = {"load", "--model", "m=0", "--duration", "0.1", "--quiet"};
    char *negative[] = {"load", "--model", "m", "--request-rate", "-1"}, *help[] = {"load", "--help"};
    (void)state;
    assert_int_equal(br_cli_load(6, none), 1);
    assert_int_equal(br_cli_load(5, negative), 2);
    assert_int_equal(br_cli_load(2, help), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrivals_are_poisson),
        cmocka_unit_test(attainment_counts_cumulative_deadlines),
        cmocka_unit_test(events_survive_any_cut),
        cmocka_unit_test(endless_line_is_refused),
        cmocka_unit_test(a_run_without_requests_is_no_success),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
