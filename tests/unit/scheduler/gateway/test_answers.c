/* What clients read: whole answers and streams. Expected bodies follow OpenAI's API reference; texts are spelt with
 * the single-byte tokens of a SentencePiece vocabulary, <0x00> being id 3. */
#include <jansson.h>
#include <math.h>

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

#define ONCE "\"model\":\"stories260K\",\"prompt\":[1,5,6]"

/* Spells n bytes of choice i, a token a byte, each delivered alone. */
static void spell(uint32_t i, const char *text, size_t n, enum br_end end)
{
    for (size_t k = 0; k < n; k++) {
        int32_t id = 3 + (unsigned char)text[k];
        net_tokens(net, i, &id, 1, k + 1 == n ? end : BR_END_NONE);
        client_turn(&c);
    }
}

static void begin(const char *path, const char *body)
{
    uint32_t before = net->n_submitted;
    client_post(&c, path, body);
    net_await_submits(&c, before + 1);
    net_accept(net);
}

static void complete(const char *body)
{
    begin("/v1/completions", body);
}

static json_t *whole(void)
{
    json_error_t error;
    json_t *json = json_loads(client_answer(&c, 200), 0, &error);
    if (!json)
        fail_msg("%s in %s", error.text, c.in.data);
    return json;
}

/* ---- reading a stream ---- */

struct events {
    json_t *list; /* of JSON chunks, in order */
    bool done;    /* ended by [DONE] and by the last chunk of the transfer encoding */
};

/* Takes the chunked coding off: every chunk is whole lines here. */
static void unchunk(const char *text, struct br_buf *out)
{
    for (;;) {
        char *end;
        size_t len = strtoul(text, &end, 16);
        assert_int_equal(strncmp(end, "\r\n", 2), 0);
        br_buf_add(out, end + 2, len);
        text = end + 2 + len + 2;
        if (len == 0)
            return;
    }
}

static struct events stream(void)
{
    struct events events = {.list = json_array()};
    struct br_buf text = {0};
    char *line;
    size_t head;
    client_await(&c, 0, "0\r\n\r\n");
    client_has(&c, "Content-Type: text/event-stream\r\n");
    client_has(&c, "Cache-Control: no-cache\r\n");
    client_has(&c, "X-Accel-Buffering: no\r\n");
    client_has(&c, "X-Request-Id: ");
    head = client_await(&c, 0, "\r\n\r\n");
    unchunk(c.in.data + head, &text);
    for (line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *event;
        assert_int_equal(strncmp(line, "data: ", 6), 0);
        assert_false(events.done);
        events.done = strcmp(line + 6, "[DONE]") == 0;
        if (events.done)
            continue;
        event = json_loads(line + 6, 0, NULL);
        if (!event)
            fail_msg("not JSON: %s", line);
        json_array_append_new(events.list, event);
    }
    assert_true(events.done);
    br_buf_free(&text);
    br_buf_clear(&c.in);
    return events;
}

static json_t *choice_of(json_t *answer)
{
    return json_array_get(json_object_get(answer, "choices"), 0);
}

/* The text of choice `index` in all chunks, and its finish_reason. */
static void gather(const struct events *events, int index, struct br_buf *text, const char **finish)
{
    size_t i;
    json_t *event;
    *finish = NULL;
    br_buf_puts(text, "");
    json_array_foreach(events->list, i, event)
    {
        json_t *choice = choice_of(event);
        const char *part = json_string_value(json_object_get(choice, "text"));
        if (!part)
            part = json_string_value(json_object_get(json_object_get(choice, "delta"), "content"));
        if (!choice || json_integer_value(json_object_get(choice, "index")) != index)
            continue;
        assert_null(*finish);
        br_buf_puts(text, part ? part : "");
        *finish = json_string_value(json_object_get(choice, "finish_reason"));
    }
}

