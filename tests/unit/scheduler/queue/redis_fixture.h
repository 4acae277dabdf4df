/* A private redis-server on a socket in a folder of its own; gone with the test, even if that crashes. */
#ifndef BRIAREUS_TESTS_REDIS_FIXTURE_H
#define BRIAREUS_TESTS_REDIS_FIXTURE_H

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct redis_fixture {
    char dir[64], socket[100];
    pid_t pid;
};

/* Connects until it answers PING; redis-server has 10 s for it. A blocking connection for the test's own commands. */
static inline redisContext *redis_fixture_connect(const struct redis_fixture *redis)
{
    for (int i = 0; i < 1000; i++) {
        redisContext *c = redisConnectUnix(redis->socket);
        redisReply *reply = c && !c->err ? redisCommand(c, "PING") : NULL;
        int up = reply && reply->type == REDIS_REPLY_STATUS;
        if (reply)
            freeReplyObject(reply);
        if (up)
            return c;
        if (c)
            redisFree(c);
        usleep(10000); /* there is no event to wait for before the socket exists */
    }
    fprintf(stderr, "redis-server does not answer on %s\n", redis->socket);
    abort();
}

/* appendfsync no: every command is written before it is answered, so that a kill loses none; with everysec a Redis
 * whose disk is slow puts that off. Starts it on the folder as it is; also after redis_fixture_kill. Returns once it
 * answers. */
static inline void redis_fixture_run(struct redis_fixture *redis, const char *appendonly)
{
    redis->pid = fork();
    if (redis->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", redis->socket, "--dir", redis->dir,
               "--appendonly", appendonly, "--appendfsync", "no", "--save", "", "--logfile", "redis.log", (char *)NULL);
        perror("redis-server");
        _exit(127);
    }
    redisFree(redis_fixture_connect(redis));
}

static inline void redis_fixture_start(struct redis_fixture *redis, const char *appendonly)
{
    snprintf(redis->dir, sizeof redis->dir, "/tmp/br-redis-XXXXXX");
    if (!mkdtemp(redis->dir))
        abort();
    snprintf(redis->socket, sizeof redis->socket, "%s/redis.sock", redis->dir);
    redis_fixture_run(redis, appendonly);
}

static inline void redis_fixture_kill(struct redis_fixture *redis)
{
    kill(redis->pid, SIGKILL);
    waitpid(redis->pid, NULL, 0);
}

static inline void redis_fixture_stop(struct redis_fixture *redis)
{
    char command[100];
    redis_fixture_kill(redis);
    snprintf(command, sizeof command, "rm -rf %s", redis->dir);
    if (system(command))
        perror(command);
}

#endif
