/* Incremental and whole decoding give the same text, and every piece of it is well-formed. */
#include <string.h>

#include "base/rng.h"
#include "tests/cmocka.h"
#include "tests/unit/text/text_data.h"
#include "text/detok.h"
#include "text/utf8.h"

enum { ROUNDS = 4000, IDS = 24 };

/* Draws ids so that bytes of characters meet: half of them from the low ids, where single bytes are. */
static int32_t draw_id(struct br_rng *rng, int32_t size)
{
    double range = br_rng_next(rng) < 0.5 ? 300 : size + 4; /* some beyond the vocabulary */
    return (int32_t)(br_rng_next(rng) * range) - 1;
}

/* Reference for byte-level vocabularies: all bytes together, repaired once. */
static void decode_bytes(const struct br_tokenizer *t, const int32_t *ids, size_t n, bool skip, struct br_buf *out)
{
    struct br_buf bytes = {0};
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *piece = br_tokenizer_piece(t, ids[i], &len);
        if (piece && !(skip && br_tokenizer_is_special(t, ids[i])))
            br_buf_add(&bytes, piece, len);
    }
    br_utf8_lossy(out, bytes.data, bytes.len);
    br_buf_free(&bytes);
}

static void check_round(const struct br_tokenizer *t, struct br_rng *rng, bool bytelevel)
{
    struct br_buf whole = {0}, parts = {0}, bytes = {0};
    struct br_detok detok;
    int32_t ids[IDS];
    bool skip = br_rng_next(rng) < 0.5;
    br_detok_init(&detok, t, skip);
    for (size_t i = 0; i < IDS; i++) {
        size_t before = parts.len;
        ids[i] = draw_id(rng, br_tokenizer_vocab_size(t));
        br_detok_push(&detok, ids[i], &parts);
        assert_true(parts.len == before ||
                    br_utf8_valid_len(parts.data + before, parts.len - before) == parts.len - before);
    }
    br_detok_flush(&detok, &parts);
    br_tokenizer_decode(t, ids, IDS, skip, &whole);
    assert_int_equal(whole.len, parts.len);
    assert_true(whole.len == 0 || memcmp(whole.data, parts.data, whole.len) == 0);
    if (bytelevel) {
        decode_bytes(t, ids, IDS, skip, &bytes);
        assert_int_equal(whole.len, bytes.len);
        assert_true(whole.len == 0 || memcmp(whole.data, bytes.data, whole.len) == 0);
    }
    br_buf_free(&whole);
    br_buf_free(&parts);
    br_buf_free(&bytes);
}

static void random_ids(void **state)
{
    struct br_rng rng = {.seed = 5};
    (void)state;
    for (int which = 0; which < TOK_COUNT; which++)
        for (int round = 0; round < ROUNDS; round++)
            check_round(data_tokenizer((enum data_tokenizer)which), &rng, which != TOK_STORIES);
}

/* Random bytes, encoded and decoded: the text with its ill-formed parts replaced comes back. */
static void random_texts(void **state)
{
    static const char *const chars[] = {"a", " ", "  ",   "\n",       "é",        "中",  "😀",
                                        "z", "1", "\xC3", "\xE4\xB8", "\xF0\x9F", "\x80"};
    struct br_rng rng = {.seed = 6};
    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct br_buf text = {0}, want = {0}, got = {0};
        struct br_ids ids;
        const struct br_tokenizer *t = data_tokenizer((enum data_tokenizer)(round % TOK_COUNT));
        for (int i = 0; i < 20; i++)
            br_buf_puts(&text, chars[(size_t)(br_rng_next(&rng) * (double)(sizeof chars / sizeof chars[0]))]);
        br_utf8_lossy(&want, text.data, text.len);
        ids = data_encode(t, text.data, text.len, 0);
        br_tokenizer_decode(t, ids.data, ids.len, true, &got);
        assert_string_equal(got.data, want.data);
        br_ids_free(&ids);
        br_buf_free(&text);
        br_buf_free(&want);
        br_buf_free(&got);
    }
}

static void push_bytes(struct br_detok *detok, const char *names, struct br_buf *out)
{
    for (; *names; names += 6) {
        char name[7] = {0};
        memcpy(name, names, 6);
        br_detok_push(detok, br_tokenizer_id(detok->tokenizer, name), out);
    }
}

/* byte_fallback: a character of byte tokens comes out when it is whole; one that is cut is a U+FFFD for each byte, as
 * in the reference. The one space that the encoder put in front goes. */
static void byte_fallback(void **state)
{
    const struct br_tokenizer *t = data_tokenizer(TOK_STORIES);
    struct br_detok detok;
    struct br_buf out = {0};
    (void)state;
    br_detok_init(&detok, t, true);
    br_detok_push(&detok, br_tokenizer_id(t, "<s>"), &out);
    br_detok_push(&detok, br_tokenizer_id(t, "\xE2\x96\x81"), &out);
    assert_int_equal(out.len, 0);
    push_bytes(&detok, "<0xE4><0xB8>", &out);
    assert_int_equal(out.len, 0);
    push_bytes(&detok, "<0xAD>", &out);
    assert_string_equal(out.data, "中");
    push_bytes(&detok, "<0xE4><0xB8>", &out);
    br_detok_push(&detok, br_tokenizer_id(t, "a"), &out);
    assert_string_equal(out.data, "中" BR_UTF8_REPLACEMENT BR_UTF8_REPLACEMENT "a");
    br_buf_clear(&out);
    push_bytes(&detok, "<0xE4>", &out);
    br_detok_flush(&detok, &out);
    assert_string_equal(out.data, BR_UTF8_REPLACEMENT);
    br_buf_free(&out);
}

/* Text that goes on behind a prompt keeps the space that the beginning of a text would lose. */
static void continued_text_keeps_its_first_space(void **state)
{
    const struct br_tokenizer *t = data_tokenizer(TOK_STORIES);
    struct br_ids ids = data_encode(t, "once", 4, 0);
    (void)state;
    for (int continued = 0; continued < 2; continued++) {
        struct br_detok detok;
        struct br_buf out = {0};
        br_detok_init(&detok, t, true);
        if (continued)
            br_detok_continue(&detok);
        for (size_t i = 0; i < ids.len; i++)
            br_detok_push(&detok, ids.data[i], &out);
        assert_string_equal(out.data, continued ? " once" : "once");
        br_buf_free(&out);
    }
    br_ids_free(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ids),
        cmocka_unit_test(random_texts),
        cmocka_unit_test(byte_fallback),
        cmocka_unit_test(continued_text_keeps_its_first_space),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    data_free();
    return failed;
}
