/* Redis as it is on bad days: gone, frozen, restarted, full, read-only, with foreign data in it. */
#include <signal.h>

#include "scheduler/queue/redis_script.h"
#include "scheduler/queue/refusal.h"
#include "tests/unit/scheduler/queue/queue_fixture.h"
#include "tests/unit/scheduler/queue/redis_fixture.h"

static struct redis_fixture g_redis;
static uv_loop_t g_loop;
static struct br_queue *g_q;

static struct br_queue_redis_config config(void)
{
    return (struct br_queue_redis_config){.unix_path = g_redis.socket,
                                          .prefix = "test:",
                                          .group_commit_us = 1000,
                                          .finished_ttl_s = 100,
                                          .max_pending = 10000,
                                          .timeout_ms = 10000};
}

static void open_queue(struct br_queue_redis_config with)
{
    struct br_err err;
    assert_int_equal(br_queue_redis_create(&g_loop, &with, &g_q, &err), 0);
}

static int setup(void **state)
{
    (void)state;
    redis_fixture_start(&g_redis, "yes");
    return uv_loop_init(&g_loop);
}

static int teardown(void **state)
{
    (void)state;
    g_q->ops->destroy(g_q);
    uv_run(&g_loop, UV_RUN_DEFAULT);
    redis_fixture_stop(&g_redis);
    return uv_loop_close(&g_loop);
}

/* The test's own command, words split at blanks; its integer or length. */
static long long redis_do(const char *format, ...)
{
    redisContext *c = redis_fixture_connect(&g_redis);
    redisReply *reply;
    long long value;
    va_list ap;
    va_start(ap, format);
    reply = redisvCommand(c, format, ap);
    va_end(ap);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    value = reply->type == REDIS_REPLY_INTEGER ? reply->integer : (long long)reply->len;
    freeReplyObject(reply);
    redisFree(c);
    return value;
}

static void accept_one(uint64_t id)
{
    struct br_seq_spec spec = make_spec(id);
    assert_int_equal(do_accept(&g_loop, g_q, &spec, 1).rc, 0);
}

static int append(uint64_t seq, uint32_t first, uint32_t n, enum br_end end)
{
    struct br_token tokens[64];
    make_tokens(tokens, first, n);
    return do_append(&g_loop, g_q, seq, 1, first, tokens, n, end);
}

static void test_bad_config(void **state)
{
    struct br_queue_redis_config with = config();
    struct br_err err;
    (void)state;
    open_queue(with);
    with.unix_path = NULL;
    assert_int_equal(br_queue_redis_create(&g_loop, &with, &g_q, &err), BR_EINVAL);
    with.host = "localhost";
    assert_int_equal(br_queue_redis_create(&g_loop, &with, &g_q, &err), BR_EINVAL);
    with = config();
    with.timeout_ms = 0;
    assert_int_equal(br_queue_redis_create(&g_loop, &with, &g_q, &err), BR_EINVAL);
}

static void test_calls_wait_for_redis(void **state)
{
    struct answer answer = {0};
    struct br_seq_spec spec = make_spec(1);
    (void)state;
    redis_fixture_kill(&g_redis);
    open_queue(config());
    g_q->ops->accept(g_q, &spec, 1, on_accept, &answer);
    for (int i = 0; i < 5; i++)
        uv_run(&g_loop, UV_RUN_ONCE); /* some attempts fail */
    assert_int_equal(answer.calls, 0);
    assert_false(g_q->ops->healthy(g_q));
    redis_fixture_run(&g_redis, "yes");
    WAIT_UNTIL(&g_loop, answer.calls == 1);
    assert_int_equal(answer.rc, 0);
    assert_true(g_q->ops->healthy(g_q));
}

static void test_calls_time_out_without_redis(void **state)
{
    struct br_queue_redis_config with = config();
    int64_t start_ns = br_now_ns();
    (void)state;
    redis_fixture_kill(&g_redis);
    with.timeout_ms = 200;
    open_queue(with);
    assert_int_equal(append(1, 0, 1, BR_END_NONE), BR_EIO);
    assert_in_range(br_now_ns() - start_ns, 199 * BR_NS_PER_MS, 5 * BR_NS_PER_S);
}

