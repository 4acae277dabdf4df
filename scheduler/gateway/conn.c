/* One connection on the loop: reading, writing, closing, time-outs. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/gateway/conn.h"

static void conn_arm(struct conn *conn);

static struct conn *conn_of(const struct br_http *http)
{
    return http->ctx;
}

void *br_server_ctx(const struct br_http *http)
{
    return conn_of(http)->server->handler.ctx;
}

struct br_server *br_server_of(const struct br_http *http)
{
    return conn_of(http)->server;
}

/* ---- freeing ---- */

void conn_release(struct conn *conn)
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
    br_buf_free(&conn->sealed);
    br_tls_free(conn->tls);
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
void conn_close(struct conn *conn)
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

void conn_mark(struct conn *conn)
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

/* What goes to the socket. */
static struct br_buf *conn_out(struct conn *conn)
{
    return conn->tls ? &conn->sealed : &conn->http.out;
}

static int conn_try_write(struct conn *conn)
{
    struct br_buf *out = conn_out(conn);
    uv_buf_t buf = uv_buf_init(out->data, (unsigned)out->len);
    int n = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
    if (n == UV_EAGAIN)
        return 0;
    if (n > 0)
        br_buf_consume(out, (size_t)n);
    return n < 0 ? n : 0;
}

/* Hands `out` to libuv and goes on gathering in what was `inflight`. */
static int conn_queue_write(struct conn *conn)
{
    struct br_buf swap = conn->inflight, *out = conn_out(conn);
    uv_buf_t buf;
    conn->inflight = *out;
    *out = swap;
    buf = uv_buf_init(conn->inflight.data, (unsigned)conn->inflight.len);
    conn->writing = true;
    conn->write.data = conn;
    return uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &buf, 1, on_written);
}

static size_t conn_unsent(const struct conn *conn)
{
    return conn->http.out.len + conn->sealed.len + uv_stream_get_write_queue_size((const uv_stream_t *)&conn->tcp);
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

/* The kernel's buffer is full and ours fills up: what is to follow is held back, and whoever makes the tokens may do
 * something else meanwhile. */
static void conn_pace(struct conn *conn)
{
    const struct br_server *server = conn->server;
    uint64_t unsent = conn_unsent(conn), limit = server->config.slow_out_bytes;
    bool slow = conn->slow ? unsent > limit / 4 : unsent > limit;
    if (conn->http.state != BR_HTTP_STREAM || !server->handler.slow) {
        conn->slow = false; /* of an answer that is complete */
        return;
    }
    if (slow || conn->slow)
        conn->slow = server->handler.slow(&conn->http, slow);
}

static void conn_send_once(struct conn *conn)
{
    struct br_buf *out = conn_out(conn);
    int rc = conn->tls && !conn->writing ? br_tls_send(conn->tls, &conn->http.out, &conn->sealed) : 0;
    if (rc == 0 && !conn->writing && out->len > 0) {
        rc = conn_try_write(conn);
        if (rc == 0 && out->len > 0)
            rc = conn_queue_write(conn);
        else if (out->cap > BR_HTTP_KEEP)
            br_buf_free(out);
    }
    if (rc < 0)
        conn_close(conn);
    else if (conn->http.state == BR_HTTP_STREAM && conn_unsent(conn) > conn->server->config.max_out_bytes) {
        br_log(BR_WARN, "client_too_slow", "unsent_bytes=%zu", conn_unsent(conn));
        conn_close(conn);
    } else
        conn_pace(conn);
}

/* What was held back comes as soon as there is room. */
static void conn_send(struct conn *conn)
{
    do
        conn_send_once(conn);
    while (!conn->closed && !conn->writing && conn->http.out.len > 0);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    const struct conn *conn = handle->data;
    (void)suggested;
    *buf = uv_buf_init(conn->server->input, SERVER_READ);
}

/* What is no TLS, or not of a kind that is spoken here, ends the connection; what can be said of it is said. */
static void conn_receive_sealed(struct conn *conn, const char *data, size_t len)
{
    struct br_buf plain = {0};
    int rc = br_tls_receive(conn->tls, data, len, &plain, &conn->sealed);
    if (plain.len)
        br_http_feed(&conn->http, plain.data, plain.len);
    br_buf_free(&plain);
    if (rc == 0)
        return;
    if (!conn->writing && conn->sealed.len)
        conn_try_write(conn);
    conn_close(conn);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *conn = stream->data;
    if (n > 0) {
        if (conn->tls)
            conn_receive_sealed(conn, buf->base, (size_t)n);
        else
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
    if (conn->writing || conn->sealed.len > 0 || (http->out.len > 0 && !conn->eof))
        return;
    if (conn->eof) {
        conn_close(conn);
        return;
    }
    if (http->draining && http->state == BR_HTTP_IDLE && (conn->server->draining || http->served > 0))
        http->state = BR_HTTP_CLOSING;
    if (http->state != BR_HTTP_CLOSING)
        return;
    if (conn->tls && !conn->lingering) {
        br_tls_finish(conn->tls, &conn->sealed);
        conn_send(conn);
    }
    if (!conn->closed)
        conn_linger(conn);
}

/* Once a loop turn for every connection where something happened: parse what waits, send what has gathered, and see
 * whether it is over. */
void conn_turn(struct conn *conn)
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
    if (wait == CONN_REQUEST && conn->http.state != BR_HTTP_IDLE && conn->http.state <= BR_HTTP_BODY)
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
    if (conn->tls && !br_tls_ready(conn->tls))
        return CONN_REQUEST;
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

struct conn *conn_take(struct br_server *server)
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
