/* Log lines as JSON: what jansson reads back is what was logged. */
#include <jansson.h>
#include <string.h>

#include "base/log.h"
#include "base/log_json.h"
#include "tests/cmocka.h"

static json_t *convert(const char *pairs)
{
    char out[8192];
    json_error_t error;
    size_t n = br_log_json(pairs, out, sizeof out);
    json_t *json = json_loadb(out, n, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        fail_msg("%s in %s", error.text, out);
    return json;
}

static void kinds_of_values(void **state)
{
    json_t *j = convert("event=seq_end tokens=12 age_s=0.250 seq=18446744073709551615 why=\"a \\\"b\\\" \\\\ c\" req= "
                        "t=1e5 lead=012 cut=1. minus=-3 word");
    (void)state;
    assert_string_equal(json_string_value(json_object_get(j, "event")), "seq_end");
    assert_int_equal(json_integer_value(json_object_get(j, "tokens")), 12);
    assert_true(json_real_value(json_object_get(j, "age_s")) == .25);
    assert_string_equal(json_string_value(json_object_get(j, "seq")), "18446744073709551615"); /* beyond 2^53 */
    assert_string_equal(json_string_value(json_object_get(j, "why")), "a \"b\" \\ c");
    assert_string_equal(json_string_value(json_object_get(j, "req")), "");
    assert_true(json_number_value(json_object_get(j, "t")) == 1e5);
    assert_string_equal(json_string_value(json_object_get(j, "lead")), "012");
    assert_string_equal(json_string_value(json_object_get(j, "cut")), "1.");
    assert_int_equal(json_integer_value(json_object_get(j, "minus")), -3);
    assert_true(json_is_true(json_object_get(j, "word")));
    json_decref(j);
}

/* Whatever br_log_quote makes of a text comes back as that text; ill-formed UTF-8 as U+FFFD. */
static void quoted_texts(void **state)
{
    static const char *const texts[][2] = {
        {"tab\t nl\n nul-free", NULL},
        {"\"\\\"", NULL},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", NULL},
        {"bad \xff\xc3", "bad \xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\\x41", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char line[700], quoted[600];
        json_t *j;
        br_log_quote(quoted, sizeof quoted, texts[i][0]);
        snprintf(line, sizeof line, "a=1 why=%s b=2", quoted);
        j = convert(line);
        assert_string_equal(json_string_value(json_object_get(j, "why")), texts[i][1] ? texts[i][1] : texts[i][0]);
        assert_int_equal(json_integer_value(json_object_get(j, "b")), 2);
        json_decref(j);
    }
}

/* A line that was cut, and one that finds no room, are objects all the same. */
static void cut_lines(void **state)
{
    char out[64];
    json_error_t error;
    json_t *j = convert("a=1 why=\"cut in the mid");
    (void)state;
    assert_string_equal(json_string_value(json_object_get(j, "why")), "cut in the mid");
    json_decref(j);
    for (size_t size = 3; size <= sizeof out; size++) {
        size_t n = br_log_json("a=1 bb=\"x y z\" ccc=22222 dddd=\"\x01\x02\x03\"", out, size);
        assert_true(n < size && (j = json_loadb(out, n, 0, &error)));
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_values),
        cmocka_unit_test(quoted_texts),
        cmocka_unit_test(cut_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
