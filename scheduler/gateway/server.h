/* The TCP side of http.h on a libuv loop: listening, reading, writing once a loop turn, time-outs, limits.
 *
 * A client that closes its end (end of file, also by shutdown(SHUT_WR)) while an answer is owed counts as gone, as in
 * uvicorn and vLLM: otherwise a client that died behind a FIN would keep its sequences running. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_SERVER_H
#define BRIAREUS_SCHEDULER_GATEWAY_SERVER_H

#include <uv.h>

#include "base/err.h"
#include "scheduler/gateway/http.h"
#include "scheduler/gateway/tls.h"

struct br_server;

struct br_server_config {
    const char *host;
    int port; /* 0: any */
    uint32_t max_connections;
    struct br_http_limits limits;
    uint32_t header_timeout_ms; /* from the first byte of a request to its last */
    uint32_t idle_timeout_ms;   /* between requests; and without any progress in sending; 0: none */
    uint64_t max_out_bytes;     /* unsent bytes of a stream above which its client counts as gone */
    uint64_t slow_out_bytes;    /* ... as slow, until a quarter of it is left; see slow() */
    struct br_tls_context *tls; /* borrowed; NULL: plain TCP */
};

/* request and gone as in http.h; http->call is the handler's; http->ctx is this module's. */
struct br_server_handler {
    void *ctx; /* br_server_ctx(http) */
    void (*request)(struct br_http *http);
    void (*gone)(struct br_http *http);
    /* Of a stream under way, from the loop: its client does not read (said again at every turn where something
     * happens), or reads again. Returns whether it is to count as slow still: because there is more to come of what was
     * held back. NULL: not told. */
    bool (*slow)(struct br_http *http, bool slow);
};

/* Errors: BR_EINVAL (host), BR_EIO (bind, listen). */
int br_server_start(uv_loop_t *loop, const struct br_server_config *config, const struct br_server_handler *handler,
                    struct br_server **out, struct br_err *err);
int br_server_port(const struct br_server *server);
void *br_server_ctx(const struct br_http *http);
struct br_server *br_server_of(const struct br_http *http); /* that it came to */
uint32_t br_server_connections(const struct br_server *server);

/* Of connections that come from now on; borrowed. */
void br_server_set_tls(struct br_server *server, struct br_tls_context *tls);

/* Answers go out, and connections close after theirs, but new ones are still taken: for their one answer. */
void br_server_wind_down(struct br_server *server);
/* No new connections; idle ones close, the others after the answer they wait for. */
void br_server_drain(struct br_server *server);
/* Sends what one write takes and closes everything; done (may be NULL) is called from the loop when all is freed. An
 * answer still owed must have been completed before. */
void br_server_stop(struct br_server *server, void (*done)(void *ctx), void *ctx);

#endif
