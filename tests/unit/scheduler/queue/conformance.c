#include "tests/unit/scheduler/queue/conformance.h"

#include "tests/unit/scheduler/queue/queue_fixture.h"

static conformance_create g_create;
static uv_loop_t g_loop;
static struct br_queue *g_q;

static int setup(void **state)
{
    (void)state;
    uv_loop_init(&g_loop);
    g_q = g_create(&g_loop);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (g_q)
        g_q->ops->destroy(g_q);
    uv_run(&g_loop, UV_RUN_DEFAULT);
    return uv_loop_close(&g_loop);
}

static struct answer accept_one(uint64_t id)
{
    struct br_seq_spec spec = make_spec(id);
    struct answer answer = do_accept(&g_loop, g_q, &spec, 1);
    assert_int_equal(answer.rc, 0);
    assert_int_equal(answer.fence, 1);
    return answer;
}

static int append(uint64_t seq, uint64_t fence, uint32_t first, uint32_t n, enum br_end end)
{
    struct br_token tokens[64];
    make_tokens(tokens, first, n);
    return do_append(&g_loop, g_q, seq, fence, first, tokens, n, end);
}

static void check_stored(uint64_t seq, uint64_t fence, uint32_t n)
{
    struct found *found = do_recover(&g_loop, g_q);
    check_tokens(found_seq(found, seq), n);
    assert_int_equal(found_seq(found, seq)->fence, fence);
    found_free(found);
}

static void check_gone(uint64_t seq)
{
    struct found *found = do_recover(&g_loop, g_q);
    assert_null(found_seq(found, seq));
    found_free(found);
}

static void test_accept(void **state)
{
    struct br_seq_spec spec = make_spec(UINT64_MAX);
    int64_t wall_us = br_wall_ns() / 1000;
    struct answer answer = accept_one(UINT64_MAX);
    struct found *found = do_recover(&g_loop, g_q);
    struct found_seq *seq = found_seq(found, UINT64_MAX);
    (void)state;
    assert_in_range(answer.arrival_us, wall_us - 1000000, wall_us + 10000000); /* both clocks are this machine's */
    assert_int_equal(found->n, 1);
    assert_int_equal(seq->spec.arrival_us, answer.arrival_us);
    assert_string_equal(seq->spec.model, spec.model);
    assert_string_equal(seq->spec.stop[0], spec.stop[0]);
    assert_int_equal(seq->spec.sampling.seed, spec.sampling.seed);
    assert_memory_equal(seq->spec.prompt, spec.prompt, sizeof(int32_t) * 3);
    assert_true(seq->age_s >= 0 && seq->age_s < 20);
    check_tokens(seq, 0);
    found_free(found);
}

static void test_accept_again(void **state)
{
    struct answer first = accept_one(5), again = accept_one(5);
    struct br_seq_spec other = make_spec(5);
    (void)state;
    assert_int_equal(again.arrival_us, first.arrival_us);
    other.max_tokens = 17;
    assert_int_equal(do_accept(&g_loop, g_q, &other, 1).rc, BR_EINVAL); /* the id is another sequence's */
    assert_int_equal(do_accept(&g_loop, g_q, &other, 0).rc, BR_EINVAL);
}

static void test_accept_all_or_none(void **state)
{
    struct br_seq_spec specs[3] = {make_spec(1), make_spec(2), make_spec(3)};
    struct found *found;
    (void)state;
    accept_one(2);
    assert_int_equal(do_accept(&g_loop, g_q, specs, 3).rc, BR_EINVAL);
    found = do_recover(&g_loop, g_q);
    assert_int_equal(found->n, 1);
    found_free(found);
    specs[1] = make_spec(4);
    assert_int_equal(do_accept(&g_loop, g_q, specs, 3).rc, 0);
    found = do_recover(&g_loop, g_q);
    assert_int_equal(found->n, 4);
    assert_int_equal(found_seq(found, 1)->spec.arrival_us, found_seq(found, 4)->spec.arrival_us);
    found_free(found);
}

