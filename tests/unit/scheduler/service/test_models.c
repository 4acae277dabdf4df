/* The scheduler's catalogue: models without a folder, their SLOs, limits and tokenizer. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <string.h>

#include "scheduler/models.h"

static void list_make(const char *text, struct br_model_list *list)
{
    struct br_err err;
    if (br_model_list_parse(text, strlen(text), "m.yaml", list, &err))
        fail_msg("%s", err.msg);
}

static void test_outlines(void **state)
{
    struct br_option_list folders = {0};
    struct br_model_list list;
    struct br_models_config config = {.models = &folders, .outlines = &list, .ttft_s = 10, .tbt_s = .1};
    const struct br_gateway_model *model;
    struct br_models *models;
    struct br_ids ids = {0};
    struct br_err err;
    (void)state;
    list_make("- {name: a, catalogue: Qwen2.5-72B, ttft: 2s, tbt: 30ms, context: 4096}\n"
              "- {name: b, catalogue: Qwen2.5-7B, tokenizer: /nonexistent}\n"
              "- {name: c, catalogue: Qwen2.5-7B}\n",
              &list);
    config.max_model_len = 8192;
    assert_int_equal(br_models_create(&config, &models, &err), 0);
    assert_int_equal(br_models_count(models), 3);
    model = br_models_at(models, 0);
    assert_true(model->ttft_s == 2 && model->tbt_s == .03);
    assert_int_equal(model->max_context, 4096);
    assert_true(model->has_chat);
    assert_null(br_models_trouble(models, 0));
    assert_int_equal(br_tokenizer_encode(model->tokenizer, "\xc3\xa4 x", 4, 0, &ids, &err), 0);
    assert_int_equal(ids.len, 4); /* ids are the bytes */
    assert_true(ids.data[0] == 0xc3 && ids.data[1] == 0xa4 && ids.data[2] == ' ' && ids.data[3] == 'x');
    assert_int_equal(model->vocab, 256 + 3);
    br_ids_free(&ids);
    assert_non_null(strstr(br_models_trouble(models, 1), "/nonexistent/tokenizer.json"));
    model = br_models_at(models, 2);
    assert_true(model->ttft_s == 10 && model->tbt_s == .1);
    assert_int_equal(model->max_context, 8192);
    br_models_destroy(models);
    br_model_list_free(&list);
}

static void test_named_twice(void **state)
{
    char *items[] = {(char *)"a=/nonexistent"};
    struct br_option_list folders = {items, 1};
    struct br_model_list list;
    struct br_models_config config = {.models = &folders, .outlines = &list, .ttft_s = 10, .tbt_s = .1};
    struct br_models *models;
    struct br_err err;
    (void)state;
    list_make("- {name: a, catalogue: Qwen2.5-72B}", &list);
    assert_int_equal(br_models_create(&config, &models, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "'a' is named twice"));
    br_model_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_outlines), cmocka_unit_test(test_named_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
