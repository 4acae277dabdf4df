/* Trace context and spans: the examples and rules of W3C Trace Context (level 1), field names of opentelemetry-proto's
 * JSON. A collector is played on a socket of the same loop. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net.h"
#include "scheduler/gateway/otlp.h"
#include "scheduler/gateway/traceparent.h"

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define ONCE "{\"model\":\"stories260K\",\"prompt\":[1,5,6],\"max_tokens\":4}"

static void a_context_is_taken_and_passed_on(void **state)
{
    struct br_traceparent trace;
    char out[BR_MAX_TRACEPARENT];
    (void)state;
    br_traceparent_begin(&trace, PARENT);
    assert_true(trace.has_parent && trace.sampled);
    br_traceparent_pass(&trace, out);
    assert_int_equal(strlen(out), 55);
    assert_memory_equal(out, PARENT, 36);               /* version and trace */
    assert_memory_not_equal(out + 36, PARENT + 36, 16); /* our span is the next one's parent */
    assert_string_equal(out + 52, "-01");
    br_traceparent_begin(&trace, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
    assert_true(trace.has_parent && !trace.sampled);
    br_traceparent_begin(&trace, "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-brings");
    assert_true(trace.has_parent && trace.sampled);
}

static void what_breaks_the_rules_begins_a_new_trace(void **state)
{
    static const char *const bad[] = {
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
        PARENT "," PARENT,
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct br_traceparent trace;
        br_traceparent_begin(&trace, bad[i]);
        if (trace.has_parent || !trace.sampled || memcmp(trace.trace, (uint8_t[16]){0}, 16) == 0)
            fail_msg("case %zu: %s", i, bad[i]);
    }
}

/* ---- spans of a call ---- */

static struct net *net;
static struct client c;

static void request(const char *headers)
{
    static const int32_t ids[] = {100, 101};
    struct br_buf text = {0};
    uint32_t before = net->n_submitted;
    br_buf_clear(&c.in);
    br_buf_printf(&text, "POST /v1/completions HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n%s", headers,
                  strlen(ONCE), ONCE);
    client_send(&c, text.data, text.len);
    br_buf_free(&text);
    net_await_submits(&c, before + 1);
    net_accept(net);
    br_gateway_first_step(net->call, 1e-6);
    br_gateway_moment(net->call, net->specs[0].id,
                      &(struct br_gateway_moment){.kind = BR_MOMENT_TURN,
                                                  .begin_ns = br_now_ns() - BR_NS_PER_MS,
                                                  .end_ns = br_now_ns(),
                                                  .steps = 1,
                                                  .rows = 3,
                                                  .device = "n/0"});
    net_tokens(net, 0, ids, 2, BR_END_LENGTH);
    client_await(&c, 0, "\"usage\"");
}

static void open_with(const char *traces)
{
    struct br_gateway_config config = net_config;
    config.traces = traces;
    net = net_open(&config);
    client_open(&c, net);
}

