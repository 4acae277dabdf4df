#include "scheduler/gateway/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum {
    SERVER_BACKLOG = 1024,
    SERVER_READ = 64 << 10,
    SERVER_LINGER_MS = 1000, /* how long a client may go on sending after the last answer, before it is reset */
    SERVER_KEEPALIVE_S = 60, /* TCP's: for clients that vanish without a word while they wait */
    SERVER_SPARE = 64,       /* closed connections kept for the next ones */
    SERVER_EXCESS = 64,      /* connections over the limit that are told so at the same time */
};

/* What the one timer of a connection waits for. */
enum conn_wait { CONN_NONE, CONN_IDLE, CONN_REQUEST, CONN_SENDING, CONN_LINGER };

struct conn {
    struct br_http http;
    struct br_server *server;
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct br_buf inflight; /* being written */
    enum conn_wait wait;
    uint64_t waits_for; /* number of the request that the timer is for */
    size_t unsent;      /* when the timer was set */
    bool writing, reading, dirty, eof, lingering, closed, excess;
    int open_handles;
    struct conn *prev, *next; /* of server->conns, or of server->spare */
    struct conn *next_dirty;
};

struct br_server {
    uv_loop_t *loop;
    struct br_server_config config;
    struct br_server_handler handler;
    uv_tcp_t listener;
    uv_prepare_t before_poll;
    uv_check_t after_poll;
    int open_handles;
    struct conn *conns, *spare, *dirty;
    uint32_t n_conns, n_spare, n_excess;
    bool listening, draining, stopping;
    void (*done)(void *ctx);
    void *done_ctx;
    char input[SERVER_READ];
};

static void conn_arm(struct conn *conn);
static void conn_close(struct conn *conn);

static struct conn *conn_of(const struct br_http *http)
{
    return http->ctx;
}

void *br_server_ctx(const struct br_http *http)
{
    return conn_of(http)->server->handler.ctx;
}

/* ---- freeing ---- */

static void server_free_if_done(struct br_server *server)
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

static void conn_release(struct conn *conn)
{
    struct br_server *server = conn->server;
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    if (conn->excess)
        server->n_excess--;
    else
        server->n_conns--;
    br_http_free(&conn->http);
    br_buf_free(&conn->inflight);
    if (server->n_spare < SERVER_SPARE && !server->stopping) {
        conn->next = server->spare;
        server->spare = conn;
        server->n_spare++;
    } else {
        free(conn);
    }
    server_free_if_done(server);
}

static void on_conn_handle_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;
    if (--conn->open_handles == 0 && !conn->dirty)
        conn_release(conn);
}

/* The request's handler hears of it first: nobody will read the answer. */
static void conn_close(struct conn *conn)
{
    if (conn->closed)
        return;
    conn->closed = true;
    if (br_http_owes(&conn->http))
        conn->server->handler.gone(&conn->http);
    uv_close((uv_handle_t *)&conn->tcp, on_conn_handle_closed);
    uv_close((uv_handle_t *)&conn->timer, on_conn_handle_closed);
}

/* ---- writing ---- */

static void conn_mark(struct conn *conn)
{
    if (conn->dirty || conn->closed)
        return;
    conn->dirty = true;
    conn->next_dirty = conn->server->dirty;
    conn->server->dirty = conn;
}

static void on_written(uv_write_t *write, int status)
{
    struct conn *conn = write->data;
    conn->writing = false;
    if (conn->inflight.cap > BR_HTTP_KEEP)
        br_buf_free(&conn->inflight);
    else
        br_buf_clear(&conn->inflight);
    if (status < 0)
        conn_close(conn);
    else
        conn_mark(conn);
}

static int conn_try_write(struct conn *conn)
{
    uv_buf_t buf = uv_buf_init(conn->http.out.data, (unsigned)conn->http.out.len);
    int n = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
    if (n == UV_EAGAIN)
        return 0;
    if (n > 0)
        br_buf_consume(&conn->http.out, (size_t)n);
    return n < 0 ? n : 0;
}

