/* Lanes: segments stand where their numbers say, and no text of the caller becomes markup. */
#include <string.h>

#include "report/lanes.h"
#include "tests/cmocka.h"

static uint32_t times(const char *text, const char *what)
{
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static void segments_stand_where_their_numbers_say(void **state)
{
    static const char *const names[] = {"a\"><script>", "b"};
    static const struct br_report_segment segments[] = {{10, 20, 0},
                                                        {45, 60, 1},
                                                        {-5, 5, 0},
                                                        {20, 20, 0},
                                                        {12, 13, 7}}; /* the last two: nothing to see, no such name */
    const struct br_report_lane lane = {"<i>", segments, 5};
    struct br_buf out = {0};
    (void)state;
    br_report_lanes(&out, &(struct br_report_lanes){"<t>", "s", 0, 50, &lane, names, 1, 2});
    assert_int_equal(times(out.data, "left:20.000%;width:20.000%"), 1); /* 10 to 20 of 50 */
    assert_int_equal(times(out.data, "left:90.000%;width:10.000%"), 1); /* cut at 50 */
    assert_int_equal(times(out.data, "left:0.000%;width:10.000%"), 1);  /* cut at 0 */
    assert_int_equal(times(out.data, "left:"), 3);
    assert_int_equal(times(out.data, "<script"), 0);
    assert_int_equal(times(out.data, "&lt;t&gt;"), 1);
    assert_int_equal(times(out.data, "a&quot;&gt;&lt;script&gt;"), 3); /* two segments and the list of names */
    br_buf_free(&out);
}

static void a_scale_of_nothing_shows_nothing(void **state)
{
    static const char *const names[] = {"a"};
    static const struct br_report_segment segments[] = {{0, 0, 0}};
    const struct br_report_lane lane = {"x", segments, 1};
    struct br_buf out = {0};
    (void)state;
    br_report_lanes(&out, &(struct br_report_lanes){"t", NULL, 0, 0, &lane, names, 1, 1});
    assert_int_equal(times(out.data, "nan"), 0);
    assert_int_equal(times(out.data, "left:"), 0);
    br_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_stand_where_their_numbers_say),
        cmocka_unit_test(a_scale_of_nothing_shows_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