static json_t *spans_of(const char *text, size_t len)
{
    json_error_t error;
    json_t *root = json_loadb(text, len, 0, &error), *spans;
    if (!root)
        fail_msg("%s in %.*s", error.text, (int)len, text);
    if (json_unpack(root, "{s:[{s:[{s:O}]}]}", "resourceSpans", "scopeSpans", "spans", &spans))
        fail_msg("not OTLP: %.*s", (int)len, text);
    json_decref(root);
    return spans;
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static json_t *span_named(json_t *spans, const char *name)
{
    size_t i;
    json_t *span;
    json_array_foreach(spans, i, span) if (strcmp(text_of(span, "name"), name) == 0) return span;
    fail_msg("no span %s", name);
    return NULL;
}

static json_t *attr_of(json_t *span, const char *key)
{
    size_t i;
    json_t *attr;
    json_array_foreach(json_object_get(span, "attributes"), i,
                       attr) if (strcmp(text_of(attr, "key"), key) == 0) return json_object_get(attr, "value");
    fail_msg("no attribute %s", key);
    return NULL;
}

static void check_spans(json_t *spans)
{
    static const char *const children[] = {"queue", "prefill", "decode", "turn"};
    json_t *root = span_named(spans, "llm_request");
    assert_int_equal(json_array_size(spans), 5);
    assert_string_equal(text_of(root, "traceId"), "0af7651916cd43dd8448eb211c80319c");
    assert_string_equal(text_of(root, "parentSpanId"), "b7ad6b7169203331");
    assert_string_equal(text_of(root, "traceState"), "congo=t61rcWkgMzE");
    assert_int_equal(json_integer_value(json_object_get(root, "kind")), 2);
    assert_string_equal(text_of(attr_of(root, "gen_ai.usage.prompt_tokens"), "intValue"), "3");
    assert_string_equal(text_of(attr_of(root, "gen_ai.usage.completion_tokens"), "intValue"), "2");
    assert_string_equal(text_of(attr_of(root, "gen_ai.request.model"), "stringValue"), "stories260K");
    for (size_t i = 0; i < 4; i++) {
        json_t *span = span_named(spans, children[i]);
        assert_string_equal(text_of(span, "traceId"), text_of(root, "traceId"));
        assert_string_equal(text_of(span, "parentSpanId"), text_of(root, "spanId"));
        assert_int_equal(strlen(text_of(span, "spanId")), 16);
        assert_true(strcmp(text_of(span, "startTimeUnixNano"), text_of(span, "endTimeUnixNano")) <= 0);
    }
    assert_string_equal(text_of(attr_of(span_named(spans, "turn"), "briareus.device"), "stringValue"), "n/0");
}

static void spans_to_a_file(void **state)
{
    char path[] = "/tmp/briareus-spans-XXXXXX", endpoint[64];
    int fd = mkstemp(path);
    struct br_buf text = {0};
    json_t *spans;
    (void)state;
    snprintf(endpoint, sizeof endpoint, "file:%s", path);
    open_with(endpoint);
    request("traceparent: " PARENT "\r\ntracestate: congo=t61rcWkgMzE\r\n");
    assert_memory_equal(net->specs[0].traceparent, PARENT, 36);                          /* to the worker */
    request("traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n"); /* not to be sampled */
    client_close(&c);
    net_close(net);
    assert_int_equal(br_buf_read_file(&text, path, 1 << 20), 0);
    assert_int_equal(strchr(text.data, '\n') - text.data, (long)text.len - 1); /* one batch, one line */
    spans = spans_of(text.data, text.len);
    check_spans(spans);
    json_decref(spans);
    br_buf_free(&text);
    close(fd);
    unlink(path);
}

/* ---- a collector ---- */

static int collector_listen(char endpoint[64])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    snprintf(endpoint, 64, "http://127.0.0.1:%d/v1/traces", ntohs(addr.sin_port));
    return fd;
}

/* Turns the loop until a whole POST has come; answers it. */
static void collector_take(int fd, struct br_buf *in, const char *answer)
{
    double until_s = br_now_s() + 10;
    const char *body = NULL;
    int peer = -1;
    while (br_now_s() < until_s &&
           !(body && strlen(body) >= strtoul(strstr(in->data, "Content-Length: ") + 16, NULL, 10))) {
        char data[65536];
        ssize_t n;
        client_turn(&c);
        if (peer < 0 && (peer = accept(fd, NULL, NULL)) >= 0)
            fcntl(peer, F_SETFL, O_NONBLOCK);
        while (peer >= 0 && (n = recv(peer, data, sizeof data, 0)) > 0)
            br_buf_add(in, data, (size_t)n);
        body = in->data ? strstr(in->data, "\r\n\r\n") : NULL;
        body = body ? body + 4 : NULL;
    }
    assert_true(peer >= 0 && body);
    assert_int_equal(send(peer, answer, strlen(answer), 0), (ssize_t)strlen(answer));
    close(peer);
}

