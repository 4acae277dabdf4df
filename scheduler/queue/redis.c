#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "scheduler/queue/redis_queue.h"
#include "scheduler/queue/redis_reply.h"

struct redis_cmd {
    struct br_pipe_cmd pipe; /* first: the pipe knows only this */
    struct br_done done;
    uint64_t seq;
};

static struct br_queue_redis *redis_of(struct br_queue *q)
{
    return (struct br_queue_redis *)q;
}

void br_redis_add_key(struct br_pipe_cmd *cmd, const struct br_queue_redis *q, enum br_redis_key key, uint64_t seq)
{
    static const char *const names[] = {"s:", "t:", "unfinished", "broken"};
    struct br_buf text = {0};
    br_buf_printf(&text, "%s%s", q->prefix, names[key]);
    if (key == BR_KEY_SEQ || key == BR_KEY_TOKENS)
        br_buf_printf(&text, "%llu", (unsigned long long)seq);
    br_pipe_cmd_add(cmd, text.data, text.len);
    br_buf_free(&text);
}

static void answer_later(struct br_queue_redis *q, struct br_done done, int rc)
{
    done.rc = rc;
    br_done_later(&q->later, &done);
}

static bool is_full(const struct br_queue_redis *q)
{
    return br_pipe_pending(q->pipe) >= q->max_pending;
}

static struct redis_cmd *cmd_create(const struct br_done *done, uint64_t seq,
                                    void (*on_done)(struct br_pipe_cmd *, int, const redisReply *))
{
    struct redis_cmd *cmd = br_calloc(1, sizeof *cmd);
    cmd->done = *done;
    cmd->seq = seq;
    cmd->pipe.done = on_done;
    return cmd;
}

/* The caller's callback is the last thing: it may destroy the queue. */
static void cmd_answer(struct redis_cmd *cmd, int rc)
{
    struct br_done done = cmd->done;
    free(cmd);
    done.rc = rc;
    br_done_call(&done);
}

/* ---- accept ---- */

static void accept_done(struct br_pipe_cmd *pipe_cmd, int rc, const redisReply *reply)
{
    struct redis_cmd *cmd = (struct redis_cmd *)pipe_cmd;
    if (rc == 0)
        rc = br_reply_accept(reply, &cmd->done.arrival_us, &cmd->done.fence);
    cmd_answer(cmd, rc);
}

static void redis_accept(struct br_queue *base, const struct br_seq_spec *specs, uint32_t n, br_queue_accept_cb cb,
                         void *ctx)
{
    struct br_queue_redis *q = redis_of(base);
    struct br_done done = {.accept = cb, .ctx = ctx};
    struct redis_cmd *cmd;
    struct br_buf blob = {0};
    if (n == 0 || is_full(q)) {
        answer_later(q, done, n == 0 ? BR_EINVAL : BR_EBUSY);
        return;
    }
    cmd = cmd_create(&done, specs[0].id, accept_done);
    br_pipe_cmd_script(&cmd->pipe, BR_SCRIPT_ACCEPT, 1 + n, 2 * n);
    br_redis_add_key(&cmd->pipe, q, BR_KEY_UNFINISHED, 0);
    for (uint32_t i = 0; i < n; i++)
        br_redis_add_key(&cmd->pipe, q, BR_KEY_SEQ, specs[i].id);
    for (uint32_t i = 0; i < n; i++) {
        br_buf_clear(&blob);
        br_seq_spec_pack(&specs[i], &blob);
        br_pipe_cmd_add_u64(&cmd->pipe, specs[i].id);
        br_pipe_cmd_add(&cmd->pipe, blob.data, blob.len);
    }
    br_buf_free(&blob);
    br_pipe_submit(q->pipe, &cmd->pipe, false);
}

/* ---- lease ---- */

static void lease_done(struct br_pipe_cmd *pipe_cmd, int rc, const redisReply *reply)
{
    struct redis_cmd *cmd = (struct redis_cmd *)pipe_cmd;
    if (rc == 0)
        rc = br_reply_lease(reply, &cmd->done.fence);
    cmd_answer(cmd, rc);
}

