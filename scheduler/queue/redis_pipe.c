#include "scheduler/queue/redis_pipe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "scheduler/queue/redis_poll.h"
#include "scheduler/queue/redis_reply.h"

enum { PIPE_BACKOFF_MIN_MS = 20, PIPE_BACKOFF_MAX_MS = 1000, PIPE_LOG_EVERY_MS = 1000 };

enum pipe_state { PIPE_DOWN, PIPE_CONNECTING, PIPE_LOADING, PIPE_READY };

struct br_pipe {
    uv_loop_t *loop;
    char *unix_path, *host; /* owned */
    int port;
    uint32_t group_ms, timeout_ms;

    redisAsyncContext *ac; /* NULL while down; its data is the pipe, or NULL once the pipe has let go of it */
    enum pipe_state state;
    uint32_t n_loaded;
    char sha[BR_SCRIPT_COUNT][41];
    uint32_t backoff_ms;
    struct br_rng rng;

    struct br_pipe_cmd *head, *tail, *unsent; /* head..: sent, unsent..tail: not yet; by age, so by deadline too */
    uint32_t n;

    uv_timer_t retry;    /* next attempt, or the end of this one's patience */
    uv_timer_t deadline; /* of the oldest command */
    uv_timer_t group;    /* end of the group commit's gathering */
    uv_idle_t soon;      /* send within this turn */
    int open_handles;
    bool overslept, destroyed;
    uint64_t answers, answers_seen;
    int64_t logged_ns;
    uint64_t unlogged;
};

/* ---- commands as bytes ---- */

void br_pipe_cmd_plain(struct br_pipe_cmd *cmd, uint32_t n_words)
{
    *cmd = (struct br_pipe_cmd){.script = BR_SCRIPT_NONE, .done = cmd->done};
    br_buf_printf(&cmd->wire, "*%u\r\n", n_words);
}

void br_pipe_cmd_script(struct br_pipe_cmd *cmd, enum br_script script, uint32_t n_keys, uint32_t n_args)
{
    static const char blank[40] = {0};
    br_pipe_cmd_plain(cmd, 3 + n_keys + n_args);
    cmd->script = script;
    br_pipe_cmd_add(cmd, "EVALSHA", 7);
    br_pipe_cmd_add(cmd, blank, sizeof blank);
    cmd->sha_at = cmd->wire.len - sizeof blank - 2;
    br_pipe_cmd_add_u64(cmd, n_keys);
}

void br_pipe_cmd_add(struct br_pipe_cmd *cmd, const void *data, size_t len)
{
    br_buf_add(&cmd->wire, "$", 1);
    br_buf_put_u64(&cmd->wire, len);
    br_buf_add(&cmd->wire, "\r\n", 2);
    br_buf_add(&cmd->wire, data, len);
    br_buf_add(&cmd->wire, "\r\n", 2);
}

void br_pipe_cmd_add_u64(struct br_pipe_cmd *cmd, uint64_t value)
{
    char text[24];
    br_pipe_cmd_add(cmd, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)value));
}

/* ---- the list ---- */

static void pipe_push(struct br_pipe *pipe, struct br_pipe_cmd *cmd)
{
    cmd->next = NULL;
    *(pipe->tail ? &pipe->tail->next : &pipe->head) = cmd;
    pipe->tail = cmd;
    if (!pipe->unsent)
        pipe->unsent = cmd;
    pipe->n++;
}

static void pipe_finish_head(struct br_pipe *pipe, int rc, const redisReply *reply)
{
    struct br_pipe_cmd *cmd = pipe->head;
    if (pipe->unsent == cmd)
        pipe->unsent = cmd->next;
    pipe->head = cmd->next;
    if (!pipe->head)
        pipe->tail = NULL;
    pipe->n--;
    br_buf_free(&cmd->wire);
    cmd->done(cmd, rc, reply);
}

