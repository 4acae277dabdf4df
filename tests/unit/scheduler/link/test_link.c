/* Server and client on a real loop: order, strangers, time-outs, bounds, the end. */
#include "tests/unit/scheduler/link/link_fixture.h"

/* 20,000 frames each way, in order. */
static void exchange(const char *address)
{
    enum { N = 20000 };
    struct br_link_limits limits = LIMITS;
    struct side server = {0}, client = {.greet = true};
    limits.max_out_bytes = 64 << 20;
    server_start(&server, address, limits);
    client_start(&client, address, limits);
    WAIT_UNTIL(server.peer);
    assert_string_equal(server.node, "node-1");
    for (uint64_t i = 0; i < N; i++) {
        Briareus__Frame frame;
        Briareus__Cancel cancel;
        cancel_frame(&frame, &cancel, i);
        assert_int_equal(br_link_send(server.peer, &frame), 0);
        assert_int_equal(br_link_client_send(client.client, &frame), 0);
    }
    WAIT_UNTIL(server.frames == N && client.frames == N);
    br_link_client_stop(client.client);
    WAIT_UNTIL(server.downs == 1);
    assert_int_equal(client.disconnects, 0);
    br_link_server_stop(server.server);
}

static void test_many_frames_unix(void **state)
{
    (void)state;
    exchange(g_unix);
}

static void test_many_frames_tcp(void **state)
{
    char address[64];
    (void)state;
    snprintf(address, sizeof address, "tcp:127.0.0.1:%d", free_port());
    exchange(address);
}

static void test_byte_by_byte(void **state)
{
    struct side server = {0};
    struct br_buf buf = {0};
    Briareus__Frame frame;
    Briareus__Register hello;
    Briareus__Cancel cancel;
    int fd;
    (void)state;
    server_start(&server, g_unix, LIMITS);
    fd = raw_connect();
    register_frame(&frame, &hello, "secret");
    br_frame_encode(&frame, BR_LINK_MAX_FRAME, &buf);
    for (uint64_t i = 0; i < 3; i++) {
        cancel_frame(&frame, &cancel, i);
        br_frame_encode(&frame, BR_LINK_MAX_FRAME, &buf);
    }
    for (size_t i = 0; i < buf.len; i++) {
        assert_int_equal(write(fd, buf.data + i, 1), 1);
        uv_run(&g_loop, UV_RUN_NOWAIT);
        uv_run(&g_loop, UV_RUN_NOWAIT);
    }
    WAIT_UNTIL(server.ups == 1 && server.frames == 3);
    close(fd);
    WAIT_UNTIL(server.downs == 1);
    br_buf_free(&buf);
    br_link_server_stop(server.server);
}

static void stranger(struct side *server, const void *data, size_t len)
{
    int fd = raw_connect();
    assert_int_equal(write(fd, data, len), len);
    WAIT_UNTIL(raw_closed(fd));
    assert_int_equal(server->ups + server->downs, 0);
    close(fd);
}

static void test_strangers_bytes(void **state)
{
    struct side server = {0};
    struct br_buf buf = {0};
    Briareus__Frame frame;
    Briareus__Cancel cancel;
    char garbage[3000];
    (void)state;
    server_start(&server, g_unix, LIMITS);
    stranger(&server, "\0\0\0\0", 4);
    stranger(&server, "\xff\xff\xff\xff", 4);
    stranger(&server, "\1\0\x10\0", 4); /* 1 MiB + 1: too long for one that has not registered */
    stranger(&server, "GET / HTTP/1.1\r\n\r\n", 18);
    stranger(&server, "\3\0\0\0\x12\xff\xff", 7);
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (char)(i * 2654435761u >> 13);
    stranger(&server, garbage, sizeof garbage);
    cancel_frame(&frame, &cancel, 0);
    br_frame_encode(&frame, BR_LINK_MAX_FRAME, &buf);
    stranger(&server, buf.data, buf.len); /* good frame, but no Register */
    br_buf_free(&buf);
    br_link_server_stop(server.server);
}

