/* HTTP on one connection without a socket: what goes in and what comes out, as RFC 9112 says. */
#include <stdio.h>
#include <string.h>

#include "scheduler/gateway/http.h"
#include "tests/cmocka.h"

static const struct br_http_limits limits = {.max_header_bytes = 1024, .max_body_bytes = 4096};
static bool answer_later;
static int woken;

static void echo_answer(struct br_http *http)
{
    struct br_buf body = {0};
    br_buf_printf(&body, "%s %s [", llhttp_method_name(http->method), http->target.data);
    br_buf_add(&body, http->body.data, http->body.len);
    br_buf_puts(&body, "]");
    br_http_answer(http, 200, "text/plain", "", body.data, body.len);
    br_buf_free(&body);
}

static void on_request(struct br_http *http)
{
    if (!answer_later)
        echo_answer(http);
}

static void on_wake(struct br_http *http)
{
    (void)http;
    woken++;
}

static const struct br_http_events events = {.request = on_request, .wake = on_wake};

static void feed(struct br_http *http, const char *text)
{
    br_http_feed(http, text, strlen(text));
}

static void start(struct br_http *http)
{
    answer_later = false;
    woken = 0;
    br_http_init(http, &limits, &events, NULL);
}

static void assert_has(const struct br_http *http, const char *text)
{
    if (!http->out.data || !strstr(http->out.data, text))
        fail_msg("no '%s' in: %s", text, http->out.data ? http->out.data : "(nothing)");
}

static void assert_has_not(const struct br_http *http, const char *text)
{
    if (http->out.data && strstr(http->out.data, text))
        fail_msg("'%s' in: %s", text, http->out.data);
}

#define GET "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST "POST /b?q HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
#define CHUNKED "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

static void test_whole_and_byte_by_byte(void **state)
{
    const char *text = GET POST CHUNKED "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: v\r\n\r\n" GET;
    struct br_http whole, bytes;
    (void)state;
    start(&whole);
    start(&bytes);
    feed(&whole, text);
    for (const char *p = text; *p; p++)
        br_http_feed(&bytes, p, 1);
    assert_has(&whole, "GET /a []");
    assert_has(&whole, "POST /b?q [hello]");
    assert_has(&whole, "POST /c [abcde]");
    assert_int_equal(whole.out.len, bytes.out.len);
    assert_int_equal(whole.served, 4);
    assert_int_equal(whole.state, BR_HTTP_IDLE);
    assert_int_equal(bytes.state, BR_HTTP_IDLE);
    br_http_free(&whole);
    br_http_free(&bytes);
}

static void test_pipelined_requests_wait_for_the_answer(void **state)
{
    struct br_http http;
    (void)state;
    start(&http);
    answer_later = true;
    feed(&http, POST GET);
    feed(&http, GET);
    assert_int_equal(http.state, BR_HTTP_ANSWER);
    assert_int_equal(http.out.len, 0);
    assert_int_equal(http.pending.len, 2 * strlen(GET));
    echo_answer(&http);
    assert_int_equal(woken, 1);
    br_http_pump(&http);
    assert_int_equal(http.served, 2);
    assert_int_equal(http.pending.len, strlen(GET));
    answer_later = false;
    echo_answer(&http);
    br_http_pump(&http);
    assert_int_equal(http.served, 3);
    assert_int_equal(http.pending.len, 0);
    br_http_free(&http);
}

static void test_pending_input_has_a_bound(void **state)
{
    struct br_http http;
    int fed = 0;
    (void)state;
    start(&http);
    answer_later = true;
    while (!br_http_full(&http) && fed < 100000) {
        feed(&http, GET);
        fed++;
    }
    assert_true(http.pending.len < BR_HTTP_PENDING + 100);
    answer_later = false;
    echo_answer(&http);
    while (http.pending.len > 0) { /* the transport's part: send, then pump */
        br_buf_clear(&http.out);
        br_http_pump(&http);
    }
    assert_int_equal(http.served, fed);
    assert_true(http.pending.cap <= BR_HTTP_KEEP);
    br_http_free(&http);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text, *status, *message;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", "400", "Host"},
        {"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n", "400", "valid HTTP"},
        {"hello\r\n\r\n", "400", "valid HTTP"},
        {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", "505", "HTTP/1.1"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505", "HTTP/1.1"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4097\r\n\r\n", "413", "body"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", "400", "valid HTTP"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "400", "valid HTTP"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "400", "valid HTTP"},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "501", "transfer-encoding"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n", "415", "uncompressed"},
        {"POST / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 5\r\n\r\n", "417", "100-continue"},
        {CHUNKED "zz\r\n", "400", "valid HTTP"},
        {CHUNKED "2000\r\n", "413", "body"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_http http;
        char status[32];
        start(&http);
        feed(&http, cases[i].text);
        for (int k = 0; k < 100 && http.state != BR_HTTP_CLOSING; k++)
            feed(&http,
                 "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123");
        snprintf(status, sizeof status, "HTTP/1.1 %s ", cases[i].status);
        assert_has(&http, status);
        assert_has(&http, cases[i].message);
        assert_has(&http, "Connection: close");
        assert_has(&http, "\"type\":");
        assert_int_equal(http.state, BR_HTTP_CLOSING);
        br_http_free(&http);
    }
}

