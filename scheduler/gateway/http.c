#include "scheduler/gateway/http.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const header_names[BR_N_HEADERS] = {
    "host",         "expect",        "content-encoding", "transfer-encoding", "x-request-id", "x-slo-ttft-ms",
    "x-slo-tbt-ms", "authorization", "x-api-key",        "traceparent",       "tracestate",
};

static struct br_http *http_of(llhttp_t *parser)
{
    return parser->data;
}

/* ---- the parser's callbacks: they store, and stop the parser when something is over a limit ---- */

static int http_refuse(struct br_http *http, int status, const char *message)
{
    br_http_fail(http, status, message);
    return HPE_PAUSED; /* http_parse sees the state and drops the rest */
}

static int http_refuse_head(struct br_http *http)
{
    if (http->target.len > http->limits->max_header_bytes / 2)
        return http_refuse(http, 414, "The request's URL is longer than this server allows.");
    return http_refuse(http, 431, "The request's headers are larger than this server allows.");
}

static int http_count(struct br_http *http, size_t len)
{
    if (len > http->limits->max_header_bytes || http->head_bytes > http->limits->max_header_bytes - len)
        return http_refuse_head(http);
    http->head_bytes += (uint32_t)len;
    return 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct br_http *http = http_of(parser);
    if (http->target.len + len > http->limits->max_header_bytes)
        return http_refuse(http, 414, "The request's URL is longer than this server allows.");
    br_buf_add(&http->target, at, len);
    return http_count(http, len);
}

static int header_find(const char *name, uint32_t len)
{
    for (int i = 0; i < BR_N_HEADERS; i++)
        if (strlen(header_names[i]) == len && strncasecmp(header_names[i], name, len) == 0)
            return i;
    return -1;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t len)
{
    struct br_http *http = http_of(parser);
    if (http->in_value) {
        http->in_value = false;
        http->field_len = 0;
    }
    for (size_t i = 0; i < len && http->field_len + i < sizeof http->field; i++)
        http->field[http->field_len + i] = at[i];
    http->field_len += (uint32_t)len;
    return http_count(http, len + (http->field_len == len ? 4 : 0)); /* ": " and CRLF */
}

/* A header that stands twice is joined by a comma, so that checks see both. */
static void header_begin(struct br_http *http)
{
    http->in_value = true;
    http->header_at = -1;
    if (http->state != BR_HTTP_BODY && http->field_len <= sizeof http->field) /* trailers are not headers */
        http->header_at = header_find(http->field, http->field_len);
    if (http->header_at >= 0 && http->header[http->header_at][0])
        strncat(http->header[http->header_at], ",", BR_HTTP_HEADER_VALUE - 1 - strlen(http->header[http->header_at]));
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len)
{
    struct br_http *http = http_of(parser);
    if (!http->in_value && http->field_len == 0)
        return http_refuse(http, 400, "This is not a valid HTTP request: a header has no name.");
    if (!http->in_value)
        header_begin(http);
    if (http->header_at >= 0) {
        char *value = http->header[http->header_at];
        size_t have = strlen(value), room = BR_HTTP_HEADER_VALUE - 1 - have;
        strncat(value, at, len < room ? len : room);
    }
    return http_count(http, len);
}

static int on_chunk_extension(llhttp_t *parser, const char *at, size_t len)
{
    (void)at;
    return http_count(http_of(parser), len);
}

