#include "scheduler/link/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/link/address.h"
#include "scheduler/link/link.h"

static struct br_conn *conn_of(const void *handle)
{
    return ((const uv_handle_t *)handle)->data;
}

static void conn_handle_closed(uv_handle_t *handle)
{
    struct br_conn *conn = conn_of(handle);
    if (--conn->open_handles > 0)
        return;
    conn->cb.closed(conn, conn->why);
    br_frame_reader_free(&conn->reader);
    br_buf_free(&conn->out);
    br_buf_free(&conn->flying);
    free(conn);
}

int br_conn_create(uv_loop_t *loop, bool is_unix, uint64_t max_out_bytes, const struct br_conn_cb *cb, void *owner,
                   struct br_conn **out, struct br_err *err)
{
    struct br_conn *conn = br_calloc(1, sizeof *conn);
    int rc = is_unix ? uv_pipe_init(loop, &conn->io.pipe, 0) : uv_tcp_init(loop, &conn->io.tcp);
    if (rc) {
        free(conn);
        return br_err_set(err, BR_EIO, "connection: %s", uv_strerror(rc));
    }
    uv_timer_init(loop, &conn->timer); /* these two cannot fail */
    uv_idle_init(loop, &conn->flush);
    conn->io.handle.data = conn->timer.data = conn->flush.data = conn->connect.data = conn->write.data = conn;
    conn->open_handles = 3;
    conn->max_out_bytes = max_out_bytes;
    conn->cb = *cb;
    conn->owner = owner;
    snprintf(conn->name, sizeof conn->name, "?");
    br_frame_reader_init(&conn->reader, BR_LINK_MAX_FRAME);
    *out = conn;
    return 0;
}

/* ---- out ---- */

static void conn_flush(struct br_conn *conn);

static void conn_written(uv_write_t *req, int status)
{
    struct br_conn *conn = req->data;
    conn->writing = false;
    br_buf_clear(&conn->flying);
    if (conn->closing)
        return;
    if (status)
        br_conn_close(conn, uv_strerror(status));
    else
        conn_flush(conn);
}

/* Gives libuv what the socket did not take at once. */
static void conn_write_rest(struct br_conn *conn, size_t done)
{
    struct br_buf tmp = conn->flying;
    uv_buf_t buf;
    int rc;
    conn->flying = conn->out;
    conn->out = tmp;
    buf = uv_buf_init(conn->flying.data + done, (unsigned)(conn->flying.len - done));
    rc = uv_write(&conn->write, &conn->io.stream, &buf, 1, conn_written);
    if (rc)
        br_conn_close(conn, uv_strerror(rc));
    else
        conn->writing = true;
}

static void conn_flush(struct br_conn *conn)
{
    uv_buf_t buf = uv_buf_init(conn->out.data, (unsigned)conn->out.len);
    int n;
    uv_idle_stop(&conn->flush);
    if (conn->writing || conn->out.len == 0)
        return;
    n = uv_try_write(&conn->io.stream, &buf, 1);
    if (n < 0 && n != UV_EAGAIN) {
        br_conn_close(conn, uv_strerror(n));
    } else if (n >= 0 && (size_t)n == conn->out.len) {
        br_buf_clear(&conn->out);
    } else if (!conn->closing) {
        conn_write_rest(conn, n < 0 ? 0 : (size_t)n);
    }
}

static void conn_on_idle(uv_idle_t *idle)
{
    conn_flush(conn_of(idle));
}

int br_conn_send(struct br_conn *conn, const Briareus__Frame *frame)
{
    if (conn->closing)
        return BR_EIO;
    if (br_frame_encode(frame, BR_LINK_MAX_FRAME, &conn->out))
        return BR_EINVAL;
    if (conn->out.len + uv_stream_get_write_queue_size(&conn->io.stream) > conn->max_out_bytes) {
        char why[100];
        snprintf(why, sizeof why, "more than %llu bytes wait to be sent", (unsigned long long)conn->max_out_bytes);
        br_buf_clear(&conn->out); /* the last frame would be cut anyway */
        br_conn_close(conn, why);
        return BR_EBUSY;
    }
    uv_idle_start(&conn->flush, conn_on_idle);
    return 0;
}

/* ---- in ---- */