/* Hands `out` to libuv and goes on gathering in what was `inflight`. */
static int conn_queue_write(struct conn *conn)
{
    struct br_buf swap = conn->inflight;
    uv_buf_t buf;
    conn->inflight = conn->http.out;
    conn->http.out = swap;
    buf = uv_buf_init(conn->inflight.data, (unsigned)conn->inflight.len);
    conn->writing = true;
    conn->write.data = conn;
    return uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &buf, 1, on_written);
}

static size_t conn_unsent(const struct conn *conn)
{
    return conn->http.out.len + uv_stream_get_write_queue_size((const uv_stream_t *)&conn->tcp);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct conn *conn = shutdown->data;
    if (status < 0 || conn->eof)
        conn_close(conn);
}

/* All is sent: says so to the client, and waits until it has closed too. A close with unread input would reset the
 * connection and take the answer with it. */
static void conn_linger(struct conn *conn)
{
    if (conn->lingering)
        return;
    conn->lingering = true;
    conn->shutdown.data = conn;
    if (uv_shutdown(&conn->shutdown, (uv_stream_t *)&conn->tcp, on_shutdown) < 0)
        conn_close(conn);
}

static void conn_send(struct conn *conn)
{
    int rc = 0;
    if (!conn->writing && conn->http.out.len > 0) {
        rc = conn_try_write(conn);
        if (rc == 0 && conn->http.out.len > 0)
            rc = conn_queue_write(conn);
        else if (conn->http.out.cap > BR_HTTP_KEEP)
            br_buf_free(&conn->http.out);
    }
    if (rc < 0)
        conn_close(conn);
    else if (conn->http.state == BR_HTTP_STREAM && conn_unsent(conn) > conn->server->config.max_out_bytes) {
        br_log(BR_WARN, "client_too_slow", "unsent_bytes=%zu", conn_unsent(conn));
        conn_close(conn);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    const struct conn *conn = handle->data;
    (void)suggested;
    *buf = uv_buf_init(conn->server->input, SERVER_READ);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *conn = stream->data;
    if (n > 0) {
        br_http_feed(&conn->http, buf->base, (size_t)n);
        conn_mark(conn);
    } else if (n == UV_EOF) {
        conn->eof = true;
        uv_read_stop(stream);
        conn->reading = false;
        conn_mark(conn);
    } else if (n < 0) {
        conn_close(conn);
    }
}

static void conn_read(struct conn *conn)
{
    bool want = !conn->eof && !br_http_full(&conn->http);
    if (want == conn->reading)
        return;
    conn->reading = want;
    if (want && uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) < 0)
        conn_close(conn);
    else if (!want)
        uv_read_stop((uv_stream_t *)&conn->tcp);
}

/* Closes what is over: the client's end is closed, or no further request is wanted. */
static void conn_settle(struct conn *conn)
{
    struct br_http *http = &conn->http;
    if (conn->writing || http->out.len > 0)
        return;
    if (conn->eof) {
        conn_close(conn);
        return;
    }
    if (http->draining && http->state == BR_HTTP_IDLE)
        http->state = BR_HTTP_CLOSING;
    if (http->state == BR_HTTP_CLOSING)
        conn_linger(conn);
}

/* Once a loop turn for every connection where something happened: parse what waits, send what has gathered, and see
 * whether it is over. */
static void conn_turn(struct conn *conn)
{
    struct br_http *http = &conn->http;
    do {
        br_http_pump(http);
        if (conn->eof && br_http_owes(http))
            conn_close(conn);
        if (!conn->closed)
            conn_send(conn);
    } while (!conn->closed && !conn->writing && http->state <= BR_HTTP_BODY && http->pending.len > 0);
    if (!conn->closed)
        conn_settle(conn);
    if (!conn->closed)
        conn_read(conn);
    if (!conn->closed)
        conn_arm(conn);
}

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

