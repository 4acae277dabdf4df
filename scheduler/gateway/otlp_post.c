/* One POST of a batch: a name looked up, a connection, the request, the first line of the answer. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gateway/otlp.h"

enum { ANSWER_LINE = 12 }; /* "HTTP/1.1 200" */

struct br_otlp_post {
    uv_loop_t *loop;
    uv_getaddrinfo_t resolve;
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_connect_t connect;
    uv_write_t write;
    struct br_buf head, body;
    char answer[ANSWER_LINE + 1], chunk[1024];
    size_t n_answer;
    bool resolving, ended;
    int open, rc;
    void (*done)(void *ctx, int rc);
    void *ctx;
};

static void post_free_if_done(struct br_otlp_post *post)
{
    if (!post->ended || post->open > 0 || post->resolving)
        return;
    post->done(post->ctx, post->rc);
    br_buf_free(&post->head);
    br_buf_free(&post->body);
    free(post);
}

static void on_closed(uv_handle_t *handle)
{
    struct br_otlp_post *post = handle->data;
    post->open--;
    post_free_if_done(post);
}

static void post_end(struct br_otlp_post *post, int rc)
{
    if (post->ended)
        return;
    post->ended = true;
    post->rc = rc;
    if (post->resolving)
        uv_cancel((uv_req_t *)&post->resolve);
    uv_close((uv_handle_t *)&post->tcp, on_closed);
    uv_close((uv_handle_t *)&post->timer, on_closed);
}

static void on_timeout(uv_timer_t *timer)
{
    post_end(timer->data, UV_ETIMEDOUT);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct br_otlp_post *post = handle->data;
    (void)suggested;
    *buf = uv_buf_init(post->chunk, sizeof post->chunk);
}

/* The status is all that matters: partial success is for the collector's own log. */
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct br_otlp_post *post = stream->data;
    size_t room = ANSWER_LINE - post->n_answer, take = n > 0 && (size_t)n < room ? (size_t)n : room;
    int status;
    if (n < 0) {
        post_end(post, (int)n);
        return;
    }
    if (n == 0)
        return;
    memcpy(post->answer + post->n_answer, buf->base, take);
    post->n_answer += take;
    if (post->n_answer < ANSWER_LINE)
        return;
    status = strncmp(post->answer, "HTTP/1.", 7) == 0 ? atoi(post->answer + 9) : 0;
    post_end(post, status >= 200 && status < 300 ? 0 : status > 0 ? status : UV_EPROTO);
}

static void on_written(uv_write_t *write, int status)
{
    struct br_otlp_post *post = write->data;
    if (status < 0)
        post_end(post, status);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct br_otlp_post *post = connect->data;
    uv_buf_t bufs[2] = {uv_buf_init(post->head.data, (unsigned)post->head.len),
                        uv_buf_init(post->body.data, (unsigned)post->body.len)};
    if (post->ended)
        return;
    if (status == 0) {
        post->write.data = post;
        status = uv_write(&post->write, (uv_stream_t *)&post->tcp, bufs, 2, on_written);
    }
    if (status == 0)
        status = uv_read_start((uv_stream_t *)&post->tcp, on_alloc, on_read);
    if (status)
        post_end(post, status);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *list)
{
    struct br_otlp_post *post = resolve->data;
    post->resolving = false;
    if (!post->ended && status == 0 && list) {
        post->connect.data = post;
        status = uv_tcp_connect(&post->connect, &post->tcp, list->ai_addr, on_connected);
    }
    uv_freeaddrinfo(list);
    if (post->ended)
        post_free_if_done(post);
    else if (status)
        post_end(post, status);
}

void br_otlp_post(uv_loop_t *loop, const char *host, const char *port, const char *path, struct br_buf *body,
                  void (*done)(void *ctx, int rc), void *ctx, struct br_otlp_post **out)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct br_otlp_post *post = br_calloc(1, sizeof *post);
    int rc;
    *out = post;
    *post = (struct br_otlp_post){.loop = loop, .body = *body, .done = done, .ctx = ctx, .open = 2};
    *body = (struct br_buf){0};
    br_buf_printf(&post->head,
                  "POST %s HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                  "Connection: close\r\n\r\n",
                  path, host, port, post->body.len);
    uv_tcp_init(loop, &post->tcp);
    uv_timer_init(loop, &post->timer);
    post->tcp.data = post->timer.data = post->resolve.data = post;
    uv_timer_start(&post->timer, on_timeout, BR_OTLP_TIMEOUT_MS, 0);
    rc = uv_getaddrinfo(loop, &post->resolve, on_resolved, host, port, &hints);
    post->resolving = rc == 0;
    if (rc)
        post_end(post, rc);
}

void br_otlp_post_cancel(struct br_otlp_post *post)
{
    post_end(post, UV_ECANCELED);
}
