/* Points of policy.md's table that are quick to run: what a node holds at 90 % lies between these counts, which are
 * the published figure less and more 10 % (or one model). The whole table: build/bin/sim_table. */
#include <stdio.h>

#include "tests/cmocka.h"
#include "tests/sim/rows.h"

static void holds_about(int row, enum row_policy policy, int target)
{
    static const double targets[2] = {.9, .99};
    static struct sim_search search;
    struct br_pl_options options = row_options(policy);
    struct br_err err;
    int32_t want = rows[row].published[policy][target], slack = want / 10 > 1 ? want / 10 : 1;
    sim_search_init(&search, &rows[row].scenario, &options);
    double fewer = sim_attainment(&search, (uint32_t)(want - slack), &err);
    double more = sim_attainment(&search, (uint32_t)(want + slack + 1), &err);
    printf("%s %s: %d models %.4f, %d models %.4f, target %.2f\n", rows[row].scenario.name, row_policy_names[policy],
           want - slack, fewer, want + slack + 1, more, targets[target]);
    assert_true(fewer >= targets[target]);
    assert_true(more < targets[target]);
}

static void request_72b(void **state)
{
    (void)state;
    holds_about(2, ROW_REQUEST, 0);
    holds_about(2, ROW_REQUEST, 1);
}

static void multiplex_72b(void **state)
{
    (void)state;
    holds_about(2, ROW_MULTIPLEX, 0);
}

static void aegaeon_72b(void **state)
{
    (void)state;
    holds_about(2, ROW_AEGAEON, 0);
    holds_about(2, ROW_AEGAEON, 1);
}

static void slack_72b(void **state)
{
    (void)state;
    holds_about(2, ROW_SLACK, 0);
    holds_about(2, ROW_SLACK, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_72b),
        cmocka_unit_test(multiplex_72b),
        cmocka_unit_test(aegaeon_72b),
        cmocka_unit_test(slack_72b),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