/* Errors come in crowds: one line a second, with how many were not written. */
static void pipe_log(struct br_pipe *pipe, const char *event, const char *reason)
{
    int64_t now = br_now_ns();
    if (pipe->logged_ns && now - pipe->logged_ns < PIPE_LOG_EVERY_MS * BR_NS_PER_MS) {
        pipe->unlogged++;
        return;
    }
    br_log(BR_WARN, event, "pending=%u not_logged=%llu reason=%s", pipe->n, (unsigned long long)pipe->unlogged,
           BR_Q(reason));
    pipe->logged_ns = now;
    pipe->unlogged = 0;
}

/* ---- the connection ---- */

static void pipe_connect(uv_timer_t *timer);

/* No connection any more: everything unanswered is sent again over the next one. */
static void pipe_down(struct br_pipe *pipe, const char *why)
{
    uint64_t half = pipe->backoff_ms / 2, wait_ms = half + (uint64_t)(br_rng_next(&pipe->rng) * (double)half);
    pipe_log(pipe, "redis_down", why);
    pipe->ac = NULL;
    pipe->state = PIPE_DOWN;
    pipe->unsent = pipe->head;
    pipe->backoff_ms *= 2;
    if (pipe->backoff_ms > PIPE_BACKOFF_MAX_MS)
        pipe->backoff_ms = PIPE_BACKOFF_MAX_MS;
    uv_timer_start(&pipe->retry, pipe_connect, wait_ms, 0);
}

/* Lets go of the context first: hiredis calls all its callbacks once more while it frees it. */
static void pipe_let_go(struct br_pipe *pipe)
{
    redisAsyncContext *ac = pipe->ac;
    if (!ac)
        return;
    pipe->ac = NULL;
    ac->data = NULL;
    redisAsyncFree(ac);
}

static void pipe_drop(struct br_pipe *pipe, const char *why)
{
    pipe_let_go(pipe);
    pipe_down(pipe, why);
}

static void pipe_on_soon(uv_idle_t *idle);

/* ac->errstr points into a context that is about to go: down copies it into the log. */
static void pipe_on_disconnect(const redisAsyncContext *ac, int status)
{
    struct br_pipe *pipe = ac->data;
    if (pipe)
        pipe_down(pipe, status == REDIS_OK || !ac->errstr || !*ac->errstr ? "disconnected" : ac->errstr);
}

static void pipe_on_sha(redisAsyncContext *ac, void *r, void *index)
{
    struct br_pipe *pipe = ac->data;
    const redisReply *reply = r;
    if (!pipe || !reply)
        return;
    if (br_reply_sha(reply, pipe->sha[(uintptr_t)index])) { /* LOADING, NOAUTH, READONLY ... */
        pipe_drop(pipe, reply->type == REDIS_REPLY_ERROR ? reply->str : "SCRIPT LOAD returned no SHA-1");
        return;
    }
    if (++pipe->n_loaded < BR_SCRIPT_COUNT)
        return;
    uv_timer_stop(&pipe->retry);
    pipe->state = PIPE_READY;
    br_log(BR_INFO, "redis_ready", "pending=%u", pipe->n);
    uv_idle_start(&pipe->soon, pipe_on_soon); /* not here: a failing write would free the context under its callback */
}

static void pipe_on_connect(const redisAsyncContext *ac, int status)
{
    struct br_pipe *pipe = ac->data;
    if (!pipe)
        return;
    if (status != REDIS_OK) { /* hiredis frees the context itself */
        pipe_down(pipe, ac->errstr && *ac->errstr ? ac->errstr : "cannot connect");
        return;
    }
    pipe->state = PIPE_LOADING;
    pipe->n_loaded = 0;
    for (uintptr_t i = 0; i < BR_SCRIPT_COUNT; i++)
        redisAsyncCommand(pipe->ac, pipe_on_sha, (void *)i, "SCRIPT LOAD %s", br_scripts[i]);
}

static void pipe_lost_patience(uv_timer_t *timer)
{
    struct br_pipe *pipe = timer->data;
    pipe_drop(pipe, pipe->state == PIPE_LOADING ? "connected, but no answer" : "no connection in time");
}

