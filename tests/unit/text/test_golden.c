/* Ids and decoded text equal those of the reference tokenizers. */
#include <string.h>

#include "tests/cmocka.h"
#include "tests/unit/text/text_data.h"

static void check_case(const struct br_tokenizer *t, json_t *entry, unsigned flags)
{
    json_t *text = json_object_get(entry, "text"), *decoded = json_object_get(entry, "decoded");
    struct br_ids want = data_ids(json_object_get(entry, "ids"));
    struct br_ids got = data_encode(t, json_string_value(text), json_string_length(text), flags);
    struct br_buf out = {0};
    data_assert_ids(&got, &want, json_string_value(text));
    br_tokenizer_decode(t, got.data, got.len, false, &out);
    if (out.len != json_string_length(decoded) || (out.len && memcmp(out.data, json_string_value(decoded), out.len)))
        fail_msg("\"%s\" decodes to \"%s\"", json_string_value(decoded), out.data);
    br_buf_free(&out);
    br_ids_free(&got);
    br_ids_free(&want);
}

static void check_cases(const struct br_tokenizer *t, json_t *cases, unsigned flags)
{
    json_t *entry;
    size_t i;
    assert_true(json_array_size(cases) >= 20);
    json_array_foreach(cases, i, entry)
    {
        check_case(t, entry, flags);
    }
}

static void check_file(enum data_tokenizer which, const char *name)
{
    json_t *root = data_json(DATA_SHARED, name);
    check_cases(data_tokenizer(which), json_object_get(root, "cases"), BR_ENCODE_PARSE_SPECIAL);
    json_decref(root);
}

static void qwen3(void **state)
{
    (void)state;
    check_file(TOK_QWEN3, "golden/tokenizer-qwen3.json");
}

static void llama3(void **state)
{
    (void)state;
    check_file(TOK_LLAMA3, "golden/tokenizer-llama3.json");
}

static void check_recorded(enum data_tokenizer which, const char *name)
{
    json_t *root = data_json(DATA_HERE, "tokenizer_cases.json"), *part = json_object_get(root, name);
    check_cases(data_tokenizer(which), json_object_get(part, "plain"), BR_ENCODE_PARSE_SPECIAL);
    check_cases(data_tokenizer(which), json_object_get(part, "with_special"),
                BR_ENCODE_PARSE_SPECIAL | BR_ENCODE_ADD_SPECIAL);
    json_decref(root);
}

static void stories(void **state)
{
    (void)state;
    check_recorded(TOK_STORIES, "stories260K");
}

static void tiny_qwen2(void **state)
{
    (void)state;
    check_recorded(TOK_TINY_QWEN2, "tiny-qwen2");
}

static void qwen3_more(void **state)
{
    (void)state;
    check_recorded(TOK_QWEN3, "qwen3");
}

static void llama3_more(void **state)
{
    (void)state;
    check_recorded(TOK_LLAMA3, "llama3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3),      cmocka_unit_test(llama3),     cmocka_unit_test(stories),
        cmocka_unit_test(tiny_qwen2), cmocka_unit_test(qwen3_more), cmocka_unit_test(llama3_more),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    data_free();
    return failed;
}