static void redis_lease(struct br_queue *base, uint64_t seq, br_queue_lease_cb cb, void *ctx)
{
    struct br_queue_redis *q = redis_of(base);
    struct br_done done = {.lease = cb, .ctx = ctx};
    struct redis_cmd *cmd;
    if (is_full(q)) {
        answer_later(q, done, BR_EBUSY);
        return;
    }
    cmd = cmd_create(&done, seq, lease_done);
    br_pipe_cmd_script(&cmd->pipe, BR_SCRIPT_LEASE, 1, 2);
    br_redis_add_key(&cmd->pipe, q, BR_KEY_SEQ, seq);
    br_pipe_cmd_add_u64(&cmd->pipe, q->owner);
    br_pipe_cmd_add_u64(&cmd->pipe, ++q->lease_calls);
    br_pipe_submit(q->pipe, &cmd->pipe, false);
}

/* ---- append ---- */

static void append_done(struct br_pipe_cmd *pipe_cmd, int rc, const redisReply *reply)
{
    struct redis_cmd *cmd = (struct redis_cmd *)pipe_cmd;
    if (rc == 0)
        rc = br_reply_code(reply);
    cmd_answer(cmd, rc);
}

static void append_args(struct redis_cmd *cmd, const struct br_queue_redis *q, uint64_t fence, uint32_t first,
                        const struct br_token *tokens, uint32_t n, enum br_end end, const char *error)
{
    struct br_buf run = {0};
    br_tokens_pack(first, tokens, n, &run);
    br_pipe_cmd_add_u64(&cmd->pipe, fence);
    br_pipe_cmd_add_u64(&cmd->pipe, first);
    br_pipe_cmd_add_u64(&cmd->pipe, n);
    br_pipe_cmd_add_u64(&cmd->pipe, end);
    br_pipe_cmd_add_u64(&cmd->pipe, q->finished_ttl_s);
    br_pipe_cmd_add_u64(&cmd->pipe, cmd->seq);
    br_pipe_cmd_add(&cmd->pipe, run.data, run.len);
    br_pipe_cmd_add(&cmd->pipe, error ? error : "", error ? strlen(error) : 0);
    br_pipe_cmd_add_u64(&cmd->pipe, q->keep_tokens);
    br_buf_free(&run);
}

static void redis_append(struct br_queue *base, uint64_t seq, uint64_t fence, uint32_t first,
                         const struct br_token *tokens, uint32_t n, enum br_end end, const char *error, br_queue_cb cb,
                         void *ctx)
{
    struct br_queue_redis *q = redis_of(base);
    struct br_done done = {.plain = cb, .ctx = ctx};
    struct redis_cmd *cmd;
    if (is_full(q)) {
        answer_later(q, done, BR_EBUSY);
        return;
    }
    cmd = cmd_create(&done, seq, append_done);
    br_pipe_cmd_script(&cmd->pipe, BR_SCRIPT_APPEND, 3, 9);
    br_redis_add_key(&cmd->pipe, q, BR_KEY_SEQ, seq);
    br_redis_add_key(&cmd->pipe, q, BR_KEY_TOKENS, seq);
    br_redis_add_key(&cmd->pipe, q, BR_KEY_UNFINISHED, 0);
    append_args(cmd, q, fence, first, tokens, n, end, error);
    br_pipe_submit(q->pipe, &cmd->pipe, true);
}

/* ---- restore ---- */

static void restore_done(struct br_pipe_cmd *pipe_cmd, int rc, const redisReply *reply)
{
    cmd_answer((struct redis_cmd *)pipe_cmd, rc ? rc : br_reply_code(reply));
}