static void pipe_connect(uv_timer_t *timer)
{
    struct br_pipe *pipe = timer->data;
    redisAsyncContext *ac =
        pipe->unix_path ? redisAsyncConnectUnix(pipe->unix_path) : redisAsyncConnect(pipe->host, pipe->port);
    if (!ac || ac->err || br_redis_attach(ac, pipe->loop) != REDIS_OK) {
        pipe_down(pipe, ac && ac->err ? ac->errstr : "no memory or no poll handle");
        if (ac)
            redisAsyncFree(ac);
        return;
    }
    pipe->ac = ac;
    ac->data = pipe;
    pipe->state = PIPE_CONNECTING;
    uv_timer_start(&pipe->retry, pipe_lost_patience, pipe->timeout_ms, 0);
    redisAsyncSetConnectCallback(ac, pipe_on_connect);
    redisAsyncSetDisconnectCallback(ac, pipe_on_disconnect);
}

/* ---- sending and answers ---- */

static void pipe_on_reply(redisAsyncContext *ac, void *r, void *unused)
{
    struct br_pipe *pipe = ac->data;
    const redisReply *reply = r;
    int rc;
    (void)unused;
    if (!pipe || !reply) /* let go, or broken: then the disconnect callback follows */
        return;
    assert(pipe->head && pipe->head != pipe->unsent);
    pipe->answers++;
    rc = br_reply_error(reply);
    if (rc && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
        /* Somebody flushed the scripts. Sending just this one again would let later ones of its sequence overtake it.
         */
        pipe_drop(pipe, reply->str);
        return;
    }
    if (rc)
        pipe_log(pipe, "redis_error", reply->str);
    else
        pipe->backoff_ms = PIPE_BACKOFF_MIN_MS;
    pipe_finish_head(pipe, rc, rc ? NULL : reply);
}

/* All that waits in one write. */
static void pipe_flush(struct br_pipe *pipe)
{
    uv_idle_stop(&pipe->soon);
    uv_timer_stop(&pipe->group);
    if (pipe->state != PIPE_READY || !pipe->unsent)
        return;
    for (; pipe->unsent; pipe->unsent = pipe->unsent->next) {
        struct br_pipe_cmd *cmd = pipe->unsent;
        if (cmd->script != BR_SCRIPT_NONE)
            memcpy(cmd->wire.data + cmd->sha_at, pipe->sha[cmd->script], 40);
        if (redisAsyncFormattedCommand(pipe->ac, pipe_on_reply, NULL, cmd->wire.data, cmd->wire.len) != REDIS_OK)
            return; /* it is being closed: the disconnect callback follows */
    }
    redisAsyncHandleWrite(pipe->ac);
}

static void pipe_on_soon(uv_idle_t *idle)
{
    pipe_flush(idle->data);
}

static void pipe_on_group(uv_timer_t *timer)
{
    pipe_flush(timer->data);
}

static void pipe_schedule_flush(struct br_pipe *pipe, bool may_wait)
{
    if (!may_wait || pipe->group_ms == 0)
        uv_idle_start(&pipe->soon, pipe_on_soon);
    else if (!uv_is_active((uv_handle_t *)&pipe->group))
        uv_timer_start(&pipe->group, pipe_on_group, pipe->group_ms, 0);
}

/* ---- time-outs ---- */

static void pipe_arm_deadline(struct br_pipe *pipe);

static void pipe_expire(struct br_pipe *pipe)
{
    int64_t now = br_now_ns();
    while (pipe->head && pipe->head->deadline_ns <= now) {
        if (pipe->head != pipe->unsent) /* no answer: what else is on this connection cannot be trusted to come */
            pipe_drop(pipe, "a command got no answer in time");
        pipe_finish_head(pipe, BR_EIO, NULL);
        if (pipe->destroyed)
            return;
    }
}

/* A loop that was itself held up has its answers still unread: Redis is not to blame as long as each turn brings some.
 */
