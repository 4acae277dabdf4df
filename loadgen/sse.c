#include "loadgen/sse.h"

#include <string.h>

/* Bytes of a line before its data; 0: a line that is of no use. "error:" is no field of the standard, but llama.cpp's
 * server has sent its errors so. */
static size_t field_of(const char *line, size_t len)
{
    size_t name = len >= 5 && memcmp(line, "data:", 5) == 0 ? 5 : len >= 6 && memcmp(line, "error:", 6) == 0 ? 6 : 0;
    return name && len > name && line[name] == ' ' ? name + 1 : name;
}

static void end_of_line(struct load_sse *sse, const char *line, size_t len, load_sse_cb cb, void *ctx)
{
    if (len && line[len - 1] == '\r')
        len--;
    if (len == 0) { /* an empty line ends the event */
        if (sse->data.len)
            cb(ctx, sse->data.data, sse->data.len);
        br_buf_clear(&sse->data);
    } else if (field_of(line, len)) {
        size_t skip = field_of(line, len);
        if (sse->data.len)
            br_buf_puts(&sse->data, "\n");
        br_buf_add(&sse->data, line + skip, len - skip);
    }
}

int load_sse_feed(struct load_sse *sse, const char *bytes, size_t n, load_sse_cb cb, void *ctx)
{
    while (n) {
        const char *newline = memchr(bytes, '\n', n);
        size_t take = newline ? (size_t)(newline - bytes) : n;
        if (sse->line.len + take > LOAD_SSE_MAX_LINE || sse->data.len + take > LOAD_SSE_MAX_LINE)
            return -1;
        if (newline && !sse->line.len) { /* whole in this piece: not copied */
            end_of_line(sse, bytes, take, cb, ctx);
        } else {
            br_buf_add(&sse->line, bytes, take);
            if (newline) {
                end_of_line(sse, sse->line.data, sse->line.len, cb, ctx);
                br_buf_clear(&sse->line);
            }
        }
        bytes += take + (newline != NULL);
        n -= take + (newline != NULL);
    }
    return 0;
}

void load_sse_clear(struct load_sse *sse)
{
    br_buf_clear(&sse->line);
    br_buf_clear(&sse->data);
}

void load_sse_free(struct load_sse *sse)
{
    br_buf_free(&sse->line);
    br_buf_free(&sse->data);
}
