/* generation_config.json: what is taken and what is refused. The first file is Qwen2.5-7B-Instruct's, in its keys and
 * values. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <string.h>

#include "scheduler/generation.h"

static int parse(const char *text, struct br_gateway_defaults *out, struct br_err *err)
{
    return br_generation_parse(text, strlen(text), out, err);
}

static void the_recommended_values_are_taken(void **state)
{
    struct br_gateway_defaults d;
    struct br_err err;
    (void)state;
    assert_int_equal(parse("{\"bos_token_id\":151643,\"do_sample\":true,\"eos_token_id\":[151645,151643],"
                           "\"pad_token_id\":151643,\"repetition_penalty\":1.05,\"temperature\":0.7,\"top_k\":20,"
                           "\"top_p\":0.8,\"transformers_version\":\"4.37.0\"}",
                           &d, &err),
                     0);
    assert_int_equal(d.given, BR_DEFAULT_REPETITION | BR_DEFAULT_TEMPERATURE | BR_DEFAULT_TOP_K | BR_DEFAULT_TOP_P);
    assert_float_equal(d.temperature, 0.7f, 0);
    assert_float_equal(d.top_p, 0.8f, 0);
    assert_float_equal(d.repetition_penalty, 1.05f, 0);
    assert_int_equal(d.top_k, 20);
    assert_int_equal(parse("{\"temperature\":null,\"max_new_tokens\":512,\"top_k\":-1}", &d, &err), 0);
    assert_int_equal(d.given, BR_DEFAULT_MAX_TOKENS | BR_DEFAULT_TOP_K);
    assert_int_equal(d.max_tokens, 512);
    assert_int_equal(d.top_k, 0);
}

static void damaged_files_are_refused(void **state)
{
    static const char *const cases[][2] = {
        {"", "generation_config.json: "},
        {"[]", "must be an object"},
        {"{\"temperature\":\"hot\"}", "temperature is a string, must be a number"},
        {"{\"temperature\":-1}", "temperature is -1"},
        {"{\"top_p\":1.5}", "top_p is 1.5, must be from 0 to 1"},
        {"{\"max_new_tokens\":0}", "max_new_tokens is 0"},
        {"{\"repetition_penalty\":0}", "repetition_penalty is 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_gateway_defaults d = {.given = 77};
        struct br_err err;
        assert_int_equal(parse(cases[i][0], &d, &err), BR_EINVAL);
        if (!strstr(err.msg, cases[i][1]))
            fail_msg("no '%s' in '%s'", cases[i][1], err.msg);
        assert_int_equal(d.given, 77);
    }
}

static void a_folder_without_one_gives_nothing(void **state)
{
    struct br_gateway_defaults d = {.given = 77};
    struct br_err err;
    (void)state;
    assert_int_equal(br_generation_load("/nonexistent", &d, &err), 0);
    assert_int_equal(d.given, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_recommended_values_are_taken),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(a_folder_without_one_gives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