static bool pipe_overslept(struct br_pipe *pipe)
{
    bool late = pipe->head && br_now_ns() - pipe->head->deadline_ns > (int64_t)pipe->timeout_ms * BR_NS_PER_MS / 4;
    bool excused = late && (!pipe->overslept || pipe->answers != pipe->answers_seen);
    pipe->overslept = excused;
    pipe->answers_seen = pipe->answers;
    return excused;
}

static void pipe_on_deadline(uv_timer_t *timer)
{
    struct br_pipe *pipe = timer->data;
    if (pipe_overslept(pipe)) {
        uv_timer_start(&pipe->deadline, pipe_on_deadline, 1, 0);
        return;
    }
    pipe_expire(pipe);
    if (!pipe->destroyed)
        pipe_arm_deadline(pipe);
}

static void pipe_arm_deadline(struct br_pipe *pipe)
{
    int64_t wait_ns;
    if (!pipe->head || uv_is_active((uv_handle_t *)&pipe->deadline))
        return;
    wait_ns = pipe->head->deadline_ns - br_now_ns();
    uv_timer_start(&pipe->deadline, pipe_on_deadline, wait_ns > 0 ? (uint64_t)(wait_ns / BR_NS_PER_MS) + 1 : 0, 0);
}

/* ---- the pipe ---- */

void br_pipe_submit(struct br_pipe *pipe, struct br_pipe_cmd *cmd, bool may_wait)
{
    if (pipe->destroyed) { /* called from an answer that br_pipe_destroy gave */
        br_buf_free(&cmd->wire);
        cmd->done(cmd, BR_EIO, NULL);
        return;
    }
    cmd->deadline_ns = br_now_ns() + (int64_t)pipe->timeout_ms * BR_NS_PER_MS;
    pipe_push(pipe, cmd);
    pipe_arm_deadline(pipe);
    pipe_schedule_flush(pipe, may_wait);
}

struct br_pipe *br_pipe_create(uv_loop_t *loop, const struct br_queue_redis_config *config)
{
    struct br_pipe *pipe = br_calloc(1, sizeof *pipe);
    pipe->loop = loop;
    pipe->unix_path = config->unix_path ? br_strdup(config->unix_path) : NULL;
    pipe->host = config->host ? br_strdup(config->host) : NULL;
    pipe->port = config->port;
    pipe->group_ms = (config->group_commit_us + 500) / 1000; /* what libuv's timers can do */
    pipe->timeout_ms = config->timeout_ms;
    pipe->backoff_ms = PIPE_BACKOFF_MIN_MS;
    pipe->rng.seed = br_rng_entropy();
    uv_timer_init(loop, &pipe->retry);
    uv_timer_init(loop, &pipe->deadline);
    uv_timer_init(loop, &pipe->group);
    uv_idle_init(loop, &pipe->soon);
    pipe->retry.data = pipe->deadline.data = pipe->group.data = pipe->soon.data = pipe;
    pipe->open_handles = 4;
    uv_timer_start(&pipe->retry, pipe_connect, 0, 0);
    return pipe;
}

static void pipe_handle_closed(uv_handle_t *handle)
{
    struct br_pipe *pipe = handle->data;
    if (--pipe->open_handles > 0)
        return;
    free(pipe->unix_path);
    free(pipe->host);
    free(pipe);
}

void br_pipe_destroy(struct br_pipe *pipe)
{
    pipe->destroyed = true;
    pipe->state = PIPE_DOWN;
    pipe_let_go(pipe);
    while (pipe->head)
        pipe_finish_head(pipe, BR_EIO, NULL);
    uv_close((uv_handle_t *)&pipe->retry, pipe_handle_closed);
    uv_close((uv_handle_t *)&pipe->deadline, pipe_handle_closed);
    uv_close((uv_handle_t *)&pipe->group, pipe_handle_closed);
    uv_close((uv_handle_t *)&pipe->soon, pipe_handle_closed);
}

uint32_t br_pipe_pending(const struct br_pipe *pipe)
{
    return pipe->n;
}

bool br_pipe_ready(const struct br_pipe *pipe)
{
    return pipe->state == PIPE_READY;
}