static void introduces_itself(struct side *server, const char *token, uint32_t version, bool welcome)
{
    int fd = raw_connect();
    *server = (struct side){.server = server->server};
    raw_register(fd, token, version);
    if (welcome)
        WAIT_UNTIL(server->ups == 1);
    else
        WAIT_UNTIL(raw_closed(fd));
    close(fd);
    if (welcome)
        WAIT_UNTIL(server->downs == 1);
    assert_int_equal(server->ups, welcome);
    assert_int_equal(server->downs, welcome);
}

static void test_register_is_checked(void **state)
{
    struct side server = {0};
    (void)state;
    server_start(&server, g_unix, LIMITS);
    introduces_itself(&server, "secret", BR_LINK_VERSION, true);
    introduces_itself(&server, "secret", BR_LINK_VERSION - 1, true);
    introduces_itself(&server, "secret", BR_LINK_VERSION + 1, false);
    introduces_itself(&server, "secret", BR_LINK_VERSION - 2, false);
    introduces_itself(&server, "", BR_LINK_VERSION, false);
    introduces_itself(&server, "secre", BR_LINK_VERSION, false);
    introduces_itself(&server, "secrets", BR_LINK_VERSION, false);
    introduces_itself(&server, "sEcret", BR_LINK_VERSION, false);
    br_link_server_stop(server.server);
}

static void test_max_peers(void **state)
{
    struct br_link_limits limits = LIMITS;
    struct side server = {0};
    int fd[3];
    (void)state;
    limits.max_peers = 2;
    server_start(&server, g_unix, limits);
    for (int i = 0; i < 3; i++) {
        fd[i] = raw_connect();
        raw_register(fd[i], "secret", BR_LINK_VERSION);
        WAIT_UNTIL(server.ups == (i < 2 ? i + 1 : 2));
    }
    WAIT_UNTIL(raw_closed(fd[2]));
    assert_int_equal(server.downs, 0);
    for (int i = 0; i < 3; i++)
        close(fd[i]);
    WAIT_UNTIL(server.downs == 2);
    br_link_server_stop(server.server);
}

/* Sends a byte now and then, so that it is never silent: the time to register is over all the same. */
static void test_slow_loris(void **state)
{
    struct br_link_limits limits = LIMITS;
    struct side server = {0};
    int64_t start_ns = br_now_ns();
    int fd;
    (void)state;
    limits.register_ms = 100;
    server_start(&server, g_unix, limits);
    fd = raw_connect();
    assert_int_equal(write(fd, "\xff\xff\0\0", 4), 4);
    WAIT_UNTIL((write(fd, "x", 1), raw_closed(fd)));
    /* libuv counts from the time that its loop last looked at the clock: somewhat early is right, at once is not. */
    assert_in_range(br_now_ns() - start_ns, 50 * BR_NS_PER_MS, 5 * BR_NS_PER_S);
    assert_int_equal(server.ups, 0);
    close(fd);
    br_link_server_stop(server.server);
}

static void test_silent_peer_is_dropped(void **state)
{
    struct br_link_limits limits = LIMITS;
    struct br_frame_reader reader;
    struct side server = {0};
    int pings = 0, fd;
    (void)state;
    limits.silence_ms = 150;
    server_start(&server, g_unix, limits);
    fd = raw_connect();
    raw_register(fd, "secret", BR_LINK_VERSION);
    br_frame_reader_init(&reader, 1000);
    WAIT_UNTIL(server.downs == 1); /* answers no ping */
    for (;;) {
        Briareus__Frame *frame;
        struct br_err err;
        char buf[1000];
        ssize_t n = read(fd, buf, sizeof buf);
        if (n <= 0)
            break;
        br_frame_feed(&reader, buf, (size_t)n);
        for (; br_frame_pull(&reader, &frame, &err) == 1; pings++) {
            assert_int_equal(frame->body_case, BRIAREUS__FRAME__BODY_PING);
            briareus__frame__free_unpacked(frame, NULL);
        }
    }
    assert_in_range(pings, 1, 4);
    br_frame_reader_free(&reader);
    close(fd);
    br_link_server_stop(server.server);
}

