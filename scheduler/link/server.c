#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "scheduler/link/address.h"
#include "scheduler/link/conn.h"
#include "scheduler/link/link.h"

enum {
    SERVER_STRANGER_FRAME = 1 << 20, /* a Register with thousands of running sequences fits */
    SERVER_MORE_STRANGERS = 32,
    SERVER_BACKLOG = 128,
};

struct br_link_peer {
    struct br_conn *conn;
    struct br_link_server *server;
    struct br_link_peer *prev, *next;
    void *data;
    bool registered;
};

struct br_link_server {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } io;
    struct br_address address;
    struct br_link_limits limits; /* token owned */
    struct br_link_server_cb cb;
    struct br_link_peer *peers;
    uint32_t n_registered, n_strangers;
    bool stopped, listener_closed;
};

static void server_free_if_done(struct br_link_server *server)
{
    if (!server->stopped || !server->listener_closed || server->peers)
        return;
    free((char *)server->limits.token);
    free(server);
}

/* ---- a peer ---- */

static bool token_matches(const char *want, const char *got)
{
    size_t want_len = strlen(want), got_len = strlen(got);
    volatile size_t differ = want_len ^ got_len;
    for (size_t i = 0; i < want_len; i++)
        differ |= (size_t)((unsigned char)want[i] ^ (unsigned char)(i < got_len ? got[i] : 0));
    return differ == 0;
}

/* NULL: welcome; else why not. */
static const char *register_check(const struct br_link_server *server, const Briareus__Frame *frame)
{
    if (frame->body_case != BRIAREUS__FRAME__BODY_REGISTER_)
        return "first frame is no Register";
    if (frame->register_->version != BR_LINK_VERSION && frame->register_->version + 1 != BR_LINK_VERSION)
        return "link version is not ours or the one before";
    if (server->limits.token && !token_matches(server->limits.token, frame->register_->token))
        return "wrong token";
    if (server->n_registered >= server->limits.max_peers)
        return "max_peers workers are connected already";
    return NULL;
}

static void peer_register(struct br_link_peer *peer, const Briareus__Frame *frame)
{
    struct br_link_server *server = peer->server;
    const char *refusal = register_check(server, frame);
    if (refusal) {
        br_conn_close(peer->conn, refusal);
        return;
    }
    peer->registered = true;
    server->n_strangers--;
    server->n_registered++;
    peer->conn->reader.max_frame = BR_LINK_MAX_FRAME;
    br_conn_keep_alive(peer->conn, server->limits.silence_ms);
    br_log(BR_INFO, "link_peer_up", "peer=%s node=%s device=%u", peer->conn->name, BR_Q(frame->register_->node),
           frame->register_->device);
    server->cb.up(server->cb.ctx, peer, frame->register_);
}

static void peer_frame(struct br_conn *conn, const Briareus__Frame *frame)
{
    struct br_link_peer *peer = conn->owner;
    if (peer->registered)
        peer->server->cb.frame(peer->server->cb.ctx, peer, frame);
    else
        peer_register(peer, frame);
}

static void peer_unlink(struct br_link_peer *peer)
{
    struct br_link_server *server = peer->server;
    *(peer->prev ? &peer->prev->next : &server->peers) = peer->next;
    if (peer->next)
        peer->next->prev = peer->prev;
    *(peer->registered ? &server->n_registered : &server->n_strangers) -= 1;
}

static void peer_closed(struct br_conn *conn, const char *why)
{
    struct br_link_peer *peer = conn->owner;
    struct br_link_server *server = peer->server;
    if (!server->stopped) {
        br_log(BR_WARN, peer->registered ? "link_peer_down" : "link_stranger_dropped", "peer=%s reason=%s", conn->name,
               BR_Q(why));
        if (peer->registered)
            server->cb.down(server->cb.ctx, peer);
    }
    peer_unlink(peer);
    free(peer);
    server_free_if_done(server);
}

static const struct br_conn_cb server_conn_cb = {peer_frame, peer_closed};

int br_link_send(struct br_link_peer *peer, const Briareus__Frame *frame)
{
    return br_conn_send(peer->conn, frame);
}

void br_link_peer_close(struct br_link_peer *peer, const char *why)
{
    br_conn_close(peer->conn, why);
}

void *br_link_peer_data(struct br_link_peer *peer)
{
    return peer->data;
}

void br_link_peer_set_data(struct br_link_peer *peer, void *data)
{
    peer->data = data;
}

/* ---- listening ---- */

static void server_add(struct br_link_server *server, struct br_link_peer *peer)
{
    peer->server = server;
    peer->next = server->peers;
    if (server->peers)
        server->peers->prev = peer;
    server->peers = peer;
    server->n_strangers++;
}

