/* tokenizer.json files that are broken, lie, or want what is not supported: a clear error, no crash, no leak. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/unit/text/text_data.h"

#define VOCAB "{\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"abc\": 4, \"\\u0120\": 5}"
#define MERGES "[\"a b\", [\"ab\", \"c\"]]"
#define MODEL "{\"type\": \"BPE\", \"vocab\": " VOCAB ", \"merges\": " MERGES "}"
#define BYTELEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define FILE_OF(normalizer, pretok, model, more)                                                                       \
    "{\"normalizer\": " normalizer ", \"pre_tokenizer\": " pretok ", \"decoder\": {\"type\": \"ByteLevel\"}, "         \
    "\"model\": " model more "}"
#define WITH_MODEL(model) FILE_OF("null", BYTELEVEL, model, "")
#define WITH_VOCAB(vocab, merges) WITH_MODEL("{\"vocab\": " vocab ", \"merges\": " merges "}")
#define WITH_NORMALIZER(normalizer) FILE_OF(normalizer, BYTELEVEL, MODEL, "")
#define WITH_PRETOK(pretok) FILE_OF("null", pretok, MODEL, "")
#define WITH_SPLIT(regex)                                                                                              \
    WITH_PRETOK("{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" regex \
                "\"}, \"behavior\": \"Isolated\"}, " BYTELEVEL "]}")
#define WITH_MORE(more) FILE_OF("null", BYTELEVEL, MODEL, ", " more)
#define WITH_DECODER(decoder) "{\"decoder\": " decoder ", \"model\": " MODEL "}"

static const char good[] = FILE_OF("{\"type\": \"NFC\"}", BYTELEVEL, MODEL,
                                   ", \"added_tokens\": [{\"id\": 6, \"content\": \"<x>\", \"special\": true}]");

static const struct {
    const char *json;
    int code;
    const char *says; /* part of the message */
} broken[] = {
    {"", BR_EINVAL, "not valid JSON"},
    {"{", BR_EINVAL, "not valid JSON"},
    {"[]", BR_EINVAL, "is a list, not an object"},
    {"{}", BR_EINVAL, "has no \"model\""},
    {"{\"a\": 1, \"a\": 2}", BR_EINVAL, "duplicate object key"},
    {"{\"model\": {\"type\": \"Unigram\"}}", BR_ENOTSUP, "\"Unigram\" is not supported"},
    {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {}}}", BR_ENOTSUP, "\"WordPiece\" is not supported"},
    {"{\"model\": []}", BR_EINVAL, "decoder: is missing"},
    {WITH_MODEL("[]"), BR_EINVAL, "\"model\" is a list, not an object"},
    {WITH_MODEL("{\"type\": 3}"), BR_EINVAL, "\"type\" is an integer"},
    {WITH_MODEL("{\"merges\": []}"), BR_EINVAL, "has no \"vocab\""},
    {WITH_MODEL("{\"vocab\": {\"a\": 0}}"), BR_EINVAL, "has no \"merges\""},
    {WITH_VOCAB("[[\"a\", 0]]", "[]"), BR_EINVAL, "\"vocab\" is a list, not an object"},
    {WITH_VOCAB("{}", "[]"), BR_EINVAL, "no tokens at all"},
    {WITH_VOCAB("{\"a\": \"0\"}", "[]"), BR_EINVAL, "id of token \"a\" is a string"},
    {WITH_VOCAB("{\"a\": 0.5}", "[]"), BR_EINVAL, "is a number, not an integer"},
    {WITH_VOCAB("{\"a\": -1}", "[]"), BR_ECORRUPT, "id -1, outside"},
    {WITH_VOCAB("{\"a\": 4194304}", "[]"), BR_ECORRUPT, "id 4194304, outside"},
    {WITH_VOCAB("{\"a\": 9223372036854775807}", "[]"), BR_ECORRUPT, "outside"},
    {WITH_VOCAB("{\"a\": 99999999999999999999}", "[]"), BR_EINVAL, "too big integer"},
    {WITH_VOCAB("{\"a\": 0, \"b\": 4000000}", "[]"), BR_ECORRUPT, "the file is cut"},
    {WITH_VOCAB("{\"a\": 0, \"b\": 0}", "[]"), BR_ECORRUPT, "id 0 is given to"},
    {WITH_VOCAB("{\"a\": 0, \"b\": 1}", "[\"a b\"]"), BR_ECORRUPT, "the result is not in the vocabulary"},
    {WITH_VOCAB("{\"a\": 0, \"ab\": 1}", "[\"a b\"]"), BR_ECORRUPT, "the second part is not in the vocabulary"},
    {WITH_VOCAB("{\"b\": 0, \"ab\": 1}", "[[\"a\", \"b\"]]"), BR_ECORRUPT, "the first part is not in the vocabulary"},
    {WITH_VOCAB("{\"a\": 0}", "[\"a\"]"), BR_EINVAL, "entry 0 is neither"},
    {WITH_VOCAB("{\"a\": 0}", "[\"a b c\"]"), BR_EINVAL, "entry 0 is neither"},
    {WITH_VOCAB("{\"a\": 0}", "[[\"a\", 1]]"), BR_EINVAL, "entry 0 is neither"},
    {WITH_VOCAB("{\"a\": 0}", "[7]"), BR_EINVAL, "entry 0 is neither"},
    {WITH_VOCAB("{\"a\": 0}", "{}"), BR_EINVAL, "\"merges\" is an object, not a list"},
    {WITH_MODEL("{\"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": \"u\"}"), BR_ECORRUPT, "unk_token \"u\""},
    {WITH_MODEL("{\"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1}"), BR_ENOTSUP, "\"dropout\" is set"},
    {WITH_MODEL("{\"vocab\": {\"a\": 0}, \"merges\": [], \"end_of_word_suffix\": \"</w>\"}"), BR_ENOTSUP, "suffix"},
    {WITH_NORMALIZER("{\"type\": \"Precompiled\"}"), BR_ENOTSUP, "normalizer: type \"Precompiled\""},
    {WITH_NORMALIZER("{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"x\"}, \"content\": \"\"}"), BR_ENOTSUP,
     "Replace"},
    {WITH_NORMALIZER("\"NFC\""), BR_EINVAL, "normalizer: is a string, not an object"},
    {WITH_PRETOK("{\"type\": \"BertPreTokenizer\"}"), BR_ENOTSUP, "pre_tokenizer: type \"BertPreTokenizer\""},
    {WITH_PRETOK("null"), BR_ENOTSUP, "pre_tokenizer and decoder disagree"},
    {WITH_SPLIT("("), BR_EINVAL, "regular expression \"(\""},
    {WITH_SPLIT("[a[bc]]"), BR_ENOTSUP, "classes inside classes"},
    {WITH_SPLIT("[a-z&&b]"), BR_ENOTSUP, "&& are not supported"},
    {WITH_SPLIT("\\\\C"), BR_EINVAL, "regular expression"},
    {WITH_DECODER("null"), BR_EINVAL, "decoder: is null, not an object"},
    {WITH_DECODER("{\"type\": \"WordPiece\"}"), BR_ENOTSUP, "decoder: type \"WordPiece\""},
    {WITH_MORE("\"post_processor\": {\"type\": \"BertProcessing\"}"), BR_ENOTSUP, "post_processor: type \"Bert"},
    {WITH_MORE("\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
               "\"<s>\"}}], \"special_tokens\": {\"<s>\": {\"ids\": [77]}}}"),
     BR_ECORRUPT, "\"<s>\" has an id that is not in"},
    {WITH_MORE("\"added_tokens\": 3"), BR_EINVAL, "\"added_tokens\" is an integer, not a list"},
    {WITH_MORE("\"added_tokens\": [{\"id\": 7}]"), BR_EINVAL, "has no \"content\""},
    {WITH_MORE("\"added_tokens\": [{\"content\": \"<x>\"}]"), BR_EINVAL, "is missing, not an integer"},
    {WITH_MORE("\"added_tokens\": [{\"id\": 1, \"content\": \"<x>\"}]"), BR_ECORRUPT, "id 1 is given to \"<x>\""},
    {WITH_MORE("\"added_tokens\": [{\"id\": 7, \"content\": \"a\"}]"), BR_ECORRUPT, "id 7 is given to \"a\""},
    {WITH_MORE("\"added_tokens\": [{\"id\": 7, \"content\": \"x\", \"lstrip\": 1}]"), BR_EINVAL, "\"lstrip\""},
};

