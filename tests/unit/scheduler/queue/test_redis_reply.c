/* Replies of the wrong shape, made as bytes and read by hiredis, as a broken or foreign server would send them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/queue/redis_reply.h"
#include "tests/unit/scheduler/queue/queue_fixture.h"

static redisReply *reply_of(const char *bytes, size_t len)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    assert_int_equal(redisReaderFeed(reader, bytes, len), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

#define WITH_REPLY(bytes, check)                                                                                       \
    do {                                                                                                               \
        redisReply *reply = reply_of(bytes, sizeof(bytes) - 1);                                                        \
        check;                                                                                                         \
        freeReplyObject(reply);                                                                                        \
    } while (0)

static void test_codes(void **state)
{
    (void)state;
    WITH_REPLY("*1\r\n:0\r\n", assert_int_equal(br_reply_code(reply), 0));
    WITH_REPLY("*1\r\n:-5\r\n", assert_int_equal(br_reply_code(reply), BR_ESTALE));
    WITH_REPLY("*2\r\n:-1\r\n:7\r\n", assert_int_equal(br_reply_code(reply), BR_EINVAL));
    WITH_REPLY("*1\r\n:1\r\n", assert_int_equal(br_reply_code(reply), BR_EIO));
    WITH_REPLY("*1\r\n:-4294967296\r\n", assert_int_equal(br_reply_code(reply), BR_EIO));
    WITH_REPLY("*1\r\n$1\r\n0\r\n", assert_int_equal(br_reply_code(reply), BR_EIO));
    WITH_REPLY("*0\r\n", assert_int_equal(br_reply_code(reply), BR_EIO));
    WITH_REPLY("*-1\r\n", assert_int_equal(br_reply_code(reply), BR_EIO));
    WITH_REPLY(":0\r\n", assert_int_equal(br_reply_code(reply), BR_EIO));
    WITH_REPLY("+OK\r\n", assert_int_equal(br_reply_code(reply), BR_EIO));
    WITH_REPLY("-ERR no\r\n", assert_int_equal(br_reply_error(reply), BR_EIO));
    WITH_REPLY("-OOM no\r\n", assert_int_equal(br_reply_error(reply), BR_ENOMEM));
    WITH_REPLY("+OOM\r\n", assert_int_equal(br_reply_error(reply), 0));
}

static void test_accept_and_lease(void **state)
{
    int64_t arrival_us;
    uint64_t fence;
    char sha[41];
    (void)state;
    WITH_REPLY("*3\r\n:0\r\n:1764569250123456\r\n:1\r\n",
               assert_int_equal(br_reply_accept(reply, &arrival_us, &fence), 0));
    assert_true(arrival_us == 1764569250123456 && fence == 1);
    WITH_REPLY("*2\r\n:0\r\n:5\r\n", assert_int_equal(br_reply_accept(reply, &arrival_us, &fence), BR_EIO));
    WITH_REPLY("*3\r\n:0\r\n:-5\r\n:1\r\n", assert_int_equal(br_reply_accept(reply, &arrival_us, &fence), BR_EIO));
    WITH_REPLY("*2\r\n:0\r\n:6\r\n", assert_int_equal(br_reply_lease(reply, &fence), 0));
    assert_int_equal(fence, 6);
    WITH_REPLY("*2\r\n:0\r\n:0\r\n", assert_int_equal(br_reply_lease(reply, &fence), BR_EIO));
    WITH_REPLY("*2\r\n:0\r\n$1\r\n6\r\n", assert_int_equal(br_reply_lease(reply, &fence), BR_EIO));
    WITH_REPLY("$3\r\nabc\r\n", assert_int_equal(br_reply_sha(reply, sha), BR_EIO));
    WITH_REPLY("-LOADING Redis is loading the dataset\r\n", assert_int_equal(br_reply_sha(reply, sha), BR_EIO));
}

static int member_rc(const char *text, size_t len)
{
    redisReply member = {.type = REDIS_REPLY_STRING, .str = (char *)text, .len = len};
    uint64_t seq;
    return br_reply_member(&member, &seq);
}

static void test_members(void **state)
{
    size_t n;
    (void)state;
    WITH_REPLY("*2\r\n$1\r\n5\r\n$2\r\n17\r\n", assert_int_equal(br_reply_page(reply, &n), 0));
    assert_int_equal(n, 1);
    WITH_REPLY("*0\r\n", assert_int_equal(br_reply_page(reply, &n), 0));
    assert_int_equal(n, 0);
    WITH_REPLY("*1\r\n$1\r\n5\r\n", assert_int_equal(br_reply_page(reply, &n), BR_EIO));
    WITH_REPLY("*2\r\n$1\r\n5\r\n$-1\r\n", assert_int_equal(br_reply_page(reply, &n), BR_EIO));
    WITH_REPLY("*2\r\n$1\r\n5\r\n$33\r\n000000000000000000000000000000000\r\n",
               assert_int_equal(br_reply_page(reply, &n), BR_EIO));
    assert_int_equal(member_rc("18446744073709551615", 20), 0);
    assert_int_equal(member_rc("18446744073709551616", 20), BR_EINVAL);
    assert_int_equal(member_rc("0", 1), BR_EINVAL);
    assert_int_equal(member_rc("07", 2), BR_EINVAL);
    assert_int_equal(member_rc("-1", 2), BR_EINVAL);
    assert_int_equal(member_rc("7 ", 2), BR_EINVAL);
    assert_int_equal(member_rc("", 0), BR_EINVAL);
}

/* ---- a whole entry, with one thing wrong at a time ---- */

