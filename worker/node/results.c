#include "worker/node/results.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/buf.h"

enum { BUCKETS = 4096 };

struct result {
    uint64_t seq, fence;
    uint32_t cached;
    uint32_t first, n, cap; /* tokens [first, first + n) are here */
    struct br_token *tokens;
    double queued_s;
    uint32_t sent; /* tokens below this index have been sent */
    bool end_sent, dirty, adopted;
    enum br_end end;
    char *error;
    LIST_ENTRY(result) hash;
    TAILQ_ENTRY(result) all;   /* running ones, or ended ones in order */
    TAILQ_ENTRY(result) queue; /* while dirty */
};

LIST_HEAD(result_bucket, result);
TAILQ_HEAD(result_list, result);

struct results {
    pthread_mutex_t mutex;
    struct result_bucket buckets[BUCKETS];
    struct result_list running, ended, dirty;
    uint32_t n_ended, max_ended;
};

void results_create(uint32_t max_ended, struct results **out)
{
    struct results *r = br_calloc(1, sizeof *r);
    pthread_mutex_init(&r->mutex, NULL);
    TAILQ_INIT(&r->running);
    TAILQ_INIT(&r->ended);
    TAILQ_INIT(&r->dirty);
    r->max_ended = max_ended;
    *out = r;
}

static struct result_bucket *bucket_of(struct results *r, uint64_t seq)
{
    return &r->buckets[(seq * 0x9e3779b97f4a7c15ull) >> 52];
}

static struct result *result_find(struct results *r, uint64_t seq)
{
    struct result *found;
    for (found = LIST_FIRST(bucket_of(r, seq)); found && found->seq != seq;)
        found = LIST_NEXT(found, hash);
    return found;
}

static void result_mark(struct results *r, struct result *x)
{
    if (!x->dirty)
        TAILQ_INSERT_TAIL(&r->dirty, x, queue);
    x->dirty = true;
}

static void result_unmark(struct results *r, struct result *x)
{
    if (x->dirty)
        TAILQ_REMOVE(&r->dirty, x, queue);
    x->dirty = false;
}

static void result_drop(struct results *r, struct result *x)
{
    result_unmark(r, x);
    if (x->end == BR_END_NONE)
        TAILQ_REMOVE(&r->running, x, all);
    else {
        TAILQ_REMOVE(&r->ended, x, all);
        r->n_ended--;
    }
    LIST_REMOVE(x, hash);
    free(x->tokens);
    free(x->error);
    free(x);
}

void results_free(struct results *r)
{
    struct result *x;
    if (!r)
        return;
    while ((x = TAILQ_FIRST(&r->running)) || (x = TAILQ_FIRST(&r->ended)))
        result_drop(r, x);
    pthread_mutex_destroy(&r->mutex);
    free(r);
}

static void result_make(struct results *r, uint64_t seq, uint64_t fence, uint32_t n)
{
    struct result *x = br_calloc(1, sizeof *x);
    x->seq = seq;
    x->fence = fence;
    x->first = x->sent = n;
    LIST_INSERT_HEAD(bucket_of(r, seq), x, hash);
    TAILQ_INSERT_TAIL(&r->running, x, all);
}

/* From token n on, and the end, everything goes out under this fence. */
static void result_resend(struct results *r, struct result *x, uint64_t fence, uint32_t n)
{
    x->fence = fence > x->fence ? fence : x->fence;
    x->sent = n < x->first + x->n ? n : x->first + x->n;
    x->end_sent = false;
    result_mark(r, x);
}

static enum result_open result_reopen(struct results *r, struct result *x, uint64_t fence, uint32_t n)
{
    if (n < x->first || x->end == BR_END_FAILED || x->end == BR_END_CANCELLED) {
        enum result_open was = x->end == BR_END_NONE ? RESULT_BEHIND : RESULT_NEW;
        uint64_t seq = x->seq;
        result_drop(r, x);
        result_make(r, seq, fence, n);
        return was;
    }
    result_resend(r, x, fence, n);
    return x->end == BR_END_NONE ? RESULT_KNOWN : RESULT_ENDED;
}

enum result_open results_open(struct results *r, uint64_t seq, uint64_t fence, uint32_t n)
{
    enum result_open how = RESULT_NEW;
    struct result *x;
    pthread_mutex_lock(&r->mutex);
    x = result_find(r, seq);
    if (x)
        how = result_reopen(r, x, fence, n);
    else
        result_make(r, seq, fence, n);
    pthread_mutex_unlock(&r->mutex);
    return how;
}

bool results_forget(struct results *r, uint64_t seq, uint64_t fence)
{
    struct result *x;
    bool known;
    pthread_mutex_lock(&r->mutex);
    x = result_find(r, seq);
    known = x && x->fence <= fence;
    if (known)
        result_drop(r, x);
    pthread_mutex_unlock(&r->mutex);
    return known;
}

static void tokens_add(struct result *x, const struct br_token *tokens, uint32_t n)
{
    if (x->n + n > x->cap) {
        x->cap = x->cap ? 2 * x->cap : 16;
        x->cap = x->cap < x->n + n ? x->n + n : x->cap;
        x->tokens = br_realloc(x->tokens, x->cap * sizeof *x->tokens);
    }
    memcpy(x->tokens + x->n, tokens, n * sizeof *tokens);
    x->n += n;
}

