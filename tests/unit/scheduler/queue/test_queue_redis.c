/* The conformance suite on a real Redis; each test starts with an empty one. */
#include "tests/unit/scheduler/queue/conformance.h"
#include "tests/unit/scheduler/queue/redis_fixture.h"

static struct redis_fixture g_redis;

static struct br_queue *create(uv_loop_t *loop)
{
    struct br_queue_redis_config config = {.unix_path = g_redis.socket,
                                           .group_commit_us = 1000,
                                           .finished_ttl_s = 60,
                                           .max_pending = 100000,
                                           .timeout_ms = 10000};
    redisContext *c = redis_fixture_connect(&g_redis);
    struct br_queue *q = NULL;
    struct br_err err;
    freeReplyObject(redisCommand(c, "FLUSHALL"));
    redisFree(c);
    br_queue_redis_create(loop, &config, &q, &err);
    return q;
}

int main(void)
{
    int rc;
    redis_fixture_start(&g_redis, "no");
    rc = conformance_run(create);
    redis_fixture_stop(&g_redis);
    return rc;
}