static void assert_stream(const struct events *events, int index, const char *want, const char *want_finish)
{
    struct br_buf text = {0};
    const char *finish;
    gather(events, index, &text, &finish);
    assert_string_equal(text.data, want);
    assert_string_equal(finish, want_finish);
    br_buf_free(&text);
}

/* ---- whole answers ---- */

static void test_whole_completion(void **state)
{
    json_t *json, *want;
    (void)state;
    complete("{" ONCE "}");
    br_gateway_cached(net->call, net->specs[0].id, 2);
    spell(0, "he \"said\"\n", 10, BR_END_LENGTH);
    json = whole();
    assert_int_equal(strncmp(json_string_value(json_object_get(json, "id")), "cmpl-", 5), 0);
    json_object_del(json, "id");
    assert_true(json_integer_value(json_object_get(json, "created")) > 1700000000);
    json_object_del(json, "created");
    want =
        json_loads("{\"object\":\"text_completion\",\"model\":\"stories260K\",\"system_fingerprint\":null,\"choices\":["
                   "{\"index\":0,\"text\":\"he \\\"said\\\"\\n\",\"logprobs\":null,\"finish_reason\":\"length\"}],"
                   "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":10,\"total_tokens\":13,"
                   "\"prompt_tokens_details\":{\"cached_tokens\":2}}}",
                   0, NULL);
    assert_true(json_equal(json, want));
    json_decref(json);
    json_decref(want);
}

static void test_whole_chat(void **state)
{
    json_t *json, *want;
    (void)state;
    begin("/v1/chat/completions", "{\"model\":\"tiny-qwen2\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    net_text(net, 0, "hello", BR_END_NONE);
    net_tokens(net, 0, (int32_t[]){2047}, 1, BR_END_STOP); /* <|im_end|> */
    json = whole();
    want = json_loads("{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hello\",\"refusal\":null},"
                      "\"logprobs\":null,\"finish_reason\":\"stop\"}",
                      0, NULL);
    assert_true(json_equal(choice_of(json), want));
    assert_string_equal(json_string_value(json_object_get(json, "object")), "chat.completion");
    json_decref(json);
    json_decref(want);
}

static void test_choices_of_two_prompts(void **state)
{
    json_t *json, *choices, *usage;
    (void)state;
    complete("{\"model\":\"stories260K\",\"prompt\":[[1,5],[1,6,7]],\"n\":2,\"echo\":true}");
    assert_int_equal(net->n_specs, 4);
    for (uint32_t i = 4; i-- > 0;) { /* the last is done first */
        br_gateway_cached(net->call, net->specs[i].id, i == 0 || i == 2 ? i : 1);
        spell(i, &"abcd"[i], 1, BR_END_LENGTH);
    }
    json = whole();
    choices = json_object_get(json, "choices");
    assert_int_equal(json_array_size(choices), 4);
    for (int i = 0; i < 4; i++) {
        const char *text = json_string_value(json_object_get(json_array_get(choices, i), "text"));
        assert_int_equal(json_integer_value(json_object_get(json_array_get(choices, i), "index")), i);
        assert_int_equal(text[strlen(text) - 1], 'a' + i);
    }
    usage = json_object_get(json, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")), 5); /* each prompt once */
    assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), 4);
    usage = json_object_get(usage, "prompt_tokens_details"); /* of each prompt's first choice */
    assert_int_equal(json_integer_value(json_object_get(usage, "cached_tokens")), 2);
    json_decref(json);
}

static void test_echo(void **state)
{
    json_t *json;
    struct events events;
    (void)state;
    complete("{\"model\":\"stories260K\",\"prompt\":\"Once\",\"echo\":true}");
    net_tokens(net, 0, (int32_t[]){261}, 1, BR_END_LENGTH); /* "▁a": its space counts */
    json = whole();
    assert_string_equal(json_string_value(json_object_get(choice_of(json), "text")), "Once a");
    json_decref(json);
    br_buf_clear(&c.in);
    complete("{\"model\":\"stories260K\",\"prompt\":\"Once\",\"echo\":true,\"stream\":true}");
    net_tokens(net, 0, (int32_t[]){261}, 1, BR_END_LENGTH);
    events = stream();
    assert_stream(&events, 0, "Once a", "length");
    json_decref(events.list);
}

