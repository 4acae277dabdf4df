/* What Anthropic's clients read, and what the tokenizer alone answers. Bodies follow Anthropic's API reference and
 * vLLM's /tokenize. */
#include <jansson.h>

#include "net.h"

static struct net *net;
static struct client c;

static int setup(void **state)
{
    (void)state;
    net = net_open(NULL);
    client_open(&c, net);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&c);
    net_close(net);
    return 0;
}

#define BODY "\"model\":\"tiny-qwen2\",\"max_tokens\":50,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static void begin(const char *body)
{
    client_post(&c, "/v1/messages", body);
    net_await_submits(&c, net->n_submitted + 1);
    net_accept(net);
}

static void assert_json(const char *text, const char *want_text)
{
    json_t *json = json_loads(text, 0, NULL), *want = json_loads(want_text, 0, NULL);
    assert_non_null(want);
    if (json_string_value(json_object_get(json, "id")))
        assert_int_equal(strncmp(json_string_value(json_object_get(json, "id")), "msg_", 4), 0);
    json_object_del(json, "id");
    if (!json_equal(json, want))
        fail_msg("got %s, want %s", text, want_text);
    json_decref(json);
    json_decref(want);
}

static void test_whole(void **state)
{
    size_t n;
    char want[400];
    (void)state;
    begin("{" BODY "}");
    n = net->specs[0].n_prompt;
    net_text(net, 0, "hello", BR_END_NONE);
    net_tokens(net, 0, (int32_t[]){2047}, 1, BR_END_STOP); /* <|im_end|> */
    client_answer(&c, 200);
    assert_non_null(strstr(c.in.data, "\"output_tokens\":"));
    snprintf(want, sizeof want, "\"usage\":{\"input_tokens\":%zu,", n);
    client_has(&c, want);
    client_has(&c, "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"tiny-qwen2\","
                   "\"content\":[{\"type\":\"text\",\"text\":\"hello\"}],\"stop_reason\":\"end_turn\","
                   "\"stop_sequence\":null,");
}

static void test_reasons(void **state)
{
    (void)state;
    begin("{" BODY ",\"stop_sequences\":[\"zz\",\"ll\"]}");
    net_text(net, 0, "hello", BR_END_STOP_TEXT);
    client_answer(&c, 200);
    client_has(&c, "\"text\":\"he\"}],\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"ll\"");
    br_buf_clear(&c.in);
    begin("{" BODY "}");
    net_text(net, 0, "hello", BR_END_LENGTH);
    client_answer(&c, 200);
    client_has(&c, "\"stop_reason\":\"max_tokens\",\"stop_sequence\":null");
}

/* The order of events that Anthropic's reference gives, each named twice. */
static void test_stream(void **state)
{
    static const char *const order[] = {
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_",
        "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":"
        "{\"type\":\"text\",\"text\":\"\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
        "{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n",
        "event: content_block_delta\n",
        "\"text\":\" world\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\","
        "\"stop_sequence\":null},\"usage\":{\"input_tokens\":",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        "0\r\n\r\n"};
    size_t at = 0;
    (void)state;
    begin("{" BODY ",\"stream\":true}");
    net_text(net, 0, "hello", BR_END_NONE);
    client_turn(&c);
    net_text(net, 0, " world", BR_END_LENGTH);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        at = client_await(&c, at, order[i]);
    client_has(&c, "X-Accel-Buffering: no\r\n");
    client_has_not(&c, "[DONE]");
}

static void test_stream_failure(void **state)
{
    (void)state;
    begin("{" BODY ",\"stream\":true}");
    net_text(net, 0, "hel", BR_END_NONE);
    net_tokens(net, 0, NULL, 0, BR_END_FAILED);
    client_await(&c, client_await(&c, 0, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","),
                 "0\r\n\r\n");
    client_has_not(&c, "message_stop");
}

static void test_errors(void **state)
{
    static const struct {
        int refuse, status;
        const char *body, *want;
    } cases[] = {
        {0, 400, "{}", "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"Missing"},
        {0, 404, "{\"model\":\"nobody\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
         "\"type\":\"not_found_error\""},
        {429, 429, "{" BODY "}", "\"type\":\"rate_limit_error\""},
        {503, 503, "{" BODY "}", "\"type\":\"overloaded_error\""},
        {500, 500, "{" BODY "}", "\"type\":\"api_error\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net->refuse = cases[i].refuse;
        client_post(&c, "/v1/messages", cases[i].body);
        client_answer(&c, cases[i].status);
        client_has(&c, cases[i].want);
        br_buf_clear(&c.in);
    }
    client_post(&c, "/v1/completions", "{}"); /* the next request is OpenAI's again */
    client_answer(&c, 400);
    client_has(&c, "{\"error\":{\"message\":");
}

static void test_count_tokens(void **state)
{
    char want[64];
    (void)state;
    begin("{" BODY "}");
    snprintf(want, sizeof want, "{\"input_tokens\":%u}", net->specs[0].n_prompt);
    net_text(net, 0, "x", BR_END_LENGTH);
    client_answer(&c, 200);
    br_buf_clear(&c.in);
    client_post(&c, "/v1/messages/count_tokens",
                "{\"model\":\"tiny-qwen2\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    client_answer(&c, 200);
    client_has(&c, want);
    assert_int_equal(net->n_submitted, 1);
}

/* stories260K: BOS 1, byte b is token 3 + b; ids of a text and back. */
static void test_tokenize(void **state)
{
    struct br_ids ids = {0};
    struct br_buf want = {0}, body = {0};
    struct br_err err;
    (void)state;
    assert_int_equal(br_tokenizer_encode(net->models[1].tokenizer, "once upon", 9, BR_ENCODE_ADD_SPECIAL, &ids, &err),
                     0);
    br_buf_printf(&want, "{\"count\":%zu,\"max_model_len\":512,\"tokens\":[", ids.len);
    br_buf_puts(&body, "{\"model\":\"stories260K\",\"tokens\":[");
    for (size_t i = 0; i < ids.len; i++) {
        br_buf_printf(&want, i ? ",%d" : "%d", ids.data[i]);
        if (i)
            br_buf_printf(&body, i > 1 ? ",%d" : "%d", ids.data[i]);
    }
    br_buf_puts(&want, "],\"token_strs\":null}");
    br_buf_puts(&body, "]}");
    net->trouble = "no device has it"; /* none is needed */
    client_post(&c, "/tokenize", "{\"model\":\"stories260K\",\"prompt\":\"once upon\"}");
    assert_json(client_answer(&c, 200), want.data);
    br_buf_clear(&c.in);
    client_post(&c, "/detokenize", body.data);
    assert_json(client_answer(&c, 200), "{\"prompt\":\"once upon\"}");
    br_buf_clear(&c.in);
    client_post(&c, "/tokenize",
                "{\"model\":\"stories260K\",\"prompt\":\"\",\"add_special_tokens\":false,\"return_token_strs\":true}");
    assert_json(client_answer(&c, 200), "{\"count\":0,\"max_model_len\":512,\"tokens\":[],\"token_strs\":[]}");
    br_buf_clear(&c.in);
    client_post(&c, "/detokenize", "{\"model\":\"stories260K\",\"tokens\":[]}");
    assert_json(client_answer(&c, 200), "{\"prompt\":\"\"}");
    br_buf_free(&want);
    br_buf_free(&body);
    br_ids_free(&ids);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_whole),  T(test_reasons),      T(test_stream),   T(test_stream_failure),
        T(test_errors), T(test_count_tokens), T(test_tokenize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
