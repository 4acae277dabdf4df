/* What encode does with added tokens, normal forms, hostile lengths and many threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "tests/cmocka.h"
#include "tests/unit/text/text_data.h"
#include "text/tokenizer_impl.h"

static struct br_tokenizer *parse(const char *json)
{
    struct br_tokenizer *t = NULL;
    struct br_err err = {0};
    if (br_tokenizer_parse(json, strlen(json), &t, &err) != 0)
        fail_msg("%s", err.msg);
    return t;
}

/* Encodes and compares with ids, ended by -1. */
static void check_ids(const struct br_tokenizer *t, const char *text, unsigned flags, const int32_t *want)
{
    struct br_ids got = data_encode(t, text, strlen(text), flags), list = {0};
    for (; *want >= 0; want++)
        br_ids_add(&list, *want);
    data_assert_ids(&got, &list, text);
    br_ids_free(&got);
    br_ids_free(&list);
}
#define IDS(...) ((const int32_t[]){__VA_ARGS__, -1})

#define ADDED(id, content, more) "{\"id\": " #id ", \"content\": \"" content "\"" more "}"
#define BYTES_TOKENIZER(added)                                                                                         \
    "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"decoder\": {\"type\": "             \
    "\"ByteLevel\"}, \"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"\\u0120\": 2, \"\\u010a\": 3}, \"merges\": []}, "   \
    "\"added_tokens\": [" added "]}"

static void added_tokens(void **state)
{
    struct br_tokenizer *t = parse(
        BYTES_TOKENIZER(ADDED(4, "<s>", ", \"special\": true") ", " ADDED(5, "<l>", ", \"lstrip\": true") ", " ADDED(
            6, "<r>", ", \"rstrip\": true") ", " ADDED(7, "ba", ", \"single_word\": true") ", " ADDED(8, "<s><l>",
                                                                                                      "")));
    (void)state;
    check_ids(t, "a<s>b", BR_ENCODE_PARSE_SPECIAL, IDS(0, 4, 1));
    check_ids(t, "a<s>b", 0, IDS(0, 1));                   /* the brackets and s are no tokens here */
    check_ids(t, "a \n <l> b", 0, IDS(0, 5, 2, 1));        /* white space before goes */
    check_ids(t, "a <r> \n b", 0, IDS(0, 2, 6, 1));        /* white space behind goes */
    check_ids(t, "a <r> <l> b", 0, IDS(0, 2, 6, 5, 2, 1)); /* what one took the other cannot take */
    check_ids(t, "ba aba bab ba", 0, IDS(7, 2, 0, 1, 0, 2, 1, 0, 1, 2, 7));
    check_ids(t, "<s><l>", BR_ENCODE_PARSE_SPECIAL, IDS(8)); /* the longest counts */
    br_tokenizer_free(t);
}

/* normalized: found in normalised text, as e + combining acute; else only as written. */
static void normalized_tokens(void **state)
{
    static const char json[] =
        "{\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
        "false},"
        " \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"vocab\": {\"a\": 0, \"\\u00c3\": 1, \"\\u00a9\": 2}, "
        "\"merges\": []}, \"added_tokens\": [{\"id\": 3, \"content\": \"e\\u0301\", \"normalized\": true}, "
        "{\"id\": 4, \"content\": \"a\\u00e9\", \"normalized\": false}]}";
    struct br_tokenizer *t = parse(json);
    (void)state;
    check_ids(t, "\xC3\xA9", 0, IDS(3));
    check_ids(t, "e\xCC\x81", 0, IDS(3));
    check_ids(t, "a\xC3\xA9", 0, IDS(4));
    check_ids(t, "ae\xCC\x81", 0, IDS(0, 3));
    br_tokenizer_free(t);
}

static void add_special(void **state)
{
    const struct br_tokenizer *t = data_tokenizer(TOK_STORIES);
    struct br_ids with = data_encode(t, "a", 1, BR_ENCODE_ADD_SPECIAL), without = data_encode(t, "a", 1, 0);
    (void)state;
    assert_int_equal(with.len, without.len + 1);
    assert_int_equal(with.data[0], br_tokenizer_id(t, "<s>"));
    br_ids_free(&with);
    br_ids_free(&without);
}

/* Metaspace: one mark in front of the first word only, as prepend_scheme "first" says. */
static void metaspace(void **state)
{
    static const char json[] =
        "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\\u2581\", \"prepend_scheme\": \"first\", "
        "\"split\": true}, \"decoder\": {\"type\": \"Metaspace\", \"replacement\": \"\\u2581\", \"prepend_scheme\": "
        "\"first\"}, \"model\": {\"unk_token\": \"u\", \"fuse_unk\": true, \"vocab\": {\"u\": 0, \"a\": 1, "
        "\"\\u2581\": 2, "
        "\"\\u2581a\": 3}, \"merges\": [\"\\u2581 a\"]}, \"added_tokens\": [{\"id\": 4, \"content\": \"<s>\"}]}";
    struct br_tokenizer *t = parse(json);
    struct br_buf out = {0};
    (void)state;
    check_ids(t, "a a", 0, IDS(3, 3));
    check_ids(t, " a  a", 0, IDS(3, 2, 3));
    check_ids(t, "xyz", 0, IDS(2, 0)); /* unknown characters fuse */
    check_ids(t, "a<s>a", 0, IDS(3, 4, 1));
    br_tokenizer_decode(t, IDS(3, 2, 3), 3, false, &out);
    assert_string_equal(out.data, "a  a");
    br_buf_free(&out);
    br_tokenizer_free(t);
}

