/* One streaming completion request over its own connection. */
#ifndef BRIAREUS_TESTS_HTTP_CLIENT_H
#define BRIAREUS_TESTS_HTTP_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <uv.h>

#include "base/err.h"

struct http_client_cb {
    void *ctx;
    /* total: tokens of the answer so far. */
    void (*tokens)(void *ctx, uint32_t total);
    /* Once, at the end: ok when the stream closed with [DONE] and without an error event. why says what went wrong. */
    void (*done)(void *ctx, bool ok, const char *why);
};

struct http_client;

/* body: JSON of the request (copied). done always follows, from the loop. */
struct http_client *http_client_start(uv_loop_t *loop, const struct sockaddr_in *to, const char *host, const char *path,
                                      const char *body, const struct http_client_cb *cb);
/* Ends it early; done follows with ok = false. */
void http_client_abort(struct http_client *client, const char *why);

#endif
