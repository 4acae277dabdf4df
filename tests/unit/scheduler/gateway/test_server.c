/* The gateway as clients meet it on the wire: errors, limits, time-outs, pipelining, clients that leave. */
#include <malloc.h>
#include <sys/socket.h>

#include "net.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define CHAT "{\"model\":\"tiny-qwen2\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
#define STREAM "{\"model\":\"tiny-qwen2\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true}"
#define COMPLETE "{\"model\":\"tiny-qwen2\",\"prompt\":[5,6,7]}"

#define COMPLETE_STREAM "{\"model\":\"tiny-qwen2\",\"prompt\":[5,6,7],\"stream\":true}"

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
    if (c.fd >= 0)
        client_close(&c);
    net_close(net);
    return 0;
}

static void reopen(const struct br_gateway_config *config)
{
    client_close(&c);
    net_close(net);
    net = net_open(config);
    client_open(&c, net);
}

/* ---- endpoints and errors ---- */

static void test_endpoints(void **state)
{
    static const struct {
        const char *request;
        int status;
        const char *text;
    } cases[] = {
        {GET("/health"), 200, "{\"status\":\"ok\"}"},
        {GET("/health/ready"), 200, "{\"status\":\"ready\"}"},
        {GET("/running"), 200, "{\"running\":[]}"},
        {GET("/v1/messages"), 405, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\""},
        {GET("/v1/models"), 200,
         "{\"object\":\"list\",\"data\":[{\"id\":\"tiny-qwen2\",\"object\":\"model\",\"created\":1700000000"},
        {GET("/v1/models/stories260K?x=1"), 200, "{\"id\":\"stories260K\""},
        {GET("/v1/models/tiny%2Dqwen2"), 200, "\"max_model_len\":512"},
        {GET("/v1/models/nobody"), 404, "\"code\":\"model_not_found\""},
        {GET("/"), 404, "\"type\":\"not_found_error\""},
        {GET("/v1/modelsx"), 404, "Unknown path"},
        {GET("/v1/chat/completions"), 405, "\"code\":\"method_not_allowed\""},
        {"DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 405, "DELETE"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        client_puts(&c, cases[i].request);
        client_answer(&c, cases[i].status);
        client_has(&c, cases[i].text);
        br_buf_clear(&c.in);
    }
}

static void test_allow_options_head(void **state)
{
    (void)state;
    client_puts(&c, "PUT /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab" GET("/health"));
    client_await(&c, client_await(&c, 0, "HTTP/1.1 405 "), "Allow: POST, OPTIONS\r\n");
    client_puts(&c, "OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
    client_await(&c, client_await(&c, 0, "HTTP/1.1 204 "), "Allow: GET, HEAD, OPTIONS\r\n");
    br_buf_clear(&c.in);
    client_puts(&c, "HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n" GET("/v1/models/stories260K"));
    client_await(&c, client_await(&c, 0, "Content-Length: 15\r\n\r\nHTTP/1.1 200"), "max_model_len");
}

static void test_sick(void **state)
{
    (void)state;
    net->sick = "Redis does not answer";
    client_puts(&c, GET("/health")); /* alive all the same */
    client_answer(&c, 200);
    br_buf_clear(&c.in);
    client_puts(&c, GET("/health/ready"));
    client_await(&c, client_await(&c, client_await(&c, 0, "HTTP/1.1 503 "), "Retry-After: 1\r\n"),
                 "Redis does not answer");
}

static void test_refusals(void **state)
{
    (void)state;
    client_post(&c, "/v1/chat/completions", "{nonsense");
    client_answer(&c, 400);
    client_has(&c, "\"type\":\"invalid_request_error\"");
    br_buf_clear(&c.in);
    client_post(&c, "/v1/completions", "{\"model\":\"nobody\",\"prompt\":\"a\"}");
    client_answer(&c, 404);
    client_has(&c, "{\"error\":{\"message\":\"The model 'nobody' does not exist.\",\"type\":\"not_found_error\","
                   "\"param\":\"model\",\"code\":\"model_not_found\"}}");
    br_buf_clear(&c.in);
    client_post(&c, "/v1/completions", "{\"model\":\"tiny-qwen2\",\"prompt\":\"a\",\"max_tokens\":4000}");
    client_answer(&c, 400);
    client_has(&c, "\"code\":\"context_length_exceeded\"");
    br_buf_clear(&c.in);
    net->trouble = "no device has it";
    client_post(&c, "/v1/chat/completions", CHAT);
    client_await(&c, 0, "Retry-After: 5\r\n");
    client_answer(&c, 503);
    client_has(&c, "no device has it");
    assert_int_equal(net->n_submitted, 0);
}

static void test_backend_refuses(void **state)
{
    static const struct {
        int status;
        const char *type, *retry;
    } cases[] = {{429, "rate_limit_error", "Retry-After: 3\r\n"},
                 {503, "service_unavailable", "Retry-After: 3\r\n"},
                 {500, "server_error", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net->refuse = cases[i].status;
        client_post(&c, "/v1/chat/completions", i % 2 ? CHAT : STREAM);
        client_await(&c, client_await(&c, 0, cases[i].retry), "\r\n\r\n");
        client_answer(&c, cases[i].status);
        client_has(&c, cases[i].type);
        client_has(&c, "the queue is full");
        br_buf_clear(&c.in);
    }
}

static void test_slo_headers(void **state)
{
    (void)state;
    client_puts(&c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-SLO-TTFT-ms: 2500\r\nx-slo-tbt-ms: 40\r\n"
                    "X-Request-Id: mine-1\r\nContent-Length: 39\r\n\r\n" COMPLETE);
    assert_int_equal(strlen(COMPLETE), 39);
    net_await_submits(&c, 1);
    assert_float_equal(net->specs[0].ttft_s, 2.5, 1e-9);
    assert_float_equal(net->specs[0].tbt_s, 0.04, 1e-9);
    net_accept(net);
    net_text(net, 0, "ok", BR_END_LENGTH);
    client_await(&c, 0, "X-Request-Id: mine-1\r\n");
    client_answer(&c, 200);
    br_buf_clear(&c.in);
    client_puts(&c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-SLO-TTFT-ms: 2500\r\nx-slo-tbt-ms: 40\r\n"
                    "Content-Length: 58\r\n\r\n{\"model\":\"tiny-qwen2\",\"prompt\":[5,6,7],\"slo\":{\"ttft\":1.5}}");
    net_await_submits(&c, 2);
    assert_float_equal(net->specs[0].ttft_s, 1.5, 1e-9); /* the body's word counts more */
    assert_float_equal(net->specs[0].tbt_s, 0.04, 1e-9);
    net_accept(net);
    net_text(net, 0, "ok", BR_END_LENGTH);
    client_answer(&c, 200);
    br_buf_clear(&c.in);
    client_puts(&c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-SLO-TTFT-ms: soon\r\nContent-Length: 0\r\n\r\n");
    client_answer(&c, 400);
    client_has(&c, "\"param\":\"x-slo-ttft-ms\"");
}

/* ---- limits ---- */

static void test_limits_close_the_connection(void **state)
{
    static const struct {
        const char *head;
        int status;
    } cases[] = {
        {"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n", 413},
        {"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n", 415},
        {"nonsense\r\n\r\n", 400},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        client_puts(&c, cases[i].head);
        client_answer(&c, cases[i].status);
        client_await_eof(&c);
        client_close(&c);
        client_open(&c, net);
    }
}

/* The answer must reach a client that is still sending: no reset before it has read. */
static void test_too_large_bodies_get_their_answer(void **state)
{
    static char kilobyte[1025];
    (void)state;
    memset(kilobyte, 'a', 1024);
    client_puts(&c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 1400 && !c.eof; i++) {
        client_puts(&c, "400\r\n");
        client_puts(&c, kilobyte);
        client_puts(&c, "\r\n");
    }
    client_answer(&c, 413);
}

static void test_huge_header(void **state)
{
    (void)state;
    client_puts(&c, "GET /health HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 100; i++)
        client_puts(&c, "X-Filler: 012345678901234567890123456789\r\n");
    client_answer(&c, 431);
    client_await_eof(&c);
}

static void test_too_many_connections(void **state)
{
    struct client more[8];
    (void)state;
    for (int i = 0; i < 7; i++) {
        client_open(&more[i], net);
        client_puts(&more[i], GET("/health"));
        client_answer(&more[i], 200);
    }
    client_open(&more[7], net);
    client_await(&more[7], 0, "Retry-After: 1\r\n");
    client_answer(&more[7], 503);
    client_await_eof(&more[7]);
    for (int i = 0; i < 8; i++)
        client_close(&more[i]);
    client_puts(&c, GET("/health")); /* places are free again */
    client_answer(&c, 200);
    client_open(&more[0], net);
    client_puts(&more[0], GET("/health"));
    client_answer(&more[0], 200);
    client_close(&more[0]);
}

static void test_slow_requests_time_out(void **state)
{
    struct br_gateway_config config = net_config;
    (void)state;
    config.header_timeout_ms = 60;
    reopen(&config);
    client_puts(&c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{");
    client_answer(&c, 408);
    client_await_eof(&c);
    client_close(&c);
    client_open(&c, net); /* says nothing at all: closed without a word */
    client_await_eof(&c);
    assert_int_equal(c.in.len, 0);
}

static void test_idle_connections_close(void **state)
{
    struct br_gateway_config config = net_config;
    (void)state;
    config.idle_timeout_ms = 60;
    reopen(&config);
    client_puts(&c, GET("/health"));
    client_answer(&c, 200);
    br_buf_clear(&c.in);
    client_await_eof(&c);
    assert_int_equal(c.in.len, 0);
}

/* ---- ways to send ---- */

static void test_byte_by_byte(void **state)
{
    static const char request[] = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 39\r\n\r\n" COMPLETE;
    (void)state;
    net->echo = true;
    for (size_t i = 0; i + 1 < sizeof request; i++) {
        client_send(&c, request + i, 1);
        uv_run(&net->loop, UV_RUN_NOWAIT);
    }
    client_answer(&c, 200);
    client_has(&c, "\"completion_tokens\":4");
}

static void test_chunked_request(void **state)
{
    (void)state;
    net->echo = true;
    client_puts(&c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "7\r\n{\"model\r\n20\r\n\":\"tiny-qwen2\",\"prompt\":[5,6,7]}\r\n0\r\n\r\n");
    client_answer(&c, 200);
    client_has(&c, "\"prompt_tokens\":3");
}

static void test_expect_continue(void **state)
{
    (void)state;
    net->echo = true;
    client_puts(&c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 39\r\n\r\n");
    client_await(&c, 0, "HTTP/1.1 100 Continue\r\n\r\n");
    br_buf_clear(&c.in);
    client_puts(&c, COMPLETE);
    client_answer(&c, 200);
}

static void test_pipelining_keeps_order(void **state)
{
    size_t at;
    (void)state;
    client_post(&c, "/v1/completions", COMPLETE);
    client_puts(&c, GET("/health") GET("/v1/models"));
    client_post(&c, "/v1/completions", COMPLETE);
    net_await_submits(&c, 1);
    for (int i = 0; i < 20; i++)
        client_turn(&c);
    assert_int_equal(c.in.len, 0); /* the first is not answered: the others wait */
    net_accept(net);
    net_text(net, 0, "first", BR_END_LENGTH);
    at = client_await(&c, 0, "\"text\":\"first\"");
    at = client_await(&c, at, "{\"status\":\"ok\"}");
    at = client_await(&c, at, "\"object\":\"list\"");
    net_await_submits(&c, 2);
    net_accept(net);
    net_text(net, 0, "last", BR_END_LENGTH);
    client_await(&c, at, "\"text\":\"last\"");
}

static void test_a_thousand_on_one_connection(void **state)
{
    size_t held = 0;
    (void)state;
    net->echo = true;
    for (int i = 0; i < 1000; i++) {
        if (i % 3 == 2)
            client_puts(&c, GET("/health"));
        else
            client_post(&c, "/v1/completions", i % 2 ? COMPLETE_STREAM : COMPLETE);
        client_await(&c, 0, i % 3 != 2 && i % 2 ? "0\r\n\r\n" : "}");
        br_buf_clear(&c.in);
        if (i == 100)
            held = mallinfo2().uordblks;
    }
    assert_true(mallinfo2().uordblks <= held + 4096);
    assert_int_equal(br_gateway_open_calls(net->gateway), 0);
}

static void test_a_thousand_pipelined(void **state)
{
    size_t at = 0;
    (void)state;
    net->echo = true;
    for (int i = 0; i < 1000; i++)
        client_post(&c, "/v1/completions", COMPLETE);
    for (int i = 0; i < 1000; i++)
        at = client_await(&c, at, "\"total_tokens\":7}}");
    assert_int_equal(net->n_submitted, 1000);
}

static void test_http_1_0(void **state)
{
    (void)state;
    net->echo = true;
    client_puts(&c, "POST /v1/completions HTTP/1.0\r\nContent-Length: 53\r\n\r\n"
                    "{\"model\":\"tiny-qwen2\",\"prompt\":[5,6,7],\"stream\":true}");
    client_await_eof(&c);
    client_has(&c, "Connection: close\r\n");
    client_has(&c, "\r\n\r\ndata: {");
    client_has(&c, "data: [DONE]\n\n");
    client_has_not(&c, "chunked");
}

static void test_long_bodies_go_through_the_thread_pool(void **state)
{
    struct br_buf body = {0};
    (void)state;
    net->echo = true;
    br_buf_printf(&body, "{\"model\":\"tiny-qwen2\",\"prompt\":\"a\",\"user\":\"%040000d\"}", 7);
    client_post(&c, "/v1/completions", body.data);
    client_answer(&c, 200);
    br_buf_clear(&body);
    br_buf_clear(&c.in);
    br_buf_printf(&body, "{\"model\":\"tiny-qwen2\",\"prompt\":\"%040000d\"}", 7);
    client_post(&c, "/v1/completions", body.data);
    client_answer(&c, 400);
    client_has(&c, "context_length_exceeded");
    br_buf_clear(&c.in);
    client_post(&c, "/v1/completions", body.data); /* and the client leaves meanwhile */
    for (int i = 0; i < 3; i++)
        uv_run(&net->loop, UV_RUN_NOWAIT);
    client_reset(&c);
    br_buf_free(&body);
}

/* ---- clients that leave ---- */

static void test_end_of_file_cancels(void **state)
{
    (void)state;
    client_post(&c, "/v1/chat/completions", CHAT);
    net_await_submits(&c, 1);
    net_accept(net);
    shutdown(c.fd, SHUT_WR);
    net_await_cancels(&c, 1);
    assert_true(net->cancelled[0] == net->specs[0].id);
    client_await_eof(&c);
}

static void test_reset_in_mid_stream_cancels_what_is_open(void **state)
{
    (void)state;
    client_post(&c, "/v1/completions", "{\"model\":\"tiny-qwen2\",\"prompt\":[5],\"n\":3,\"stream\":true}");
    net_await_submits(&c, 1);
    net_accept(net);
    net_text(net, 1, "done", BR_END_LENGTH);
    client_await(&c, 0, "done");
    client_reset(&c);
    net_await_cancels(&c, 2);
    assert_true(net->cancelled[0] == net->specs[0].id);
    assert_true(net->cancelled[1] == net->specs[2].id);
}

static void test_leaving_before_acceptance(void **state)
{
    (void)state;
    client_post(&c, "/v1/chat/completions", STREAM);
    net_await_submits(&c, 1);
    client_reset(&c);
    net_await_cancels(&c, 1);
}

static void test_half_closed_after_a_simple_request(void **state)
{
    (void)state;
    client_puts(&c, GET("/health"));
    shutdown(c.fd, SHUT_WR);
    client_answer(&c, 200); /* nothing was owed when the end came */
    client_await_eof(&c);
}

/* The texts of all chunks, without a quote in any. */
static void texts_join(const char *stream, struct br_buf *out)
{
    static const char key[] = "\"text\":\"";
    for (const char *at = strstr(stream, key); at; at = strstr(at, key)) {
        at += sizeof key - 1;
        br_buf_add(out, at, strcspn(at, "\""));
    }
}

/* Of what a client does not read ids are kept: the text that it gets in the end is whole and in order, both choices end
 * although they ended while nobody read, and the unsent bytes were never many. */
static void test_readers_that_do_not_read(void **state)
{
    enum { ROUNDS = 20000 };
    struct br_buf text = {0};
    char word[16];
    (void)state;
    client_post(&c, "/v1/completions",
                "{\"model\":\"stories260K\",\"prompt\":[1,5],\"n\":2,\"stream\":true,\"max_tokens\":400}");
    net_await_submits(&c, 1);
    net_accept(net);
    for (int i = 0; i < ROUNDS; i++) {
        int32_t ids[8];
        int n = snprintf(word, sizeof word, "%06d ", i);
        for (int k = 0; k < n; k++)
            ids[k] = 3 + word[k]; /* a token a byte */
        net_tokens(net, 0, ids, (uint32_t)n, i + 1 == ROUNDS ? BR_END_LENGTH : BR_END_NONE);
        uv_run(&net->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(net->n_paused, 2); /* both; nobody listens to that here */
    net_tokens(net, 1, NULL, 0, BR_END_STOP);
    assert_int_equal(net->n_cancelled, 0);
    client_await(&c, 0, "data: [DONE]");
    texts_join(c.in.data, &text);
    assert_int_equal(text.len, ROUNDS * 7);
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(word, sizeof word, "%06d ", i);
        assert_memory_equal(text.data + (size_t)i * 7, word, 7);
    }
    br_buf_free(&text);
    client_has(&c, "\"finish_reason\":\"length\"");
    client_has(&c, "\"finish_reason\":\"stop\"");
    assert_int_equal(net->n_resumed, 0); /* there was nothing left to go on */
}

static void test_readers_that_stall(void **state)
{
    struct br_gateway_config config = net_config;
    int small = 4096;
    (void)state;
    config.idle_timeout_ms = 100;
    config.max_out_bytes = 1u << 30;
    reopen(&config);
    setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    client_post(&c, "/v1/chat/completions", STREAM);
    net_await_submits(&c, 1);
    net_accept(net);
    for (int i = 0; i < 2000; i++) {
        for (int k = 0; k < 10; k++)
            net_text(net, 0, "0123456789 0123456789", BR_END_NONE);
        uv_run(&net->loop, UV_RUN_NOWAIT);
        if (net->n_cancelled)
            break;
    }
    while (net->n_cancelled == 0)
        uv_run(&net->loop, UV_RUN_ONCE);
    assert_int_equal(net->n_cancelled, 1);
}

/* Above the limit tokens are kept; above the limit of those its sequence is to pause, once; when the client has read it
 * goes on, once. */
static void test_slow_readers_pause(void **state)
{
    struct br_gateway_config config = net_config;
    (void)state;
    config.slow_out_bytes = 64 << 10;
    config.slow_tokens = 100;
    config.max_out_bytes = 1u << 30;
    reopen(&config);
    client_post(&c, "/v1/chat/completions", STREAM);
    net_await_submits(&c, 1);
    net_accept(net);
    for (int i = 0; i < 100000 && net->n_paused == 0; i++) { /* until the kernel takes no more */
        for (int k = 0; k < 10; k++)
            net_text(net, 0, "0123456789 0123456789", BR_END_NONE);
        uv_run(&net->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(net->n_paused, 1);
    assert_true(net->paced == net->specs[0].id);
    net_text(net, 0, "0123456789 0123456789", BR_END_NONE); /* on its way when it was paused */
    uv_run(&net->loop, UV_RUN_NOWAIT);
    assert_int_equal(net->n_paused, 1);
    while (net->n_resumed == 0 && !c.eof)
        client_turn(&c); /* reads */
    assert_int_equal(net->n_resumed, 1);
    net_text(net, 0, "the end", BR_END_LENGTH);
    client_await(&c, 0, "data: [DONE]");
    assert_int_equal(net->n_paused, 1);
    assert_int_equal(net->n_cancelled, 0);
}

static void test_silent_streams_are_pinged(void **state)
{
    struct br_gateway_config config = net_config;
    (void)state;
    config.ping_ms = 20;
    reopen(&config);
    client_post(&c, "/v1/chat/completions", STREAM);
    net_await_submits(&c, 1);
    net_accept(net);
    client_await(&c, client_await(&c, 0, ": ping\n\n"), ": ping\n\n");
    net_text(net, 0, "hello", BR_END_LENGTH);
    client_await(&c, 0, "data: [DONE]");
}

/* ---- the end ---- */

static void test_stop_ends_open_calls(void **state)
{
    struct client stream;
    (void)state;
    client_open(&stream, net);
    client_post(&stream, "/v1/chat/completions", STREAM);
    net_await_submits(&stream, 1);
    net_accept(net);
    net_text(net, 0, "begun", BR_END_NONE);
    client_await(&stream, 0, "begun");
    br_gateway_stop(net->gateway);
    client_await_eof(&stream);
    client_has(&stream, "data: {\"error\":{\"message\":\"The server is shutting down.\"");
    client_has(&stream, "data: [DONE]\n\n");
    assert_int_equal(net->n_cancelled, 1);
    client_close(&stream);
    client_await_eof(&c);
    uv_run(&net->loop, UV_RUN_DEFAULT);
    if (br_gateway_start(&net->loop, &net_config, &(struct br_gateway_backend){0}, &net->gateway, &(struct br_err){0}))
        fail(); /* for teardown */
}

/* vllm#24885: what is under way ends well, what is new hears that it has to wait. */
static void test_drain(void **state)
{
    struct client late;
    (void)state;
    client_post(&c, "/v1/chat/completions", CHAT);
    net_await_submits(&c, 1);
    net_accept(net);
    br_gateway_drain(net->gateway, 7);
    for (int i = 0; i < 5; i++)
        client_turn(&c);
    assert_false(c.eof);
    client_open(&late, net); /* is answered, and told when to come back */
    client_post(&late, "/v1/chat/completions", CHAT);
    client_await(&late, client_await(&late, 0, "HTTP/1.1 503 "), "Retry-After: 7\r\n");
    client_answer(&late, 503);
    client_has(&late, "\"code\":\"shutting_down\"");
    client_await_eof(&late);
    client_close(&late);
    client_open(&late, net);
    client_puts(&late, GET("/health/ready"));
    client_answer(&late, 503);
    client_close(&late);
    client_open(&late, net);
    client_puts(&late, GET("/health"));
    client_answer(&late, 200);
    client_close(&late);
    assert_int_equal(net->n_submitted, 1);
    net_text(net, 0, "late but whole", BR_END_STOP);
    client_answer(&c, 200);
    client_await_eof(&c);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_endpoints),
        T(test_allow_options_head),
        T(test_sick),
        T(test_refusals),
        T(test_backend_refuses),
        T(test_slo_headers),
        T(test_limits_close_the_connection),
        T(test_too_large_bodies_get_their_answer),
        T(test_huge_header),
        T(test_too_many_connections),
        T(test_slow_requests_time_out),
        T(test_idle_connections_close),
        T(test_byte_by_byte),
        T(test_chunked_request),
        T(test_expect_continue),
        T(test_pipelining_keeps_order),
        T(test_a_thousand_on_one_connection),
        T(test_a_thousand_pipelined),
        T(test_http_1_0),
        T(test_long_bodies_go_through_the_thread_pool),
        T(test_end_of_file_cancels),
        T(test_reset_in_mid_stream_cancels_what_is_open),
        T(test_leaving_before_acceptance),
        T(test_half_closed_after_a_simple_request),
        T(test_readers_that_do_not_read),
        T(test_readers_that_stall),
        T(test_slow_readers_pause),
        T(test_silent_streams_are_pinged),
        T(test_stop_ends_open_calls),
        T(test_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
