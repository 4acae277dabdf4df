/* Ends of sequences, with the tokenizer of tiny-qwen2 (byte-level BPE, <|im_end|> = 2047). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "worker/sampler/end_watch.h"

enum { EOS = 2047, IM_START = 2046 };
static const int32_t g_eos[] = {EOS};
static struct br_tokenizer *g_tokenizer;

static int setup(void **state)
{
    const char *shared = getenv("BRIAREUS_SHARED");
    char path[4096];
    struct br_err err;
    (void)state;
    snprintf(path, sizeof path, "%s/data/models/tiny-qwen2/tokenizer.json", shared && *shared ? shared : "../shared");
    if (br_tokenizer_load(path, &g_tokenizer, &err) == 0)
        return 0;
    fprintf(stderr, "%s\n", err.msg);
    return -1;
}

static int teardown(void **state)
{
    (void)state;
    br_tokenizer_free(g_tokenizer);
    return 0;
}

/* Pushes the ids of text, then tail ids; returns the index at which the sequence ended (-1: never) and why. */
static int ended_at(const struct br_seq_spec *spec, const char *text, enum br_end *end)
{
    struct br_ids ids = {0};
    struct br_end_watch *w;
    struct br_err err;
    int at = -1;
    *end = BR_END_NONE;
    assert_int_equal(br_tokenizer_encode(g_tokenizer, text, strlen(text), BR_ENCODE_PARSE_SPECIAL, &ids, &err), 0);
    assert_int_equal(br_end_watch_create(spec, g_tokenizer, g_eos, 1, 4096, &w, &err), 0);
    for (size_t i = 0; i < ids.len && at < 0; i++)
        if ((*end = br_end_watch_push(w, ids.data[i])) != BR_END_NONE)
            at = (int)i;
    br_end_watch_destroy(w);
    br_ids_free(&ids);
    return at;
}

/* Tokens of text up to and with the one that completes `part`. */
static int tokens_until(const char *text, const char *part)
{
    struct br_ids ids = {0};
    struct br_err err;
    int at = -1;
    assert_int_equal(br_tokenizer_encode(g_tokenizer, text, strlen(text), BR_ENCODE_PARSE_SPECIAL, &ids, &err), 0);
    for (size_t n = 1; n <= ids.len && at < 0; n++) {
        struct br_buf so_far = {0};
        br_tokenizer_decode(g_tokenizer, ids.data, n, true, &so_far);
        if (so_far.data && strstr(so_far.data, part))
            at = (int)n - 1;
        br_buf_free(&so_far);
    }
    br_ids_free(&ids);
    return at;
}

static void eos_and_stop_ids(void **state)
{
    struct br_seq_spec spec = {.max_tokens = 100};
    int32_t stop[] = {IM_START};
    enum br_end end;
    (void)state;
    assert_int_equal(ended_at(&spec, "<|im_end|>", &end), 0);
    assert_int_equal(end, BR_END_STOP);
    spec.ignore_eos = true;
    assert_int_equal(ended_at(&spec, "<|im_end|><|im_end|>", &end), -1);
    spec.stop_ids = stop;
    spec.n_stop_ids = 1;
    assert_int_equal(ended_at(&spec, "<|im_end|><|im_start|>", &end), 1);
    assert_int_equal(end, BR_END_STOP);
}

static void min_tokens_come_first(void **state)
{
    struct br_seq_spec spec = {.max_tokens = 100, .min_tokens = 2};
    enum br_end end;
    (void)state;
    assert_int_equal(ended_at(&spec, "<|im_end|><|im_end|><|im_end|>", &end), 2);
    assert_int_equal(end, BR_END_STOP);
}

static void length_and_context(void **state)
{
    struct br_seq_spec spec = {.max_tokens = 3};
    enum br_end end;
    (void)state;
    assert_int_equal(ended_at(&spec, "one two three four five six", &end), 2);
    assert_int_equal(end, BR_END_LENGTH);
    assert_int_equal(ended_at(&spec, "<|im_start|><|im_start|><|im_end|>", &end), 2); /* eos wins at the last one */
    assert_int_equal(end, BR_END_STOP);
    spec.max_tokens = 0; /* no limit of its own: the context is */
    spec.n_prompt = 4091;
    assert_int_equal(ended_at(&spec, "one two three four five six seven eight", &end), 4);
    assert_int_equal(end, BR_END_LENGTH);
}

static void stop_strings_over_token_borders(void **state)
{
    static const char text[] = "The quick brown fox jumped over, and the lazy dog slept. The end \xe2\x82\xac now.";
    static const char *const stops[] = {"fox jum", "lazy", "d the", "\xe2\x82\xac", "T", "now."};
    (void)state;
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        char *stop[] = {(char *)"never there", (char *)stops[i]};
        struct br_seq_spec spec = {.max_tokens = 1000, .stop = stop, .n_stop = 2};
        enum br_end end;
        assert_int_equal(ended_at(&spec, text, &end), tokens_until(text, stops[i]));
        assert_int_equal(end, BR_END_STOP_TEXT);
    }
}

/* The first min_tokens tokens are not searched. */
static void stop_strings_wait_for_min_tokens(void **state)
{
    static const char text[] = "stop and go and stop and go";
    char *stop[] = {(char *)"stop"};
    struct br_seq_spec spec = {.max_tokens = 1000, .stop = stop, .n_stop = 1};
    enum br_end end;
    int first = ended_at(&spec, text, &end), second;
    (void)state;
    assert_int_equal(first, tokens_until(text, "stop"));
    spec.min_tokens = (uint32_t)first + 1;
    second = ended_at(&spec, text, &end);
    assert_int_equal(end, BR_END_STOP_TEXT);
    assert_int_equal(second, tokens_until(text, "stop and go and stop"));
}

/* Special tokens are text only where the client asked to see them. */
static void special_tokens_stop_only_when_shown(void **state)
{
    char *stop[] = {(char *)"im_start"};
    struct br_seq_spec spec = {.max_tokens = 1000, .stop = stop, .n_stop = 1, .ignore_eos = true};
    enum br_end end;
    (void)state;
    assert_int_equal(ended_at(&spec, "one<|im_start|>two", &end), -1);
    spec.show_special = true;
    assert_true(ended_at(&spec, "one<|im_start|>two", &end) >= 0);
    assert_int_equal(end, BR_END_STOP_TEXT);
}

static void a_tokenizer_is_needed_for_stop_strings(void **state)
{
    char *stop[] = {(char *)"x"};
    struct br_seq_spec spec = {.stop = stop, .n_stop = 1};
    struct br_end_watch *w;
    struct br_err err;
    (void)state;
    assert_int_equal(br_end_watch_create(&spec, NULL, NULL, 0, 10, &w, &err), BR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eos_and_stop_ids),
        cmocka_unit_test(min_tokens_come_first),
        cmocka_unit_test(length_and_context),
        cmocka_unit_test(stop_strings_over_token_borders),
        cmocka_unit_test(stop_strings_wait_for_min_tokens),
        cmocka_unit_test(special_tokens_stop_only_when_shown),
        cmocka_unit_test(a_tokenizer_is_needed_for_stop_strings),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
