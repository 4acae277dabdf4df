#include "tests/unit/scheduler/service/http_client.h"

#include <jansson.h>
#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "loadgen/sse.h"

struct http_client {
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    llhttp_t parser;
    struct http_client_cb cb;
    struct br_buf request, error_body;
    struct load_sse sse;
    uint32_t tokens;
    bool done_seen, failed, closing;
    char why[256];
    char chunk[65536];
};

static void client_close(struct http_client *c);

static void client_fail(struct http_client *c, const char *why)
{
    if (!c->failed && !c->done_seen)
        snprintf(c->why, sizeof c->why, "%s", why);
    c->failed = !c->done_seen;
    client_close(c);
}

void http_client_abort(struct http_client *c, const char *why)
{
    client_fail(c, why);
}

static void on_closed(uv_handle_t *handle)
{
    struct http_client *c = handle->data;
    bool ok = c->done_seen && !c->failed;
    c->cb.done(c->cb.ctx, ok, ok ? NULL : c->why[0] ? c->why : "the stream ended early");
    br_buf_free(&c->request);
    br_buf_free(&c->error_body);
    load_sse_free(&c->sse);
    free(c);
}

static void client_close(struct http_client *c)
{
    if (c->closing)
        return;
    c->closing = true;
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

/* Does this chunk carry text? Servers that do not send usage with each chunk are counted one token a chunk. */
static bool has_text(const json_t *root)
{
    const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    const char *text = json_string_value(json_object_get(choice, "text"));
    if (!text)
        text = json_string_value(json_object_get(json_object_get(choice, "delta"), "content"));
    return text && *text;
}

static void on_event(void *ctx, const char *data, size_t len)
{
    struct http_client *c = ctx;
    const json_t *usage, *error;
    json_t *root;
    uint32_t total = c->tokens;
    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
        c->done_seen = true;
        return;
    }
    root = json_loadb(data, len, 0, NULL);
    if (!root) {
        client_fail(c, "an event that is not JSON");
        return;
    }
    usage = json_object_get(json_object_get(root, "usage"), "completion_tokens");
    error = json_object_get(json_object_get(root, "error"), "message");
    if (json_is_string(error)) {
        snprintf(c->why, sizeof c->why, "%s", json_string_value(error));
        c->failed = true;
    } else if (json_is_integer(usage)) {
        total = (uint32_t)json_integer_value(usage);
    } else if (has_text(root)) {
        total++;
    }
    json_decref(root);
    if (total > c->tokens) {
        c->tokens = total;
        c->cb.tokens(c->cb.ctx, total);
    }
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    struct http_client *c = parser->data;
    if (parser->status_code != 200) {
        if (c->error_body.len < 4096)
            br_buf_add(&c->error_body, at, n);
        return 0;
    }
    return load_sse_feed(&c->sse, at, n, on_event, c);
}

static int on_complete(llhttp_t *parser)
{
    struct http_client *c = parser->data;
    char why[256];
    if (parser->status_code == 200) {
        client_close(c);
        return 0;
    }
    snprintf(why, sizeof why, "HTTP %d: %.200s", parser->status_code, c->error_body.data ? c->error_body.data : "");
    client_fail(c, why);
    return 0;
}

static const llhttp_settings_t g_settings = {.on_body = on_body, .on_message_complete = on_complete};

static void on_alloc(uv_handle_t *handle, size_t hint, uv_buf_t *buf)
{
    struct http_client *c = handle->data;
    (void)hint;
    *buf = uv_buf_init(c->chunk, sizeof c->chunk);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct http_client *c = stream->data;
    if (n < 0) {
        client_fail(c, n == UV_EOF ? "the server closed the connection" : uv_strerror((int)n));
        return;
    }
    if (!c->closing && llhttp_execute(&c->parser, buf->base, (size_t)n) != HPE_OK && !c->closing)
        client_fail(c, llhttp_get_error_reason(&c->parser));
}

static void on_written(uv_write_t *write, int status)
{
    struct http_client *c = write->handle->data;
    if (status < 0 && status != UV_ECANCELED)
        client_fail(c, uv_strerror(status));
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct http_client *c = connect->data;
    uv_buf_t buf;
    if (status == UV_ECANCELED)
        return;
    if (status < 0) {
        client_fail(c, uv_strerror(status));
        return;
    }
    buf = uv_buf_init(c->request.data, (unsigned)c->request.len);
    uv_tcp_nodelay(&c->tcp, 1);
    uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, on_written);
}

struct http_client *http_client_start(uv_loop_t *loop, const struct sockaddr_in *to, const char *host, const char *path,
                                      const char *body, const struct http_client_cb *cb)
{
    struct http_client *c = br_calloc(1, sizeof *c);
    int rc;
    c->cb = *cb;
    br_buf_printf(&c->request,
                  "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"
                  "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                  path, host, strlen(body), body);
    llhttp_init(&c->parser, HTTP_RESPONSE, &g_settings);
    c->parser.data = c;
    uv_tcp_init(loop, &c->tcp);
    c->tcp.data = c;
    c->connect.data = c;
    rc = uv_tcp_connect(&c->connect, &c->tcp, (const struct sockaddr *)to, on_connected);
    if (rc)
        client_fail(c, uv_strerror(rc));
    return c;
}
