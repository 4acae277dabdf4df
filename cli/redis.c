#include "cli/redis.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

int cli_redis_run(void *ctx)
{
    struct cli_redis *r = ctx;
    char memory[24];
    snprintf(memory, sizeof memory, "%" PRIu64, r->memory_bytes);
    execlp(r->program, r->program, "--port", "0", "--unixsocket", r->socket, "--unixsocketperm", "600", "--dir",
           r->data_dir, "--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory", memory,
           "--maxmemory-policy", "noeviction", "--loglevel", "warning", "--daemonize", "no", "--logfile", "redis.log",
           (char *)NULL);
    fprintf(stderr, "briareus serve: cannot start %s: %s (install redis-server, or name it with --redis-server)\n",
            r->program, strerror(errno));
    return 127;
}

static int ping(const char *socket)
{
    struct timeval timeout = {.tv_sec = 1};
    redisContext *c = redisConnectUnixWithTimeout(socket, timeout);
    redisReply *reply = c && !c->err ? redisCommand(c, "PING") : NULL;
    int ok = reply && reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "PONG") == 0;
    if (reply)
        freeReplyObject(reply);
    if (c)
        redisFree(c);
    return ok ? 0 : -1;
}

int cli_redis_ready(void *ctx, struct br_err *err)
{
    struct cli_redis *r = ctx;
    if (ping(r->socket) == 0)
        return 0;
    return br_err_set(err, BR_EBUSY, "%s does not answer yet", r->socket);
}
