#include "scheduler/gateway/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gateway/conn.h"

void server_free_if_done(struct br_server *server)
{
    void (*done)(void *) = server->done;
    void *ctx = server->done_ctx;
    if (!server->stopping || server->open_handles > 0 || server->conns)
        return;
    while (server->spare) {
        struct conn *conn = server->spare;
        server->spare = conn->next;
        free(conn);
    }
    free(server);
    if (done)
        done(ctx);
}

static void on_server_handle_closed(uv_handle_t *handle)
{
    struct br_server *server = handle->data;
    server->open_handles--;
    server_free_if_done(server);
}

/* ---- turns of the loop and new connections ---- */

static void server_turn(struct br_server *server)
{
    while (server->dirty) {
        struct conn *conn = server->dirty;
        server->dirty = conn->next_dirty;
        if (!conn->closed)
            conn_turn(conn);
        conn->dirty = false;
        if (conn->open_handles == 0)
            conn_release(conn);
    }
}

static void on_before_poll(uv_prepare_t *handle)
{
    server_turn(handle->data);
}

static void on_after_poll(uv_check_t *handle)
{
    server_turn(handle->data);
}

static void conn_count(struct conn *conn)
{
    struct br_server *server = conn->server;
    conn->excess = server->n_conns >= server->config.max_connections;
    if (conn->excess)
        server->n_excess++;
    else
        server->n_conns++;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct br_server *server = listener->data;
    struct conn *conn;
    if (status < 0)
        return;
    conn = conn_take(server);
    conn_count(conn);
    conn->http.draining = server->winding_down;
    if (uv_accept(listener, (uv_stream_t *)&conn->tcp) < 0 || server->n_excess > SERVER_EXCESS) {
        conn_close(conn);
        return;
    }
    uv_tcp_nodelay(&conn->tcp, 1);
    uv_tcp_keepalive(&conn->tcp, 1, SERVER_KEEPALIVE_S);
    if (server->config.tls)
        conn->tls = br_tls_accept(server->config.tls);
    if (conn->excess)
        br_http_fail(&conn->http, 503, "Too many connections are open: try again later.");
    conn_mark(conn);
}

/* ---- start and stop ---- */

static int server_address(const struct br_server_config *config, struct sockaddr_storage *addr)
{
    const char *host = config->host && *config->host ? config->host : "127.0.0.1";
    if (uv_ip4_addr(host, config->port, (struct sockaddr_in *)addr) == 0)
        return 0;
    if (strcmp(host, "localhost") == 0)
        return uv_ip4_addr("127.0.0.1", config->port, (struct sockaddr_in *)addr);
    return uv_ip6_addr(host, config->port, (struct sockaddr_in6 *)addr);
}

static int server_listen(struct br_server *server, struct br_err *err)
{
    struct sockaddr_storage addr;
    int rc;
    if (server_address(&server->config, &addr) < 0)
        return br_err_set(err, BR_EINVAL, "cannot listen on host '%s': give an IPv4 or IPv6 address, e.g. 0.0.0.0",
                          server->config.host);
    rc = uv_tcp_bind(&server->listener, (const struct sockaddr *)&addr, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&server->listener, SERVER_BACKLOG, on_connection);
    if (rc < 0)
        return br_err_set(err, BR_EIO, "cannot listen on %s port %d: %s",
                          server->config.host ? server->config.host : "127.0.0.1", server->config.port,
                          uv_strerror(rc));
    return 0;
}

static void server_handles(struct br_server *server)
{
    uv_tcp_init(server->loop, &server->listener);
    uv_prepare_init(server->loop, &server->before_poll);
    uv_check_init(server->loop, &server->after_poll);
    server->listener.data = server->before_poll.data = server->after_poll.data = server;
    server->open_handles = 3;
    uv_prepare_start(&server->before_poll, on_before_poll);
    uv_check_start(&server->after_poll, on_after_poll);
    uv_unref((uv_handle_t *)&server->before_poll);
    uv_unref((uv_handle_t *)&server->after_poll);
}

int br_server_start(uv_loop_t *loop, const struct br_server_config *config, const struct br_server_handler *handler,
                    struct br_server **out, struct br_err *err)
{
    struct br_server *server = br_calloc(1, sizeof *server);
    server->loop = loop;
    server->config = *config;
    server->handler = *handler;
    server_handles(server);
    if (server_listen(server, err) < 0) {
        br_server_stop(server, NULL, NULL);
        return err->code;
    }
    server->config.host = NULL; /* the caller's; not needed again */
    *out = server;
    return 0;
}

int br_server_port(const struct br_server *server)
{
    struct sockaddr_storage addr;
    int len = sizeof addr;
    if (uv_tcp_getsockname(&server->listener, (struct sockaddr *)&addr, &len) < 0)
        return -1;
    return addr.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&addr)->sin6_port)
                                      : ntohs(((struct sockaddr_in *)&addr)->sin_port);
}

void br_server_set_tls(struct br_server *server, struct br_tls_context *tls)
{
    server->config.tls = tls;
}

uint32_t br_server_connections(const struct br_server *server)
{
    return server->n_conns;
}

static void server_drain_conns(struct br_server *server)
{
    for (struct conn *conn = server->conns; conn; conn = conn->next) {
        conn->http.draining = true;
        conn_mark(conn);
    }
}

void br_server_wind_down(struct br_server *server)
{
    server->winding_down = true;
    server_drain_conns(server);
}

void br_server_drain(struct br_server *server)
{
    if (server->draining)
        return;
    server->draining = true;
    uv_close((uv_handle_t *)&server->listener, on_server_handle_closed);
    server_drain_conns(server);
}

void br_server_stop(struct br_server *server, void (*done)(void *ctx), void *ctx)
{
    assert(!server->stopping);
    server->stopping = true;
    server->done = done;
    server->done_ctx = ctx;
    br_server_drain(server);
    server_turn(server);
    for (struct conn *conn = server->conns; conn; conn = conn->next)
        conn_close(conn);
    uv_close((uv_handle_t *)&server->before_poll, on_server_handle_closed);
    uv_close((uv_handle_t *)&server->after_poll, on_server_handle_closed);
}