/* One line that never ends, many short lines, blanks, a trailer, an extension: all count. */
static void test_heads_have_a_bound(void **state)
{
    static const struct {
        const char *begin, *more, *status;
    } cases[] = {
        {"GET /", "aaaaaaaaaaaaaaaaaaaa", "414"},
        {"GET / HTTP/1.1\r\nX: ", "aaaaaaaaaaaaaaaaaaaa", "431"},
        {"GET / HTTP/1.1\r\nX: ", "                    ", "431"},
        {"GET / HTTP/1.1\r\n", "X: y\r\n", "431"},
        {CHUNKED "1\r\na\r\n0\r\n", "X: y\r\n", "431"},
        {CHUNKED "1;", "aaaaaaaaaaaaaaaaaaaa", "431"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_http http;
        char status[32];
        size_t n = strlen(cases[i].begin);
        start(&http);
        feed(&http, cases[i].begin);
        while (http.state != BR_HTTP_CLOSING && n < 8192) {
            feed(&http, cases[i].more);
            n += strlen(cases[i].more);
        }
        snprintf(status, sizeof status, "HTTP/1.1 %s ", cases[i].status);
        assert_has(&http, status);
        assert_true(n < 2048);
        br_http_free(&http);
    }
}

static void test_chunked_body_is_bounded_while_reading(void **state)
{
    struct br_http http;
    (void)state;
    start(&http);
    feed(&http, CHUNKED);
    for (int i = 0; i < 256; i++) {
        feed(&http, "10\r\n0123456789abcdef\r\n");
        assert_int_equal(http.state, BR_HTTP_BODY);
    }
    feed(&http, "1\r\n0\r\n");
    assert_has(&http, "HTTP/1.1 413 ");
    br_http_free(&http);
}

static void test_expect_continue(void **state)
{
    struct br_http http;
    (void)state;
    start(&http);
    feed(&http, "POST /b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_string_equal(http.out.data, "HTTP/1.1 100 Continue\r\n\r\n");
    feed(&http, "ok");
    assert_has(&http, "POST /b [ok]");
    br_http_free(&http);
}

static void test_closing(void **state)
{
    static const struct {
        const char *text;
        bool closes;
    } cases[] = {
        {GET, false},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" GET, true},
        {"GET / HTTP/1.0\r\n\r\n" GET, true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_http http;
        start(&http);
        feed(&http, cases[i].text);
        assert_int_equal(http.served, 1); /* what follows is not read */
        assert_int_equal(http.state, cases[i].closes ? BR_HTTP_CLOSING : BR_HTTP_IDLE);
        (cases[i].closes ? assert_has : assert_has_not)(&http, "Connection: close");
        br_http_free(&http);
    }
}

static void test_head_has_no_body(void **state)
{
    struct br_http http;
    (void)state;
    start(&http);
    feed(&http, "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_has(&http, "Content-Length: 10\r\n\r\n"); /* "HEAD /a []" */
    assert_has_not(&http, "HEAD /a");
    br_http_free(&http);
}

static void test_upgrades_are_ignored(void **state)
{
    struct br_http http;
    (void)state;
    start(&http);
    feed(&http, "GET /u HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" GET);
    assert_has(&http, "GET /u []");
    assert_int_equal(http.served, 2);
    br_http_free(&http);
}

static void test_headers_are_kept_and_cut(void **state)
{
    struct br_http http;
    char text[600];
    (void)state;
    start(&http);
    answer_later = true;
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nhOsT: x\r\nX-Request-ID: %0200d\r\nX-SLO-TTFT-ms: 5\r\n\r\n", 7);
    feed(&http, text);
    assert_int_equal(strlen(http.header[BR_HEADER_REQUEST_ID]), BR_HTTP_HEADER_VALUE - 1);
    assert_string_equal(http.header[BR_HEADER_SLO_TTFT], "5");
    echo_answer(&http);
    assert_string_equal(http.header[BR_HEADER_SLO_TTFT], "");
    br_http_free(&http);
}

static void test_streams(void **state)
{
    struct br_http http;
    (void)state;
    start(&http);
    answer_later = true;
    feed(&http, GET);
    br_http_stream_begin(&http, "text/event-stream", "X-A: b\r\n");
    br_http_stream_write(&http, "hello, world!", 13);
    br_http_stream_write(&http, "", 0);
    br_http_stream_end(&http);
    assert_has(&http, "Transfer-Encoding: chunked\r\n\r\nd\r\nhello, world!\r\n0\r\n\r\n");
    assert_int_equal(http.state, BR_HTTP_IDLE);
    br_buf_clear(&http.out);
    feed(&http, "GET / HTTP/1.0\r\n\r\n");
    br_http_stream_begin(&http, "text/event-stream", "");
    br_http_stream_write(&http, "hello", 5);
    br_http_stream_end(&http);
    assert_has(&http, "Connection: close\r\n\r\nhello");
    assert_has_not(&http, "chunked");
    assert_int_equal(http.state, BR_HTTP_CLOSING);
    br_http_free(&http);
}

static void test_draining_closes_after_the_answer(void **state)
{
    struct br_http http;
    (void)state;
    start(&http);
    answer_later = true;
    feed(&http, GET GET);
    http.draining = true;
    echo_answer(&http);
    assert_has(&http, "Connection: close");
    assert_int_equal(http.state, BR_HTTP_CLOSING);
    br_http_free(&http);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_and_byte_by_byte),
        cmocka_unit_test(test_pipelined_requests_wait_for_the_answer),
        cmocka_unit_test(test_pending_input_has_a_bound),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_heads_have_a_bound),
        cmocka_unit_test(test_chunked_body_is_bounded_while_reading),
        cmocka_unit_test(test_expect_continue),
        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_head_has_no_body),
        cmocka_unit_test(test_upgrades_are_ignored),
        cmocka_unit_test(test_headers_are_kept_and_cut),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_draining_closes_after_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