static int http_check_head(struct br_http *http)
{
    const llhttp_t *parser = &http->parser;
    const char *encoding = http->header[BR_HEADER_CONTENT_ENCODING];
    const char *transfer = http->header[BR_HEADER_TRANSFER_ENCODING];
    if (parser->http_major != 1)
        return http_refuse(http, 505, "This server speaks HTTP/1.0 and HTTP/1.1.");
    if (http->minor >= 1 && !http->header[BR_HEADER_HOST][0])
        return http_refuse(http, 400, "An HTTP/1.1 request needs a Host header.");
    if (encoding[0] && strcasecmp(encoding, "identity") != 0)
        return http_refuse(http, 415, "The request's content-encoding is not supported: send it uncompressed.");
    if (transfer[0] && strcasecmp(transfer, "chunked") != 0)
        return http_refuse(http, 501, "Only the transfer-encoding chunked is supported.");
    if ((parser->flags & F_CONTENT_LENGTH) && parser->content_length > http->limits->max_body_bytes)
        return http_refuse(http, 413, "The request's body is larger than this server allows.");
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct br_http *http = http_of(parser);
    const char *expect = http->header[BR_HEADER_EXPECT];
    bool body = (parser->flags & F_CHUNKED) || parser->content_length > 0;
    http->method = parser->method;
    http->minor = parser->http_minor;
    http->keep_alive = parser->http_minor >= 1 && llhttp_should_keep_alive(parser);
    http->state = BR_HTTP_BODY;
    parser->upgrade = 0; /* no other protocol is spoken here: the request is taken as it is */
    if (http_check_head(http) != 0)
        return HPE_PAUSED;
    if (expect[0] && strcasecmp(expect, "100-continue") != 0)
        return http_refuse(http, 417, "The only expectation that can be met is 100-continue.");
    if (expect[0] && body && http->minor >= 1)
        br_buf_puts(&http->out, "HTTP/1.1 100 Continue\r\n\r\n");
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct br_http *http = http_of(parser);
    if (http->body.len + len > http->limits->max_body_bytes)
        return http_refuse(http, 413, "The request's body is larger than this server allows.");
    br_buf_add(&http->body, at, len);
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct br_http *http = http_of(parser);
    if (http->state == BR_HTTP_BODY)
        http->state = BR_HTTP_ANSWER;
    return HPE_PAUSED;
}

static const llhttp_settings_t http_settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_chunk_extension_name = on_chunk_extension,
    .on_chunk_extension_value = on_chunk_extension,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* ---- feeding ---- */

static void http_trim(struct br_buf *buf)
{
    if (buf->cap > BR_HTTP_KEEP)
        br_buf_free(buf);
    else
        br_buf_clear(buf);
}

static void http_next(struct br_http *http)
{
    llhttp_init(&http->parser, HTTP_REQUEST, &http_settings);
    http->parser.data = http;
    http->state = BR_HTTP_IDLE;
    http_trim(&http->target);
    http_trim(&http->body);
    for (int i = 0; i < BR_N_HEADERS; i++)
        http->header[i][0] = 0;
    http->client = NULL;
    http->method = HTTP_GET;
    http->minor = 1;
    http->keep_alive = http->anthropic = false;
    http->head_bytes = http->field_len = 0;
    http->header_at = -1;
    http->in_value = http->line_begins = http->head_seen = false;
}

void br_http_init(struct br_http *http, const struct br_http_limits *limits, const struct br_http_events *events,
                  void *ctx)
{
    memset(http, 0, sizeof *http);
    http->limits = limits;
    http->events = events;
    http->ctx = ctx;
    http_next(http);
}

void br_http_free(struct br_http *http)
{
    br_buf_free(&http->target);
    br_buf_free(&http->body);
    br_buf_free(&http->pending);
    br_buf_free(&http->out);
}

static void http_reject(struct br_http *http, llhttp_errno_t error)
{
    char text[256];
    const char *reason = llhttp_get_error_reason(&http->parser);
    if (error == HPE_INVALID_VERSION || error == HPE_PAUSED_H2_UPGRADE) {
        br_http_fail(http, 505, "This server speaks HTTP/1.0 and HTTP/1.1.");
        return;
    }
    snprintf(text, sizeof text, "This is not a valid HTTP request: %s.", reason && *reason ? reason : "bad syntax");
    br_http_fail(http, 400, text);
}

