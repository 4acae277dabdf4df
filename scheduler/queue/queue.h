/* Every accepted sequence, and its tokens so far, outside the process: nothing accepted is lost.
 *
 * Asynchronous on one libuv loop; callbacks come from the loop, never from inside the call. All of one sequence's calls
 * are carried out in the order they were made. Implementations: redis (real), mem (tests and simulation). */
#ifndef BRIAREUS_SCHEDULER_QUEUE_QUEUE_H
#define BRIAREUS_SCHEDULER_QUEUE_QUEUE_H

#include <uv.h>

#include "proto/seq.h"

struct br_queue;

struct br_queue_redis_config {
    const char *unix_path; /* or host and port */
    const char *host;
    int port;
    const char *prefix;       /* of every key; "briareus:" */
    uint32_t group_commit_us; /* appends are gathered this long before they are sent; 0: one loop turn */
    uint32_t finished_ttl_s;  /* how long a finished sequence's record (not its tokens) stays */
    bool keep_tokens;         /* prompt and tokens stay as long as the record: to look at afterwards */
    uint32_t max_pending;     /* commands under way; more: BR_EBUSY at once */
    uint32_t timeout_ms;      /* of one command; then BR_EIO */
};

/* rc: 0, BR_ESTALE (the fence lost: somebody else works on it), BR_ENOENT, BR_EBUSY (too many calls under way),
 * BR_ENOMEM (accept only: the queue is full), BR_EIO (not known). */
typedef void (*br_queue_cb)(void *ctx, int rc);
typedef void (*br_queue_accept_cb)(void *ctx, int rc, int64_t arrival_us, uint64_t fence);
typedef void (*br_queue_lease_cb)(void *ctx, int rc, uint64_t fence);
/* One unfinished sequence: spec and tokens are the callee's to take (spec: br_seq_spec_free, tokens: free). */
typedef void (*br_queue_each_cb)(void *ctx, struct br_seq_spec *spec, struct br_token *tokens, uint32_t n_tokens,
                                 uint64_t fence, double age_s);

struct br_queue_ops {
    void (*destroy)(struct br_queue *q); /* outstanding callbacks come with BR_EIO first */
    /* Stores the sequences of one request, all or none, with fence 1; arrival_us is Redis TIME. */
    void (*accept)(struct br_queue *q, const struct br_seq_spec *specs, uint32_t n, br_queue_accept_cb cb, void *ctx);
    /* Takes the sequence over: a new, larger fence; appends under older ones fail from now on. BR_EINVAL: the queue has
     * no record of it (restore). */
    void (*lease)(struct br_queue *q, uint64_t seq, br_queue_lease_cb cb, void *ctx);
    /* Adds tokens [first, first + n); first must be the number stored so far (tokens already there are skipped, a gap
     * is BR_EINVAL, as is no record at all, or one with an older
     * fence: the queue came back with less than it had said; restore, then append from 0). end other than BR_END_NONE
     * finishes the sequence in the same step. error may be NULL. */
    void (*append)(struct br_queue *q, uint64_t seq, uint64_t fence, uint32_t first, const struct br_token *tokens,
                   uint32_t n, enum br_end end, const char *error, br_queue_cb cb, void *ctx);
    /* What the queue has lost (a Redis that was killed while its disk was slow may come back without its last two
     * seconds) is put in again: the record without tokens, as of spec->arrival_us, or a fence at least this high.
     * BR_ESTALE, BR_ENOENT: somebody else has it, or it is over. */
    void (*restore)(struct br_queue *q, const struct br_seq_spec *spec, uint64_t fence, br_queue_cb cb, void *ctx);
    /* Calls each for every unfinished sequence, then done. */
    void (*recover)(struct br_queue *q, br_queue_each_cb each, br_queue_cb done, void *ctx);
    bool (*healthy)(const struct br_queue *q);
};

struct br_queue {
    const struct br_queue_ops *ops;
};

/* Connects in the background and keeps reconnecting; calls made while there is no connection wait (bounded by
 * max_pending) and fail with BR_EIO after timeout_ms. A command whose connection broke is sent again: all are safe to
 * repeat. config's strings are copied. */
int br_queue_redis_create(uv_loop_t *loop, const struct br_queue_redis_config *config, struct br_queue **out,
                          struct br_err *err);
int br_queue_mem_create(uv_loop_t *loop, struct br_queue **out, struct br_err *err);

#endif