static void test_busy(void **state)
{
    struct br_queue_redis_config with = config();
    struct answer answers[5] = {0};
    (void)state;
    with.max_pending = 3;
    open_queue(with);
    for (int i = 0; i < 5; i++)
        g_q->ops->lease(g_q, 1, on_lease, &answers[i]);
    assert_int_equal(answers[4].calls, 0);
    WAIT_UNTIL(&g_loop, answers[2].calls == 1);
    for (int i = 0; i < 5; i++)
        assert_true(answers[i].calls == 1 && answers[i].rc == (i < 3 ? BR_EINVAL : BR_EBUSY));
}

static void test_frozen_redis(void **state)
{
    struct br_queue_redis_config with = config();
    int64_t start_ns;
    (void)state;
    with.timeout_ms = 300;
    open_queue(with);
    accept_one(1);
    kill(g_redis.pid, SIGSTOP);
    start_ns = br_now_ns();
    assert_int_equal(append(1, 0, 2, BR_END_NONE), BR_EIO);
    assert_in_range(br_now_ns() - start_ns, 299 * BR_NS_PER_MS, 5 * BR_NS_PER_S);
    WAIT_UNTIL(&g_loop, !g_q->ops->healthy(g_q));
    kill(g_redis.pid, SIGCONT);
    WAIT_UNTIL(&g_loop, g_q->ops->healthy(g_q));
    assert_int_equal(append(1, 0, 2, BR_END_NONE), 0); /* stored or not, the repetition is right */
    assert_int_equal(append(1, 2, 2, BR_END_NONE), 0);
}

/* A loop that was held up longer than the time-out must not take its own absence for Redis's. */
static void test_own_sleep_is_no_time_out(void **state)
{
    struct br_queue_redis_config with = config();
    struct answer answer = {0};
    struct br_token token = {.id = 1};
    (void)state;
    with.timeout_ms = 100;
    with.group_commit_us = 0;
    open_queue(with);
    accept_one(1);
    g_q->ops->append(g_q, 1, 1, 0, &token, 1, BR_END_NONE, NULL, on_plain, &answer);
    uv_run(&g_loop, UV_RUN_NOWAIT); /* it is sent */
    usleep(300000);                 /* the loop does something else, as the test */
    WAIT_UNTIL(&g_loop, answer.calls == 1);
    assert_int_equal(answer.rc, 0);
}

/* Appends flow while Redis is killed and started again, three times. What was acknowledged must be there at the end,
 * and every call must succeed, because it is sent again. */
struct stream {
    uint64_t seq;
    uint32_t acknowledged, next;
    int failed;
};

static void stream_push(struct stream *stream);

static void stream_done(void *ctx, int rc)
{
    struct stream *stream = ctx;
    stream->failed += rc != 0;
    stream->acknowledged += 2;
    if (rc == 0) /* a failed test ends the queue, which answers everything at once */
        stream_push(stream);
}

static void stream_push(struct stream *stream)
{
    struct br_token tokens[2];
    if (stream->next >= 4000)
        return;
    make_tokens(tokens, stream->next, 2);
    g_q->ops->append(g_q, stream->seq, 1, stream->next, tokens, 2, BR_END_NONE, NULL, stream_done, stream);
    stream->next += 2;
}

static void test_killed_in_mid_stream(void **state)
{
    enum { STREAMS = 16 };
    static struct stream streams[STREAMS]; /* answers may come after a test that failed */
    struct found *found;
    uint32_t all = 0;
    (void)state;
    open_queue(config());
    for (uint32_t i = 0; i < STREAMS; i++) {
        streams[i].seq = i + 1;
        accept_one(i + 1);
        for (int depth = 0; depth < 8; depth++)
            stream_push(&streams[i]);
    }
    for (uint32_t round = 1; round <= 3; round++) {
        WAIT_UNTIL(&g_loop, streams[0].acknowledged >= round * 800);
        redis_fixture_kill(&g_redis);
        for (uint32_t i = 0; i < STREAMS; i++) /* what the socket still holds may be acknowledged yet */
            assert_true(streams[i].acknowledged <= streams[i].next);
        redis_fixture_run(&g_redis, "yes");
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        WAIT_UNTIL(&g_loop, streams[i].acknowledged == 4000);
        assert_int_equal(streams[i].failed, 0);
        all += streams[i].acknowledged;
    }
    assert_int_equal(all, STREAMS * 4000);
    found = do_recover(&g_loop, g_q);
    for (uint32_t i = 0; i < STREAMS; i++)
        check_tokens(found_seq(found, i + 1), 4000);
    found_free(found);
}