/* Blank lines before a request are allowed (RFC 9112, 2.2) and belong to none. */
static size_t http_skip_blank(const char *data, size_t len)
{
    size_t n = 0;
    while (n < len && (data[n] == '\r' || data[n] == '\n'))
        n++;
    return n;
}

/* Bytes of the head that no callback reports (blanks, line ends) count when a head comes in several pieces. */
static void http_count_raw(struct br_http *http, uint32_t before, size_t len)
{
    http->head_bytes = before;
    if (len > http->limits->max_header_bytes || before > http->limits->max_header_bytes - len)
        http_refuse_head(http);
    else
        http->head_bytes += (uint32_t)len;
}

/* A header that goes on in the next line (obsolete: RFC 9112, 5.2) is not read by all in the same way: what one takes
 * for a length another does not. */
static bool http_folds(struct br_http *http, const char *data, size_t len)
{
    for (size_t i = 0; i < len && !http->head_seen; i++) {
        if (http->line_begins && (data[i] == ' ' || data[i] == '\t'))
            return true;
        http->head_seen = http->line_begins && (data[i] == '\r' || data[i] == '\n');
        http->line_begins = data[i] == '\n';
    }
    return false;
}

/* Parses up to the end of one request; returns how many bytes were used. */
static size_t http_parse(struct br_http *http, const char *data, size_t len)
{
    llhttp_errno_t error;
    uint32_t before = http->head_bytes;
    size_t used = http->state == BR_HTTP_IDLE ? http_skip_blank(data, len) : 0;
    if (used == len)
        return used;
    if (http->state == BR_HTTP_IDLE) {
        http->state = BR_HTTP_HEAD;
        http->served++;
    }
    if (http_folds(http, data + used, len - used)) {
        br_http_fail(http, 400, "This is not a valid HTTP request: a header goes on in a second line.");
        return len;
    }
    error = llhttp_execute(&http->parser, data + used, len - used);
    if (http->state == BR_HTTP_CLOSING)
        return len;
    if (error == HPE_PAUSED && http->state == BR_HTTP_ANSWER) {
        used = (size_t)(llhttp_get_error_pos(&http->parser) - data);
        http->events->request(http);
        return used;
    }
    if (error != HPE_OK) {
        http_reject(http, error);
        return len;
    }
    if (http->state == BR_HTTP_HEAD)
        http_count_raw(http, before, len - used);
    return len;
}

static bool http_reads(const struct br_http *http)
{
    return http->state <= BR_HTTP_BODY && http->out.len < BR_HTTP_OUT_HIGH;
}

void br_http_pump(struct br_http *http)
{
    size_t used = 0;
    if (http->pumping)
        return;
    http->pumping = true;
    while (http_reads(http) && used < http->pending.len)
        used += http_parse(http, http->pending.data + used, http->pending.len - used);
    http->pumping = false;
    if (http->state == BR_HTTP_CLOSING)
        used = http->pending.len;
    br_buf_consume(&http->pending, used);
    if (http->pending.len == 0)
        http_trim(&http->pending);
}

void br_http_feed(struct br_http *http, const char *data, size_t len)
{
    size_t used = 0;
    assert(!http->pumping);
    if (http->pending.len == 0) {
        http->pumping = true;
        while (http_reads(http) && used < len)
            used += http_parse(http, data + used, len - used);
        http->pumping = false;
    }
    if (used < len && http->state != BR_HTTP_CLOSING)
        br_buf_add(&http->pending, data + used, len - used);
    else if (http->state == BR_HTTP_CLOSING)
        http_trim(&http->pending);
}

bool br_http_full(const struct br_http *http)
{
    return http->pending.len >= BR_HTTP_PENDING;
}

void br_http_done(struct br_http *http)
{
    if (http->keep_alive && !http->draining)
        http_next(http);
    else
        http->state = BR_HTTP_CLOSING;
    http->events->wake(http);
}