static void test_failures(void **state)
{
    struct events events;
    json_t *error;
    (void)state;
    complete("{" ONCE ",\"n\":2}");
    spell(0, "fine", 4, BR_END_STOP_TEXT);
    net_tokens(net, 1, NULL, 0, BR_END_FAILED);
    client_answer(&c, 500);
    client_has(&c, "\"message\":\"the device died\",\"type\":\"server_error\"");
    br_buf_clear(&c.in);
    complete("{" ONCE ",\"stream\":true}");
    spell(0, "so far", 6, BR_END_NONE);
    net_tokens(net, 0, NULL, 0, BR_END_FAILED);
    events = stream();
    error = json_object_get(json_array_get(events.list, json_array_size(events.list) - 1), "error");
    assert_string_equal(json_string_value(json_object_get(error, "message")), "the device died");
    json_decref(events.list);
}

/* ---- streams ---- */

static void test_chat_stream(void **state)
{
    struct events events;
    json_t *first, *last, *want;
    size_t n;
    (void)state;
    begin("/v1/chat/completions",
          "{\"model\":\"tiny-qwen2\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true}");
    client_await(&c, 0, "\"role\":\"assistant\""); /* before the first token */
    net_text(net, 0, "hello ", BR_END_NONE);
    net_text(net, 0, "world", BR_END_NONE);
    net_tokens(net, 0, (int32_t[]){2047}, 1, BR_END_STOP);
    events = stream();
    n = json_array_size(events.list);
    assert_int_equal(n, 4);
    first = json_array_get(events.list, 0);
    last = json_array_get(events.list, n - 1);
    assert_string_equal(json_string_value(json_object_get(first, "object")), "chat.completion.chunk");
    want = json_loads("{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                      "\"finish_reason\":null}",
                      0, NULL);
    assert_true(json_equal(choice_of(first), want));
    json_decref(want);
    want = json_loads("{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}", 0, NULL);
    assert_true(json_equal(choice_of(last), want));
    json_decref(want);
    assert_null(json_object_get(last, "usage"));
    for (size_t i = 1; i < n; i++)
        assert_true(json_equal(json_object_get(json_array_get(events.list, i), "id"), json_object_get(first, "id")));
    assert_stream(&events, 0, "hello world", "stop");
    json_decref(events.list);
}

