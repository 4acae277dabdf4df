/* One trace, several writers: valid JSON at any moment, whoever is killed, and no longer than it may be. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "base/clock.h"
#include "report/trace.h"

static char g_path[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(g_path, sizeof g_path, "/tmp/briareus-join-%ld.json", (long)getpid());
    unlink(g_path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(g_path);
    return 0;
}

static struct br_trace *join(uint64_t max_bytes)
{
    struct br_trace *t;
    struct br_err err;
    if (br_trace_join(g_path, max_bytes, &t, &err))
        fail_msg("%s", err.msg);
    return t;
}

static void slice(struct br_trace *t, uint32_t writer, uint32_t i)
{
    br_trace_slice(t, writer, 0, "step", "decode", i, .5, NULL, 0);
}

/* Slices of a writer; -1 when the file is no JSON. */
static int slices_of(uint32_t writer)
{
    json_t *root = json_load_file(g_path, 0, NULL), *event;
    size_t i;
    int n = 0;
    if (!root)
        return -1;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) n +=
        strcmp(json_string_value(json_object_get(event, "ph")), "X") == 0 &&
        json_integer_value(json_object_get(event, "pid")) == (json_int_t)writer;
    json_decref(root);
    return n;
}

static void two_writers_share_a_file(void **state)
{
    struct br_trace *a = join(1 << 20), *b = join(1 << 20);
    struct br_err err;
    (void)state;
    assert_int_equal(slices_of(1), 0);
    for (uint32_t i = 0; i < 10; i++) {
        slice(a, 1, i);
        slice(b, 2, i);
        slice(b, 2, i);
        br_trace_flush(i % 2 ? a : b);
        assert_true(slices_of(1) >= 0);
    }
    assert_int_equal(br_trace_close(a, &err), 0);
    assert_int_equal(br_trace_close(b, &err), 0);
    assert_int_equal(slices_of(1), 10);
    assert_int_equal(slices_of(2), 20);
}

/* Both count from when the file was begun. */
static void times_have_one_origin(void **state)
{
    int64_t before = br_now_ns();
    struct br_trace *a = join(1 << 20);
    int64_t after = br_now_ns();
    struct br_trace *b = join(1 << 20);
    struct br_err err;
    (void)state;
    assert_true(br_trace_at_s(a, before) <= 0 && br_trace_at_s(a, after) >= 0);
    assert_true(br_trace_at_s(a, after) == br_trace_at_s(b, after));
    br_trace_close(a, &err);
    br_trace_close(b, &err);
}

/* Writers that are killed while they write as fast as they can: what they had flushed is there, and others go on. */
static void killed_writers_leave_json(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        int ready[2], status;
        char byte;
        assert_int_equal(pipe(ready), 0);
        pid_t pid = fork();
        if (pid == 0) {
            struct br_trace *t = join(1 << 30);
            for (uint32_t i = 0;; i++) {
                slice(t, 1, i);
                br_trace_flush(t);
                if (i == 100 && write(ready[1], "x", 1) != 1)
                    _exit(1);
            }
        }
        close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status));
        assert_true(slices_of(1) > 100 * (round + 1));
    }
    struct br_trace *t = join(1 << 30);
    struct br_err err;
    slice(t, 2, 0);
    assert_int_equal(br_trace_close(t, &err), 0);
    assert_int_equal(slices_of(2), 1);
}

/* A file that ends in the middle of an event, wherever: the next writer cuts it back and goes on. */
static void a_torn_end_is_mended(void **state)
{
    struct br_err err;
    struct stat st;
    struct br_trace *t = join(1 << 20);
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        slice(t, 1, i);
    br_trace_close(t, &err);
    assert_int_equal(stat(g_path, &st), 0);
    for (off_t cut = st.st_size - 2; cut > st.st_size - 40; cut--) {
        assert_int_equal(truncate(g_path, cut), 0);
        assert_int_equal(slices_of(1), -1);
        t = join(1 << 20);
        slice(t, 2, 0);
        br_trace_close(t, &err);
        assert_true(slices_of(1) >= 2);
        assert_int_equal(slices_of(2), 1);
        unlink(g_path); /* the next round's */
        t = join(1 << 20);
        for (uint32_t i = 0; i < 3; i++)
            slice(t, 1, i);
        br_trace_close(t, &err);
    }
}

static void a_full_file_says_so(void **state)
{
    struct br_trace *t = join(20000);
    struct br_err err;
    struct stat st;
    bool goes_on = true;
    (void)state;
    for (uint32_t i = 0; i < 10000; i++) {
        slice(t, 1, i);
        if (i % 10 == 9)
            goes_on = br_trace_flush(t);
        assert_true(goes_on || i > 100);
    }
    assert_false(goes_on);
    assert_true(br_trace_close(t, &err) < 0);
    assert_int_equal(stat(g_path, &st), 0);
    assert_in_range(st.st_size, 18000, 20000);
    assert_true(slices_of(1) > 100);
    json_t *root = json_load_file(g_path, 0, NULL), *events = json_object_get(root, "traceEvents");
    json_t *last = json_array_get(events, json_array_size(events) - 1);
    assert_string_equal(json_string_value(json_object_get(last, "name")), "full");
    json_decref(root);
}

static void something_else_is_left_alone(void **state)
{
    FILE *f = fopen(g_path, "w");
    struct br_trace *t;
    struct br_err err;
    struct stat st;
    (void)state;
    fputs("{\"a\": 1}\n", f);
    fclose(f);
    assert_int_equal(br_trace_join(g_path, 1 << 20, &t, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, g_path));
    assert_int_equal(stat(g_path, &st), 0);
    assert_int_equal(st.st_size, 9);
    assert_int_equal(br_trace_join("/dev/null", 1 << 20, &t, &err), BR_EINVAL);
    assert_true(br_trace_join("/nowhere/x.json", 1 << 20, &t, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_writers_share_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(times_have_one_origin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_writers_leave_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_torn_end_is_mended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_file_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(something_else_is_left_alone, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