static void test_append(void **state)
{
    (void)state;
    accept_one(1);
    assert_int_equal(append(1, 1, 0, 5, BR_END_NONE), 0);
    assert_int_equal(append(1, 1, 5, 1, BR_END_NONE), 0);
    assert_int_equal(append(1, 1, 6, 0, BR_END_NONE), 0);
    assert_int_equal(append(1, 1, 6, 40, BR_END_NONE), 0);
    check_stored(1, 1, 46);
    assert_int_equal(append(99, 1, 0, 1, BR_END_NONE), BR_EINVAL);
}

static void test_gaps_and_repeats(void **state)
{
    (void)state;
    accept_one(1);
    assert_int_equal(append(1, 1, 1, 1, BR_END_NONE), BR_EINVAL);
    assert_int_equal(append(1, 1, 0, 4, BR_END_NONE), 0);
    assert_int_equal(append(1, 1, 5, 4, BR_END_NONE), BR_EINVAL);
    check_stored(1, 1, 4);
    assert_int_equal(append(1, 1, 0, 4, BR_END_NONE), 0); /* again */
    assert_int_equal(append(1, 1, 1, 2, BR_END_NONE), 0); /* a part again */
    check_stored(1, 1, 4);
    assert_int_equal(append(1, 1, 2, 6, BR_END_NONE), 0); /* the tail is new */
    check_stored(1, 1, 8);
    assert_int_equal(append(1, 1, 0, 9, BR_END_NONE), 0);
    check_stored(1, 1, 9);
}

static void test_fence(void **state)
{
    (void)state;
    accept_one(1);
    assert_int_equal(append(1, 1, 0, 2, BR_END_NONE), 0);
    assert_int_equal(do_lease(&g_loop, g_q, 1).fence, 2);
    assert_int_equal(append(1, 1, 2, 2, BR_END_NONE), BR_ESTALE);
    assert_int_equal(append(1, 1, 2, 0, BR_END_LENGTH), BR_ESTALE);
    assert_int_equal(append(1, 1, 9, 1, BR_END_NONE), BR_ESTALE); /* stale comes before gap */
    assert_int_equal(append(1, 3, 2, 2, BR_END_NONE), BR_EINVAL); /* given out, and the queue does not know it */
    assert_int_equal(append(1, 2, 2, 2, BR_END_NONE), 0);
    assert_int_equal(do_lease(&g_loop, g_q, 1).fence, 3);
    check_stored(1, 3, 4);
    assert_int_equal(do_lease(&g_loop, g_q, 77).rc, BR_EINVAL);
}

static void test_restore(void **state)
{
    struct br_seq_spec spec = make_spec(1);
    struct found *found;
    (void)state;
    spec.arrival_us = br_wall_ns() / 1000 - 5000000;
    assert_int_equal(do_restore(&g_loop, g_q, &spec, 4), 0);
    found = do_recover(&g_loop, g_q);
    assert_int_equal(found_seq(found, 1)->spec.arrival_us, spec.arrival_us);
    assert_string_equal(found_seq(found, 1)->spec.model, spec.model);
    found_free(found);
    assert_int_equal(append(1, 4, 0, 5, BR_END_NONE), 0);
    assert_int_equal(do_restore(&g_loop, g_q, &spec, 6), 0); /* two leases were forgotten: the tokens stay */
    check_stored(1, 6, 5);
    assert_int_equal(append(1, 4, 5, 1, BR_END_NONE), BR_ESTALE);
    assert_int_equal(do_lease(&g_loop, g_q, 1).fence, 7);
    assert_int_equal(do_restore(&g_loop, g_q, &spec, 6), BR_ESTALE); /* somebody took it over */
    check_stored(1, 7, 5);
    assert_int_equal(append(1, 7, 5, 1, BR_END_LENGTH), 0);
    assert_int_equal(do_restore(&g_loop, g_q, &spec, 8), BR_ENOENT); /* it is over */
    check_gone(1);
}

