/* UTF-8 repair and normal forms against the Unicode standard's own examples. */
#include <string.h>

#include "tests/cmocka.h"
#include "text/normalizer.h"
#include "text/utf8.h"

#define R BR_UTF8_REPLACEMENT

static void check_lossy(const char *text, const char *want)
{
    struct br_buf out = {0};
    br_utf8_lossy(&out, text, strlen(text));
    assert_string_equal(out.data, want);
    br_buf_free(&out);
}

/* The Unicode Standard 15.0, section 3.9, tables 3-8 to 3-11. */
static void maximal_subparts(void **state)
{
    (void)state;
    check_lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", R R R R R R R R "A");
    check_lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", R R R R R R R R "A");
    check_lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", R R R R R "A" R R "B");
    check_lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A");
    check_lossy("abcdefgh\xE4\xB8", "abcdefgh" R);
}

static void check_form(enum br_unicode_form form, const char *text, const char *want)
{
    struct br_buf out = {0};
    br_unicode_normalize(form, text, strlen(text), &out);
    assert_string_equal(out.data, want);
    br_buf_free(&out);
}

/* UAX #15: figure 6 (long s with dots), singletons, Hangul, a composition exclusion. */
static void normal_forms(void **state)
{
    static const char dots[] = "\u1E9B\u0323";
    (void)state;
    check_form(BR_NFC, dots, "\u1E9B\u0323");
    check_form(BR_NFD, dots, "\u017F\u0323\u0307");
    check_form(BR_NFKC, dots, "\u1E69");
    check_form(BR_NFKD, dots, "s\u0323\u0307");
    check_form(BR_NFC, "\u212B", "\u00C5");
    check_form(BR_NFC, "\u1100\u1161\u11A8", "\uAC01");
    check_form(BR_NFC, "\u0958", "\u0915\u093C");
    check_form(BR_NFKC, "\uFB01", "fi");
    check_form(BR_NFC, "a\u0301\u0316\u0301\u0316", "\u00E1\u0316\u0316\u0301");
}

static int put_char(char *out, int32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    out[0] = (char)(0xE0 | c >> 12);
    out[1] = (char)(0x80 | (c >> 6 & 0x3F));
    out[2] = (char)(0x80 | (c & 0x3F));
    return 3;
}

/* What the quick check lets pass does not change, whatever passing character stands before it. */
static void quick_check_is_right(void **state)
{
    static const char *const before[] = {"a", "\u00E9", "\u304B", "\uAC00", "\u0415", "\u4E2D"};
    size_t passed = 0;
    (void)state;
    for (int32_t c = 1; c < 0x10000; c++) {
        char text[16] = {0};
        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
            size_t len = strlen(before[i]);
            memcpy(text, before[i], len);
            text[len + (size_t)put_char(text + len, c)] = 0;
            if (!br_unicode_is_normal(BR_NFC, text, strlen(text)))
                continue;
            check_form(BR_NFC, text, text);
            passed++;
        }
    }
    assert_true(passed > 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maximal_subparts),
        cmocka_unit_test(normal_forms),
        cmocka_unit_test(quick_check_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