static void redis_restore(struct br_queue *base, const struct br_seq_spec *spec, uint64_t fence, br_queue_cb cb,
                          void *ctx)
{
    struct br_queue_redis *q = redis_of(base);
    struct br_done done = {.plain = cb, .ctx = ctx};
    struct br_buf blob = {0};
    struct redis_cmd *cmd;
    if (is_full(q)) {
        answer_later(q, done, BR_EBUSY);
        return;
    }
    cmd = cmd_create(&done, spec->id, restore_done);
    br_seq_spec_pack(spec, &blob);
    br_pipe_cmd_script(&cmd->pipe, BR_SCRIPT_RESTORE, 2, 4);
    br_redis_add_key(&cmd->pipe, q, BR_KEY_UNFINISHED, 0);
    br_redis_add_key(&cmd->pipe, q, BR_KEY_SEQ, spec->id);
    br_pipe_cmd_add_u64(&cmd->pipe, spec->id);
    br_pipe_cmd_add(&cmd->pipe, blob.data, blob.len);
    br_pipe_cmd_add_u64(&cmd->pipe, fence);
    br_pipe_cmd_add_u64(&cmd->pipe, (uint64_t)spec->arrival_us);
    br_buf_free(&blob);
    br_pipe_submit(q->pipe, &cmd->pipe, false);
}

/* ---- the queue ---- */

static void redis_recover(struct br_queue *base, br_queue_each_cb each, br_queue_cb done, void *ctx)
{
    struct br_queue_redis *q = redis_of(base);
    if (is_full(q))
        answer_later(q, (struct br_done){.plain = done, .ctx = ctx}, BR_EBUSY);
    else
        br_redis_recover(q, each, done, ctx);
}

static bool redis_healthy(const struct br_queue *base)
{
    return br_pipe_ready(((const struct br_queue_redis *)base)->pipe);
}

static void redis_closed(uv_handle_t *handle)
{
    struct br_done_list *list = handle->data;
    struct br_queue_redis *q = (struct br_queue_redis *)((char *)list - offsetof(struct br_queue_redis, later));
    free(q->prefix);
    free(q);
}

static void redis_destroy(struct br_queue *base)
{
    struct br_queue_redis *q = redis_of(base);
    br_pipe_destroy(q->pipe);
    br_done_list_close(&q->later, redis_closed);
}

static const struct br_queue_ops redis_ops = {
    .destroy = redis_destroy,
    .accept = redis_accept,
    .lease = redis_lease,
    .append = redis_append,
    .restore = redis_restore,
    .recover = redis_recover,
    .healthy = redis_healthy,
};

static int config_check(const struct br_queue_redis_config *config, struct br_err *err)
{
    if (!config->unix_path && (!config->host || config->port <= 0 || config->port > 65535))
        return br_err_set(err, BR_EINVAL, "redis: neither a socket path nor a host with a port from 1 to 65535");
    if (config->timeout_ms == 0 || config->max_pending == 0)
        return br_err_set(err, BR_EINVAL, "redis: timeout_ms and max_pending must be above 0");
    return 0;
}

int br_queue_redis_create(uv_loop_t *loop, const struct br_queue_redis_config *config, struct br_queue **out,
                          struct br_err *err)
{
    struct br_queue_redis *q;
    uint32_t least_ttl_s = 2 * (config->timeout_ms / 1000) + 2; /* a finish that is sent again must find it */
    if (config_check(config, err))
        return err->code;
    signal(SIGPIPE, SIG_IGN); /* hiredis writes without MSG_NOSIGNAL */
    q = br_calloc(1, sizeof *q);
    q->base.ops = &redis_ops;
    q->prefix = br_strdup(config->prefix ? config->prefix : "briareus:");
    q->max_pending = config->max_pending;
    q->finished_ttl_s = config->finished_ttl_s > least_ttl_s ? config->finished_ttl_s : least_ttl_s;
    q->keep_tokens = config->keep_tokens;
    q->owner = br_rng_entropy();
    br_done_list_init(&q->later, loop);
    q->pipe = br_pipe_create(loop, config);
    *out = &q->base;
    return 0;
}