/* ---- time-outs ---- */

static void on_request_late(struct conn *conn)
{
    br_http_fail(&conn->http, 408, "The request did not arrive completely in time.");
    conn_mark(conn);
}

static void on_timer(uv_timer_t *timer)
{
    struct conn *conn = timer->data;
    enum conn_wait wait = conn->wait;
    conn->wait = CONN_NONE;
    if (wait == CONN_REQUEST && conn->http.state != BR_HTTP_IDLE)
        on_request_late(conn);
    else if (wait == CONN_SENDING && conn_unsent(conn) < conn->unsent)
        conn_arm(conn); /* slow, but moving */
    else
        conn_close(conn);
}

static enum conn_wait conn_waits(const struct conn *conn)
{
    if (conn->lingering)
        return CONN_LINGER;
    if (conn->writing)
        return CONN_SENDING;
    if (conn->http.state == BR_HTTP_IDLE && conn->http.served > 0)
        return CONN_IDLE;
    return conn->http.state <= BR_HTTP_BODY ? CONN_REQUEST : CONN_NONE;
}

static uint64_t conn_timeout_ms(const struct conn *conn, enum conn_wait wait)
{
    if (wait == CONN_LINGER)
        return SERVER_LINGER_MS;
    return wait == CONN_REQUEST ? conn->server->config.header_timeout_ms : conn->server->config.idle_timeout_ms;
}

/* Sets the timer when what it is for has changed. */
static void conn_arm(struct conn *conn)
{
    enum conn_wait wait = conn_waits(conn);
    uint64_t timeout_ms = conn_timeout_ms(conn, wait);
    if (wait == conn->wait && conn->waits_for == conn->http.served)
        return;
    conn->wait = wait;
    conn->waits_for = conn->http.served;
    conn->unsent = conn_unsent(conn);
    if (wait == CONN_NONE || timeout_ms == 0)
        uv_timer_stop(&conn->timer);
    else
        uv_timer_start(&conn->timer, on_timer, timeout_ms, 0);
}

/* ---- connections ---- */

static void on_http_request(struct br_http *http)
{
    conn_of(http)->server->handler.request(http);
}

static void on_http_wake(struct br_http *http)
{
    conn_mark(conn_of(http));
}

static const struct br_http_events server_events = {.request = on_http_request, .wake = on_http_wake};

static struct conn *conn_take(struct br_server *server)
{
    struct conn *conn = server->spare;
    if (conn) {
        server->spare = conn->next;
        server->n_spare--;
        memset(conn, 0, sizeof *conn);
    } else {
        conn = br_calloc(1, sizeof *conn);
    }
    conn->server = server;
    br_http_init(&conn->http, &server->config.limits, &server_events, conn);
    conn->next = server->conns;
    if (conn->next)
        conn->next->prev = conn;
    server->conns = conn;
    uv_tcp_init(server->loop, &conn->tcp);
    uv_timer_init(server->loop, &conn->timer);
    conn->tcp.data = conn->timer.data = conn;
    conn->open_handles = 2;
    return conn;
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
    if (uv_accept(listener, (uv_stream_t *)&conn->tcp) < 0 || server->n_excess > SERVER_EXCESS) {
        conn_close(conn);
        return;
    }
    uv_tcp_nodelay(&conn->tcp, 1);
    uv_tcp_keepalive(&conn->tcp, 1, SERVER_KEEPALIVE_S);
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
    server->listening = true;
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

uint32_t br_server_connections(const struct br_server *server)
{
    return server->n_conns;
}

void br_server_drain(struct br_server *server)
{
    if (server->draining)
        return;
    server->draining = true;
    uv_close((uv_handle_t *)&server->listener, on_server_handle_closed);
    for (struct conn *conn = server->conns; conn; conn = conn->next) {
        conn->http.draining = true;
        conn_mark(conn);
    }
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
