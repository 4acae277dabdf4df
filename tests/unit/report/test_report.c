/* Pages hold what they were given whatever it contains; traces are what Chrome's format asks for. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "report/html.h"
#include "report/trace.h"

static const char nasty[] = "a</script><b>\"&\\";

/* What a browser makes of an attribute's value: only the references that the page writes. */
static char *attribute(const char *page, const char *name)
{
    char *out = malloc(strlen(page) + 1), *to = out;
    const char *at = strstr(page, name) + strlen(name);
    for (; *at != '"'; at++) {
        if (strncmp(at, "&quot;", 6) == 0) {
            *to++ = '"';
            at += 5;
        } else {
            *to++ = *at;
        }
    }
    *to = 0;
    return out;
}

static void test_chart(void **state)
{
    static const double x[] = {1, 2, 3}, y[] = {.5, NAN, 2}, z[] = {-1, 0, 10};
    struct br_report_series series[] = {{nasty, y, BR_REPORT_LINE}, {"z", z, BR_REPORT_POINTS}};
    struct br_report_chart chart = {nasty, "x", "y", 3, 2, x, series, .log_y = true};
    struct br_buf page = {0};
    (void)state;
    br_report_begin(&page, nasty, nasty);
    br_report_chart(&page, &chart);
    char *text = attribute(page.data, "data-chart=\"");
    json_t *json = json_loads(text, 0, NULL), *list = json_object_get(json, "series");
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "title")), nasty);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "name")), nasty);
    json_t *ys = json_object_get(json_array_get(list, 0), "ys"), *zs = json_object_get(json_array_get(list, 1), "ys");
    assert_true(json_number_value(json_array_get(ys, 0)) == .5);
    assert_true(json_is_null(json_array_get(ys, 1)));
    assert_true(json_is_null(json_array_get(zs, 0)) && json_is_null(json_array_get(zs, 1))); /* no logarithm */
    assert_true(json_number_value(json_array_get(zs, 2)) == 10);
    json_decref(json);
    free(text);
    br_buf_free(&page);
}

static uint32_t times(const char *text, const char *what)
{
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static void test_page(void **state)
{
    static const char *const head[] = {"policy", "GPUs"}, *const cells[] = {nasty, "3", "slack", NULL};
    static const struct br_report_bar bars[] = {{"a", 10, 9, 11, NULL}, {"b", 5.5, 0, 0, NULL}, {"c", NAN, 0, 0, NULL}};
    struct br_buf page = {0};
    (void)state;
    br_report_begin(&page, "t", NULL);
    br_report_table(&page, &(struct br_report_table){2, 2, head, cells});
    br_report_bars(&page, nasty, "GPUs", bars, 3);
    br_report_details(&page, "raw", nasty);
    assert_int_equal(times(page.data, "<script"), 0);
    assert_int_equal(times(page.data, "</script"), 0); /* nothing of what it was given gets through */
    assert_int_equal(times(page.data, "a&lt;/script&gt;&lt;b&gt;&quot;&amp;\\"), 3);
    assert_int_equal(times(page.data, "<td>"), 4);
    assert_int_equal(times(page.data, "width:90.91%"), 1); /* 10 of 11 */
    assert_int_equal(times(page.data, "width:50.00%"), 1); /* 5.5 of 11 */
    assert_int_equal(times(page.data, "width:18.18%"), 1); /* the whisker: 2 of 11 */
    br_report_end(&page);
    assert_int_equal(times(page.data, "<script>"), 2);
    assert_int_equal(times(page.data, "</script>"), 2);
    assert_int_equal(times(page.data, "http-equiv") + times(page.data, " src="), 0); /* nothing is fetched */
    br_buf_free(&page);
}

static json_t *trace_written(const char *path)
{
    struct br_trace *t;
    struct br_err err;
    struct br_trace_arg args[] = {{"model", nasty, 0}, {"rows", NULL, 17}};
    assert_int_equal(br_trace_open(path, &t, &err), 0);
    br_trace_group(t, 1, "device 0");
    br_trace_row(t, 1, 2, "link");
    br_trace_slice(t, 1, 2, nasty, "step", 1.5, .25, args, 2);
    br_trace_begin(t, 9, 77, "request", .125);
    br_trace_end(t, 9, 77, "request", .5);
    br_trace_counter(t, 1, "free", 3, 1e10);
    assert_int_equal(br_trace_close(t, &err), 0);
    return json_load_file(path, 0, NULL);
}

static json_t *first(json_t *events, const char *phase)
{
    size_t i;
    json_t *event;
    json_array_foreach(events, i,
                       event) if (strcmp(json_string_value(json_object_get(event, "ph")), phase) == 0) return event;
    return NULL;
}

static void test_trace(void **state)
{
    char path[] = "/tmp/briareus-trace-XXXXXX";
    (void)state;
    close(mkstemp(path));
    json_t *json = trace_written(path), *events = json_object_get(json, "traceEvents");
    assert_int_equal(json_array_size(events), 8);
    json_t *slice = first(events, "X");
    assert_string_equal(json_string_value(json_object_get(slice, "name")), nasty);
    assert_true(json_number_value(json_object_get(slice, "ts")) == 1.5e6);
    assert_true(json_number_value(json_object_get(slice, "dur")) == .25e6);
    assert_int_equal(json_integer_value(json_object_get(slice, "tid")), 2);
    assert_string_equal(json_string_value(json_object_get(first(events, "b"), "id")),
                        json_string_value(json_object_get(first(events, "e"), "id")));
    json_decref(json);
    unlink(path);
}

static void test_trace_full(void **state)
{
    struct br_trace *t;
    struct br_err err;
    (void)state;
    assert_true(br_trace_open("/nowhere/x.json", &t, &err) < 0);
    assert_int_equal(br_trace_open("/dev/full", &t, &err), 0);
    br_trace_group(t, 0, "d");
    assert_true(br_trace_close(t, &err) < 0);
    assert_non_null(strstr(err.msg, "/dev/full"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chart),
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_trace_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
