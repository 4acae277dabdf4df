#include <stdbool.h>

#include "base/rng.h"
#include "scheduler/core/ordered.h"
#include "tests/cmocka.h"

enum { N = 300 };

static int32_t scan(const bool *in, const double *at, int32_t not_before, bool last)
{
    int32_t best = -1;
    for (int32_t i = 0; i < N; i++) {
        struct ordered_key a = {at[i], (uint64_t)i}, b;
        if (!in[i] || i == not_before)
            continue;
        if (not_before >= 0) {
            b = (struct ordered_key){at[not_before], (uint64_t)not_before};
            if ((ordered_compare(&a, &b) < 0) != last)
                continue;
        }
        b = (struct ordered_key){best < 0 ? 0 : at[best], (uint64_t)best};
        if (best < 0 || (ordered_compare(&a, &b) < 0) != last)
            best = i;
    }
    return best;
}

/* Against a scan of a plain array; times repeat, so that the serial decides often. */
static void like_a_scan(void **state)
{
    static struct ordered_node nodes[N];
    bool in[N] = {false};
    double at[N] = {0};
    struct br_rng rng = {.seed = 5};
    struct ordered set;
    uint32_t n = 0;
    (void)state;
    ordered_init(&set);
    for (int k = 0; k < 20000; k++) {
        int32_t i = (int32_t)(br_rng_next(&rng) * N);
        if (in[i]) {
            ordered_remove(&set, nodes, i);
            n--;
        } else {
            at[i] = (int)(br_rng_next(&rng) * 40);
            ordered_add(&set, nodes, i, (struct ordered_key){at[i], (uint64_t)i});
            n++;
        }
        in[i] = !in[i];
        assert_int_equal(set.n, n);
        assert_int_equal(ordered_first(&set, nodes), scan(in, at, -1, false));
        assert_int_equal(ordered_last(&set, nodes), scan(in, at, -1, true));
        if (in[i]) {
            assert_int_equal(ordered_next(nodes, i), scan(in, at, i, false));
            assert_int_equal(ordered_prev(nodes, i), scan(in, at, i, true));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(like_a_scan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
