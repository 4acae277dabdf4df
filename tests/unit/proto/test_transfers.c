/* Counters of memory: what a device counts is what the scheduler has, and each can be told from the others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/transfers.h"
#include "tests/cmocka.h"

/* Over the wire, as a report's bytes. */
static void pass(const struct br_transfers *in, struct br_transfers *out)
{
    Briareus__StepReport report = BRIAREUS__STEP_REPORT__INIT, *back;
    Briareus__Transfers msg;
    unsigned char *bytes;
    size_t n;
    br_transfers_to_pb(in, &msg, &report);
    n = briareus__step_report__get_packed_size(&report);
    bytes = br_malloc(n + 1);
    briareus__step_report__pack(&report, bytes);
    back = briareus__step_report__unpack(NULL, n, bytes);
    assert_non_null(back);
    br_transfers_from_pb(back, out);
    briareus__step_report__free_unpacked(back, NULL);
    free(bytes);
}

static void each_counter_arrives(void **state)
{
    uint32_t n;
    const struct br_transfer_counter *counters = br_transfer_counters(&n);
    struct br_transfers in = {0}, out, twice;
    (void)state;
    assert_true(n >= 30);
    for (uint32_t i = 0; i < n; i++)
        br_transfer_set(&in, &counters[i], counters[i].seconds ? i + .5 : 1000. + i);
    pass(&in, &out);
    twice = out;
    br_transfers_add(&twice, &in);
    for (uint32_t i = 0; i < n; i++) {
        double want = counters[i].seconds ? i + .5 : 1000. + i;
        assert_true(br_transfer_value(&out, &counters[i]) == want);
        assert_true(br_transfer_value(&twice, &counters[i]) == 2 * want);
    }
}

static void an_older_workers_report_has_what_it_had(void **state)
{
    Briareus__StepReport report = BRIAREUS__STEP_REPORT__INIT;
    struct br_transfers out;
    (void)state;
    report.loaded_bytes = 7;
    br_transfers_from_pb(&report, &out);
    assert_int_equal(out.loaded_bytes, 7);
    assert_int_equal(out.cache_hits, 0);
    assert_true(out.load_s == 0);
}

static void what_is_no_number_is_zero(void **state)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY, -1};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct br_transfers in = {.load_s = bad[i], .disk_s = 2, .disk_bytes = UINT64_MAX}, out;
        pass(&in, &out);
        assert_true(out.load_s == 0 && out.disk_s == 2);
        assert_true(out.disk_bytes <= INT64_MAX / 2 + 1); /* fits JSON's integers and a double's */
    }
}

static bool same_metric(const struct br_transfer_counter *a, const struct br_transfer_counter *b)
{
    return strcmp(a->metric, b->metric) == 0;
}

/* What the text format of Prometheus asks for: one HELP a metric, its samples in one group, no two alike. */
static void metrics_can_be_printed(void **state)
{
    uint32_t n;
    const struct br_transfer_counter *c = br_transfer_counters(&n);
    (void)state;
    for (uint32_t i = 0; i < n; i++) {
        bool first = i == 0 || !same_metric(&c[i], &c[i - 1]);
        assert_true((c[i].help[0] != 0) == first);
        assert_int_equal(strspn(c[i].metric, "abcdefghijklmnopqrstuvwxyz_"), strlen(c[i].metric));
        assert_true(br_transfer_is_gauge(&c[i]) == !strstr(c[i].metric, "_total"));
        if (c[i].seconds)
            assert_non_null(strstr(c[i].metric, "_seconds_total"));
        for (uint32_t k = 0; k < i; k++) {
            assert_string_not_equal(c[i].name, c[k].name);
            assert_true(!same_metric(&c[i], &c[k]) || strcmp(c[i].label, c[k].label) != 0);
            assert_true(!same_metric(&c[i], &c[k]) || same_metric(&c[i], &c[i - 1]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_counter_arrives), cmocka_unit_test(an_older_workers_report_has_what_it_had),
        cmocka_unit_test(what_is_no_number_is_zero), cmocka_unit_test(metrics_can_be_printed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
