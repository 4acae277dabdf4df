/* Bad traces: file, line and reason; stop or skip and count; disorder. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/unit/traffic/trace_text.h"

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define AEGAEON "Request Time,Model Name,Input Length,Output Length\n"
#define BURST "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
#define NUMBER "' is not a whole number from 0 to 16777216"
#define LINE(text) "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 5, " text "}\n"

static const struct br_trace_options g_stop, g_skip = {.skip_bad = true}, g_sort = {.sort = true};

static void a_bad_line_is_named(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"x", "f:1: 'x' is not the first line of a known trace (azure, mooncake, aegaeon, burstgpt, servegen)"},
        {"TIMESTAMP,GeneratedTokens\n", "f:1: no column 'ContextTokens' in the header"},
        {"model,t_s,rate_rps\n", "f: rates by window, not requests: use it as a market"},
        {AZURE,
         "f: no requests: 1 lines, of which 0 malformed, 0 without prompt or output, 0 outside the time asked for"},
        {AZURE "2023-11-16 18:17:03.97,4808,10\n2023-11-16 18:17:04,5,abc\n",
         "f:3: column GeneratedTokens: 'abc" NUMBER},
        {AZURE "2023-11-16 18:17:03.97,-5,10\n", "f:2: column ContextTokens: '-5" NUMBER},
        {AZURE "2023-11-16 18:17:03.97,nan,10\n", "f:2: column ContextTokens: 'nan" NUMBER},
        {AZURE "2023-11-16 18:17:03.97,1e3,10\n", "f:2: column ContextTokens: '1e3" NUMBER},
        {AZURE "2023-11-16 18:17:03.97,,10\n", "f:2: column ContextTokens: '" NUMBER},
        {AZURE "2023-11-16 18:17:03.97,99999999999999999999,10\n",
         "f:2: column ContextTokens: '99999999999999999999" NUMBER},
        {AZURE "2023-11-16 18:17:03.97,5\n", "f:2: 2 columns, but 'GeneratedTokens' is column 3 of the header"},
        {AZURE "\n\nlater,5,6\n", "f:4: column TIMESTAMP: 'later' is not a time YYYY-MM-DD HH:MM:SS.fraction (UTC)"},
        {AZURE "2023-02-29 00:00:00,5,6\n",
         "f:2: column TIMESTAMP: '2023-02-29 00:00:00' is not a time YYYY-MM-DD HH:MM:SS.fraction (UTC)"},
        {AEGAEON "00:61:00.5,m,5,6\n", "f:2: column Request Time: '00:61:00.5' is not a time HH:MM:SS.fraction"},
        {AEGAEON "00:01:60,m,5,6\n", "f:2: column Request Time: '00:01:60' is not a time HH:MM:SS.fraction"},
        {AEGAEON "00:01:00,,5,6\n", "f:2: '' is not a model name of 1 to 127 bytes"},
        {AEGAEON "00:01:00,m,5,6\n00:00:59.5,m,5,6\n",
         "f:3: arrives 0.5 s before the line above: order the file, or ask to sort it"},
        {BURST "-5,m,5,6,11,x\n", "f:2: column Timestamp: '-5' is not a time in seconds from 0 to 8e9"},
        {BURST "nan,m,5,6,11,x\n", "f:2: column Timestamp: 'nan' is not a time in seconds from 0 to 8e9"},
        {BURST "9e9,m,5,6,11,x\n", "f:2: column Timestamp: '9e9' is not a time in seconds from 0 to 8e9"},
        {LINE("\"hash_ids\": [1]"), "f:1: 1 hash_ids, but 600 tokens are 2 blocks of 512"},
        {LINE("\"hash_ids\": [1, -2]"), "f:1: item 1 of hash_ids is not a whole number from 0 on"},
        {LINE("\"hash_ids\": 7"), "f:1: key hash_ids is not a list"},
        {LINE("\"x\": 1") "{\"timestamp\": 1, \"input_length\": 1}\n", "f:2: no key 'output_length'"},
        {"{\"timestamp\": -1}\n", "f:1: key timestamp is not a time in ms from 0 to 8e12"},
        {"{\"timestamp\": 1, \"input_length\": 1.5}\n",
         "f:1: key input_length is not a whole number from 0 to 16777216"},
        {"{\"timestamp\": NaN}\n", "f:1: not a JSON object: invalid token near 'NaN' (column 17)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct br_workload w;
        struct br_err err = {0};
        assert_true(trace_text(cases[i].text, strlen(cases[i].text), &g_stop, &w, NULL, &err) < 0);
        assert_string_equal(err.msg, cases[i].message);
        assert_null(w.requests);
        assert_null(w.names);
    }
}

static void bad_lines_are_skipped_and_counted(void **state)
{
    static const char text[] = AEGAEON "00:00:01,a,5,6\n00:00:02,a,x,6\nnonsense\n00:00:03,b,7,8\n00:00:04,b,7,-8\n";
    struct br_trace_report report;
    struct br_workload w;
    struct br_err err;
    (void)state;
    assert_int_equal(trace_text(text, strlen(text), &g_skip, &w, &report, &err), 0);
    assert_int_equal(report.requests, 2);
    assert_int_equal(report.skipped, 3);
    assert_int_equal(report.lines, 6);
    assert_string_equal(report.first.msg, "f:3: column Input Length: 'x" NUMBER);
    assert_true(w.requests[1].at_s == 3 && w.requests[1].prompt == 7);
    br_workload_free(&w);
}

/* A file of which nothing can be used is no workload. */
static void all_bad_is_an_error(void **state)
{
    static const char text[] = AEGAEON "a\nb\n";
    struct br_trace_report report;
    struct br_workload w;
    struct br_err err;
    (void)state;
    assert_int_equal(trace_text(text, strlen(text), &g_skip, &w, &report, &err), BR_EINVAL);
    assert_int_equal(report.skipped, 2);
    assert_string_equal(
        err.msg,
        "f: no requests: 3 lines, of which 2 malformed, 0 without prompt or output, 0 outside the time asked for");
}