static void conn_pong(struct br_conn *conn, uint64_t nonce)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Pong pong = BRIAREUS__PONG__INIT;
    pong.nonce = nonce;
    frame.body_case = BRIAREUS__FRAME__BODY_PONG;
    frame.pong = &pong;
    br_conn_send(conn, &frame);
}

static void conn_dispatch(struct br_conn *conn, const Briareus__Frame *frame)
{
    if (frame->body_case == BRIAREUS__FRAME__BODY_PING)
        conn_pong(conn, frame->ping->nonce);
    else if (frame->body_case != BRIAREUS__FRAME__BODY_PONG)
        conn->cb.frame(conn, frame);
}

static void conn_pull_all(struct br_conn *conn)
{
    Briareus__Frame *frame;
    struct br_err err;
    int rc = 0;
    while (!conn->closing && (rc = br_frame_pull(&conn->reader, &frame, &err)) == 1) {
        conn_dispatch(conn, frame);
        briareus__frame__free_unpacked(frame, NULL);
    }
    if (!conn->closing && rc < 0)
        br_conn_close(conn, err.msg);
}

static void conn_alloc(uv_handle_t *handle, size_t hint, uv_buf_t *buf)
{
    struct br_conn *conn = conn_of(handle);
    (void)hint;
    *buf = uv_buf_init(conn->chunk, sizeof conn->chunk);
}

static void conn_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct br_conn *conn = conn_of(stream);
    if (n < 0) {
        br_conn_close(conn, n == UV_EOF ? "closed by the other side" : uv_strerror((int)n));
    } else if (n > 0) {
        conn->received_ns = br_now_ns();
        br_frame_feed(&conn->reader, buf->base, (size_t)n);
        conn_pull_all(conn);
    }
}

int br_conn_start(struct br_conn *conn, uint32_t max_frame)
{
    br_address_peer_name(&conn->io.stream, conn->name, sizeof conn->name);
    conn->reader.max_frame = max_frame;
    if (conn->io.handle.type == UV_TCP)
        uv_tcp_nodelay(&conn->io.tcp, 1);
    return uv_read_start(&conn->io.stream, conn_alloc, conn_read);
}

/* ---- time ---- */

static void conn_late(uv_timer_t *timer)
{
    br_conn_close(conn_of(timer), NULL);
}

void br_conn_deadline(struct br_conn *conn, uint32_t ms, const char *why)
{
    snprintf(conn->why, sizeof conn->why, "%s", why);
    uv_timer_start(&conn->timer, conn_late, ms, 0);
}

static void conn_ping(struct br_conn *conn)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Ping ping = BRIAREUS__PING__INIT;
    ping.nonce = ++conn->pings;
    frame.body_case = BRIAREUS__FRAME__BODY_PING;
    frame.ping = &ping;
    br_conn_send(conn, &frame);
}

static void conn_tick(uv_timer_t *timer)
{
    struct br_conn *conn = conn_of(timer);
    int64_t now = br_now_ns(), silence = conn->silence_ms * BR_NS_PER_MS;
    bool late = now - conn->ticked_ns > silence; /* we slept: what the other side sent is still unread */
    conn->ticked_ns = now;
    if (!late && now - conn->received_ns >= silence) {
        char why[60];
        snprintf(why, sizeof why, "nothing received for %u ms", conn->silence_ms);
        br_conn_close(conn, why);
        return;
    }
    conn_ping(conn);
}

void br_conn_keep_alive(struct br_conn *conn, uint32_t silence_ms)
{
    uint32_t tick_ms = silence_ms / 3 ? silence_ms / 3 : 1;
    if (conn->closing)
        return;
    conn->silence_ms = silence_ms;
    conn->received_ns = conn->ticked_ns = br_now_ns();
    uv_timer_start(&conn->timer, conn_tick, tick_ms, tick_ms);
}

/* ---- the end ---- */

void br_conn_close(struct br_conn *conn, const char *why)
{
    if (conn->closing)
        return;
    conn->closing = true;
    if (why)
        snprintf(conn->why, sizeof conn->why, "%s", why);
    if (uv_is_writable(&conn->io.stream))
        conn_flush(conn);
    uv_close(&conn->io.handle, conn_handle_closed);
    uv_close((uv_handle_t *)&conn->timer, conn_handle_closed);
    uv_close((uv_handle_t *)&conn->flush, conn_handle_closed);
}
