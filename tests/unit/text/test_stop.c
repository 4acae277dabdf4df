/* The stop matcher against plain searching, on random text cut at random places. */
#include <string.h>

#include "base/rng.h"
#include "tests/cmocka.h"
#include "text/stop.h"

enum { TEXT_MAX = 64 };

static unsigned draw(struct br_rng *rng, unsigned n)
{
    return (unsigned)(br_rng_next(rng) * n);
}

static size_t draw_text(struct br_rng *rng, char *out, size_t max)
{
    size_t len = draw(rng, (unsigned)max) + 1;
    for (size_t i = 0; i < len; i++)
        out[i] = (char)('a' + draw(rng, 2 + draw(rng, 2)));
    out[len] = 0;
    return len;
}

/* The string that ends first in text (the longest of those), by trying all; its end goes to *end. */
static int naive_hit(const char *text, size_t len, const char *const *strings, size_t n, size_t *end)
{
    for (*end = 1; *end <= len; (*end)++) {
        int best = -1;
        for (size_t i = 0; i < n; i++) {
            size_t l = strlen(strings[i]);
            if (l <= *end && memcmp(text + *end - l, strings[i], l) == 0 && (best < 0 || l > strlen(strings[best])))
                best = (int)i;
        }
        if (best >= 0)
            return best;
    }
    return -1;
}

/* Bytes of text that no continuation can take back: all but the longest end that begins a string. */
static size_t naive_safe(const char *text, size_t len, const char *const *strings, size_t n)
{
    for (size_t held = len; held > 0; held--)
        for (size_t i = 0; i < n; i++)
            if (strlen(strings[i]) > held && memcmp(strings[i], text + len - held, held) == 0)
                return len - held;
    return len;
}

static void check_stream(struct br_rng *rng, const char *text, size_t len, const char *const *strings, size_t n,
                         bool include)
{
    struct br_stop stop;
    struct br_err err;
    uint64_t safe = 0;
    size_t fed = 0, end;
    int hit = -1, want;
    assert_int_equal(br_stop_init(&stop, strings, n, include, &err), 0);
    while (fed < len) {
        size_t piece = 1 + draw(rng, (unsigned)(len - fed));
        uint64_t before = safe;
        hit = br_stop_feed(&stop, text + fed, piece, &safe);
        fed += piece;
        want = naive_hit(text, fed, strings, n, &end);
        assert_true((hit < 0) == (want < 0));
        assert_true(safe >= before || hit >= 0);
        if (want < 0) {
            assert_int_equal(safe, naive_safe(text, fed, strings, n));
        } else {
            assert_string_equal(strings[hit], strings[want]);
            assert_int_equal(safe, end - (include ? 0 : strlen(strings[want])));
            assert_true(safe >= before); /* nothing that was given out has to be taken back */
        }
    }
    br_stop_free(&stop);
}

static void random_against_naive(void **state)
{
    struct br_rng rng = {.seed = 31};
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char text[TEXT_MAX + 1], room[BR_STOP_MAX][8];
        const char *strings[BR_STOP_MAX];
        size_t n = 1 + draw(&rng, BR_STOP_MAX), len = draw_text(&rng, text, TEXT_MAX);
        for (size_t i = 0; i < n; i++) {
            draw_text(&rng, room[i], 7);
            strings[i] = room[i];
        }
        check_stream(&rng, text, len, strings, n, round % 2);
    }
}

static void holds_back_and_lets_go(void **state)
{
    const char *const strings[] = {"\nUser:"};
    struct br_stop stop;
    struct br_err err;
    uint64_t safe;
    (void)state;
    assert_int_equal(br_stop_init(&stop, strings, 1, false, &err), 0);
    assert_int_equal(br_stop_feed(&stop, "Hi\n", 3, &safe), -1);
    assert_int_equal(safe, 2);
    assert_int_equal(br_stop_feed(&stop, "Us", 2, &safe), -1);
    assert_int_equal(safe, 2);
    assert_int_equal(br_stop_feed(&stop, "ing\nUser", 8, &safe), -1);
    assert_int_equal(safe, 8);
    assert_int_equal(br_stop_feed(&stop, ": next", 6, &safe), 0);
    assert_int_equal(safe, 8);
    assert_int_equal(br_stop_feed(&stop, "more", 4, &safe), 0);
    assert_int_equal(safe, 8);
    br_stop_free(&stop);
}

static void no_strings_let_all_through(void **state)
{
    struct br_stop stop = {.hit = -1}, zero = {0};
    struct br_err err;
    uint64_t safe;
    (void)state;
    assert_int_equal(br_stop_init(&stop, NULL, 0, false, &err), 0);
    assert_int_equal(br_stop_feed(&stop, "abc", 3, &safe), -1);
    assert_int_equal(safe, 3);
    assert_int_equal(br_stop_feed(&zero, "abcd", 4, &safe), -1);
    assert_int_equal(safe, 4);
    br_stop_free(&stop);
}

static void limits(void **state)
{
    const char *many[BR_STOP_MAX + 1], *empty[] = {"a", ""};
    char lengthy[BR_STOP_MAX_BYTES + 2];
    const char *const too_long[] = {lengthy};
    struct br_stop stop;
    struct br_err err;
    (void)state;
    for (size_t i = 0; i <= BR_STOP_MAX; i++)
        many[i] = "x";
    assert_int_equal(br_stop_init(&stop, many, BR_STOP_MAX + 1, false, &err), BR_EINVAL);
    assert_int_equal(br_stop_init(&stop, empty, 2, false, &err), BR_EINVAL);
    memset(lengthy, 'x', sizeof lengthy);
    lengthy[BR_STOP_MAX_BYTES + 1] = 0;
    assert_int_equal(br_stop_init(&stop, too_long, 1, false, &err), BR_EINVAL);
    lengthy[BR_STOP_MAX_BYTES] = 0;
    assert_int_equal(br_stop_init(&stop, too_long, 1, false, &err), 0);
    br_stop_free(&stop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_naive),
        cmocka_unit_test(holds_back_and_lets_go),
        cmocka_unit_test(no_strings_let_all_through),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
