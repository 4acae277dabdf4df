/* A server, a client and raw sockets on one loop, for the tests of the link. */
#ifndef BRIAREUS_TESTS_LINK_FIXTURE_H
#define BRIAREUS_TESTS_LINK_FIXTURE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/link/frame.h"
#include "scheduler/link/link.h"
#include "tests/cmocka.h"

#define LIMITS ((struct br_link_limits){4, 1 << 20, 2000, 2000, "secret"})

struct side {
    struct br_link_server *server;
    struct br_link_client *client;
    struct br_link_peer *peer;
    int ups, downs, connects, disconnects;
    uint64_t frames, next; /* frames must come with seq = next */
    bool greet;            /* the client registers by itself */
    char node[64];
};

static uv_loop_t g_loop;
static char g_dir[64], g_unix[100];

static inline void nothing_on_timer(uv_timer_t *timer)
{
    (void)timer;
}

/* Turns the loop until the condition holds; fails after 10 s. */
#define WAIT_UNTIL(condition)                                                                                          \
    do {                                                                                                               \
        uv_timer_t waker_;                                                                                             \
        int64_t end_ns_ = br_now_ns() + 10 * BR_NS_PER_S;                                                              \
        uv_timer_init(&g_loop, &waker_);                                                                               \
        uv_timer_start(&waker_, nothing_on_timer, 5, 5);                                                               \
        while (!(condition) && br_now_ns() < end_ns_)                                                                  \
            uv_run(&g_loop, UV_RUN_ONCE);                                                                              \
        uv_close((uv_handle_t *)&waker_, NULL);                                                                        \
        uv_run(&g_loop, UV_RUN_NOWAIT);                                                                                \
        assert_true(condition);                                                                                        \
    } while (0)

static inline void cancel_frame(Briareus__Frame *frame, Briareus__Cancel *cancel, uint64_t seq)
{
    briareus__frame__init(frame);
    briareus__cancel__init(cancel);
    cancel->seq = seq;
    frame->body_case = BRIAREUS__FRAME__BODY_CANCEL;
    frame->cancel = cancel;
}

static inline void register_frame(Briareus__Frame *frame, Briareus__Register *hello, const char *token)
{
    briareus__frame__init(frame);
    briareus__register__init(hello);
    hello->version = BR_LINK_VERSION;
    hello->node = (char *)"node-1";
    hello->token = (char *)token;
    frame->body_case = BRIAREUS__FRAME__BODY_REGISTER_;
    frame->register_ = hello;
}

static inline void side_count(struct side *side, const Briareus__Frame *frame)
{
    assert_int_equal(frame->body_case, BRIAREUS__FRAME__BODY_CANCEL);
    assert_int_equal(frame->cancel->seq, side->next);
    side->next++;
    side->frames++;
}

static inline void side_up(void *ctx, struct br_link_peer *peer, const Briareus__Register *hello)
{
    struct side *side = ctx;
    side->ups++;
    side->peer = peer;
    snprintf(side->node, sizeof side->node, "%s", hello->node);
    br_link_peer_set_data(peer, side);
}

static inline void side_frame(void *ctx, struct br_link_peer *peer, const Briareus__Frame *frame)
{
    assert_ptr_equal(br_link_peer_data(peer), ctx);
    side_count(ctx, frame);
}

static inline void side_down(void *ctx, struct br_link_peer *peer)
{
    struct side *side = ctx;
    side->downs++;
    if (side->peer == peer)
        side->peer = NULL;
}

static inline void side_connected(void *ctx)
{
    struct side *side = ctx;
    side->connects++;
    if (side->greet) {
        Briareus__Frame frame;
        Briareus__Register hello;
        register_frame(&frame, &hello, "");
        assert_int_equal(br_link_client_send(side->client, &frame), 0);
    }
}

static inline void side_client_frame(void *ctx, const Briareus__Frame *frame)
{
    side_count(ctx, frame);
}

static inline void side_disconnected(void *ctx)
{
    struct side *side = ctx;
    side->disconnects++;
}

static inline void server_start(struct side *side, const char *address, struct br_link_limits limits)
{
    struct br_link_server_cb cb = {side, side_up, side_frame, side_down};
    struct br_err err;
    assert_int_equal(br_link_server_start(&g_loop, address, &limits, &cb, &side->server, &err), 0);
}

static inline void client_start(struct side *side, const char *address, struct br_link_limits limits)
{
    struct br_link_client_cb cb = {side, side_connected, side_client_frame, side_disconnected};
    struct br_err err;
    assert_int_equal(br_link_client_start(&g_loop, address, &limits, &cb, &side->client, &err), 0);
}

/* ---- a stranger with a bare socket ---- */

static inline int raw_connect(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", g_unix + 5);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static inline void raw_register(int fd, const char *token, uint32_t version)
{
    Briareus__Frame frame;
    Briareus__Register hello;
    struct br_buf buf = {0};
    register_frame(&frame, &hello, token);
    hello.version = version;
    br_frame_encode(&frame, BR_LINK_MAX_FRAME, &buf);
    assert_int_equal(write(fd, buf.data, buf.len), buf.len);
    br_buf_free(&buf);
}

static inline bool raw_closed(int fd) /* throws away what comes */
{
    char trash[4096];
    ssize_t n = read(fd, trash, sizeof trash);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

static inline int free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    getsockname(fd, (struct sockaddr *)&addr, &len);
    close(fd);
    return ntohs(addr.sin_port);
}

static inline int loop_setup(void **state)
{
    (void)state;
    br_log_init("test", BR_LOG_OFF);
    snprintf(g_dir, sizeof g_dir, "/tmp/br-link-XXXXXX");
    assert_non_null(mkdtemp(g_dir));
    snprintf(g_unix, sizeof g_unix, "unix:%s/link.sock", g_dir);
    return uv_loop_init(&g_loop);
}

static inline void close_left_over(uv_handle_t *handle, void *found)
{
    if (!uv_is_closing(handle)) {
        *(bool *)found = true;
        uv_close(handle, NULL);
    }
}

static inline void loop_limit(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Everything must be closed by then. What a failed test left open is closed here: it must not hang the others. */
static inline int loop_teardown(void **state)
{
    uv_timer_t limit;
    bool left = false;
    (void)state;
    uv_timer_init(&g_loop, &limit);
    uv_timer_start(&limit, loop_limit, 5000, 0);
    uv_unref((uv_handle_t *)&limit);
    uv_run(&g_loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&limit, NULL);
    uv_walk(&g_loop, close_left_over, &left);
    uv_run(&g_loop, UV_RUN_DEFAULT);
    if (left)
        return -1;
    unlink(g_unix + 5);
    assert_int_equal(rmdir(g_dir), 0);
    return uv_loop_close(&g_loop);
}

#endif
