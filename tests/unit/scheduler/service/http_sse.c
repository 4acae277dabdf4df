#include "tests/unit/scheduler/service/http_sse.h"

#include <string.h>

static void end_of_line(struct http_sse *sse, http_sse_cb cb, void *ctx)
{
    const char *line = sse->line.data ? sse->line.data : "";
    size_t len = sse->line.len;
    if (len && line[len - 1] == '\r')
        len--;
    if (len == 0) { /* an empty line ends the event */
        if (sse->data.len)
            cb(ctx, sse->data.data, sse->data.len);
        br_buf_clear(&sse->data);
    } else if (len >= 5 && memcmp(line, "data:", 5) == 0) {
        size_t skip = len > 5 && line[5] == ' ' ? 6 : 5;
        if (sse->data.len)
            br_buf_puts(&sse->data, "\n");
        br_buf_add(&sse->data, line + skip, len - skip);
    }
    br_buf_clear(&sse->line);
}

int http_sse_feed(struct http_sse *sse, const char *bytes, size_t n, http_sse_cb cb, void *ctx)
{
    while (n) {
        const char *newline = memchr(bytes, '\n', n);
        size_t take = newline ? (size_t)(newline - bytes) : n;
        if (sse->line.len + take > HTTP_SSE_MAX_LINE || sse->data.len > HTTP_SSE_MAX_LINE)
            return -1;
        br_buf_add(&sse->line, bytes, take);
        if (newline)
            end_of_line(sse, cb, ctx);
        bytes += take + (newline != NULL);
        n -= take + (newline != NULL);
    }
    return 0;
}

void http_sse_free(struct http_sse *sse)
{
    br_buf_free(&sse->line);
    br_buf_free(&sse->data);
}
