/* Server-sent events, fed in pieces: calls back with the data of each event. */
#ifndef BRIAREUS_TESTS_HTTP_SSE_H
#define BRIAREUS_TESTS_HTTP_SSE_H

#include "base/buf.h"

enum { HTTP_SSE_MAX_LINE = 1 << 20 };

struct http_sse {
    struct br_buf line, data;
};

typedef void (*http_sse_cb)(void *ctx, const char *data, size_t len);

/* -1: a line over the limit. */
int http_sse_feed(struct http_sse *sse, const char *bytes, size_t n, http_sse_cb cb, void *ctx);
void http_sse_free(struct http_sse *sse);

#endif