/* Nobody says anything for ten times the limit: the pings keep both sides content. */
static void test_idle_connection_lives(void **state)
{
    struct br_link_limits limits = LIMITS;
    struct side server = {0}, client = {.greet = true};
    int64_t end_ns = br_now_ns() + 1200 * BR_NS_PER_MS;
    (void)state;
    limits.silence_ms = 120;
    server_start(&server, g_unix, limits);
    client_start(&client, g_unix, limits);
    WAIT_UNTIL(br_now_ns() > end_ns);
    assert_int_equal(server.ups, 1);
    assert_int_equal(server.downs + client.disconnects, 0);
    assert_int_equal(server.frames + client.frames, 0); /* pings are not passed up */
    br_link_client_stop(client.client);
    br_link_server_stop(server.server);
}

/* A server that accepts and then says nothing. */
static void test_client_leaves_silent_server(void **state)
{
    struct br_link_limits limits = LIMITS;
    struct side client = {0};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)state;
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", g_unix + 5);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(fd, 8), 0);
    limits.silence_ms = 100;
    client_start(&client, g_unix, limits);
    WAIT_UNTIL(client.disconnects == 1 && client.connects == 2);
    br_link_client_stop(client.client);
    close(fd);
}

static void test_reconnect(void **state)
{
    struct side server = {0}, client = {.greet = true};
    Briareus__Frame frame;
    Briareus__Cancel cancel;
    (void)state;
    client_start(&client, g_unix, LIMITS); /* before there is a server */
    WAIT_UNTIL(br_now_ns() > 0);
    cancel_frame(&frame, &cancel, 0);
    assert_false(br_link_client_connected(client.client));
    assert_int_equal(br_link_client_send(client.client, &frame), BR_EIO);
    for (int i = 1; i <= 3; i++) {
        server_start(&server, g_unix, LIMITS);
        WAIT_UNTIL(server.ups == i);
        assert_int_equal(br_link_send(server.peer, &frame), 0);
        WAIT_UNTIL(client.frames == (uint64_t)i);
        client.next = 0;
        br_link_server_stop(server.server);
        WAIT_UNTIL(client.disconnects == i);
    }
    assert_int_equal(server.downs, 0); /* no callbacks after stop */
    br_link_client_stop(client.client);
}