static void test_finish(void **state)
{
    (void)state;
    accept_one(1);
    accept_one(2);
    assert_int_equal(append(1, 1, 0, 3, BR_END_STOP), 0);
    assert_int_equal(append(2, 1, 0, 0, BR_END_FAILED), 0);
    check_gone(1);
    check_gone(2);
    assert_int_equal(append(1, 1, 0, 3, BR_END_STOP), 0); /* repeats are fine */
    assert_int_equal(append(1, 1, 0, 3, BR_END_NONE), 0);
    assert_int_equal(append(2, 1, 0, 0, BR_END_FAILED), 0);
    assert_int_equal(append(1, 1, 3, 1, BR_END_NONE), BR_ENOENT); /* it is over */
    assert_int_equal(append(1, 1, 3, 0, BR_END_LENGTH), BR_ENOENT);
    assert_int_equal(append(1, 2, 3, 1, BR_END_NONE), BR_EINVAL); /* never given out: restore says that it is over */
    assert_int_equal(do_lease(&g_loop, g_q, 1).rc, BR_ENOENT);
}

/* Everything called at once; a later call that overtook an earlier one would meet a gap or an old fence. */
static void test_order(void **state)
{
    enum { SEQS = 20, RUNS = 30 };
    struct answer answers[SEQS][RUNS + 2] = {0};
    struct br_seq_spec specs[SEQS];
    struct found *found;
    (void)state;
    for (uint32_t s = 0; s < SEQS; s++) {
        specs[s] = make_spec(s + 1);
        g_q->ops->accept(g_q, &specs[s], 1, on_accept, &answers[s][0]);
    }
    for (uint32_t r = 0; r < RUNS; r++)
        for (uint32_t s = 0; s < SEQS; s++) {
            struct br_token tokens[3];
            make_tokens(tokens, 3 * r, 3);
            if (r == RUNS / 2)
                g_q->ops->lease(g_q, s + 1, on_lease, &answers[s][RUNS + 1]);
            g_q->ops->append(g_q, s + 1, r < RUNS / 2 ? 1 : 2, 3 * r, tokens, 3, BR_END_NONE, NULL, on_plain,
                             &answers[s][r + 1]);
        }
    WAIT_UNTIL(&g_loop, answers[SEQS - 1][RUNS].calls == 1);
    found = do_recover(&g_loop, g_q);
    for (uint32_t s = 0; s < SEQS; s++) {
        for (uint32_t i = 0; i < RUNS + 2; i++)
            assert_true(answers[s][i].calls == 1 && answers[s][i].rc == 0);
        check_tokens(found_seq(found, s + 1), 3 * RUNS);
    }
    found_free(found);
}

/* More than a page, most of them with one arrival time. */
static void test_recover_pages(void **state)
{
    enum { TIES = 700, ONES = 300 };
    struct br_seq_spec specs[TIES];
    struct answer answers[ONES] = {0};
    struct found *found;
    (void)state;
    for (uint32_t i = 0; i < TIES; i++)
        specs[i] = make_spec(1000 + i);
    assert_int_equal(do_accept(&g_loop, g_q, specs, TIES).rc, 0);
    for (uint32_t i = 0; i < ONES; i++) {
        specs[0] = make_spec(1 + i);
        g_q->ops->accept(g_q, specs, 1, on_accept, &answers[i]);
    }
    WAIT_UNTIL(&g_loop, answers[ONES - 1].calls == 1);
    found = do_recover(&g_loop, g_q);
    assert_int_equal(found->n, TIES + ONES);
    for (uint32_t i = 0; i < ONES; i++) {
        assert_non_null(found_seq(found, 1 + i));              /* each once, as their number is right */
        assert_int_equal(found->seq[TIES + i].spec.id, 1 + i); /* by arrival */
    }
    for (uint32_t i = 0; i < TIES; i++)
        assert_non_null(found_seq(found, 1000 + i));
    found_free(found);
}

