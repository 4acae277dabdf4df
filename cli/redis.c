#include "cli/redis.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static const double g_ready_s = 60; /* a long append-only file takes its time to load */

int cli_redis_run(void *ctx)
{
    struct cli_redis *r = ctx;
    execlp(r->program, r->program, "--port", "0", "--unixsocket", r->socket, "--unixsocketperm", "600", "--dir",
           r->data_dir, "--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--loglevel", "warning",
           "--daemonize", "no", "--logfile", "redis.log", (char *)NULL);
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
    double end_s = br_now_s() + g_ready_s;
    while (ping(r->socket)) {
        /* Redis offers nothing to await but its socket: look again shortly. */
        struct timespec pause = {.tv_nsec = 20 * BR_NS_PER_MS};
        if (br_now_s() > end_s)
            return br_err_set(err, BR_EIO, "%s does not answer on %s after %g s", r->program, r->socket, g_ready_s);
        nanosleep(&pause, NULL);
    }
    return 0;
}
