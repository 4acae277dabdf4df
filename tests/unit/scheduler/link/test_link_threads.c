/* Server and clients on loops of their own, as in two processes; for TSan: nothing is shared behind their backs. */
#include <pthread.h>

#include "tests/unit/scheduler/link/link_fixture.h"

enum { THREADS = 3, FRAMES = 2000 };

struct worker {
    pthread_t thread;
    uv_loop_t loop;
    struct br_link_client *client;
    uint64_t got;
};

static void worker_connected(void *ctx)
{
    struct worker *worker = ctx;
    Briareus__Frame frame;
    Briareus__Register hello;
    register_frame(&frame, &hello, "secret");
    br_link_client_send(worker->client, &frame);
}

/* Sends back what comes. */
static void worker_frame(void *ctx, const Briareus__Frame *frame)
{
    struct worker *worker = ctx;
    worker->got++;
    br_link_client_send(worker->client, frame);
    if (worker->got == FRAMES)
        br_link_client_stop(worker->client);
}

static void worker_disconnected(void *ctx)
{
    (void)ctx;
}

static void *worker_main(void *ctx)
{
    struct worker *worker = ctx;
    struct br_link_client_cb cb = {worker, worker_connected, worker_frame, worker_disconnected};
    struct br_link_limits limits = LIMITS;
    struct br_err err;
    uv_loop_init(&worker->loop);
    if (br_link_client_start(&worker->loop, g_unix, &limits, &cb, &worker->client, &err) == 0)
        uv_run(&worker->loop, UV_RUN_DEFAULT);
    uv_loop_close(&worker->loop);
    return NULL;
}

static void peer_up(void *ctx, struct br_link_peer *peer, const Briareus__Register *hello)
{
    struct side *side = ctx;
    (void)hello;
    side->ups++;
    for (uint64_t i = 0; i < FRAMES; i++) {
        Briareus__Frame frame;
        Briareus__Cancel cancel;
        cancel_frame(&frame, &cancel, i);
        br_link_send(peer, &frame);
    }
}

static void peer_frame(void *ctx, struct br_link_peer *peer, const Briareus__Frame *frame)
{
    struct side *side = ctx;
    (void)peer;
    (void)frame;
    side->frames++;
}

static void test_threads(void **state)
{
    struct side server = {0};
    struct br_link_server_cb cb = {&server, peer_up, peer_frame, side_down};
    struct br_link_limits limits = LIMITS;
    struct worker workers[THREADS] = {0};
    struct br_err err;
    (void)state;
    assert_int_equal(br_link_server_start(&g_loop, g_unix, &limits, &cb, &server.server, &err), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
    WAIT_UNTIL(server.downs == THREADS);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].got, FRAMES);
    }
    assert_int_equal(server.frames, THREADS * FRAMES); /* what was sent before the end arrives */
    br_link_server_stop(server.server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_threads, loop_setup, loop_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
