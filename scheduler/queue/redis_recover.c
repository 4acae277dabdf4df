/* Walks the unfinished by arrival, a page at a time. Others may finish sequences meanwhile, so a page starts at the
 * last score seen, not at a rank, and members of that score that were seen already are passed over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/queue/redis_queue.h"
#include "scheduler/queue/redis_reply.h"

enum { RECOVER_PAGE = 256 };

struct recover {
    struct br_queue_redis *q;
    br_queue_each_cb each;
    br_queue_cb done;
    void *ctx;
    int rc;
    uint32_t under_way;
    uint64_t n_read, n_broken;
    char score[33]; /* of the last member seen */
    char **seen;    /* members of that score */
    uint32_t n_seen;
};

struct recover_cmd {
    struct br_pipe_cmd pipe;
    struct recover *recover;
    uint64_t seq;
};

static void recover_request_page(struct recover *rec);

static struct recover_cmd *recover_cmd_create(struct recover *rec, uint64_t seq,
                                              void (*done)(struct br_pipe_cmd *, int, const redisReply *))
{
    struct recover_cmd *cmd = br_calloc(1, sizeof *cmd);
    cmd->recover = rec;
    cmd->seq = seq;
    cmd->pipe.done = done;
    rec->under_way++;
    return cmd;
}

static void seen_clear(struct recover *rec)
{
    while (rec->n_seen)
        free(rec->seen[--rec->n_seen]);
}

static void recover_finish(struct recover *rec)
{
    struct recover copy = *rec;
    br_log(rec->rc ? BR_WARN : BR_INFO, "queue_recovered", "sequences=%llu broken=%llu rc=%s",
           (unsigned long long)rec->n_read, (unsigned long long)rec->n_broken, br_err_name(rec->rc));
    seen_clear(rec);
    free(rec->seen);
    free(rec);
    copy.done(copy.ctx, copy.rc);
}

/* One answer less to wait for; the last of a page asks for the next. */
static void recover_cmd_over(struct recover_cmd *cmd, int rc)
{
    struct recover *rec = cmd->recover;
    free(cmd);
    if (rc && !rec->rc)
        rec->rc = rc;
    if (--rec->under_way)
        return;
    if (rec->rc)
        recover_finish(rec);
    else
        recover_request_page(rec);
}

/* ---- entries that make no sense ---- */

static void aside_done(struct br_pipe_cmd *pipe_cmd, int rc, const redisReply *reply)
{
    struct recover_cmd *cmd = (struct recover_cmd *)pipe_cmd;
    if (rc == 0)
        rc = br_reply_code(reply);
    recover_cmd_over(cmd, rc);
}

static void recover_put_aside(struct recover *rec, const char *member, size_t len, const char *why)
{
    struct recover_cmd *cmd = recover_cmd_create(rec, 0, aside_done);
    char shown[65];
    snprintf(shown, sizeof shown, "%.*s", len > 64 ? 64 : (int)len, member);
    br_log(BR_ERROR, "queue_entry_broken", "seq=%s reason=%s", BR_Q(shown), BR_Q(why));
    rec->n_broken++;
    br_pipe_cmd_script(&cmd->pipe, BR_SCRIPT_ASIDE, 2, 1);
    br_redis_add_key(&cmd->pipe, rec->q, BR_KEY_UNFINISHED, 0);
    br_redis_add_key(&cmd->pipe, rec->q, BR_KEY_BROKEN, 0);
    br_pipe_cmd_add(&cmd->pipe, member, len);
    br_pipe_submit(rec->q->pipe, &cmd->pipe, false);
}

/* ---- one sequence ---- */

static void read_give(struct recover *rec, const redisReply *reply, uint64_t seq, int *rc)
{
    struct br_entry entry;
    struct br_err err;
    char member[24];
    *rc = br_reply_entry(reply, seq, &entry, &err);
    if (*rc == 0) {
        rec->n_read++;
        rec->each(rec->ctx, &entry.spec, entry.tokens, entry.n_tokens, entry.fence, entry.age_s);
    } else if (*rc == BR_ECORRUPT) {
        snprintf(member, sizeof member, "%llu", (unsigned long long)seq);
        recover_put_aside(rec, member, strlen(member), err.msg);
        *rc = 0;
    } else if (*rc == BR_ENOENT) {
        *rc = 0; /* finished in between */
    }
}

