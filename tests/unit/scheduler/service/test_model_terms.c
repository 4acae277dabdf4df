#include <string.h>

#include "scheduler/model_terms.h"
#include "tests/cmocka.h"

static const struct br_model_terms g_usual = {.ttft_s = 10, .tbt_s = .1, .weight = 1};

static void what_is_said_counts(void **state)
{
    char *items[] = {(char *)"a=ttft=2s,tbt=30ms , weight=2.5,pinned", (char *)"ab=weight=7", (char *)"a=pinned=false"};
    struct br_option_list list = {items, 3};
    struct br_model_terms terms = g_usual;
    struct br_err err;
    (void)state;
    assert_int_equal(br_model_terms_apply(&list, "a", &terms, &err), 0);
    assert_true(terms.ttft_s == 2 && terms.tbt_s == .03 && terms.weight == 2.5 && !terms.pinned);
    terms = g_usual;
    assert_int_equal(br_model_terms_apply(&list, "ab", &terms, &err), 0);
    assert_true(terms.ttft_s == 10 && terms.tbt_s == .1 && terms.weight == 7);
    terms = g_usual;
    assert_int_equal(br_model_terms_apply(&list, "b", &terms, &err), 0);
    assert_memory_equal(&terms, &g_usual, sizeof terms);
    assert_int_equal(br_model_terms_apply(NULL, "b", &terms, &err), 0);
}

static void nonsense_changes_nothing(void **state)
{
    static char long_text[BR_MODEL_TERMS_MAX + 1];
    static const struct {
        const char *text, *names;
    } cases[] = {
        {"", "unknown"},
        {"ttft", "ttft"},
        {"ttft=", "ttft"},
        {"ttft=-1", "ttft"},
        {"ttft=nan", "ttft"},
        {"tbt=1e9", "tbt"},
        {"weigth=2", "weight"},
        {"weight=0", "weight"},
        {"weight=inf", "weight"},
        {"pinned=maybe", "pinned"},
        {"ttft=2s,,tbt=1s", "unknown"},
        {"=", "unknown"},
        {"ttft=2s,tbt", "tbt"},
        {long_text, "more than"},
    };
    (void)state;
    memset(long_text, 'x', sizeof long_text - 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_model_terms terms = g_usual;
        struct br_err err = {0};
        assert_int_equal(br_model_terms_parse("a model", cases[i].text, &terms, &err), BR_EINVAL);
        assert_memory_equal(&terms, &g_usual, sizeof terms);
        if (!strstr(err.msg, cases[i].names) || !strstr(err.msg, "a model"))
            fail_msg("'%s': %s", cases[i].text, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_counts),
        cmocka_unit_test(nonsense_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