static void test_include_usage(void **state)
{
    struct events events;
    json_t *last, *want;
    size_t n;
    (void)state;
    complete("{" ONCE ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    br_gateway_cached(net->call, net->specs[0].id, 1);
    spell(0, "abc", 3, BR_END_LENGTH);
    events = stream();
    n = json_array_size(events.list);
    for (size_t i = 0; i + 1 < n; i++)
        assert_true(json_is_null(json_object_get(json_array_get(events.list, i), "usage")));
    last = json_array_get(events.list, n - 1);
    assert_int_equal(json_array_size(json_object_get(last, "choices")), 0);
    want = json_loads("{\"prompt_tokens\":3,\"completion_tokens\":3,\"total_tokens\":6,"
                      "\"prompt_tokens_details\":{\"cached_tokens\":1}}",
                      0, NULL);
    assert_true(json_equal(json_object_get(last, "usage"), want));
    json_decref(want);
    json_decref(events.list);
}

static void test_three_choices_interleaved(void **state)
{
    struct events events;
    (void)state;
    complete("{" ONCE ",\"n\":3,\"stream\":true}");
    for (int k = 0; k < 3; k++)
        for (uint32_t i = 0; i < 3; i++)
            spell(i, &"abcdefghi"[3 * i + (uint32_t)k], 1, k == 2 && i != 1 ? BR_END_LENGTH : BR_END_NONE);
    net_tokens(net, 1, NULL, 0, BR_END_STOP);
    events = stream();
    assert_stream(&events, 0, "abc", "length");
    assert_stream(&events, 1, "def", "stop");
    assert_stream(&events, 2, "ghi", "length");
    json_decref(events.list);
}

static void test_characters_are_never_cut(void **state)
{
    static const char text[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z"; /* a é € 😀 z */
    struct events events;
    (void)state;
    complete("{" ONCE ",\"stream\":true}");
    spell(0, text, strlen(text), BR_END_LENGTH);
    events = stream(); /* jansson refuses ill-formed UTF-8 */
    assert_stream(&events, 0, text, "length");
    assert_int_equal(json_array_size(events.list), 5 + 1);
    json_decref(events.list);
    complete("{" ONCE ",\"stream\":true}");
    spell(0, text, 2, BR_END_LENGTH); /* the end cuts é */
    events = stream();
    assert_stream(&events, 0, "a\xEF\xBF\xBD", "length");
    json_decref(events.list);
}

static void test_stop_strings_are_held_back(void **state)
{
    struct events events;
    (void)state;
    complete("{" ONCE ",\"stream\":true,\"stop\":[\"END\",\"ENT\"]}");
    spell(0, "one EN", 6, BR_END_NONE);
    client_await(&c, 0, "\"text\":\" \"");
    client_has_not(&c, "\"text\":\"E");
    spell(0, "E two EN", 8, BR_END_NONE); /* EN was no stop string that time */
    client_await(&c, 0, "\"text\":\"o\"");
    spell(0, "D", 1, BR_END_STOP_TEXT);
    events = stream();
    assert_stream(&events, 0, "one ENE two ", "stop");
    json_decref(events.list);
    complete("{" ONCE ",\"stream\":true,\"stop\":\"END\"}");
    spell(0, "one EN", 6, BR_END_LENGTH); /* what was held goes out at the end */
    events = stream();
    assert_stream(&events, 0, "one EN", "length");
    json_decref(events.list);
}

static void test_stop_strings_in_whole_answers(void **state)
{
    json_t *json;
    (void)state;
    complete("{" ONCE ",\"stop\":\"END\"}");
    spell(0, "one END", 7, BR_END_STOP_TEXT);
    json = whole();
    assert_string_equal(json_string_value(json_object_get(choice_of(json), "text")), "one ");
    json_decref(json);
    br_buf_clear(&c.in);
    complete("{" ONCE ",\"stop\":\"END\",\"include_stop_str_in_output\":true}");
    spell(0, "one END", 7, BR_END_STOP_TEXT);
    json = whole();
    assert_string_equal(json_string_value(json_object_get(choice_of(json), "text")), "one END");
    json_decref(json);
}

static void test_special_tokens(void **state)
{
    json_t *json;
    (void)state;
    complete("{\"model\":\"tiny-qwen2\",\"prompt\":[5],\"skip_special_tokens\":false,\"stop_token_ids\":[7]}");
    net_tokens(net, 0, (int32_t[]){2046, 40, 7}, 3, BR_END_STOP); /* 7 stops: its text is left out */
    json = whole();
    assert_string_equal(json_string_value(json_object_get(choice_of(json), "text")), "<|im_start|>I");
    json_decref(json);
    br_buf_clear(&c.in);
    complete("{\"model\":\"tiny-qwen2\",\"prompt\":[5]}");
    net_tokens(net, 0, (int32_t[]){2046, 40}, 2, BR_END_LENGTH);
    json = whole();
    assert_string_equal(json_string_value(json_object_get(choice_of(json), "text")), "I");
    json_decref(json);
}

/* ---- log probabilities ---- */

static const struct br_token two_tokens[] = {
    {.id = 3 + 'a', .logprob = -0.5f, .n_top = 2, .top_id = {3 + 'a', 3 + 'b'}, .top_logprob = {-0.5f, -1.25f}},
    {.id = 3 + 0xC3, .logprob = -2, .n_top = 2, .top_id = {3 + 'c', 3 + 'd'}, .top_logprob = {-0.25f, -INFINITY}},
};

static void test_chat_logprobs(void **state)
{
    json_t *json, *want;
    (void)state;
    net->models[1].has_chat = true; /* ChatML; its own files have no template */
    begin("/v1/chat/completions", "{\"model\":\"stories260K\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                                  "\"logprobs\":true,\"top_logprobs\":1}");
    br_gateway_tokens(net->call, net->specs[0].id, two_tokens, 2, BR_END_LENGTH, NULL);
    json = whole();
    want = json_loads("{\"content\":[{\"token\":\"a\",\"bytes\":[97],\"logprob\":-0.5,\"top_logprobs\":["
                      "{\"token\":\"a\",\"bytes\":[97],\"logprob\":-0.5}]},"
                      "{\"token\":\"\\ufffd\",\"bytes\":[195],\"logprob\":-2,\"top_logprobs\":["
                      "{\"token\":\"c\",\"bytes\":[99],\"logprob\":-0.25}]}],\"refusal\":null}",
                      JSON_DECODE_INT_AS_REAL, NULL);
    json_decref(json);
    json = json_loads(c.in.data, JSON_DECODE_INT_AS_REAL, NULL);
    assert_true(json_equal(json_object_get(choice_of(json), "logprobs"), want));
    json_decref(json);
    json_decref(want);
}

static void test_completion_logprobs(void **state)
{
    json_t *json, *want;
    (void)state;
    complete("{" ONCE ",\"logprobs\":2}");
    br_gateway_tokens(net->call, net->specs[0].id, two_tokens, 2, BR_END_LENGTH, NULL);
    client_answer(&c, 200);
    json = json_loads(c.in.data, JSON_DECODE_INT_AS_REAL, NULL);
    want = json_loads("{\"tokens\":[\"a\",\"bytes:\\\\xc3\"],\"token_logprobs\":[-0.5,-2],\"top_logprobs\":["
                      "{\"a\":-0.5,\"b\":-1.25},{\"c\":-0.25,\"d\":-9999,\"bytes:\\\\xc3\":-2}],\"text_offset\":[0,1]}",
                      JSON_DECODE_INT_AS_REAL, NULL);
    assert_non_null(want);
    assert_true(json_equal(json_object_get(choice_of(json), "logprobs"), want));
    json_decref(json);
    json_decref(want);
}

/* Every token's log probability comes once, also of those whose text was held back. */
static void test_streamed_logprobs(void **state)
{
    struct events events;
    size_t i, k, n = 0;
    json_t *event;
    (void)state;
    complete("{" ONCE ",\"logprobs\":0,\"stream\":true,\"stop\":\"END\"}");
    spell(0, "a \xC3\xA9 END", 8, BR_END_STOP_TEXT);
    events = stream();
    json_array_foreach(events.list, i, event)
    {
        json_t *tokens = json_object_get(json_object_get(choice_of(event), "logprobs"), "tokens");
        json_t *offsets = json_object_get(json_object_get(choice_of(event), "logprobs"), "text_offset");
        assert_int_equal(json_array_size(tokens), json_array_size(offsets));
        for (k = 0; k < json_array_size(tokens); k++)
            n++;
    }
    assert_int_equal(n, 8);
    assert_stream(&events, 0, "a \xC3\xA9 ", "stop");
    json_decref(events.list);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_whole_completion),
        T(test_whole_chat),
        T(test_choices_of_two_prompts),
        T(test_echo),
        T(test_failures),
        T(test_chat_stream),
        T(test_include_usage),
        T(test_three_choices_interleaved),
        T(test_characters_are_never_cut),
        T(test_stop_strings_are_held_back),
        T(test_stop_strings_in_whole_answers),
        T(test_special_tokens),
        T(test_chat_logprobs),
        T(test_completion_logprobs),
        T(test_streamed_logprobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
