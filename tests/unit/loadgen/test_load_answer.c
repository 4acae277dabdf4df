/* Answers read piece by piece: events, JSON, HTTP. */
#include <stdlib.h>
#include <string.h>

#include "loadgen/answer.h"
#include "tests/cmocka.h"

struct seen {
    struct br_buf all;
};

static void on_event(void *ctx, const char *data, size_t len)
{
    struct seen *seen = ctx;
    br_buf_printf(&seen->all, "[%.*s]", (int)len, data);
}

static void events_survive_any_cut(void **state)
{
    const char *text = ": comment\r\ndata: {\"a\":1}\r\n\r\ndata: one\ndata: two\n\n\nevent: x\ndata:[DONE]\n\n";
    size_t len = strlen(text);
    (void)state;
    for (size_t cut = 0; cut <= len; cut++) {
        struct load_sse sse = {0};
        struct seen seen = {0};
        assert_int_equal(load_sse_feed(&sse, text, cut, on_event, &seen), 0);
        assert_int_equal(load_sse_feed(&sse, text + cut, len - cut, on_event, &seen), 0);
        assert_string_equal(seen.all.data, "[{\"a\":1}][one\ntwo][[DONE]]");
        br_buf_free(&seen.all);
        load_sse_free(&sse);
    }
}

static void endless_line_is_refused(void **state)
{
    struct load_sse sse = {0};
    struct seen seen = {0};
    char chunk[4096];
    int rc = 0;
    (void)state;
    memset(chunk, 'x', sizeof chunk);
    for (int i = 0; rc == 0 && i < 1000; i++)
        rc = load_sse_feed(&sse, chunk, sizeof chunk, on_event, &seen);
    assert_int_equal(rc, -1);
    assert_true(sse.line.len <= LOAD_SSE_MAX_LINE);
    load_sse_free(&sse);
}

static struct load_chunk parsed(const char *json)
{
    struct load_chunk c;
    assert_int_equal(load_chunk_parse(json, strlen(json), &c), 0);
    return c;
}

static void chunks_of_every_shape(void **state)
{
    struct load_chunk c;
    (void)state;
    assert_true(parsed("{\"choices\":[{\"text\":\"a\"}]}").text);
    assert_false(parsed("{\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}").text);
    assert_true(parsed("{\"choices\":[{\"delta\":{\"content\":\"\\u00e9\"}}]}").text);
    assert_true(parsed("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}").text);
    assert_false(parsed("{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}").text);
    assert_true(parsed("{\"choices\":[{\"message\":{\"reasoning_content\":\"hm\"}}]}").text);
    assert_false(parsed("{\"text\":\"not a choice's\",\"other\":{\"choices\":[{\"text\":\"x\"}]}}").text);
    c = parsed(" {\"usage\" : {\"prompt_tokens\": 12, \"completion_tokens\" :345 } , \"choices\":[]} ");
    assert_int_equal(c.prompt_tokens, 12);
    assert_int_equal(c.completion_tokens, 345);
    c = parsed("{\"usage\":null,\"error\":null}");
    assert_int_equal(c.completion_tokens, -1);
    assert_false(c.error);
    c = parsed("{\"error\":{\"message\":\"no \\\"room\\\"\",\"code\":500}}");
    assert_true(c.error);
    assert_string_equal(c.message, "no \\\"room\\\"");
    assert_true(parsed("{\"error\":\"plain\"}").error);
    assert_int_equal(parsed("{\"tokens\":[1,2,{\"id\":3}]}").count, 3);
    assert_int_equal(parsed("{\"count\":5,\"tokens\":[1,2]}").count, 5);
}

static void broken_json_is_refused(void **state)
{
    static const char *const bad[] = {
        "",        "[]",          "{",      "{\"a\"", "{\"a\":}",    "{\"a\":1,}",  "{\"a\":1}x", "{\"a\":1 2}",
        "{'a':1}", "{\"a\":\"x}", "<html>", "null",   "{\"a\":xyz}", "{\"a\":[1,}", "{\"a\" 1}",  "{\"\\"};
    char deep[1000];
    struct load_chunk c;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(load_chunk_parse(bad[i], strlen(bad[i]), &c), -1);
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    assert_int_equal(load_chunk_parse(deep, sizeof deep, &c), -1);
}

static void on_tokens(void *ctx, uint32_t n)
{
    *(uint32_t *)ctx += n;
}