static void test_scripts_flushed_in_mid_stream(void **state)
{
    struct stream stream = {.seq = 1};
    struct found *found;
    (void)state;
    open_queue(config());
    accept_one(1);
    for (int depth = 0; depth < 8; depth++)
        stream_push(&stream);
    for (uint32_t at = 500; at < 4000; at += 1000) {
        WAIT_UNTIL(&g_loop, stream.acknowledged >= at);
        redis_do("SCRIPT FLUSH");
    }
    WAIT_UNTIL(&g_loop, stream.acknowledged == 4000);
    assert_int_equal(stream.failed, 0);
    found = do_recover(&g_loop, g_q);
    check_tokens(found_seq(found, 1), 4000);
    found_free(found);
}

/* A lease that was carried out, but whose answer was lost, is sent again: it must count once. */
static void test_lease_sent_again(void **state)
{
    struct answer answer = {0};
    (void)state;
    open_queue(config());
    accept_one(1);
    redis_do("CLIENT KILL TYPE normal SKIPME yes");
    g_q->ops->lease(g_q, 1, on_lease, &answer);
    WAIT_UNTIL(&g_loop, answer.calls == 1);
    assert_true(answer.rc == 0 && answer.fence == 2);
    kill(g_redis.pid, SIGSTOP);
    answer.calls = 0;
    g_q->ops->lease(g_q, 1, on_lease, &answer);
    for (int i = 0; i < 10; i++)
        uv_run(&g_loop, UV_RUN_NOWAIT); /* the command is in Redis' socket */
    kill(g_redis.pid, SIGCONT);
    WAIT_UNTIL(&g_loop, answer.calls == 1);
    assert_int_equal(answer.fence, 3);
    assert_int_equal(do_lease(&g_loop, g_q, 1).fence, 4);
}

/* The same at the level of the script: a copy that was left in a dead connection's socket comes late. */
static void test_lease_script_repeated(void **state)
{
    (void)state;
    open_queue(config());
    accept_one(1);
    redis_do("EVAL %s 1 test:s:1 77 1", br_scripts[BR_SCRIPT_LEASE]);
    redis_do("EVAL %s 1 test:s:1 77 1", br_scripts[BR_SCRIPT_LEASE]);
    redis_do("EVAL %s 1 test:s:1 77 2", br_scripts[BR_SCRIPT_LEASE]);
    redis_do("EVAL %s 1 test:s:1 77 1", br_scripts[BR_SCRIPT_LEASE]);
    assert_int_equal(do_lease(&g_loop, g_q, 1).fence, 4); /* 1, then 2, 3 and this one */
}

static void test_read_only(void **state)
{
    (void)state;
    open_queue(config());
    accept_one(1);
    redis_do("REPLICAOF 127.0.0.1 1");
    assert_int_equal(append(1, 0, 1, BR_END_NONE), BR_EIO);
    redis_do("REPLICAOF NO ONE");
    assert_int_equal(append(1, 0, 1, BR_END_NONE), 0);
}

/* A full Redis takes nothing new, and carries what it has accepted to its end. */
static void test_full(void **state)
{
    struct br_seq_spec specs[2] = {make_spec(1), make_spec(2)};
    struct br_token tokens[4];
    struct found *found;
    (void)state;
    open_queue(config());
    accept_one(1);
    redis_do("CONFIG SET maxmemory 1");
    assert_int_equal(do_accept(&g_loop, g_q, &specs[1], 1).rc, BR_ENOMEM);
    assert_int_equal(redis_do("EXISTS test:s:2"), 0);
    assert_int_equal(redis_do("ZCARD test:unfinished"), 1);
    assert_int_equal(do_accept(&g_loop, g_q, &specs[0], 1).rc, 0); /* sent again: it was accepted */
    assert_int_equal(append(1, 0, 4, BR_END_NONE), 0);
    assert_int_equal(do_lease(&g_loop, g_q, 1).fence, 2);
    found = do_recover(&g_loop, g_q);
    check_tokens(found_seq(found, 1), 4);
    found_free(found);
    make_tokens(tokens, 4, 4);
    assert_int_equal(do_append(&g_loop, g_q, 1, 2, 4, tokens, 4, BR_END_LENGTH), 0);
    assert_int_equal(redis_do("ZCARD test:unfinished"), 0);
    redis_do("CONFIG SET maxmemory 0");
    assert_int_equal(do_accept(&g_loop, g_q, &specs[1], 1).rc, 0);
}