/* Merging by definition: look at all pairs, take the lowest rank, again. */
static size_t naive_merge(const struct br_merges *merges, int32_t *ids, size_t n)
{
    for (;;) {
        const struct br_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const struct br_merge *merge = br_merges_find(merges, ids[i], ids[i + 1]);
            if (merge && (!best || merge->rank < best->rank)) {
                best = merge;
                at = i;
            }
        }
        if (!best)
            return n;
        ids[at] = best->id;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

static void merging_equals_its_definition(void **state)
{
    const struct br_tokenizer *t = data_tokenizer(TOK_QWEN3);
    struct br_bpe_scratch scratch = {0};
    struct br_rng rng = {.seed = 9};
    (void)state;
    for (int round = 0; round < 3000; round++) {
        int32_t got[300], want[300];
        size_t n = 1 + (size_t)(br_rng_next(&rng) * 299), left;
        double letters = 1 + br_rng_next(&rng) * 26;
        for (size_t i = 0; i < n; i++)
            got[i] = want[i] = t->byte_ids['a' + (int)(br_rng_next(&rng) * letters)];
        left = br_bpe_merge(&t->merges, got, n, &scratch);
        assert_int_equal(left, naive_merge(&t->merges, want, n));
        assert_memory_equal(got, want, left * sizeof *got);
    }
    br_bpe_scratch_free(&scratch);
}

static void repeat(struct br_buf *out, const char *text, size_t times)
{
    br_buf_clear(out);
    for (size_t i = 0; i < times; i++)
        br_buf_puts(out, text);
}

/* A quadratic step over 300 KB would take minutes; the bound leaves room for sanitizers on a busy machine. */
static void hostile_lengths(void **state)
{
    static const char *const units[] = {
        "a", " ", "ab", " \n", "e\xCC\x81\xCC\x96", "<|im_start|", "\xE1\x84\x80", "\xFF", "\xE2\x96\x81", "1", "'s"};
    struct br_buf text = {0};
    (void)state;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        for (int which = 0; which < TOK_COUNT; which++) {
            double start = br_now_s();
            struct br_ids ids;
            repeat(&text, units[i], 300000 / strlen(units[i]));
            ids = data_encode(data_tokenizer((enum data_tokenizer)which), text.data, text.len, BR_ENCODE_PARSE_SPECIAL);
            br_ids_free(&ids);
            if (br_now_s() - start > 10)
                fail_msg("300 KB of \"%s\" took %.1f s", units[i], br_now_s() - start);
        }
    br_buf_free(&text);
}

static void a_million_a(void **state)
{
    const struct br_tokenizer *t = data_tokenizer(TOK_QWEN3);
    struct br_buf text = {0};
    struct br_ids ids;
    (void)state;
    repeat(&text, "a", 1000000);
    ids = data_encode(t, text.data, text.len, 0);
    assert_int_equal(ids.len, 1000000 / 8);
    for (size_t i = 0; i < ids.len; i++)
        assert_int_equal(ids.data[i], br_tokenizer_id(t, "aaaaaaaa"));
    br_ids_free(&ids);
    br_buf_free(&text);
}

static void too_long(void **state)
{
    struct br_ids ids = {0};
    struct br_err err;
    (void)state;
    assert_int_equal(
        br_tokenizer_encode(data_tokenizer(TOK_TINY_QWEN2), "x", (size_t)BR_ENCODE_MAX_BYTES + 1, 0, &ids, &err),
        BR_EINVAL);
}

static void *encode_all(void *arg)
{
    json_t *entry, *cases = arg;
    size_t i, wrong = 0;
    for (int round = 0; round < 20; round++)
        json_array_foreach(cases, i, entry)
        {
            json_t *text = json_object_get(entry, "text"), *want = json_object_get(entry, "ids");
            struct br_ids ids = {0};
            struct br_err err;
            if (br_tokenizer_encode(data_tokenizer(TOK_QWEN3), json_string_value(text), json_string_length(text),
                                    BR_ENCODE_PARSE_SPECIAL, &ids, &err) != 0 ||
                ids.len != json_array_size(want))
                wrong++;
            br_ids_free(&ids);
        }
    return (void *)wrong;
}

static void many_threads(void **state)
{
    json_t *root = data_json(DATA_SHARED, "golden/tokenizer-qwen3.json");
    pthread_t threads[4];
    (void)state;
    (void)data_tokenizer(TOK_QWEN3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_all, json_object_get(root, "cases")), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_tokens),    cmocka_unit_test(normalized_tokens),
        cmocka_unit_test(add_special),     cmocka_unit_test(metaspace),
        cmocka_unit_test(a_million_a),     cmocka_unit_test(merging_equals_its_definition),
        cmocka_unit_test(hostile_lengths), cmocka_unit_test(too_long),
        cmocka_unit_test(many_threads),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    data_free();
    return failed;
}