/* Skipping is for lines that are malformed: order is another matter. */
static void disorder_is_refused_or_sorted(void **state)
{
    static const char text[] = AZURE "2023-11-16 18:00:05,1,9\n2023-11-16 18:00:07,2,9\n2023-11-16 18:00:03,3,9\n"
                                     "2023-11-16 18:00:05,4,9\n2023-11-16 18:00:09,5,9\n";
    struct br_trace_options late = {.sort = true, .from_s = 2, .duration_s = 3, .time_scale = 10};
    const uint32_t order[] = {3, 1, 4, 2, 5};
    const double at_s[] = {0, 2, 2, 4, 6};
    struct br_trace_report report;
    struct br_workload w;
    struct br_err err;
    (void)state;
    assert_int_equal(trace_text(text, strlen(text), &g_skip, &w, &report, &err), BR_ECORRUPT);
    assert_string_equal(err.msg, "f:4: arrives 4 s before the line above: order the file, or ask to sort it");
    assert_int_equal(report.back, 1);
    assert_int_equal(trace_text(text, strlen(text), &g_sort, &w, &report, &err), 0);
    assert_int_equal(report.back, 1);
    for (int i = 0; i < 5; i++) { /* zero is the earliest, wherever it stands */
        assert_int_equal(w.requests[i].prompt, order[i]);
        assert_true(w.requests[i].at_s == at_s[i]);
        assert_int_equal(w.requests[i].number, i);
    }
    assert_true(w.duration_s == 6);
    br_workload_free(&w);
    assert_int_equal(trace_text(text, strlen(text), &late, &w, &report, &err), 0);
    assert_int_equal(w.n, 3); /* 1, 4 and 2 */
    assert_int_equal(report.outside, 2);
    assert_true(w.requests[2].at_s == 20 && w.duration_s == 30);
    br_workload_free(&w);
}

static void limits_hold(void **state)
{
    struct br_trace_options small = {.max_bytes = 100}, skip_long = g_skip;
    struct br_trace_report report;
    struct br_workload w;
    struct br_err err;
    size_t head = strlen(BURST), len = head + BR_TRACE_MAX_LINE + 100;
    char *text = malloc(len + 1);
    (void)state;
    memset(text, '7', len);
    memcpy(text, BURST, head);
    memcpy(text + len - 20, "\n1,m,5,6,11,x\n3,m,1,", 20);
    assert_int_equal(trace_text(text, len, &small, &w, NULL, &err), BR_ENOTSUP);
    assert_string_equal(err.msg, "f: more than the limit of 100 bytes; take a part of it");
    assert_int_equal(trace_text(text, len, &g_stop, &w, NULL, &err), BR_EINVAL);
    assert_string_equal(err.msg, "f:2: line of 1048656 bytes; the limit is 1048576");
    assert_int_equal(trace_text(text, len, &skip_long, &w, &report, &err), 0);
    assert_true(report.skipped == 2 && w.n == 1 && w.requests[0].at_s == 1); /* too long, too short */
    br_workload_free(&w);
    text[head + 3] = '\0';
    assert_int_equal(trace_text(text, head + 10, &g_stop, &w, NULL, &err), BR_EINVAL);
    assert_string_equal(err.msg, "f:2: a zero byte in the line; this is not a text file");
    free(text);
}

static void absurd_options_are_refused(void **state)
{
    static const struct {
        struct br_trace_options options;
        const char *message;
    } cases[] = {
        {{.time_scale = -1}, "time scale of -1: must be a number from 1e-06 to 1e+06"},
        {{.prompt_scale = NAN}, "prompt length scale of nan: must be a number from 0.001 to 1000"},
        {{.from_s = -1}, "from -1 s for 0 s: must be numbers from 0 to 8e9"},
        {{.duration_s = INFINITY}, "from 0 s for inf s: must be numbers from 0 to 8e9"},
        {{.from_s = 70},
         "f: no requests: 2 lines, of which 0 malformed, 0 without prompt or output, 1 outside the time asked for"},
        {{.format = BR_TRACE_BURSTGPT}, "f:1: no column 'Timestamp' in the header"},
        {{.format = BR_TRACE_MOONCAKE}, "f:1: not a JSON object: '[' or '{' expected near 'Request' (column 7)"},
    };
    static const char text[] = AEGAEON "00:01:00,m,5,6\n";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct br_workload w;
        struct br_err err;
        assert_int_equal(trace_text(text, strlen(text), &cases[i].options, &w, NULL, &err), BR_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
    }
}

static void what_is_no_file_is_refused(void **state)
{
    struct br_workload w;
    struct br_err err;
    (void)state;
    assert_int_equal(br_trace_load("/nowhere/x.csv", &g_stop, &w, NULL, &err), BR_ENOENT);
    assert_string_equal(err.msg, "/nowhere/x.csv: cannot be read: No such file or directory");
    assert_int_equal(br_trace_load("/", &g_stop, &w, NULL, &err), BR_EIO);
    assert_string_equal(err.msg, "/: cannot be read: not a regular file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_line_is_named),
        cmocka_unit_test(bad_lines_are_skipped_and_counted),
        cmocka_unit_test(all_bad_is_an_error),
        cmocka_unit_test(disorder_is_refused_or_sorted),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(absurd_options_are_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