static void read_done(struct br_pipe_cmd *pipe_cmd, int rc, const redisReply *reply)
{
    struct recover_cmd *cmd = (struct recover_cmd *)pipe_cmd;
    if (rc == 0 && cmd->recover->rc == 0)
        read_give(cmd->recover, reply, cmd->seq, &rc);
    recover_cmd_over(cmd, rc);
}

static void recover_read(struct recover *rec, uint64_t seq)
{
    struct recover_cmd *cmd = recover_cmd_create(rec, seq, read_done);
    br_pipe_cmd_script(&cmd->pipe, BR_SCRIPT_READ, 3, 1);
    br_redis_add_key(&cmd->pipe, rec->q, BR_KEY_SEQ, seq);
    br_redis_add_key(&cmd->pipe, rec->q, BR_KEY_TOKENS, seq);
    br_redis_add_key(&cmd->pipe, rec->q, BR_KEY_UNFINISHED, 0);
    br_pipe_cmd_add_u64(&cmd->pipe, seq);
    br_pipe_submit(rec->q->pipe, &cmd->pipe, false);
}

/* ---- pages ---- */

static bool is_seen(const struct recover *rec, const redisReply *member, const char *score)
{
    if (strcmp(score, rec->score))
        return false;
    for (uint32_t i = 0; i < rec->n_seen; i++)
        if (strlen(rec->seen[i]) == member->len && memcmp(rec->seen[i], member->str, member->len) == 0)
            return true;
    return false;
}

static void seen_add(struct recover *rec, const redisReply *member, const char *score)
{
    if (strcmp(score, rec->score))
        seen_clear(rec);
    snprintf(rec->score, sizeof rec->score, "%s", score);
    rec->seen = br_realloc(rec->seen, (rec->n_seen + 1) * sizeof *rec->seen);
    rec->seen[rec->n_seen++] = br_strdup(member->str);
}

static void page_member(struct recover *rec, const redisReply *member, const char *score)
{
    uint64_t seq;
    if (is_seen(rec, member, score))
        return;
    seen_add(rec, member, score);
    if (br_reply_member(member, &seq))
        recover_put_aside(rec, member->str, member->len, "not a sequence id");
    else
        recover_read(rec, seq);
}

static void page_done(struct br_pipe_cmd *pipe_cmd, int rc, const redisReply *reply)
{
    struct recover_cmd *cmd = (struct recover_cmd *)pipe_cmd;
    struct recover *rec = cmd->recover;
    size_t n = 0;
    if (rc == 0)
        rc = br_reply_page(reply, &n);
    for (size_t i = 0; i < n; i++)
        page_member(rec, reply->element[2 * i], reply->element[2 * i + 1]->str);
    if (rc == 0 && rec->under_way == 1) { /* nothing new: this was the end */
        free(cmd);
        recover_finish(rec);
        return;
    }
    recover_cmd_over(cmd, rc);
}

static void recover_request_page(struct recover *rec)
{
    struct recover_cmd *cmd = recover_cmd_create(rec, 0, page_done);
    br_pipe_cmd_plain(&cmd->pipe, 8);
    br_pipe_cmd_add(&cmd->pipe, "ZRANGEBYSCORE", 13);
    br_redis_add_key(&cmd->pipe, rec->q, BR_KEY_UNFINISHED, 0);
    br_pipe_cmd_add(&cmd->pipe, *rec->score ? rec->score : "-inf", *rec->score ? strlen(rec->score) : 4);
    br_pipe_cmd_add(&cmd->pipe, "+inf", 4);
    br_pipe_cmd_add(&cmd->pipe, "WITHSCORES", 10);
    br_pipe_cmd_add(&cmd->pipe, "LIMIT", 5);
    br_pipe_cmd_add(&cmd->pipe, "0", 1);
    br_pipe_cmd_add_u64(&cmd->pipe, RECOVER_PAGE + rec->n_seen);
    br_pipe_submit(rec->q->pipe, &cmd->pipe, false);
}

void br_redis_recover(struct br_queue_redis *q, br_queue_each_cb each, br_queue_cb done, void *ctx)
{
    struct recover *rec = br_calloc(1, sizeof *rec);
    rec->q = q;
    rec->each = each;
    rec->done = done;
    rec->ctx = ctx;
    recover_request_page(rec);
}