/* What a client hears must be so: each code as the queue gave it, held against what Redis has. */
static void test_refusals_are_true(void **state)
{
    struct br_queue_redis_config with = config();
    struct br_seq_spec spec = make_spec(1);
    struct answer lost = {0};
    (void)state;
    with.timeout_ms = 300;
    open_queue(with);
    accept_one(2);
    redis_do("CONFIG SET maxmemory 1");
    assert_non_null(strstr(br_queue_refusal(do_accept(&g_loop, g_q, &spec, 1).rc), "was not stored"));
    assert_non_null(strstr(br_queue_refusal(BR_ENOMEM), "--redis-memory"));
    assert_int_equal(redis_do("EXISTS test:s:1"), 0);
    redis_do("CONFIG SET maxmemory 0");
    kill(g_redis.pid, SIGSTOP);
    g_q->ops->accept(g_q, &spec, 1, on_accept, &lost);
    WAIT_UNTIL(&g_loop, lost.calls == 1);
    kill(g_redis.pid, SIGCONT);
    WAIT_UNTIL(&g_loop, g_q->ops->healthy(g_q));
    assert_int_equal(redis_do("EXISTS test:s:1"), 1); /* it had been sent */
    assert_non_null(strstr(br_queue_refusal(lost.rc), "not known whether the request was stored"));
}

/* Neither the prompt nor the tokens of what has ended, and what is left for a while only. */
static void test_finished_is_small_and_expires(void **state)
{
    struct br_seq_spec spec = make_spec(1);
    (void)state;
    open_queue(config());
    accept_one(1);
    assert_int_equal(append(1, 0, 60, BR_END_NONE), 0);
    assert_int_equal(append(1, 60, 3, BR_END_STOP), 0);
    assert_in_range(redis_do("TTL test:s:1"), 90, 100);
    assert_int_equal(redis_do("EXISTS test:t:1"), 0);
    assert_int_equal(redis_do("HEXISTS test:s:1 spec"), 0);
    assert_int_equal(redis_do("HGET test:s:1 n"), 2); /* "63" has two characters */
    assert_in_range(redis_do("MEMORY USAGE test:s:1"), 1, 256);
    assert_int_equal(redis_do("ZCARD test:unfinished"), 0);
    assert_int_equal(redis_do("EXISTS briareus:unfinished"), 0);
    assert_int_equal(append(1, 60, 3, BR_END_STOP), 0); /* sent again */
    assert_int_equal(append(1, 60, 4, BR_END_STOP), BR_ENOENT);
    assert_int_equal(do_accept(&g_loop, g_q, &spec, 1).fence, 1); /* sent again: it does not begin anew */
    assert_int_equal(redis_do("ZCARD test:unfinished"), 0);
}

static void test_finished_is_kept_whole_if_wanted(void **state)
{
    struct br_queue_redis_config with = config();
    (void)state;
    with.keep_tokens = true;
    open_queue(with);
    accept_one(1);
    assert_int_equal(append(1, 0, 2, BR_END_NONE), 0);
    assert_int_equal(append(1, 2, 3, BR_END_STOP), 0);
    assert_int_equal(redis_do("LLEN test:t:1"), 2); /* both runs */
    assert_int_equal(redis_do("HEXISTS test:s:1 spec"), 1);
    assert_in_range(redis_do("TTL test:s:1"), 90, 100);
    assert_in_range(redis_do("TTL test:t:1"), 90, 100);
    assert_int_equal(redis_do("ZCARD test:unfinished"), 0);
    assert_int_equal(append(1, 2, 3, BR_END_STOP), 0); /* sent again */
    assert_int_equal(redis_do("LLEN test:t:1"), 2);
}