static void result_end(struct results *r, struct result *x, enum br_end end, const char *error)
{
    TAILQ_REMOVE(&r->running, x, all);
    x->end = end;
    x->error = error ? br_strdup(error) : NULL;
    TAILQ_INSERT_TAIL(&r->ended, x, all);
    if (++r->n_ended > r->max_ended)
        result_drop(r, TAILQ_FIRST(&r->ended));
}

void results_push(struct results *r, const struct br_turn_output *out)
{
    struct result *x;
    pthread_mutex_lock(&r->mutex);
    x = result_find(r, out->seq);
    /* Anything else is from a run of this sequence that was begun anew, which gives the same tokens again. */
    if (x && x->end == BR_END_NONE && out->first == x->first + x->n) {
        if (out->queued_s > 0)
            x->queued_s = out->queued_s;
        x->cached = out->cached;
        if (out->n)
            tokens_add(x, out->tokens, out->n);
        result_mark(r, x);
        if (out->end != BR_END_NONE)
            result_end(r, x, out->end, out->error);
    }
    pthread_mutex_unlock(&r->mutex);
}

void results_welcome(struct results *r)
{
    struct result *x;
    pthread_mutex_lock(&r->mutex);
    for (x = TAILQ_FIRST(&r->running); x; x = TAILQ_NEXT(x, all))
        x->adopted = false;
    for (x = TAILQ_FIRST(&r->ended); x; x = TAILQ_NEXT(x, all))
        x->adopted = false;
    pthread_mutex_unlock(&r->mutex);
}

bool results_adopt(struct results *r, uint64_t seq, uint64_t fence, uint32_t acknowledged)
{
    struct result *x;
    pthread_mutex_lock(&r->mutex);
    x = result_find(r, seq);
    if (x && acknowledged >= x->first) {
        x->adopted = true;
        result_resend(r, x, fence, acknowledged);
    }
    pthread_mutex_unlock(&r->mutex);
    return x && x->adopted;
}

static void list_retire(struct results *r, struct result_list *list, uint64_t *gone, uint32_t *n)
{
    struct result *next;
    for (struct result *x = TAILQ_FIRST(list); x; x = next) {
        next = TAILQ_NEXT(x, all);
        if (x->adopted)
            continue;
        gone[(*n)++] = x->seq;
        result_drop(r, x);
    }
}

uint64_t *results_retire(struct results *r, uint32_t *n)
{
    uint64_t *gone;
    uint32_t all = 0;
    *n = 0;
    pthread_mutex_lock(&r->mutex);
    for (struct result *x = TAILQ_FIRST(&r->running); x; x = TAILQ_NEXT(x, all))
        all++;
    gone = br_calloc(all + r->n_ended + 1, sizeof *gone);
    list_retire(r, &r->running, gone, n);
    list_retire(r, &r->ended, gone, n);
    pthread_mutex_unlock(&r->mutex);
    return gone;
}

void results_each(struct results *r, void (*each)(void *ctx, uint64_t seq, uint64_t fence, uint32_t tokens), void *ctx)
{
    struct result *x;
    pthread_mutex_lock(&r->mutex);
    for (x = TAILQ_FIRST(&r->running); x; x = TAILQ_NEXT(x, all))
        each(ctx, x->seq, x->fence, x->first + x->n);
    for (x = TAILQ_FIRST(&r->ended); x; x = TAILQ_NEXT(x, all))
        each(ctx, x->seq, x->fence, x->first + x->n);
    pthread_mutex_unlock(&r->mutex);
}

/* The next chunk of x; its end goes with the last one. */
static struct result_chunk chunk_of(const struct result *x)
{
    struct result_chunk c = {.seq = x->seq, .fence = x->fence, .first = x->sent, .n = x->first + x->n - x->sent};
    c.tokens = x->tokens + (x->sent - x->first);
    c.queued_s = x->sent == x->first ? x->queued_s : 0;
    c.cached = x->cached;
    if (c.n > RESULTS_CHUNK)
        c.n = RESULTS_CHUNK;
    if (c.first + c.n == x->first + x->n) {
        c.end = x->end;
        c.error = x->error;
    }
    return c;
}

static int result_send(struct results *r, struct result *x, int (*send)(void *ctx, const struct result_chunk *chunk),
                       void *ctx)
{
    struct result_chunk c = chunk_of(x);
    int rc = c.n || c.end != BR_END_NONE ? send(ctx, &c) : 0;
    if (rc)
        return rc;
    x->sent = c.first + c.n;
    x->end_sent = c.end != BR_END_NONE;
    if (x->sent == x->first + x->n && (x->end_sent || x->end == BR_END_NONE))
        result_unmark(r, x);
    return 0;
}

bool results_send(struct results *r, int (*send)(void *ctx, const struct result_chunk *chunk), void *ctx)
{
    struct result *x;
    pthread_mutex_lock(&r->mutex);
    while ((x = TAILQ_FIRST(&r->dirty)) && result_send(r, x, send, ctx) == 0)
        ;
    pthread_mutex_unlock(&r->mutex);
    return x == NULL;
}
