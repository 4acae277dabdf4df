/* Every need from every guess: found, each count asked once at most, and few of them. */
#include <string.h>

#include "cli/devices/search.h"
#include "tests/cmocka.h"

enum { MOST = 64 };

struct world {
    uint32_t need, asked, seen[MOST + 1];
};

static int hold(void *ctx, uint32_t n, struct br_err *err)
{
    struct world *w = ctx;
    (void)err;
    assert_in_range(n, 1, MOST);
    assert_int_equal(w->seen[n]++, 0);
    w->asked++;
    return n >= w->need;
}

static void every_need_is_found(void **state)
{
    (void)state;
    for (uint32_t most = 1; most <= MOST; most += 7)
        for (uint32_t need = 1; need <= most + 1; need++)
            for (uint32_t guess = 0; guess <= most; guess++) {
                struct world w = {.need = need};
                struct br_err err;
                int32_t found = devices_search(guess, 1, most, hold, &w, &err);
                assert_int_equal(found, need <= most ? (int32_t)need : 0);
                assert_true(w.asked <= 13); /* 2 log2(64), and one for the step that comes twice */
            }
}

/* A guess that is right costs two runs, one that is off by one no more than three. */
static void a_good_guess_is_cheap(void **state)
{
    (void)state;
    for (uint32_t need = 2; need < MOST; need++)
        for (int off = -1; off <= 1; off++) {
            struct world w = {.need = need};
            struct br_err err;
            assert_int_equal(devices_search((uint32_t)((int)need + off), 1, MOST, hold, &w, &err), need);
            assert_true(w.asked <= (off ? 3 : 2));
        }
}

static int broken(void *ctx, uint32_t n, struct br_err *err)
{
    (void)ctx;
    return br_err_set(err, BR_EIO, "no %u", n);
}

static void errors_end_it(void **state)
{
    struct br_err err;
    (void)state;
    assert_int_equal(devices_search(3, 1, 9, broken, NULL, &err), BR_EIO);
    assert_string_equal(err.msg, "no 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_need_is_found),
        cmocka_unit_test(a_good_guess_is_cheap),
        cmocka_unit_test(errors_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