static void server_accept(struct br_link_server *server)
{
    struct br_link_peer *peer = br_calloc(1, sizeof *peer);
    struct br_err err;
    int rc;
    if (br_conn_create(server->io.handle.loop, server->address.is_unix, server->limits.max_out_bytes, &server_conn_cb,
                       peer, &peer->conn, &err)) {
        br_log(BR_ERROR, "link_accept_failed", "reason=%s", BR_Q(err.msg));
        free(peer);
        return;
    }
    server_add(server, peer);
    rc = uv_accept(&server->io.stream, &peer->conn->io.stream);
    if (rc == 0)
        rc = br_conn_start(peer->conn, SERVER_STRANGER_FRAME);
    if (rc)
        br_conn_close(peer->conn, uv_strerror(rc));
    else if (server->n_strangers > server->limits.max_peers + SERVER_MORE_STRANGERS)
        br_conn_close(peer->conn, "too many connections that have not registered");
    else
        br_conn_deadline(peer->conn, server->limits.register_ms, "did not register in time");
}

static void server_on_connection(uv_stream_t *stream, int status)
{
    struct br_link_server *server = stream->data;
    if (status)
        br_log(BR_ERROR, "link_accept_failed", "reason=%s", BR_Q(uv_strerror(status)));
    else
        server_accept(server);
}

static int unix_listen(struct br_link_server *server, struct br_err *err)
{
    const char *path = server->address.path;
    int rc;
    if (br_address_clear_stale(path, err))
        return err->code;
    rc = uv_pipe_bind(&server->io.pipe, path);
    if (rc)
        return br_err_set(err, BR_EIO, "socket %s: %s", path, uv_strerror(rc));
    if (chmod(path, 0600)) /* nobody can connect before listen */
        return br_err_errno(err, BR_EIO, "mode of socket %s", path);
    rc = uv_listen(&server->io.stream, SERVER_BACKLOG, server_on_connection);
    return rc ? br_err_set(err, BR_EIO, "socket %s: %s", path, uv_strerror(rc)) : 0;
}

static int tcp_listen(struct br_link_server *server, struct br_err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    const struct br_address *address = &server->address;
    uv_getaddrinfo_t req;
    int rc = uv_getaddrinfo(server->io.handle.loop, &req, NULL, address->host, address->service, &hints);
    if (rc)
        return br_err_set(err, BR_EIO, "host %s: %s", address->host, uv_strerror(rc));
    rc = uv_tcp_bind(&server->io.tcp, req.addrinfo->ai_addr, 0);
    uv_freeaddrinfo(req.addrinfo);
    if (rc == 0)
        rc = uv_listen(&server->io.stream, SERVER_BACKLOG, server_on_connection);
    if (rc)
        return br_err_set(err, BR_EIO, "cannot listen on %s:%s: %s", address->host, address->service, uv_strerror(rc));
    return 0;
}

static void server_listener_closed(uv_handle_t *handle)
{
    struct br_link_server *server = handle->data;
    server->listener_closed = true;
    server_free_if_done(server);
}

static struct br_link_server *server_create(uv_loop_t *loop, const struct br_address *address,
                                            const struct br_link_limits *limits, const struct br_link_server_cb *cb)
{
    struct br_link_server *server = br_calloc(1, sizeof *server);
    if (address->is_unix)
        uv_pipe_init(loop, &server->io.pipe, 0);
    else
        uv_tcp_init(loop, &server->io.tcp);
    server->io.handle.data = server;
    server->address = *address;
    server->limits = *limits;
    server->limits.token = limits->token ? br_strdup(limits->token) : NULL;
    server->cb = *cb;
    return server;
}

int br_link_server_start(uv_loop_t *loop, const char *address, const struct br_link_limits *limits,
                         const struct br_link_server_cb *cb, struct br_link_server **out, struct br_err *err)
{
    struct br_link_server *server;
    struct br_address parsed;
    int rc = br_address_parse(address, &parsed, err);
    if (rc)
        return rc;
    signal(SIGPIPE, SIG_IGN); /* libuv 1.44 writes without MSG_NOSIGNAL */
    server = server_create(loop, &parsed, limits, cb);
    rc = parsed.is_unix ? unix_listen(server, err) : tcp_listen(server, err);
    if (rc) {
        br_link_server_stop(server);
        return rc;
    }
    *out = server;
    br_log(BR_INFO, "link_listening", "address=%s", address);
    return 0;
}

void br_link_server_stop(struct br_link_server *server)
{
    server->stopped = true;
    for (struct br_link_peer *peer = server->peers; peer; peer = peer->next)
        br_conn_close(peer->conn, "server stops");
    uv_close(&server->io.handle, server_listener_closed);
}
