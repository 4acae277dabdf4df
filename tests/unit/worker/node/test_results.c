/* What is kept, what is sent again, and what is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/node/results.h"

/* Everything that was sent, as text: "seq/fence:first+n[!end]" with the ids checked on the way. */
struct wire {
    char text[2048];
    int room; /* chunks until send fails; -1: never */
};

static int on_send(void *ctx, const struct result_chunk *c)
{
    struct wire *w = ctx;
    size_t len = strlen(w->text);
    if (w->room == 0)
        return BR_EIO;
    w->room -= w->room > 0;
    for (uint32_t i = 0; i < c->n; i++)
        assert_int_equal(c->tokens[i].id, 100 * (int)c->seq + (int)(c->first + i));
    snprintf(w->text + len, sizeof w->text - len, "%lu/%lu:%u+%u%s%s ", (unsigned long)c->seq, (unsigned long)c->fence,
             c->first, c->n, c->end ? "!" : "", c->end ? br_end_name(c->end) : "");
    return 0;
}

static void expect(struct results *r, const char *want)
{
    struct wire w = {.room = -1};
    assert_true(results_send(r, on_send, &w));
    assert_string_equal(w.text, want);
}

static void push(struct results *r, uint64_t seq, uint32_t first, uint32_t n, enum br_end end)
{
    struct br_token tokens[16] = {{0}};
    struct br_turn_output out = {.seq = seq, .fence = 1, .first = first, .n = n, .tokens = tokens, .end = end};
    for (uint32_t i = 0; i < n; i++)
        tokens[i].id = 100 * (int)seq + (int)(first + i);
    out.error = end == BR_END_FAILED ? "why" : NULL;
    results_push(r, &out);
}

static struct results *made(uint32_t keep)
{
    struct results *r;
    results_create(keep, &r);
    return r;
}

static void test_coalesced(void **state)
{
    struct results *r = made(8);
    (void)state;
    assert_int_equal(results_open(r, 1, 7, 0), RESULT_NEW);
    assert_int_equal(results_open(r, 2, 7, 3), RESULT_NEW);
    expect(r, "");
    push(r, 1, 0, 1, BR_END_NONE);
    push(r, 2, 3, 1, BR_END_NONE);
    push(r, 1, 1, 1, BR_END_NONE);
    expect(r, "1/7:0+2 2/7:3+1 ");
    push(r, 2, 4, 1, BR_END_STOP);
    push(r, 1, 2, 0, BR_END_CANCELLED);
    expect(r, "2/7:4+1!stop 1/7:2+0!cancelled ");
    expect(r, "");
    results_free(r);
}

static void test_interrupted(void **state)
{
    struct results *r = made(8);
    struct wire w = {.room = 1};
    (void)state;
    for (uint64_t seq = 1; seq <= 3; seq++) {
        results_open(r, seq, 1, 0);
        push(r, seq, 0, 2, BR_END_NONE);
    }
    assert_false(results_send(r, on_send, &w));
    assert_string_equal(w.text, "1/1:0+2 ");
    expect(r, "2/1:0+2 3/1:0+2 ");
    results_free(r);
}

static void count(void *ctx, uint64_t seq, uint64_t fence, uint32_t tokens)
{
    char *text = ctx;
    size_t len = strlen(text);
    snprintf(text + len, 256 - len, "%lu/%lu:%u ", (unsigned long)seq, (unsigned long)fence, tokens);
}

static void test_reconnected(void **state)
{
    struct results *r = made(8);
    char text[256] = "";
    uint64_t *gone;
    uint32_t n;
    (void)state;
    for (uint64_t seq = 1; seq <= 4; seq++)
        results_open(r, seq, 1, seq == 4 ? 5 : 0);
    push(r, 1, 0, 3, BR_END_NONE);
    push(r, 2, 0, 4, BR_END_LENGTH);
    push(r, 3, 0, 2, BR_END_STOP);
    push(r, 4, 5, 1, BR_END_NONE);
    expect(r, "1/1:0+3 2/1:0+4!length 3/1:0+2!stop 4/1:5+1 ");
    results_each(r, count, text);
    assert_string_equal(text, "1/1:3 4/1:6 2/1:4 3/1:2 ");
    results_welcome(r);
    assert_true(results_adopt(r, 1, 9, 1));
    assert_true(results_adopt(r, 2, 9, 4)); /* all tokens stored, but not the end */
    assert_false(results_adopt(r, 77, 9, 0));
    assert_false(results_adopt(r, 4, 9, 2)); /* it never had tokens 2..4 */
    gone = results_retire(r, &n);
    assert_int_equal(n, 2);
    assert_int_equal(gone[0] + gone[1], 7);
    free(gone);
    expect(r, "1/9:1+2 2/9:4+0!length ");
    push(r, 4, 6, 1, BR_END_NONE); /* forgotten */
    expect(r, "");
    results_free(r);
}

static void test_assigned_again(void **state)
{
    struct results *r = made(8);
    (void)state;
    results_open(r, 1, 1, 2);
    push(r, 1, 2, 3, BR_END_NONE);
    expect(r, "1/1:2+3 ");
    assert_int_equal(results_open(r, 1, 2, 4), RESULT_KNOWN);
    expect(r, "1/2:4+1 ");
    assert_int_equal(results_open(r, 1, 3, 0), RESULT_BEHIND);
    push(r, 1, 5, 1, BR_END_NONE); /* still of the run before */
    push(r, 1, 0, 1, BR_END_NONE);
    expect(r, "1/3:0+1 ");
    push(r, 1, 1, 1, BR_END_LENGTH);
    expect(r, "1/3:1+1!length ");
    assert_int_equal(results_open(r, 1, 4, 1), RESULT_ENDED);
    expect(r, "1/4:1+1!length ");
    results_open(r, 2, 1, 0);
    push(r, 2, 0, 0, BR_END_FAILED);
    expect(r, "2/1:0+0!failed ");
    assert_int_equal(results_open(r, 2, 2, 0), RESULT_NEW); /* failed here: try again */
    push(r, 2, 0, 1, BR_END_STOP);
    expect(r, "2/2:0+1!stop ");
    results_free(r);
}

static void test_bounded(void **state)
{
    struct results *r = made(2);
    char text[256] = "";
    (void)state;
    for (uint64_t seq = 1; seq <= 5; seq++) {
        results_open(r, seq, 1, 0);
        push(r, seq, 0, 1, BR_END_STOP);
    }
    results_each(r, count, text);
    assert_string_equal(text, "4/1:1 5/1:1 ");
    expect(r, "4/1:0+1!stop 5/1:0+1!stop ");
    results_free(r);
}

static void test_long_runs_in_chunks(void **state)
{
    struct results *r = made(2);
    struct wire w = {.room = -1};
    (void)state;
    results_open(r, 1, 1, 0);
    for (uint32_t i = 0; i < RESULTS_CHUNK + 8; i += 8)
        push(r, 1, i, 8, i == RESULTS_CHUNK ? BR_END_LENGTH : BR_END_NONE);
    assert_true(results_send(r, on_send, &w));
    assert_string_equal(w.text, "1/1:0+4096 1/1:4096+8!length ");
    results_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coalesced),   cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_reconnected), cmocka_unit_test(test_assigned_again),
        cmocka_unit_test(test_bounded),     cmocka_unit_test(test_long_runs_in_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