/* Feeds a whole answer in two pieces cut anywhere; the end of the connection follows if it is not complete. */
static void check_answer(const char *bytes, bool stream, enum load_outcome outcome, uint32_t tokens, bool keep_alive)
{
    size_t len = strlen(bytes);
    struct load_answer *a = calloc(1, sizeof *a);
    for (size_t cut = 0; cut <= len; cut++) {
        uint32_t got = 0;
        load_answer_start(a, stream, on_tokens, &got);
        if (!load_answer_feed(a, bytes, cut) && !load_answer_feed(a, bytes + cut, len - cut))
            load_answer_eof(a, "the end");
        assert_int_equal(a->outcome, outcome);
        assert_int_equal(got, tokens);
        if (cut == 0)
            assert_int_equal(a->keep_alive, keep_alive);
    }
    load_answer_free(a);
    free(a);
}

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
#define TOKEN "data: {\"choices\":[{\"text\":\"x\"}]}\n\n"

static void answers_end_as_they_should(void **state)
{
    (void)state;
    check_answer(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n22\r\n" TOKEN "\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
                 true, LOAD_OK, 1, true);
    check_answer(OK_HEAD "\r\n" TOKEN TOKEN "data: [DONE]\n\n", true, LOAD_OK, 2, false); /* ends with the connection */
    check_answer(OK_HEAD "\r\n" TOKEN "error: {\"code\":500,\"message\":\"slot\"}\n\n", true, LOAD_CLOSED, 1, false);
    check_answer(OK_HEAD "\r\n" TOKEN TOKEN, true, LOAD_CLOSED, 2, false);
    check_answer(OK_HEAD "Content-Length: 34\r\n\r\n" TOKEN, true, LOAD_CLOSED, 1, false);
    check_answer(OK_HEAD "Content-Length: 100\r\n\r\n" TOKEN, true, LOAD_CLOSED, 1, false);
    check_answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 59\r\n\r\n"
                 "{\"choices\":[{\"text\":\"x\"}],\"usage\":{\"completion_tokens\":9 }}",
                 false, LOAD_OK, 9, true);
    check_answer("HTTP/1.1 429 No\r\nContent-Length: 2\r\n\r\n{}", true, LOAD_HTTP_429, 0, true);
    check_answer("HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\noops", true, LOAD_HTTP_OTHER, 0, true);
    check_answer("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>", true, LOAD_BAD_STREAM,
                 0, false);
    check_answer("SSH-2.0-OpenSSH_9.2\r\n", true, LOAD_BAD_HTTP, 0, false);
    check_answer("", true, LOAD_CLOSED, 0, false);
}

#define CHUNK                                                                                                          \
    "data: {\"choices\":[{\"text\":\"%s\",\"index\":0,\"logprobs\":null,\"finish_reason\":null}],\"created\":1,"       \
    "\"model\":\"m\",\"system_fingerprint\":\"b1\",\"object\":\"text_completion\",\"id\":\"c\"}\n\n"

/* What llama.cpp's server sends (tools/server/server-task.cpp): no usage until the last choice, which has no text; a
 * token that is half a character brings an empty text and is only in the usage. */
static void llama_cpp_streams(void **state)
{
    struct br_buf text = {0};
    (void)state;
    br_buf_puts(&text, "HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nContent-Type: text/event-stream\r\n\r\n");
    br_buf_printf(&text, CHUNK, "Hello");
    br_buf_printf(&text, CHUNK, "");
    br_buf_printf(&text, CHUNK, "\\u00e9");
    br_buf_puts(&text,
                "data: {\"choices\":[{\"text\":\"\",\"index\":0,\"logprobs\":null,\"finish_reason\":\"length\"}],"
                "\"object\":\"text_completion\",\"usage\":{\"completion_tokens\":3,\"prompt_tokens\":5,"
                "\"total_tokens\":8,\"prompt_tokens_details\":{\"cached_tokens\":0}},\"id\":\"c\","
                "\"timings\":{\"prompt_n\":5,\"prompt_ms\":1.5}}\n\ndata: [DONE]\n\n");
    check_answer(text.data, true, LOAD_OK, 3, false);
    br_buf_free(&text);
    check_answer("HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n{\"tokens\":[1,15,9,27]}", false, LOAD_OK, 0, true);
    assert_int_equal(parsed("{\"tokens\":[1,15,9,27]}").count, 4); /* its /tokenize */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_survive_any_cut),     cmocka_unit_test(endless_line_is_refused),
        cmocka_unit_test(chunks_of_every_shape),      cmocka_unit_test(broken_json_is_refused),
        cmocka_unit_test(answers_end_as_they_should), cmocka_unit_test(llama_cpp_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
