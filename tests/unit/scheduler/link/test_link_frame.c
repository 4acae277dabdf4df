/* The frame codec: whole frames come out however the bytes were cut, and damaged ones are refused. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "scheduler/link/frame.h"
#include "tests/cmocka.h"

static void cancel_encode(uint64_t seq, struct br_buf *out)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Cancel cancel = BRIAREUS__CANCEL__INIT;
    cancel.seq = seq;
    cancel.fence = seq * 3;
    frame.body_case = BRIAREUS__FRAME__BODY_CANCEL;
    frame.cancel = &cancel;
    assert_int_equal(br_frame_encode(&frame, 1000, out), 0);
}

static uint64_t pull_all(struct br_frame_reader *reader, uint64_t next)
{
    Briareus__Frame *frame;
    struct br_err err;
    int rc;
    while ((rc = br_frame_pull(reader, &frame, &err)) == 1) {
        assert_int_equal(frame->body_case, BRIAREUS__FRAME__BODY_CANCEL);
        assert_int_equal(frame->cancel->seq, next);
        assert_int_equal(frame->cancel->fence, next * 3);
        briareus__frame__free_unpacked(frame, NULL);
        next++;
    }
    assert_int_equal(rc, 0);
    return next;
}

static void test_layout(void **state)
{
    /* By hand from the protobuf encoding: field 2 (cancel), length 11: field 1 fixed64, field 2 varint. */
    const uint8_t expected[] = {13, 0, 0, 0, 0x12, 11, 0x09, 5, 0, 0, 0, 0, 0, 0, 0, 0x10, 15};
    struct br_buf buf = {0};
    (void)state;
    cancel_encode(5, &buf);
    assert_int_equal(buf.len, sizeof expected);
    assert_memory_equal(buf.data, expected, sizeof expected);
    br_buf_free(&buf);
}

static void test_every_cut(void **state)
{
    struct br_buf buf = {0};
    (void)state;
    for (uint64_t i = 1; i <= 5; i++)
        cancel_encode(i, &buf);
    for (size_t a = 0; a <= buf.len; a++)
        for (size_t b = a; b <= buf.len; b++) {
            struct br_frame_reader reader;
            uint64_t next;
            br_frame_reader_init(&reader, 1000);
            br_frame_feed(&reader, buf.data, a);
            next = pull_all(&reader, 1);
            br_frame_feed(&reader, buf.data + a, b - a);
            next = pull_all(&reader, next);
            br_frame_feed(&reader, buf.data + b, buf.len - b);
            assert_int_equal(pull_all(&reader, next), 6);
            br_frame_reader_free(&reader);
        }
    br_buf_free(&buf);
}

static void test_random_cuts(void **state)
{
    struct br_rng rng = {.seed = 4};
    struct br_frame_reader reader;
    struct br_buf buf = {0};
    uint64_t next = 1;
    (void)state;
    for (uint64_t i = 1; i <= 20000; i++)
        cancel_encode(i, &buf);
    br_frame_reader_init(&reader, 1000);
    for (size_t at = 0; at < buf.len;) {
        size_t n = 1 + (size_t)(br_rng_next(&rng) * 3000);
        n = n > buf.len - at ? buf.len - at : n;
        br_frame_feed(&reader, buf.data + at, n);
        next = pull_all(&reader, next);
        at += n;
    }
    assert_int_equal(next, 20001);
    br_frame_reader_free(&reader);
    br_buf_free(&buf);
}

static void refused(const void *data, size_t len, const char *says)
{
    struct br_frame_reader reader;
    Briareus__Frame *frame;
    struct br_err err;
    br_frame_reader_init(&reader, 1000);
    br_frame_feed(&reader, data, len);
    assert_int_equal(br_frame_pull(&reader, &frame, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, says));
    br_frame_reader_free(&reader);
}

static void test_bad_frames(void **state)
{
    (void)state;
    refused("\0\0\0\0", 4, "length 0");
    refused("\xe9\3\0\0", 4, "length 1001"); /* at once, not when the body is there */
    refused("\xff\xff\xff\xff", 4, "length 4294967295");
    refused("GET / HTTP/1.1\r\n", 16, "length");
    refused("\3\0\0\0\x12\xff\xff", 7, "no Frame");
    refused("\1\0\0\0\xff", 5, "no Frame");
}

