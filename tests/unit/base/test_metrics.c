/* The text format, against the examples and rules of Prometheus' "Exposition formats". */
#include "base/metrics.h"

#include <math.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/unit/base/prom_check.h"

static void labels_are_escaped(void **state)
{
    struct br_buf labels = {0}, out = {0};
    (void)state;
    br_metric_label(&labels, "path", "C:\\DIR\\FILE.TXT");
    br_metric_label(&labels, "error", "Cannot find file:\n\"FILE.TXT\"");
    br_metric_put(&out, "msdos_file_access_time_seconds", &labels, 1.458255915e9);
    assert_string_equal(out.data, "msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot find "
                                  "file:\\n\\\"FILE.TXT\\\"\"} 1458255915\n");
    br_buf_free(&labels);
    br_buf_free(&out);
}

static void values(void **state)
{
    struct br_buf out = {0};
    (void)state;
    br_metric_put(&out, "a", NULL, 0x1p53 - 1);
    br_metric_put(&out, "b", NULL, .25);
    br_metric_put(&out, "c", NULL, INFINITY);
    br_metric_put(&out, "d", NULL, NAN);
    assert_string_equal(out.data, "a 9007199254740991\nb 0.25\nc +Inf\nd NaN\n");
    br_buf_free(&out);
}

/* http_request_duration_seconds of the format's description. */
static void a_histogram_is_cumulated(void **state)
{
    static const double bounds[] = {.05, .1, .2, .5, 1};
    struct br_metric_hist hist;
    struct br_buf out = {0};
    (void)state;
    br_metric_hist_init(&hist, bounds, 5);
    br_metric_hist_add(&hist, .01, 24054);
    br_metric_hist_add(&hist, .1, 33444 - 24054); /* a bound belongs to its bucket */
    br_metric_hist_add(&hist, .15, 100392 - 33444);
    br_metric_hist_add(&hist, .3, 129389 - 100392);
    br_metric_hist_add(&hist, .6, 133988 - 129389);
    br_metric_hist_add(&hist, 3, 144320 - 133988);
    br_metric_family(&out, "http_request_duration_seconds", "histogram", "A histogram of the request duration.");
    br_metric_hist_put(&out, "http_request_duration_seconds", NULL, &hist);
    prom_check(out.data);
    assert_true(prom_value(out.data, "http_request_duration_seconds_bucket{le=\"0.05\"}") == 24054);
    assert_true(prom_value(out.data, "http_request_duration_seconds_bucket{le=\"0.2\"}") == 100392);
    assert_true(prom_value(out.data, "http_request_duration_seconds_bucket{le=\"1.0\"}") == 133988);
    assert_true(prom_value(out.data, "http_request_duration_seconds_bucket{le=\"+Inf\"}") == 144320);
    assert_true(prom_value(out.data, "http_request_duration_seconds_count") == 144320);
    assert_true(fabs(prom_value(out.data, "http_request_duration_seconds_sum") -
                     (.01 * 24054 + .1 * 9390 + .15 * 66948 + .3 * 28997 + .6 * 4599 + 3. * 10332)) < 1e-3);
    br_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(values),
        cmocka_unit_test(a_histogram_is_cumulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
