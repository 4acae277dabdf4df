/* One connection to Redis that comes back by itself, and the commands in order: those sent and not answered, then those
 * waiting. Knows nothing of sequences. Private to scheduler/queue. */
#ifndef BRIAREUS_SCHEDULER_QUEUE_REDIS_PIPE_H
#define BRIAREUS_SCHEDULER_QUEUE_REDIS_PIPE_H

#include <hiredis/hiredis.h>

#include "scheduler/queue/queue.h"
#include "scheduler/queue/redis_script.h"

struct br_pipe;

struct br_pipe_cmd {
    struct br_pipe_cmd *next;
    struct br_buf wire; /* the command as it is sent; owned by the pipe */
    enum br_script script;
    size_t sha_at; /* where the script's SHA-1 goes in wire */
    int64_t deadline_ns;
    /* Exactly once, from the loop (or from br_pipe_destroy). rc 0: reply is there, and no error reply; else NULL. The
     * command is the callee's to free. */
    void (*done)(struct br_pipe_cmd *cmd, int rc, const redisReply *reply);
};

/* `*n` and what comes before the first key of an EVALSHA; or a plain command of n words. */
void br_pipe_cmd_script(struct br_pipe_cmd *cmd, enum br_script script, uint32_t n_keys, uint32_t n_args);
void br_pipe_cmd_plain(struct br_pipe_cmd *cmd, uint32_t n_words);
void br_pipe_cmd_add(struct br_pipe_cmd *cmd, const void *data, size_t len);
void br_pipe_cmd_add_u64(struct br_pipe_cmd *cmd, uint64_t value);

struct br_pipe *br_pipe_create(uv_loop_t *loop, const struct br_queue_redis_config *config);
/* Every command ends with BR_EIO inside this call; memory is freed when the loop has closed the handles. */
void br_pipe_destroy(struct br_pipe *pipe);
/* In order behind all earlier ones. may_wait: may be held back for the group commit. */
void br_pipe_submit(struct br_pipe *pipe, struct br_pipe_cmd *cmd, bool may_wait);
uint32_t br_pipe_pending(const struct br_pipe *pipe);
bool br_pipe_ready(const struct br_pipe *pipe);

#endif