static void test_unknown_kind_is_passed_over(void **state)
{
    const uint8_t unknown[] = {5, 0, 0, 0, 0xf2, 0x06, 2, 1, 2}; /* field 110, 2 bytes */
    struct br_frame_reader reader;
    struct br_buf buf = {0};
    (void)state;
    br_buf_add(&buf, unknown, sizeof unknown);
    cancel_encode(1, &buf);
    br_frame_reader_init(&reader, 1000);
    br_frame_feed(&reader, buf.data, buf.len);
    assert_int_equal(pull_all(&reader, 1), 2);
    br_frame_reader_free(&reader);
    br_buf_free(&buf);
}

/* n tokens that take as few bytes as they can, there and back. */
static void dense_run(uint32_t n, int32_t id)
{
    struct br_frame_reader reader;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT, *out;
    Briareus__Tokens tokens = BRIAREUS__TOKENS__INIT;
    Briareus__TokenRun run = BRIAREUS__TOKEN_RUN__INIT;
    Briareus__Token token = BRIAREUS__TOKEN__INIT;
    struct br_buf buf = {0};
    struct br_err err;
    token.id = id;
    run.n_tokens = n;
    run.tokens = br_malloc(n * sizeof run.tokens[0]);
    for (uint32_t i = 0; i < n; i++)
        run.tokens[i] = &token;
    tokens.run = &run;
    frame.body_case = BRIAREUS__FRAME__BODY_TOKENS;
    frame.tokens = &tokens;
    assert_int_equal(br_frame_encode(&frame, 16 << 20, &buf), 0);
    br_frame_reader_init(&reader, 16 << 20);
    br_frame_feed(&reader, buf.data, buf.len);
    if (br_frame_pull(&reader, &out, &err) != 1)
        fail_msg("%u tokens in %zu bytes: %s", n, buf.len, err.msg);
    assert_int_equal(out->tokens->run->n_tokens, n);
    briareus__frame__free_unpacked(out, NULL);
    br_frame_reader_free(&reader);
    br_buf_free(&buf);
    free(run.tokens);
}

/* Whatever a worker or scheduler sends has to come through: every length, also just behind where slabs double. */
static void test_dense_runs_come_through(void **state)
{
    static const int32_t ids[] = {0, 1, 300, 150000};
    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        for (uint32_t n = 1; n < 3000; n += 1 + n / 40)
            dense_run(n, ids[i]);
        for (uint32_t n = 4096; n <= 1 << 18; n *= 2)
            for (uint32_t more = 0; more < 20; more++)
                dense_run(n + more, ids[i]);
    }
}

/* A megabyte of empty models would take 80 MB unpacked. */
static void test_blow_up_is_refused(void **state)
{
    enum { N = 1 << 19 };
    struct br_frame_reader reader;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT, *out;
    Briareus__Register hello = BRIAREUS__REGISTER__INIT;
    Briareus__ModelInfo info = BRIAREUS__MODEL_INFO__INIT;
    struct br_buf buf = {0};
    struct br_err err;
    (void)state;
    hello.models = br_malloc(N * sizeof hello.models[0]);
    for (hello.n_models = 0; hello.n_models < N; hello.n_models++)
        hello.models[hello.n_models] = &info;
    frame.body_case = BRIAREUS__FRAME__BODY_REGISTER_;
    frame.register_ = &hello;
    assert_int_equal(br_frame_encode(&frame, 1 << 20, &buf), BR_EINVAL); /* a few bytes too long */
    assert_int_equal(buf.len, 0);
    assert_int_equal(br_frame_encode(&frame, 2 << 20, &buf), 0);
    br_frame_reader_init(&reader, 2 << 20);
    br_frame_feed(&reader, buf.data, buf.len);
    assert_int_equal(br_frame_pull(&reader, &out, &err), BR_EINVAL);
    br_frame_reader_free(&reader);
    br_buf_free(&buf);
    free(hello.models);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_random_cuts),
        cmocka_unit_test(test_bad_frames),
        cmocka_unit_test(test_unknown_kind_is_passed_over),
        cmocka_unit_test(test_dense_runs_come_through),
        cmocka_unit_test(test_blow_up_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