static double metric(const char *name)
{
    char line[128];
    const char *at;
    br_buf_clear(&c.in);
    client_puts(&c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    client_answer(&c, 200);
    snprintf(line, sizeof line, "\n%s ", name);
    at = strstr(c.in.data, line);
    assert_non_null(at);
    return strtod(at + strlen(line), NULL);
}

static void metric_await(const char *name, double value)
{
    double until_s = br_now_s() + 10;
    while (metric(name) < value && br_now_s() < until_s)
        ;
    assert_true(metric(name) == value);
}

static void spans_to_a_collector(void **state)
{
    char endpoint[64];
    int fd = collector_listen(endpoint);
    struct br_buf in = {0};
    const char *body;
    json_t *spans;
    (void)state;
    open_with(endpoint);
    request("traceparent: " PARENT "\r\ntracestate: congo=t61rcWkgMzE\r\n");
    collector_take(fd, &in, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    assert_int_equal(strncmp(in.data, "POST /v1/traces HTTP/1.1\r\n", 26), 0);
    assert_non_null(strstr(in.data, "Content-Type: application/json\r\n"));
    body = strstr(in.data, "\r\n\r\n") + 4;
    spans = spans_of(body, strlen(body));
    check_spans(spans);
    json_decref(spans);
    metric_await("briareus_spans_exported_total", 5);
    br_buf_clear(&in);
    request("");
    collector_take(fd, &in, "HTTP/1.1 503 Service Unavailable\r\n\r\n");
    metric_await("briareus_spans_dropped_total", 5);
    request(""); /* on its way when the gateway stops */
    client_close(&c);
    net_close(net);
    br_buf_free(&in);
    close(fd);
}

/* Nobody listens: requests are answered as ever. */
static void a_collector_that_is_away(void **state)
{
    char endpoint[64];
    int fd = collector_listen(endpoint);
    (void)state;
    close(fd);
    open_with(endpoint);
    request("");
    metric_await("briareus_spans_dropped_total", 5);
    request("");
    client_close(&c);
    net_close(net);
}

/* A collector that takes connections and says nothing: one batch is on its way, 4 MiB wait, the rest is dropped, and
 * telling of a span never waits. */
static void a_collector_that_hangs(void **state)
{
    static const uint8_t id[16] = {1};
    char endpoint[64], text[1001];
    int fd = collector_listen(endpoint);
    uint64_t sent = 0;
    uv_loop_t loop;
    struct br_otlp *otlp;
    struct br_err err;
    (void)state;
    memset(text, 'x', 1000);
    text[1000] = 0;
    uv_loop_init(&loop);
    assert_int_equal(br_otlp_start(&loop, endpoint, &otlp, &err), 0);
    for (; br_otlp_counts(otlp).dropped < 1000 && sent < 100000; sent++) {
        struct br_span span = {.trace = id, .id = id, .name = text, .kind = BR_SPAN_INTERNAL};
        br_otlp_span(otlp, &span);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(br_otlp_counts(otlp).dropped, 1000);
    assert_int_equal(br_otlp_counts(otlp).exported, 0);
    /* Each has 1000 bytes of name and between 100 and 300 more. */
    assert_in_range(sent - 1000, BR_OTLP_QUEUE_BYTES / 1300, (BR_OTLP_QUEUE_BYTES + BR_OTLP_BATCH_BYTES) / 1100 + 2);
    br_otlp_stop(otlp);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    close(fd);
}

static void endpoints(void **state)
{
    static const char *const bad[] = {"",          "http://",     "http://:1",        "http://h:x/v1",
                                      "http://h:", "https://h",   "http://h:123456/", "http://[::1/v1",
                                      "file:",     "http://h/a b"};
    static const char *const good[] = {"http://127.0.0.1:4318/v1/traces", "http://localhost", "http://[::1]:4318"};
    uv_loop_t loop;
    struct br_otlp *otlp;
    struct br_err err;
    (void)state;
    uv_loop_init(&loop);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (br_otlp_start(&loop, bad[i], &otlp, &err) != BR_EINVAL)
            fail_msg("taken: %s", bad[i]);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (br_otlp_start(&loop, good[i], &otlp, &err))
            fail_msg("%s", err.msg);
        br_otlp_stop(otlp);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_is_taken_and_passed_on),
        cmocka_unit_test(what_breaks_the_rules_begins_a_new_trace),
        cmocka_unit_test(spans_to_a_file),
        cmocka_unit_test(spans_to_a_collector),
        cmocka_unit_test(a_collector_that_is_away),
        cmocka_unit_test(a_collector_that_hangs),
        cmocka_unit_test(endpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