struct parts {
    struct br_buf spec, run[3];
    const char *fence, *n, *arrival, *now;
    int n_runs;
};

static void parts_good(struct parts *parts)
{
    struct br_seq_spec spec = make_spec(9);
    struct br_token tokens[8];
    *parts = (struct parts){.fence = "3", .n = "6", .arrival = "1000000", .now = "3500000", .n_runs = 2};
    br_seq_spec_pack(&spec, &parts->spec);
    make_tokens(tokens, 0, 8);
    br_tokens_pack(0, tokens, 4, &parts->run[0]);
    br_tokens_pack(2, tokens + 2, 4, &parts->run[1]); /* overlaps by two */
    br_tokens_pack(7, tokens + 7, 1, &parts->run[2]); /* a gap, unless left out */
}

static void add_bulk(struct br_buf *buf, const void *data, size_t len)
{
    br_buf_printf(buf, "$%zu\r\n", len);
    br_buf_add(buf, data, len);
    br_buf_puts(buf, "\r\n");
}

static int parts_entry(struct parts *parts, struct br_entry *entry, struct br_err *err)
{
    struct br_buf buf = {0};
    redisReply *reply;
    int rc;
    br_buf_puts(&buf, "*7\r\n:0\r\n");
    add_bulk(&buf, parts->spec.data, parts->spec.len);
    add_bulk(&buf, parts->fence, strlen(parts->fence));
    add_bulk(&buf, parts->n, strlen(parts->n));
    add_bulk(&buf, parts->arrival, strlen(parts->arrival));
    br_buf_printf(&buf, ":%s\r\n*%d\r\n", parts->now, parts->n_runs);
    for (int i = 0; i < parts->n_runs; i++)
        add_bulk(&buf, parts->run[i].data, parts->run[i].len);
    reply = reply_of(buf.data, buf.len);
    rc = br_reply_entry(reply, 9, entry, err);
    freeReplyObject(reply);
    br_buf_free(&buf);
    br_buf_free(&parts->spec);
    for (int i = 0; i < 3; i++)
        br_buf_free(&parts->run[i]);
    return rc;
}

static void test_entry(void **state)
{
    struct parts parts;
    struct br_entry entry;
    struct br_err err;
    struct br_token want[6];
    (void)state;
    parts_good(&parts);
    assert_int_equal(parts_entry(&parts, &entry, &err), 0);
    make_tokens(want, 0, 6);
    assert_int_equal(entry.n_tokens, 6);
    assert_memory_equal(entry.tokens, want, sizeof want);
    assert_int_equal(entry.fence, 3);
    assert_int_equal(entry.spec.arrival_us, 1000000);
    assert_true(fabs(entry.age_s - 2.5) < 1e-9);
    br_seq_spec_free(&entry.spec);
    free(entry.tokens);
}

#define BROKEN(code, says, change)                                                                                     \
    do {                                                                                                               \
        struct parts parts;                                                                                            \
        struct br_entry entry;                                                                                         \
        struct br_err err;                                                                                             \
        parts_good(&parts);                                                                                            \
        change;                                                                                                        \
        assert_int_equal(parts_entry(&parts, &entry, &err), code);                                                     \
        assert_non_null(strstr(err.msg, says));                                                                        \
    } while (0)

static void test_broken_entries(void **state)
{
    (void)state;
    BROKEN(BR_ECORRUPT, "fence", parts.fence = "x");
    BROKEN(BR_ECORRUPT, "fence", parts.fence = "");
    BROKEN(BR_ECORRUPT, "fence", parts.fence = "18446744073709551615");
    BROKEN(BR_ECORRUPT, "n says 7", parts.n = "7");
    BROKEN(BR_ECORRUPT, "field n", parts.n = "99999999999");
    BROKEN(BR_ECORRUPT, "arrival", parts.arrival = "-5");
    BROKEN(BR_EIO, "no time", parts.now = "0");
    BROKEN(BR_ECORRUPT, "run 2", parts.n_runs = 3);
    BROKEN(BR_ECORRUPT, "run 1", parts.run[1].data[0] = 0x7f);
    BROKEN(BR_ECORRUPT, "SeqSpec", parts.spec.len -= 1);
    BROKEN(BR_ECORRUPT, "of sequence 265", parts.spec.data[2] = 1); /* second byte of the id */
    WITH_REPLY("*1\r\n:-2\r\n", {
        struct br_entry entry;
        struct br_err err;
        assert_int_equal(br_reply_entry(reply, 9, &entry, &err), BR_ENOENT);
    });
    WITH_REPLY("*2\r\n:0\r\n:5\r\n", {
        struct br_entry entry;
        struct br_err err;
        assert_int_equal(br_reply_entry(reply, 9, &entry, &err), BR_ECORRUPT);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes), cmocka_unit_test(test_accept_and_lease), cmocka_unit_test(test_members),
        cmocka_unit_test(test_entry), cmocka_unit_test(test_broken_entries),
    };
    br_log_init("test", BR_LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
