/* What redis.c and redis_recover.c share. Private to scheduler/queue. */
#ifndef BRIAREUS_SCHEDULER_QUEUE_REDIS_QUEUE_H
#define BRIAREUS_SCHEDULER_QUEUE_REDIS_QUEUE_H

#include "scheduler/queue/done.h"
#include "scheduler/queue/redis_pipe.h"

struct br_queue_redis {
    struct br_queue base;
    struct br_pipe *pipe;
    struct br_done_list later;
    char *prefix; /* owned */
    uint32_t max_pending, finished_ttl_s;
    bool keep_tokens;
    uint64_t owner, lease_calls; /* make a lease that is sent twice count once */
};

enum br_redis_key { BR_KEY_SEQ, BR_KEY_TOKENS, BR_KEY_UNFINISHED, BR_KEY_BROKEN };

/* Adds a key as the command's next word; seq is used by the first two. */
void br_redis_add_key(struct br_pipe_cmd *cmd, const struct br_queue_redis *q, enum br_redis_key key, uint64_t seq);

void br_redis_recover(struct br_queue_redis *q, br_queue_each_cb each, br_queue_cb done, void *ctx);

#endif