static void broken_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct br_tokenizer *t;
        struct br_err err = {0};
        int rc = br_tokenizer_parse(broken[i].json, strlen(broken[i].json), &t, &err);
        if (rc != broken[i].code || !strstr(err.msg, broken[i].says))
            fail_msg("%s\ngives %s \"%s\", want %s \"...%s...\"", broken[i].json, br_err_name(rc), err.msg,
                     br_err_name(broken[i].code), broken[i].says);
        assert_null(t);
    }
}

static void good_file(void **state)
{
    struct br_tokenizer *t = NULL;
    struct br_err err = {0};
    struct br_ids ids = {0};
    (void)state;
    assert_int_equal(br_tokenizer_parse(good, strlen(good), &t, &err), 0);
    assert_int_equal(br_tokenizer_encode(t, "abcab<x>d c", 11, BR_ENCODE_PARSE_SPECIAL, &ids, &err), 0);
    assert_int_equal(ids.len, 5); /* d is no token and there is none for unknown: it is dropped, as in the reference */
    assert_memory_equal(ids.data, ((int32_t[]){4, 3, 6, 5, 2}), 5 * sizeof(int32_t));
    assert_int_equal(br_tokenizer_vocab_size(t), 7);
    assert_int_equal(br_tokenizer_id(t, "<x>"), 6);
    assert_true(br_tokenizer_is_special(t, 6));
    assert_false(br_tokenizer_is_special(t, 7));
    br_ids_free(&ids);
    br_tokenizer_free(t);
}