static void test_corrupt_entries(void **state)
{
    struct found *found;
    (void)state;
    open_queue(config());
    for (uint64_t id = 1; id <= 9; id++) {
        accept_one(id);
        assert_int_equal(append(id, 0, 4, BR_END_NONE), 0);
    }
    redis_do("HSET test:s:1 spec %s", "garbage");
    redis_do("HDEL test:s:2 fence");
    redis_do("DEL test:s:3");
    redis_do("LSET test:t:4 0 %s", "garbage");
    redis_do("DEL test:t:5");
    redis_do("DEL test:t:6");
    redis_do("SET test:t:6 string");
    redis_do("DEL test:s:7");
    redis_do("SET test:s:7 string");
    redis_do("HSET test:s:8 n 3");
    redis_do("ZADD test:unfinished 1 not-a-number");
    redis_do("ZADD test:unfinished inf 00009");
    redis_do("ZADD test:unfinished -inf %b", "\0\xff", (size_t)2);
    found = do_recover(&g_loop, g_q);
    assert_int_equal(found->n, 1);
    check_tokens(found_seq(found, 9), 4);
    found_free(found);
    assert_int_equal(redis_do("ZCARD test:unfinished"), 1);
    assert_int_equal(redis_do("SCARD test:broken"), 11);
    assert_int_equal(append(9, 4, 1, BR_END_NONE), 0);
}

/* ---- a figure, not a test ---- */

enum { FIGURE_DEPTH = 256, FIGURE_CALLS = 100000 };

struct figure {
    uint32_t seq, next, done;
};

static uint32_t g_figure_done, g_figure_called;

static void figure_push(struct figure *figure);

static void figure_done(void *ctx, int rc)
{
    assert_int_equal(rc, 0);
    g_figure_done++;
    figure_push(ctx);
}

static void figure_push(struct figure *figure)
{
    struct br_token tokens[8];
    if (g_figure_called >= FIGURE_CALLS)
        return;
    g_figure_called++;
    make_tokens(tokens, figure->next, 8);
    g_q->ops->append(g_q, figure->seq, 1, figure->next, tokens, 8, BR_END_NONE, NULL, figure_done, figure);
    figure->next += 8;
}

static void test_throughput(void **state)
{
    static struct figure figures[FIGURE_DEPTH];
    struct br_queue_redis_config with = config();
    struct br_seq_spec specs[FIGURE_DEPTH];
    double start_s;
    (void)state;
    with.group_commit_us = 0;
    open_queue(with);
    for (uint32_t i = 0; i < FIGURE_DEPTH; i++)
        specs[i] = make_spec(i + 1);
    assert_int_equal(do_accept(&g_loop, g_q, specs, FIGURE_DEPTH).rc, 0);
    start_s = br_now_s();
    for (uint32_t i = 0; i < FIGURE_DEPTH; i++) {
        figures[i].seq = i + 1;
        figure_push(&figures[i]);
    }
    WAIT_UNTIL(&g_loop, g_figure_done == FIGURE_CALLS);
    printf("appends of 8 tokens, depth %d, appendfsync no: %.0f/s\n", FIGURE_DEPTH,
           FIGURE_CALLS / (br_now_s() - start_s));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bad_config),
        TEST(test_calls_wait_for_redis),
        TEST(test_calls_time_out_without_redis),
        TEST(test_busy),
        TEST(test_frozen_redis),
        TEST(test_own_sleep_is_no_time_out),
        TEST(test_killed_in_mid_stream),
        TEST(test_scripts_flushed_in_mid_stream),
        TEST(test_lease_sent_again),
        TEST(test_lease_script_repeated),
        TEST(test_read_only),
        TEST(test_full),
        TEST(test_refusals_are_true),
        TEST(test_finished_is_small_and_expires),
        TEST(test_finished_is_kept_whole_if_wanted),
        TEST(test_corrupt_entries),
        TEST(test_throughput),
    };
    br_log_init("test", BR_LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