/* Sequences that end while others are read must not make any be missed. */
struct finishing {
    struct found found;
    uint32_t finished;
};

static void each_finishes_itself(void *ctx, struct br_seq_spec *spec, struct br_token *tokens, uint32_t n,
                                 uint64_t fence, double age_s)
{
    static struct answer ignored;
    struct finishing *finishing = ctx;
    finishing->finished++;
    g_q->ops->append(g_q, spec->id, fence, 0, NULL, 0, BR_END_CANCELLED, NULL, on_plain, &ignored);
    on_each(&finishing->found, spec, tokens, n, fence, age_s);
}

static void test_recover_while_they_end(void **state)
{
    enum { N = 600 };
    struct answer answers[N] = {0};
    struct finishing *finishing = calloc(1, sizeof *finishing);
    struct found *left;
    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        struct br_seq_spec spec = make_spec(1 + i);
        g_q->ops->accept(g_q, &spec, 1, on_accept, &answers[i]);
    }
    WAIT_UNTIL(&g_loop, answers[N - 1].calls == 1);
    g_q->ops->recover(g_q, each_finishes_itself, on_found_done, &finishing->found);
    WAIT_UNTIL(&g_loop, finishing->found.done.calls == 1);
    assert_int_equal(finishing->finished, N);
    left = do_recover(&g_loop, g_q);
    assert_int_equal(left->n, 0);
    found_free(left);
    found_free((struct found *)finishing);
}

static void test_destroy_answers(void **state)
{
    struct answer answers[5] = {0};
    struct br_seq_spec spec = make_spec(1);
    struct br_token token = {.id = 1};
    (void)state;
    g_q->ops->accept(g_q, &spec, 1, on_accept, &answers[0]);
    g_q->ops->lease(g_q, 1, on_lease, &answers[1]);
    g_q->ops->append(g_q, 1, 2, 0, &token, 1, BR_END_NONE, NULL, on_plain, &answers[2]);
    g_q->ops->recover(g_q, on_each, on_plain, &answers[3]);
    g_q->ops->destroy(g_q);
    g_q = NULL;
    for (int i = 0; i < 4; i++)
        assert_true(answers[i].calls == 1 && answers[i].rc == BR_EIO);
}

static struct br_queue *g_victim;

static void destroys(void *ctx, int rc)
{
    struct br_queue *victim = g_victim;
    on_plain(ctx, rc);
    g_victim = NULL;
    if (victim)
        victim->ops->destroy(victim);
}

static void test_destroy_inside_callback(void **state)
{
    struct answer answers[3] = {0};
    struct br_token token = {.id = 1};
    (void)state;
    accept_one(1);
    g_victim = g_q;
    for (uint32_t i = 0; i < 3; i++)
        g_q->ops->append(g_q, 1, 1, i, &token, 1, BR_END_NONE, NULL, destroys, &answers[i]);
    WAIT_UNTIL(&g_loop, answers[0].calls == 1);
    g_q = NULL;
    assert_int_equal(answers[0].rc, 0);
    for (int i = 1; i < 3; i++)
        assert_true(answers[i].calls == 1 && answers[i].rc == BR_EIO);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int conformance_run(conformance_create create)
{
    const struct CMUnitTest tests[] = {
        TEST(test_accept),
        TEST(test_accept_again),
        TEST(test_accept_all_or_none),
        TEST(test_append),
        TEST(test_gaps_and_repeats),
        TEST(test_fence),
        TEST(test_restore),
        TEST(test_finish),
        TEST(test_order),
        TEST(test_recover_pages),
        TEST(test_recover_while_they_end),
        TEST(test_destroy_answers),
        TEST(test_destroy_inside_callback),
    };
    g_create = create;
    br_log_init("test", BR_LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