static void test_out_buffer_overflow(void **state)
{
    struct side server = {0};
    Briareus__Frame frame;
    Briareus__Cancel cancel;
    int fd, rc = 0;
    (void)state;
    server_start(&server, g_unix, LIMITS);
    fd = raw_connect();
    raw_register(fd, "secret", BR_LINK_VERSION);
    WAIT_UNTIL(server.ups == 1);
    cancel_frame(&frame, &cancel, 0);
    for (int i = 0; rc == 0; i++) { /* the peer never reads: 1 MiB of ours and what the kernel takes */
        assert_in_range(i, 0, 1000000);
        rc = br_link_send(server.peer, &frame);
        if (i % 1000 == 0)
            uv_run(&g_loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(rc, BR_EBUSY);
    assert_int_equal(server.downs, 0); /* from the loop, not from inside the call */
    assert_int_equal(br_link_send(server.peer, &frame), BR_EIO);
    WAIT_UNTIL(server.downs == 1);
    close(fd);
    br_link_server_stop(server.server);
}

static void test_stop_with_frames_in_flight(void **state)
{
    struct side server = {0}, client = {.greet = true};
    (void)state;
    server_start(&server, g_unix, LIMITS);
    client_start(&client, g_unix, LIMITS);
    WAIT_UNTIL(server.ups == 1);
    for (uint64_t i = 0; i < 20000; i++) {
        Briareus__Frame frame;
        Briareus__Cancel cancel;
        cancel_frame(&frame, &cancel, i);
        assert_int_equal(br_link_send(server.peer, &frame), 0);
        assert_int_equal(br_link_client_send(client.client, &frame), 0);
        if (i == 10000)
            uv_run(&g_loop, UV_RUN_NOWAIT);
    }
    br_link_server_stop(server.server);
    br_link_client_stop(client.client);
    server.next = client.next = UINT64_MAX; /* any frame from here on fails the test */
}

/* Stopping from inside a callback is what a daemon does on a bad frame. */
static struct side *g_stop_inside;

static void stop_inside(void *ctx, struct br_link_peer *peer, const Briareus__Frame *frame)
{
    struct side *side = ctx;
    (void)peer;
    (void)frame;
    side->frames++;
    br_link_server_stop(side->server);
    br_link_client_stop(g_stop_inside->client);
}

static void test_stop_inside_callback(void **state)
{
    struct side server = {0}, client = {.greet = true};
    struct br_link_server_cb cb = {&server, side_up, stop_inside, side_down};
    struct br_link_limits limits = LIMITS;
    Briareus__Frame frame;
    Briareus__Cancel cancel;
    struct br_err err;
    (void)state;
    g_stop_inside = &client;
    assert_int_equal(br_link_server_start(&g_loop, g_unix, &limits, &cb, &server.server, &err), 0);
    client_start(&client, g_unix, LIMITS);
    WAIT_UNTIL(server.ups == 1);
    cancel_frame(&frame, &cancel, 0);
    br_link_client_send(client.client, &frame);
    br_link_client_send(client.client, &frame);
    WAIT_UNTIL(server.frames == 1);
}

static void test_stop_while_connecting(void **state)
{
    struct side client = {0}, other = {0};
    (void)state;
    client_start(&client, "tcp:127.0.0.1:1", LIMITS);
    client_start(&other, g_unix, LIMITS);
    uv_run(&g_loop, UV_RUN_NOWAIT); /* the name is being looked up */
    br_link_client_stop(client.client);
    br_link_client_stop(other.client);
}

static int start_rc(const char *address, struct br_err *err)
{
    struct br_link_server_cb cb = {0};
    struct br_link_limits limits = LIMITS;
    struct br_link_server *server;
    return br_link_server_start(&g_loop, address, &limits, &cb, &server, err);
}

static void test_socket_file(void **state)
{
    struct side server = {0};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st;
    struct br_err err;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)state;
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", g_unix + 5);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    close(fd); /* as a killed server leaves it */
    server_start(&server, g_unix, LIMITS);
    assert_int_equal(stat(g_unix + 5, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(start_rc(g_unix, &err), BR_EBUSY);
    fd = raw_connect(); /* the first one is unharmed */
    raw_register(fd, "secret", BR_LINK_VERSION);
    WAIT_UNTIL(server.ups == 1);
    close(fd);
    br_link_server_stop(server.server);
    WAIT_UNTIL(stat(g_unix + 5, &st) != 0);
    fd = open(g_unix + 5, O_CREAT | O_WRONLY, 0600);
    close(fd);
    assert_int_equal(start_rc(g_unix, &err), BR_EINVAL);
    assert_int_equal(stat(g_unix + 5, &st), 0);
}

static void test_bad_addresses(void **state)
{
    char longer[300];
    struct br_err err;
    (void)state;
    memset(longer, 'x', sizeof longer);
    memcpy(longer, "unix:", 5);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(start_rc("localhost:80", &err), BR_EINVAL);
    assert_int_equal(start_rc("tcp:localhost", &err), BR_EINVAL);
    assert_int_equal(start_rc("tcp:localhost:", &err), BR_EINVAL);
    assert_int_equal(start_rc("tcp:localhost:99999", &err), BR_EINVAL);
    assert_int_equal(start_rc("tcp::80", &err), BR_EINVAL);
    assert_int_equal(start_rc("unix:", &err), BR_EINVAL);
    assert_int_equal(start_rc(longer, &err), BR_EINVAL);
    assert_int_equal(start_rc("unix:/nowhere/at/all", &err), BR_EIO);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, loop_setup, loop_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_many_frames_unix),
        TEST(test_many_frames_tcp),
        TEST(test_byte_by_byte),
        TEST(test_strangers_bytes),
        TEST(test_register_is_checked),
        TEST(test_max_peers),
        TEST(test_slow_loris),
        TEST(test_silent_peer_is_dropped),
        TEST(test_idle_connection_lives),
        TEST(test_client_leaves_silent_server),
        TEST(test_reconnect),
        TEST(test_out_buffer_overflow),
        TEST(test_stop_with_frames_in_flight),
        TEST(test_stop_inside_callback),
        TEST(test_stop_while_connecting),
        TEST(test_socket_file),
        TEST(test_bad_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
