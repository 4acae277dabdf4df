/* Calls a queue and waits for the answer on one loop. */
#ifndef BRIAREUS_TESTS_QUEUE_FIXTURE_H
#define BRIAREUS_TESTS_QUEUE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/queue/queue.h"
#include "tests/cmocka.h"

struct answer {
    int calls, rc;
    int64_t arrival_us;
    uint64_t fence;
};

static inline void timer_nothing(uv_timer_t *timer)
{
    (void)timer;
}

/* Turns the loop until the condition holds; fails after 20 s. */
#define WAIT_UNTIL(loop, condition)                                                                                    \
    do {                                                                                                               \
        uv_timer_t waker_;                                                                                             \
        int64_t end_ns_ = br_now_ns() + 20 * BR_NS_PER_S;                                                              \
        uv_timer_init(loop, &waker_);                                                                                  \
        uv_timer_start(&waker_, timer_nothing, 5, 5);                                                                  \
        while (!(condition) && br_now_ns() < end_ns_)                                                                  \
            uv_run(loop, UV_RUN_ONCE);                                                                                 \
        uv_close((uv_handle_t *)&waker_, NULL);                                                                        \
        uv_run(loop, UV_RUN_NOWAIT);                                                                                   \
        assert_true(condition);                                                                                        \
    } while (0)

static inline void on_accept(void *ctx, int rc, int64_t arrival_us, uint64_t fence)
{
    struct answer *answer = ctx;
    *answer = (struct answer){answer->calls + 1, rc, arrival_us, fence};
}

static inline void on_lease(void *ctx, int rc, uint64_t fence)
{
    struct answer *answer = ctx;
    *answer = (struct answer){answer->calls + 1, rc, 0, fence};
}

static inline void on_plain(void *ctx, int rc)
{
    struct answer *answer = ctx;
    *answer = (struct answer){answer->calls + 1, rc, 0, 0};
}

static inline struct answer do_accept(uv_loop_t *loop, struct br_queue *q, const struct br_seq_spec *specs, uint32_t n)
{
    struct answer answer = {0};
    q->ops->accept(q, specs, n, on_accept, &answer);
    assert_int_equal(answer.calls, 0); /* never from inside the call */
    WAIT_UNTIL(loop, answer.calls == 1);
    return answer;
}

static inline struct answer do_lease(uv_loop_t *loop, struct br_queue *q, uint64_t seq)
{
    struct answer answer = {0};
    q->ops->lease(q, seq, on_lease, &answer);
    assert_int_equal(answer.calls, 0);
    WAIT_UNTIL(loop, answer.calls == 1);
    return answer;
}

static inline int do_restore(uv_loop_t *loop, struct br_queue *q, const struct br_seq_spec *spec, uint64_t fence)
{
    struct answer answer = {0};
    q->ops->restore(q, spec, fence, on_plain, &answer);
    assert_int_equal(answer.calls, 0);
    WAIT_UNTIL(loop, answer.calls == 1);
    return answer.rc;
}

static inline int do_append(uv_loop_t *loop, struct br_queue *q, uint64_t seq, uint64_t fence, uint32_t first,
                            const struct br_token *tokens, uint32_t n, enum br_end end)
{
    struct answer answer = {0};
    q->ops->append(q, seq, fence, first, tokens, n, end, end == BR_END_FAILED ? "broken" : NULL, on_plain, &answer);
    assert_int_equal(answer.calls, 0);
    WAIT_UNTIL(loop, answer.calls == 1);
    return answer.rc;
}

/* What recover finds, up to a bound. */
enum { FOUND_MAX = 4096 };
struct found {
    uint32_t n;
    struct answer done;
    struct found_seq {
        struct br_seq_spec spec;
        struct br_token *tokens;
        uint32_t n_tokens;
        uint64_t fence;
        double age_s;
    } seq[FOUND_MAX];
};

static inline void on_each(void *ctx, struct br_seq_spec *spec, struct br_token *tokens, uint32_t n_tokens,
                           uint64_t fence, double age_s)
{
    struct found *found = ctx;
    assert_in_range(found->n, 0, FOUND_MAX - 1);
    assert_int_equal(found->done.calls, 0);
    found->seq[found->n++] = (struct found_seq){*spec, tokens, n_tokens, fence, age_s};
}

static inline void on_found_done(void *ctx, int rc)
{
    struct found *found = ctx;
    on_plain(&found->done, rc);
}

static inline struct found *do_recover(uv_loop_t *loop, struct br_queue *q)
{
    struct found *found = calloc(1, sizeof *found);
    q->ops->recover(q, on_each, on_found_done, found);
    assert_int_equal(found->done.calls, 0);
    WAIT_UNTIL(loop, found->done.calls == 1);
    assert_int_equal(found->done.rc, 0);
    return found;
}

static inline void found_free(struct found *found)
{
    for (uint32_t i = 0; i < found->n; i++) {
        br_seq_spec_free(&found->seq[i].spec);
        free(found->seq[i].tokens);
    }
    free(found);
}

static inline struct found_seq *found_seq(struct found *found, uint64_t id)
{
    for (uint32_t i = 0; i < found->n; i++)
        if (found->seq[i].spec.id == id)
            return &found->seq[i];
    return NULL;
}

static inline struct br_seq_spec make_spec(uint64_t id)
{
    static int32_t prompt[] = {1, 2, 3};
    static char *stop[] = {(char *)"\xc3\xa9\n"};
    struct br_seq_spec spec;
    br_seq_spec_init(&spec);
    spec.id = id;
    snprintf(spec.request_id, sizeof spec.request_id, "req-%llu", (unsigned long long)id);
    strcpy(spec.model, "a-model");
    spec.sampling.seed = id * 3;
    spec.prompt = prompt; /* borrowed: never freed */
    spec.n_prompt = 3;
    spec.stop = stop;
    spec.n_stop = 1;
    return spec;
}

/* Token i of a sequence is a function of i alone, so that a run's place can be checked. */
static inline void make_tokens(struct br_token *tokens, uint32_t first, uint32_t n)
{
    memset(tokens, 0, n * sizeof *tokens);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = first + i;
        tokens[i] = (struct br_token){.id = (int32_t)(at * 7 + 1), .logprob = -1 - (float)at, .n_top = at % 3};
        for (uint32_t j = 0; j < at % 3; j++) {
            tokens[i].top_id[j] = (int32_t)(at + j);
            tokens[i].top_logprob[j] = -1 - (float)j;
        }
    }
}

static inline void check_tokens(const struct found_seq *seq, uint32_t n)
{
    struct br_token *want = br_calloc(n + 1, sizeof *want);
    assert_non_null(seq);
    assert_int_equal(seq->n_tokens, n);
    make_tokens(want, 0, n);
    if (n)
        assert_memory_equal(seq->tokens, want, n * sizeof *want);
    free(want);
}

#endif