/* Every prefix of a good file is refused; no single changed byte does harm. */
static void cut_and_changed_files(void **state)
{
    char copy[sizeof good];
    (void)state;
    for (size_t len = 0; len + 1 < strlen(good); len++) {
        struct br_tokenizer *t;
        struct br_err err;
        assert_int_equal(br_tokenizer_parse(good, len, &t, &err), BR_EINVAL);
    }
    for (size_t i = 0; i < strlen(good); i++)
        for (int change = 0; change < 8; change++) {
            struct br_tokenizer *t;
            struct br_err err;
            memcpy(copy, good, sizeof good);
            copy[i] = (char)(copy[i] ^ (1 << change));
            if (br_tokenizer_parse(copy, strlen(good), &t, &err) == 0)
                br_tokenizer_free(t);
        }
}

static void missing_file(void **state)
{
    struct br_tokenizer *t;
    struct br_err err;
    (void)state;
    assert_int_equal(br_tokenizer_load("/nonexistent/tokenizer.json", &t, &err), BR_ENOENT);
    assert_non_null(strstr(err.msg, "/nonexistent/tokenizer.json"));
    assert_int_equal(br_tokenizer_load("/", &t, &err), BR_EIO);
}

/* A pattern that backtracks without bound is stopped and named; nothing is appended. */
static void catastrophic_pattern(void **state)
{
    static const char json[] = WITH_SPLIT("(a|aa|a+)+$|b");
    struct br_tokenizer *t = NULL;
    struct br_err err = {0};
    struct br_ids ids = {0};
    char text[201];
    (void)state;
    memset(text, 'a', 200);
    text[200] = '!';
    assert_int_equal(br_tokenizer_parse(json, strlen(json), &t, &err), 0);
    br_ids_add(&ids, 42);
    assert_int_equal(br_tokenizer_encode(t, text, sizeof text, 0, &ids, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "backtracks too much"));
    assert_int_equal(ids.len, 1);
    br_ids_free(&ids);
    br_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_files),         cmocka_unit_test(good_file),
        cmocka_unit_test(missing_file),         cmocka_unit_test(cut_and_changed_files),
        cmocka_unit_test(catastrophic_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
