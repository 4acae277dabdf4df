/* Replies of Redis are outside bytes: these functions check type, length and range of each before it is used. A reply
 * of another shape is BR_EIO. Private to scheduler/queue. */
#ifndef BRIAREUS_SCHEDULER_QUEUE_REDIS_REPLY_H
#define BRIAREUS_SCHEDULER_QUEUE_REDIS_REPLY_H

#include <hiredis/hiredis.h>

#include "proto/seq.h"

/* The code that a script returned: 0, BR_EINVAL, BR_ENOENT, BR_ESTALE, BR_ECORRUPT. */
int br_reply_code(const redisReply *reply);
int br_reply_accept(const redisReply *reply, int64_t *arrival_us, uint64_t *fence);
int br_reply_lease(const redisReply *reply, uint64_t *fence);
/* The SHA-1 that SCRIPT LOAD returns: 40 characters. */
int br_reply_sha(const redisReply *reply, char sha[41]);

/* A page of the unfinished: pairs (member, score), all strings. */
int br_reply_page(const redisReply *reply, size_t *n_members);
/* A member's sequence id; BR_EINVAL if it is none. */
int br_reply_member(const redisReply *member, uint64_t *seq);

struct br_entry {
    struct br_seq_spec spec; /* owned */
    struct br_token *tokens; /* owned */
    uint32_t n_tokens, cap;
    uint64_t fence;
    double age_s;
};
/* What is stored of a sequence. BR_ENOENT: over by now; BR_ECORRUPT: what is there contradicts itself. */
int br_reply_entry(const redisReply *reply, uint64_t seq, struct br_entry *out, struct br_err *err);

/* BR_ENOMEM (Redis is at its maxmemory) or BR_EIO for an error reply; 0 for any other. */
int br_reply_error(const redisReply *reply);

#endif
