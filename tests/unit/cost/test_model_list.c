/* Files of models that are known by their shape. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/model_list.h"

static int parse(const char *text, struct br_model_list *list, struct br_err *err)
{
    return br_model_list_parse(text, strlen(text), "folder/models.yaml", list, err);
}

static void test_all_keys(void **state)
{
    static const char text[] = "models:\n"
                               "  - name: big\n"
                               "    catalogue: qwen2.5-72b-instruct\n"
                               "    weights: int4\n"
                               "    kv: fp8\n"
                               "    count: 3\n"
                               "    context: 4096\n"
                               "    ttft: 2.5s\n"
                               "    tbt: 50ms\n"
                               "    weight: 2\n"
                               "    pinned: true\n"
                               "    tokenizer: tok\n"
                               "  - {name: small, catalogue: Qwen2.5-7B}\n";
    struct br_model_list list;
    struct br_err err;
    (void)state;
    if (parse(text, &list, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(list.n, 4);
    assert_string_equal(list.entries[2].name, "big-2");
    assert_string_equal(list.entries[2].footprint.size.name, "Qwen2.5-72B");
    assert_int_equal(list.entries[2].footprint.weights, BR_WEIGHTS_INT4);
    assert_true(list.entries[2].footprint.kv_bytes_per_token == 160 * 1024); /* 320 KiB in 16 bits */
    assert_int_equal(list.entries[2].context, 4096);
    assert_true(list.entries[2].ttft_s == 2.5 && list.entries[2].tbt_s == .05);
    assert_true(list.entries[2].weight == 2 && list.entries[2].pinned);
    assert_string_equal(list.entries[2].tokenizer, "folder/tok/tokenizer.json");
    assert_string_equal(list.entries[3].name, "small");
    assert_int_equal(list.entries[3].footprint.weights, BR_WEIGHTS_BF16);
    assert_int_equal(list.entries[3].context, BR_MODEL_LIST_CONTEXT);
    assert_true(list.entries[3].weight == 0 && !list.entries[3].pinned);
    assert_true(list.entries[3].ttft_s == 0 && !list.entries[3].tokenizer);
    br_model_list_free(&list);
}

static void test_json(void **state)
{
    struct br_model_list list;
    struct br_err err;
    (void)state;
    assert_int_equal(parse("[{\"name\": \"a\", \"catalogue\": \"Llama-3-8B\", \"weights\": \"fp8\"}]", &list, &err), 0);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.entries[0].footprint.weights, BR_WEIGHTS_FP8);
    br_model_list_free(&list);
}

/* The demo models' own config.json: 512 positions, and the tokenizer beside it. */
static void test_config(void **state)
{
    char text[2200], dir[1000];
    struct br_model_list list;
    struct br_model_entry entry;
    struct br_err err;
    (void)state;
    snprintf(dir, sizeof dir, "%s/demo/models/newton", getenv("BRIAREUS_SOURCE"));
    snprintf(text, sizeof text, "- {name: a, config: %s}\n- {name: b, config: %s/config.json}\n", dir, dir);
    if (parse(text, &list, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(list.n, 2);
    assert_int_equal(br_model_entry_of_dir("c", dir, &entry, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(list.entries[i].context, entry.context);
        assert_true(list.entries[i].footprint.weight_bytes == entry.footprint.weight_bytes);
    }
    assert_true(entry.footprint.weight_bytes > 1e6 && entry.footprint.weight_bytes < 1e9);
    assert_non_null(strstr(entry.tokenizer, "newton/tokenizer.json"));
    free(entry.tokenizer);
    br_model_list_free(&list);
}

/* The example of the docs is right: 40 + 4 models. */
static void test_example(void **state)
{
    struct br_model_list list;
    struct br_err err;
    char path[1000];
    (void)state;
    snprintf(path, sizeof path, "%s/docs/examples/models-72b.yaml", getenv("BRIAREUS_SOURCE"));
    if (br_model_list_read(path, &list, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(list.n, 44);
    br_model_list_free(&list);
    assert_int_equal(br_model_list_read("/nonexistent.yaml", &list, &err), BR_ENOENT);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *says;
        int code;
    } bad[] = {
        {"", "a list of models is needed", BR_EINVAL},
        {"models: 3", "a list of models is needed", BR_EINVAL},
        {"[]", "a list of models is needed", BR_EINVAL},
        {"modles: []", "the only key is models", BR_EINVAL},
        {"- 3", "folder/models.yaml:1: a model is a mapping", BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B, wieghts: int4}", "did you mean 'weights'", BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B, weights: int3}", "must be bf16, fp8, int8 or int4", BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B, kv: int4}", "must be bf16 or fp8", BR_EINVAL},
        {"- {name: a, catalogue: Lama-3-8B}", "did you mean 'Llama-3-8B'", BR_ENOENT},
        {"\n- {name: a}", "models.yaml:2: model 'a' needs one of catalogue", BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B, config: x}", "needs one of catalogue", BR_EINVAL},
        {"- {catalogue: Qwen2.5-7B}", "without a name", BR_EINVAL},
        {"- {name: 'a b', catalogue: Qwen2.5-7B}", "blank", BR_EINVAL},
        {"- {name: a, name: b, catalogue: Qwen2.5-7B}", "there twice", BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B}\n- {name: a, catalogue: Qwen2.5-7B}", "two models are called 'a'",
         BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B, count: 0}", "count: '0' is not a whole number from 1 to 1000", BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B, count: 1e9}", "count", BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B, ttft: -1}", "ttft", BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B, tbt: nan}", "tbt", BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B, weight: 0}", "weight", BR_EINVAL},
        {"- {name: a, catalogue: Qwen2.5-7B, pinned: often}", "pinned", BR_EINVAL},
        {"- {name: a, catalogue: [Qwen2.5-7B]}", "KEY: VALUE is needed", BR_EINVAL},
        {"- {name: a, config: nowhere}", "folder/nowhere/config.json", BR_ENOENT},
        {"- {name: a, config: nowhere.json}", "folder/nowhere.json", BR_ENOENT},
        {"- {name: a", "models.yaml:2: did not find expected", BR_EINVAL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct br_model_list list;
        struct br_err err = {0};
        if (parse(bad[i].text, &list, &err) != bad[i].code || !strstr(err.msg, bad[i].says))
            fail_msg("'%s' gave %d: %s", bad[i].text, err.code, err.msg);
        assert_null(list.entries);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_keys), cmocka_unit_test(test_json),    cmocka_unit_test(test_config),
        cmocka_unit_test(test_example),  cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
