/* The writing half of http.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "scheduler/gateway/http.h"

static const char *status_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } table[] = {
        {200, "OK"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Payload Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].status == status)
            return table[i].reason;
    return "Status";
}

static void answer_date(struct br_buf *out)
{
    char text[64];
    struct tm tm;
    time_t now = time(NULL);
    if (gmtime_r(&now, &tm) && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm))
        br_buf_printf(out, "Date: %s\r\n", text);
}

static void answer_head(struct br_http *http, int status, const char *content_type, const char *headers)
{
    struct br_buf *out = &http->out;
    if (http->draining)
        http->keep_alive = false;
    br_buf_printf(out, "HTTP/1.1 %d %s\r\n", status, status_reason(status));
    answer_date(out);
    if (content_type)
        br_buf_printf(out, "Content-Type: %s\r\n", content_type);
    br_buf_puts(out, headers);
    if (!http->keep_alive)
        br_buf_puts(out, "Connection: close\r\n");
}

void br_http_answer(struct br_http *http, int status, const char *content_type, const char *headers, const char *body,
                    size_t len)
{
    assert(http->state != BR_HTTP_STREAM);
    answer_head(http, status, content_type, headers);
    if (status != 204)
        br_buf_printf(&http->out, "Content-Length: %zu\r\n", len);
    br_buf_puts(&http->out, "\r\n");
    if (http->method != HTTP_HEAD && len > 0)
        br_buf_add(&http->out, body, len);
    br_http_done(http);
}

void br_http_answer_problem(struct br_http *http, const struct br_problem *problem, const char *headers)
{
    struct br_buf body = {0}, lines = {0};
    struct br_problem said = *problem;
    said.anthropic = http->anthropic;
    br_buf_puts(&lines, headers);
    if (problem->retry_after_s > 0) {
        double seconds = problem->retry_after_s < 3600 ? problem->retry_after_s : 3600;
        br_buf_printf(&lines, "Retry-After: %d\r\n", (int)seconds + ((double)(int)seconds < seconds));
    }
    br_problem_body(&said, &body);
    br_http_answer(http, problem->status, "application/json", lines.data, body.data, body.len);
    br_buf_free(&body);
    br_buf_free(&lines);
}

void br_http_fail(struct br_http *http, int status, const char *message)
{
    struct br_problem problem;
    assert(http->state <= BR_HTTP_BODY);
    br_problem_set(&problem, status, NULL, NULL, "%s", message);
    if (status == 503)
        problem.retry_after_s = 1;
    http->keep_alive = false;
    br_http_answer_problem(http, &problem, "");
}

void br_http_stream_begin(struct br_http *http, const char *content_type, const char *headers)
{
    assert(http->state == BR_HTTP_ANSWER);
    if (http->minor == 0)
        http->keep_alive = false;
    answer_head(http, 200, content_type, headers);
    br_buf_puts(&http->out, http->minor >= 1 ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
    http->state = BR_HTTP_STREAM;
    http->events->wake(http);
}

enum { CHUNK_FRAME = 24 };

static void put_chunk_size(struct br_buf *out, size_t len)
{
    char text[CHUNK_FRAME];
    size_t at = sizeof text - 2;
    memcpy(text + at, "\r\n", 2);
    do
        text[--at] = "0123456789abcdef"[len & 15];
    while ((len >>= 4) > 0);
    br_buf_add(out, text + at, sizeof text - at);
}

void br_http_stream_write(struct br_http *http, const char *data, size_t len)
{
    assert(http->state == BR_HTTP_STREAM);
    if (len == 0)
        return; /* an empty chunk would end the stream */
    br_buf_reserve(&http->out, len + CHUNK_FRAME);
    if (http->minor >= 1)
        put_chunk_size(&http->out, len);
    br_buf_add(&http->out, data, len);
    if (http->minor >= 1)
        br_buf_puts(&http->out, "\r\n");
    http->events->wake(http);
}

void br_http_stream_end(struct br_http *http)
{
    assert(http->state == BR_HTTP_STREAM);
    if (http->minor >= 1)
        br_buf_puts(&http->out, "0\r\n\r\n");
    br_http_done(http);
}
