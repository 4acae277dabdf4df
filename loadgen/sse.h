/* Server-sent events, fed in pieces: calls back with the data of each event. */
#ifndef BRIAREUS_LOADGEN_SSE_H
#define BRIAREUS_LOADGEN_SSE_H

#include "base/buf.h"

enum { LOAD_SSE_MAX_LINE = 1 << 20 };

/* Its buffers are kept from one stream to the next. */
struct load_sse {
    struct br_buf line, data;
};

typedef void (*load_sse_cb)(void *ctx, const char *data, size_t len);

/* -1: a line or an event over the limit. */
int load_sse_feed(struct load_sse *sse, const char *bytes, size_t n, load_sse_cb cb, void *ctx);
/* Ready for the next stream. */
void load_sse_clear(struct load_sse *sse);
void load_sse_free(struct load_sse *sse);

#endif
