#include "loadgen/conn.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { SLOW_BYTES = 512 };

struct load_conn {
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    struct load_pool *pool;
    struct load_conn *next_idle;
    struct load_answer answer;
    struct load_conn_cb cb;
    struct br_buf request;
    bool busy, reused, heard, connected, closing, slow, writing;
};

static void on_closed(uv_handle_t *handle)
{
    struct load_conn *c = handle->data;
    c->pool->n_open--;
    load_answer_free(&c->answer);
    br_buf_free(&c->request);
    free(c);
}

static void conn_close(struct load_conn *c)
{
    if (c->closing)
        return;
    c->closing = true;
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

static void idle_remove(struct load_conn *c)
{
    struct load_conn **at = &c->pool->idle;
    while (*at && *at != c)
        at = &(*at)->next_idle;
    if (*at)
        *at = c->next_idle;
}

/* The answer has ended: the connection is put aside or closed, then the owner hears of it. */
static void conn_finish(struct load_conn *c)
{
    struct load_conn_cb cb = c->cb;
    bool keep = c->answer.keep_alive && !c->writing && !c->slow && !c->pool->closing;
    c->busy = false;
    if (!keep)
        conn_close(c); /* asynchronous: the answer lives on for the callback */
    cb.end(cb.ctx, &c->answer);
    if (keep && c->pool->closing) {
        conn_close(c);
    } else if (keep) {
        c->next_idle = c->pool->idle;
        c->pool->idle = c;
    }
}

static void conn_fail(struct load_conn *c, enum load_outcome outcome, const char *why)
{
    load_answer_eof(&c->answer, why);
    if (outcome != LOAD_CLOSED)
        c->answer.outcome = outcome;
    conn_finish(c);
}

static bool conn_retry(struct load_conn *c);

static void conn_lost(struct load_conn *c, int status)
{
    if (!c->busy) {
        if (!c->closing)
            idle_remove(c);
        conn_close(c);
    } else if (!conn_retry(c)) {
        conn_fail(c, LOAD_CLOSED, status == UV_EOF ? "the server closed the connection" : uv_strerror(status));
    }
}

static void on_alloc(uv_handle_t *handle, size_t hint, uv_buf_t *buf)
{
    struct load_conn *c = handle->data;
    (void)hint;
    *buf = uv_buf_init(c->pool->bytes, c->slow ? SLOW_BYTES : sizeof c->pool->bytes);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct load_conn *c = stream->data;
    if (n == 0 || c->closing)
        return;
    c->pool->read_at_s = br_now_s();
    if (n < 0 || !c->busy) { /* unasked-for bytes end a connection too */
        conn_lost(c, n < 0 ? (int)n : UV_EOF);
        return;
    }
    c->heard = true;
    if (c->slow)
        uv_read_stop(stream);
    if (load_answer_feed(&c->answer, buf->base, (size_t)n) && !c->closing)
        conn_finish(c);
}

static void on_written(uv_write_t *write, int status)
{
    struct load_conn *c = write->handle->data;
    c->writing = false;
    if (status < 0 && status != UV_ECANCELED && !c->closing && c->busy)
        conn_lost(c, status);
}

static int conn_write(struct load_conn *c)
{
    uv_stream_t *stream = (uv_stream_t *)&c->tcp;
    uv_buf_t buf = uv_buf_init(c->request.data, (unsigned)c->request.len);
    int sent = uv_try_write(stream, &buf, 1);
    if (sent == (int)c->request.len)
        return 0;
    if (sent < 0 && sent != UV_EAGAIN)
        return sent;
    if (sent > 0)
        buf = uv_buf_init(c->request.data + sent, (unsigned)(c->request.len - (size_t)sent));
    c->writing = true;
    return uv_write(&c->write, stream, &buf, 1, on_written);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct load_conn *c = connect->data;
    if (status == UV_ECANCELED || c->closing)
        return;
    if (status < 0) {
        conn_fail(c, status == UV_EADDRNOTAVAIL || status == UV_EMFILE ? LOAD_LOCAL : LOAD_CONNECT,
                  uv_strerror(status));
        return;
    }
    c->connected = true;
    uv_tcp_nodelay(&c->tcp, 1);
    status = uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    if (status == 0)
        status = conn_write(c);
    if (status < 0)
        conn_lost(c, status);
}

/* A connection that could not even be opened: said from the loop, not from inside. */
static void on_failed_early(uv_handle_t *handle)
{
    struct load_conn *c = handle->data;
    if (c->busy) {
        c->busy = false;
        c->cb.end(c->cb.ctx, &c->answer);
    }
    on_closed(handle);
}

static void conn_fail_early(struct load_conn *c, int status)
{
    load_answer_eof(&c->answer, uv_strerror(status));
    c->answer.outcome = LOAD_LOCAL;
    c->closing = true;
    uv_close((uv_handle_t *)&c->tcp, on_failed_early);
}

static struct load_conn *conn_open(struct load_pool *pool)
{
    struct load_conn *c = br_calloc(1, sizeof *c);
    c->pool = pool;
    pool->opened++;
    pool->n_open++;
    uv_tcp_init(pool->loop, &c->tcp);
    c->tcp.data = c->connect.data = c;
    return c;
}

static void conn_take(struct load_conn *c, struct br_buf *request, bool stream, const struct load_conn_cb *cb)
{
    br_buf_free(&c->request);
    c->request = *request;
    *request = (struct br_buf){0};
    c->cb = *cb;
    c->busy = true;
    c->heard = c->slow = false;
    load_answer_start(&c->answer, stream, cb->tokens, cb->ctx);
}

/* A new connection for the request of `cb`; what cannot even be begun fails from the loop. */
static struct load_conn *conn_begin(struct load_pool *pool, struct br_buf *request, bool stream,
                                    const struct load_conn_cb *cb)
{
    struct load_conn *c = conn_open(pool);
    int rc;
    conn_take(c, request, stream, cb);
    rc = uv_tcp_connect(&c->connect, &c->tcp, (const struct sockaddr *)&pool->target->address, on_connected);
    if (rc < 0)
        conn_fail_early(c, rc);
    return c;
}

/* A server may close a kept connection just as it is used again: the request then goes out anew, on a new one. */
static bool conn_retry(struct load_conn *c)
{
    struct br_buf request = c->request;
    if (!c->reused || c->heard)
        return false;
    c->request = (struct br_buf){0};
    c->pool->stale++;
    c->busy = false;
    conn_close(c);
    c->cb.moved(c->cb.ctx, conn_begin(c->pool, &request, c->answer.stream, &c->cb));
    return true;
}

struct load_conn *load_conn_send(struct load_pool *pool, struct br_buf *request, bool stream,
                                 const struct load_conn_cb *cb)
{
    while (pool->idle) {
        struct load_conn *c = pool->idle;
        pool->idle = c->next_idle;
        c->reused = true;
        conn_take(c, request, stream, cb);
        if (conn_write(c) == 0)
            return c;
        *request = c->request;
        c->request = (struct br_buf){0};
        c->busy = false;
        pool->stale++;
        conn_close(c);
    }
    return conn_begin(pool, request, stream, cb);
}

void load_conn_abort(struct load_conn *c)
{
    c->busy = false;
    c->answer.outcome = LOAD_CANCELLED; /* what it still parses is heard by no one */
    conn_close(c);
}

void load_conn_slow(struct load_conn *c)
{
    c->slow = true;
}

void load_conn_resume(struct load_conn *c)
{
    if (!c->closing && c->connected)
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

void load_pool_init(struct load_pool *pool, uv_loop_t *loop, const struct load_target *target)
{
    memset(pool, 0, offsetof(struct load_pool, bytes));
    pool->loop = loop;
    pool->target = target;
}

void load_pool_close(struct load_pool *pool)
{
    pool->closing = true;
    while (pool->idle) {
        struct load_conn *c = pool->idle;
        pool->idle = c->next_idle;
        conn_close(c);
    }
}
