/* Frames between scheduler and worker over a Unix socket or TCP. Server side: many workers; client side: one connection
 * that reconnects. One libuv loop each; callbacks come from the loop. */
#ifndef BRIAREUS_SCHEDULER_LINK_LINK_H
#define BRIAREUS_SCHEDULER_LINK_LINK_H

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "proto/worker.pb-c.h"

enum { BR_LINK_MAX_FRAME = 16 << 20, BR_LINK_VERSION = 1 };

struct br_link_server;
struct br_link_client;
struct br_link_peer; /* a worker's connection, seen from the server */

struct br_link_limits {
    uint32_t max_peers;
    uint64_t max_out_bytes; /* waiting to be sent to one peer; more: the connection is closed and logged */
    uint32_t register_ms;   /* a peer that has not registered by then is dropped */
    uint32_t silence_ms;    /* nothing received for this long: dropped (pings are sent at a third of it) */
    const char *token;      /* shared secret; NULL: none. Compared in constant time. */
};

struct br_link_server_cb {
    void *ctx;
    /* The first frame of a peer: a valid Register of a known version with the right token. */
    void (*up)(void *ctx, struct br_link_peer *peer, const Briareus__Register *hello);
    void (*frame)(void *ctx, struct br_link_peer *peer, const Briareus__Frame *frame);
    void (*down)(void *ctx, struct br_link_peer *peer); /* peer is gone after this; only after up */
};

/* address: "unix:/path" or "tcp:host:port". An old socket file that nobody listens on is replaced. A stranger's bytes
 * (bad length, bad protobuf, no Register first) drop the connection with one log line. */
int br_link_server_start(uv_loop_t *loop, const char *address, const struct br_link_limits *limits,
                         const struct br_link_server_cb *cb, struct br_link_server **out, struct br_err *err);
void br_link_server_stop(struct br_link_server *server); /* closes and frees; no callbacks afterwards */
/* Packs and sends; BR_EBUSY when max_out_bytes is passed (the peer is being closed). */
int br_link_send(struct br_link_peer *peer, const Briareus__Frame *frame);
void br_link_peer_close(struct br_link_peer *peer, const char *why);
void *br_link_peer_data(struct br_link_peer *peer); /* the owner's pointer */
void br_link_peer_set_data(struct br_link_peer *peer, void *data);

struct br_link_client_cb {
    void *ctx;
    void (*connected)(void *ctx); /* send Register now */
    void (*frame)(void *ctx, const Briareus__Frame *frame);
    void (*disconnected)(void *ctx); /* a new attempt follows by itself */
};

int br_link_client_start(uv_loop_t *loop, const char *address, const struct br_link_limits *limits,
                         const struct br_link_client_cb *cb, struct br_link_client **out, struct br_err *err);
void br_link_client_stop(struct br_link_client *client);
int br_link_client_send(struct br_link_client *client, const Briareus__Frame *frame);
bool br_link_client_connected(const struct br_link_client *client);

#endif
