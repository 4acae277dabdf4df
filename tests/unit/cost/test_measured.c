/* Measured costs: times between points against arithmetic by hand, and files that are refused with what is wrong. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost/measured.h"
#include "tests/cmocka.h"

#define HEAD "{\"briareus_costs\": 1, \"device\": \"cpu\", \"memory_bytes\": 7e6, \"link_bytes_per_s\": 256e6, "
#define MODEL(NAME, PREFILL, DECODE)                                                                                   \
    "{\"name\": \"" NAME "\", \"weight_bytes\": 3e6, \"kv_bytes_per_token\": 1024, \"prefill\": " PREFILL              \
    ", \"decode\": " DECODE "}"
#define DECODE "{\"batch\": [1, 4], \"context\": [100, 300], \"seconds\": [[0.010, 0.014], [0.016, 0.032]]}"
#define PREFILL "[[64, 0.1], [128, 0.18]]"
#define WHOLE HEAD "\"switch_s\": 0.5, \"models\": [" MODEL("a", PREFILL, DECODE) "]}"

static struct br_measured g_measured;

static int setup(void **state)
{
    struct br_err err;
    (void)state;
    return br_measured_parse(WHOLE, strlen(WHOLE), "f.json", &g_measured, &err);
}

static int teardown(void **state)
{
    (void)state;
    br_measured_free(&g_measured);
    return 0;
}

static void assert_near(double got, double wanted)
{
    assert_true(fabs(got - wanted) < 1e-9);
}

static double step(double decodes, double kv_tokens, double chunk, double behind)
{
    struct br_cost_step s = {.decodes = decodes, .kv_tokens = kv_tokens};
    if (chunk > 0)
        br_cost_add_chunks(&s, 1, chunk, behind);
    return br_measured_step_s(&g_measured, &g_measured.models[0], &s);
}

static void a_file_is_read(void **state)
{
    (void)state;
    assert_string_equal(g_measured.device, "cpu");
    assert_true(g_measured.memory_bytes == 7e6 && g_measured.link_bytes_per_s == 256e6 && g_measured.switch_s == .5);
    assert_int_equal(g_measured.n_models, 1);
    assert_ptr_equal(br_measured_find(&g_measured, "a"), &g_measured.models[0]);
    assert_null(br_measured_find(&g_measured, "b"));
}

static void decodes_are_bilinear_between_the_points(void **state)
{
    (void)state;
    assert_near(step(1, 100, 0, 0), .010);
    assert_near(step(4, 4 * 300, 0, 0), .032);
    assert_near(step(1, 50, 0, 0), .010);      /* before the first as the first */
    assert_near(step(1, 200, 0, 0), .012);     /* half way */
    assert_near(step(2, 2 * 200, 0, 0), .016); /* a third from .012 to .024 */
    assert_near(step(7, 7 * 100, 0, 0), .022); /* as far beyond 4 as 1 is before it */
    assert_near(step(1, 500, 0, 0), .018);
}

static void prompts_are_linear_and_attend_to_what_is_before_them(void **state)
{
    (void)state;
    assert_near(step(0, 0, 64, 0), .1);
    assert_near(step(0, 0, 96, 0), .14);
    assert_near(step(0, 0, 256, 0), .34);
    assert_near(step(0, 0, 1, 0), .010); /* a row is a decode */
    /* a position more costs a row .004 / 200 s */
    assert_near(step(0, 0, 64, 1000), .1 + 64 * 1000 * .004 / 200);
}

static void a_step_of_both_reads_weights_once(void **state)
{
    (void)state;
    assert_near(step(4, 4 * 300, 64, 0), .1 + .032 - .010);
    assert_near(step(1, 100, 64, 0), .1);
}

static void overheads_are_added(void **state)
{
    struct br_measured with = g_measured;
    struct br_cost_step s = {.decodes = 4, .kv_tokens = 400};
    (void)state;
    with.step_overhead_s = 1;
    with.token_overhead_s = .1;
    assert_near(br_measured_step_s(&with, &with.models[0], &s), .016 + 1 + .4);
    s = (struct br_cost_step){0};
    assert_near(br_measured_step_s(&with, &with.models[0], &s), 0);
}

static void bad_files_are_refused_with_the_place(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"[]", "not a JSON object"},
        {"{\"briareus_costs\": 2}", "briareus_costs must be 1"},
        {"{\"briareus_costs\": 1}", "device"},
        {"{\"briareus_costs\": 1, \"device\": \"cpu\", \"memory_bytes\": -7}", "memory_bytes"},
        {"{\"briareus_costs\": 1, \"device\": \"cpu\"}", "memory_bytes is missing"},
        {HEAD "\"models\": []}", "models must be a list"},
        {HEAD "\"models\": [3]}", "model 1 must be an object"},
        {HEAD "\"models\": [{\"name\": \"a\"}]}", "model a: weight_bytes is missing"},
        {HEAD "\"models\": [" MODEL("a", PREFILL, DECODE) "," MODEL("a", PREFILL, DECODE) "]}", "a model a is there"},
        {HEAD "\"models\": [" MODEL("a", "[[64, 0]]", DECODE) "]}", "prefill: entry 1"},
        {HEAD "\"models\": [" MODEL("a", "[[64, 1], [64, 1]]", DECODE) "]}", "prefill must ascend"},
        {HEAD "\"models\": [" MODEL("a", PREFILL, "7") "]}", "decode must be an object"},
        {HEAD "\"models\": [" MODEL("a", PREFILL, "{\"batch\": [1], \"context\": [4, 2], \"seconds\": [[1, 1]]}") "]}",
         "decode.context must ascend"},
        {HEAD "\"models\": [" MODEL("a", PREFILL, "{\"batch\": [1], \"context\": [4], \"seconds\": [[1, 1]]}") "]}",
         "list 1 has 2 values for 1 contexts"},
        {HEAD "\"models\": [" MODEL("a", PREFILL, "{\"batch\": [1], \"context\": [4], \"seconds\": [[\"x\"]]}") "]}",
         "decode.seconds: entry 1"},
    };
    struct br_measured out;
    struct br_err err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(br_measured_parse(bad[i].text, strlen(bad[i].text), "f.json", &out, &err), BR_EINVAL);
        assert_null(out.models);
        if (!strstr(err.msg, bad[i].says) || !strstr(err.msg, "f.json"))
            fail_msg("'%s' does not say '%s' of f.json", err.msg, bad[i].says);
    }
    assert_int_equal(br_measured_read("/no/such", &out, &err), BR_ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(decodes_are_bilinear_between_the_points),
        cmocka_unit_test(prompts_are_linear_and_attend_to_what_is_before_them),
        cmocka_unit_test(a_step_of_both_reads_weights_once),
        cmocka_unit_test(overheads_are_added),
        cmocka_unit_test(bad_files_are_refused_with_the_place),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
