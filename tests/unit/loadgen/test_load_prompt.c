/* Prompts have the tokens they should, by the tokenizers themselves; prefix blocks are shared to the token. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loadgen/prompt.h"
#include "tests/cmocka.h"
#include "tests/unit/loadgen/drive.h"
#include "tests/unit/loadgen/stub.h"
#include "text/tokenizer.h"

static int count(void *ctx, const char *text, size_t len, uint32_t *tokens, struct br_err *err)
{
    struct br_ids ids = {0};
    int rc = br_tokenizer_encode(ctx, text, len, BR_ENCODE_ADD_SPECIAL, &ids, err);
    *tokens = (uint32_t)ids.len;
    br_ids_free(&ids);
    return rc;
}

static void load(const char *path, struct br_tokenizer **t, struct load_lexicon *lexicon)
{
    struct br_err err;
    if (br_tokenizer_load(path, t, &err) || load_lexicon_find(lexicon, count, *t, &err))
        fail_msg("%s", err.msg);
}

static const char *shared(const char *path)
{
    static char full[4096];
    const char *root = getenv("BRIAREUS_SHARED");
    snprintf(full, sizeof full, "%s/data/%s", root ? root : "../shared", path);
    return full;
}

static void check_lengths(const char *path, uint32_t least_words)
{
    static const uint32_t lengths[] = {3, 4, 17, 128, 1000, 8191};
    struct br_tokenizer *t;
    struct load_lexicon lexicon;
    struct br_workload none = {0};
    load(path, &t, &lexicon);
    assert_true(lexicon.exact);
    assert_true(lexicon.n_words >= least_words);
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct br_request r = {.number = i, .prompt = lengths[i]};
        struct br_buf text = {0};
        struct br_err err;
        uint32_t tokens;
        load_prompt_text(&lexicon, &none, &r, 5, &text);
        assert_int_equal(count(t, text.data, text.len, &tokens, &err), 0);
        assert_int_equal(tokens, lengths[i]);
        br_buf_free(&text);
    }
    br_tokenizer_free(t);
}

/* A vocabulary of 512 with SentencePiece's rules, one of 2048 cut from Qwen's, and the demo's. */
static void lengths_are_exact(void **state)
{
    char demo[4096];
    (void)state;
    check_lengths(shared("models/stories260K/tokenizer.json"), 5);
    check_lengths(shared("models/tiny-qwen2/tokenizer.json"), 20);
    snprintf(demo, sizeof demo, "%s/demo/models/newton/tokenizer.json", getenv("BRIAREUS_SOURCE"));
    check_lengths(demo, 5);
}

/* Three requests: the first two share two blocks of 16 tokens, the third begins otherwise. */
static void blocks_are_shared_to_the_token(void **state)
{
    uint64_t blocks[] = {11, 12, 13, 11, 12, 14, 15, 12};
    struct br_workload w = {.blocks = blocks, .n_blocks = 8, .block_tokens = 16};
    struct br_request r[] = {{.number = 0, .prompt = 50, .first_block = 0, .n_blocks = 3},
                             {.number = 1, .prompt = 48, .first_block = 3, .n_blocks = 3},
                             {.number = 2, .prompt = 32, .first_block = 6, .n_blocks = 2}};
    struct br_tokenizer *t;
    struct load_lexicon lexicon;
    struct br_ids ids[3] = {{0}};
    struct br_err err;
    (void)state;
    load(shared("models/tiny-qwen2/tokenizer.json"), &t, &lexicon);
    for (int i = 0; i < 3; i++) {
        struct br_buf text = {0};
        load_prompt_text(&lexicon, &w, &r[i], 5, &text);
        assert_int_equal(br_tokenizer_encode(t, text.data, text.len, BR_ENCODE_ADD_SPECIAL, &ids[i], &err), 0);
        assert_int_equal(ids[i].len, r[i].prompt);
        br_buf_free(&text);
    }
    assert_memory_equal(ids[0].data, ids[1].data, 32 * sizeof(int32_t));
    assert_memory_not_equal(ids[0].data + 32, ids[1].data + 32, 16 * sizeof(int32_t));
    assert_memory_not_equal(ids[0].data, ids[2].data, 16 * sizeof(int32_t));
    assert_memory_equal(ids[0].data + 16, ids[2].data + 16, 16 * sizeof(int32_t));
    for (int i = 0; i < 3; i++)
        br_ids_free(&ids[i]);
    br_tokenizer_free(t);
}

/* Ids: as many as asked for, within the middle half of the vocabulary. */
static void ids_are_counted(void **state)
{
    struct load_lexicon lexicon = {.first_id = 128, .n_ids = 256};
    struct br_workload none = {0};
    struct br_request r = {.prompt = 1000};
    struct br_buf text = {0};
    json_t *list;
    (void)state;
    load_prompt_ids(&lexicon, &none, &r, 5, &text);
    list = json_loads(text.data, 0, NULL);
    assert_int_equal(json_array_size(list), 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_in_range(json_integer_value(json_array_get(list, i)), 128, 383);
    json_decref(list);
    br_buf_free(&text);
}

/* The server's own /tokenize, which puts two tokens in front: its count and the option agree. Without one, the result
 * says that lengths are approximate. */
static void the_servers_tokenizer_is_asked(void **state)
{
    const char *args[] = {"--model",     "m",  "--request-rate", "100", "--duration", "0.2",
                          "--input-len", "20", "--output-len",   "1",   NULL};
    (void)state;
    for (int has = 0; has < 2; has++) {
        struct stub_script script = {.kind = STUB_STREAM, .record = true, .tokenize = has};
        struct stub *stub = stub_start(&script);
        struct drive d;
        uint32_t n;
        char **requests;
        const char *prompt;
        int words = 1;
        drive_run(&d, stub_url(stub), args);
        requests = stub_requests(stub, &n);
        assert_true(n > 0);
        prompt = strstr(requests[0], "\"prompt\":\"") + 10;
        for (; *prompt != '"'; prompt++)
            words += *prompt == ' ';
        assert_int_equal(words, has ? 18 : 20);
        assert_int_equal(json_is_null(json_object_get(d.result, "note")), has);
        drive_free(&d);
        stub_stop(stub);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_exact),
        cmocka_unit_test(blocks_are_shared_to_the_token),
        cmocka_unit_test(ids_are_counted),
        cmocka_unit_test(the_servers_tokenizer_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
