/* The CPU device: order of streams, events, copies, the link's cap, overlap. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"
#include "tests/unit/worker/device/device_open.h"
#include "worker/device/device.h"

enum { MIB = 1 << 20 };

static struct br_device *device(uint64_t bytes, uint64_t link_bytes_per_s)
{
    struct br_device_config config = {.memory_bytes = bytes, .threads = 2, .link_bytes_per_s = link_bytes_per_s};
    struct br_device *dev;
    struct br_err err;
    if (br_device_cpu_create(&config, &dev, &err))
        fail_msg("%s", err.msg);
    return dev;
}

static void *at(const struct br_device *dev, uint64_t offset)
{
    return (void *)(uintptr_t)(dev->memory + offset);
}

static void test_reservation(void **state)
{
    (void)state;
    struct br_device *dev = device(5 * MIB, 0);
    assert_int_equal(dev->memory % (2 * MIB), 0);
    assert_int_equal(dev->reservations, 1);
    assert_string_equal(dev->ops->kind, "cpu");
    ((char *)at(dev, 0))[5 * MIB - 1] = 1;
    dev->ops->destroy(dev);
}

static void test_bad_config(void **state)
{
    (void)state;
    struct br_device_config no_memory = {.threads = 1}, no_threads = {.memory_bytes = 1};
    struct br_device_config isa = {.memory_bytes = 1, .threads = 1, .isa = "mmx"};
    struct br_device *dev;
    struct br_err err;
    assert_int_equal(br_device_cpu_create(&no_memory, &dev, &err), BR_EINVAL);
    assert_int_equal(br_device_cpu_create(&no_threads, &dev, &err), BR_EINVAL);
    assert_int_equal(br_device_cpu_create(&isa, &dev, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "mmx"));
}

/* More commands than a stream's ring holds: bytes go host -> device -> device -> host, in order. */
static void test_copies_in_order(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct br_device *dev = device(MIB, 0);
    struct br_stream *s = stream(dev);
    struct br_event *done = event(dev);
    uint32_t in[N], out[N];
    for (uint32_t i = 0; i < N; i++) {
        in[i] = i * 2654435761u;
        dev->ops->copy(s, BR_COPY_H2D, at(dev, 0), &in[i], 4);
        dev->ops->copy(s, BR_COPY_D2D, at(dev, 64), at(dev, 0), 4);
        dev->ops->copy(s, BR_COPY_D2H, &out[i], at(dev, 64), 4);
    }
    dev->ops->event_record(done, s);
    dev->ops->event_sync(done);
    assert_true(dev->ops->event_done(done));
    assert_memory_equal(in, out, sizeof in);
    dev->ops->stream_destroy(s);
    dev->ops->event_destroy(done);
    dev->ops->destroy(dev);
}

static void test_overlapping_move(void **state)
{
    (void)state;
    struct br_device *dev = device(MIB, 0);
    struct br_stream *s = stream(dev);
    unsigned char *memory = at(dev, 0);
    for (int i = 0; i < 300; i++)
        memory[i] = (unsigned char)i;
    dev->ops->copy(s, BR_COPY_D2D, memory, memory + 100, 200);
    dev->ops->stream_destroy(s); /* waits for its work */
    for (int i = 0; i < 200; i++)
        assert_int_equal(memory[i], (unsigned char)(i + 100));
    dev->ops->destroy(dev);
}

/* The second stream reads what the first, slow one writes: only the event keeps them in order. */
static void test_wait_across_streams(void **state)
{
    (void)state;
    struct br_device *dev = device(8 * MIB, 10 * MIB);
    struct br_stream *writer = stream(dev), *reader = stream(dev);
    struct br_event *written = event(dev), *read = event(dev);
    char *host = br_malloc(2 * MIB);
    assert_true(dev->ops->event_done(written)); /* never recorded */
    for (int round = 1; round < 4; round++) {
        char got = 0;
        memset(host, round, 2 * MIB);
        dev->ops->copy(writer, BR_COPY_H2D, at(dev, 0), host, 2 * MIB);
        dev->ops->event_record(written, writer);
        assert_false(dev->ops->event_done(written)); /* 200 ms away */
        dev->ops->event_wait(reader, written);
        dev->ops->copy(reader, BR_COPY_D2H, &got, at(dev, 2 * MIB - 1), 1);
        dev->ops->event_record(read, reader);
        dev->ops->event_sync(read);
        assert_int_equal(got, round);
        assert_true(dev->ops->event_done(written));
    }
    dev->ops->stream_destroy(writer);
    dev->ops->stream_destroy(reader);
    dev->ops->event_destroy(written);
    dev->ops->event_destroy(read);
    dev->ops->destroy(dev);
    free(host);
}

struct traffic {
    struct br_stream *stream;
    enum br_copy kind;
    uint64_t bytes;
    char *host;
    uint64_t device_offset;
};

/* Starts all, waits for all; seconds taken. */
static double seconds(struct br_device *dev, const struct traffic *traffic, int n)
{
    struct br_event *done = event(dev);
    double start = br_now_s();
    for (int i = 0; i < n; i++) {
        const struct traffic *t = &traffic[i];
        void *there = at(dev, t->device_offset);
        bool in = t->kind == BR_COPY_H2D;
        dev->ops->copy(t->stream, t->kind, in ? there : t->host, in ? (void *)t->host : there, t->bytes);
    }
    for (int i = 0; i < n; i++) {
        dev->ops->event_record(done, traffic[i].stream);
        dev->ops->event_sync(done);
    }
    double taken = br_now_s() - start;
    dev->ops->event_destroy(done);
    return taken;
}

/* The cap holds over all streams of a direction, and directions do not disturb each other: 32 MiB in, from two streams,
 * and 32 MiB out at 80 MiB/s a direction take 0.4 s. A busy machine may
 * disturb a try. */
static void test_link_cap(void **state)
{
    (void)state;
    struct br_device *dev = device(64 * MIB, 80 * MIB);
    char *host = br_calloc(1, 64 * MIB);
    struct br_stream *a = stream(dev), *b = stream(dev), *c = stream(dev);
    struct traffic traffic[] = {{a, BR_COPY_H2D, 16 * MIB, host, 0},
                                {b, BR_COPY_H2D, 16 * MIB, host + 16 * MIB, 16 * MIB},
                                {c, BR_COPY_D2H, 32 * MIB, host + 32 * MIB, 32 * MIB}};
    double taken = seconds(dev, traffic, 3);
    for (int tries = 0; taken > 0.4 * 1.15 && tries < 8; tries++)
        taken = seconds(dev, traffic, 3);
    print_message("64 MiB at 80 MiB/s a direction: %.3f s\n", taken);
    assert_true(taken > 0.4 * 0.85 && taken < 0.4 * 1.15);
    dev->ops->stream_destroy(a);
    dev->ops->stream_destroy(b);
    dev->ops->stream_destroy(c);
    dev->ops->destroy(dev);
    free(host);
}

/* D2D copies run while a capped load is under way: many of them end before it does. */
static void test_streams_overlap(void **state)
{
    (void)state;
    struct br_device *dev = device(16 * MIB, 20 * MIB);
    char *host = br_calloc(1, 8 * MIB);
    struct br_stream *load = stream(dev), *compute = stream(dev);
    struct br_event *loaded = event(dev), *computed = event(dev);
    dev->ops->copy(load, BR_COPY_H2D, at(dev, 0), host, 8 * MIB); /* 400 ms */
    dev->ops->event_record(loaded, load);
    for (int i = 0; i < 5; i++) {
        dev->ops->copy(compute, BR_COPY_D2D, at(dev, 9 * MIB), at(dev, 10 * MIB), 4096);
        dev->ops->event_record(computed, compute);
        dev->ops->event_sync(computed);
        assert_false(dev->ops->event_done(loaded));
    }
    dev->ops->event_sync(loaded);
    dev->ops->stream_destroy(load);
    dev->ops->stream_destroy(compute);
    dev->ops->event_destroy(loaded);
    dev->ops->event_destroy(computed);
    dev->ops->destroy(dev);
    free(host);
}

/* Copies of any size, in and out, onto each other: as if one had been done after the other. */
static void test_copies_as_if_one_by_one(void **state)
{
    (void)state;
    enum { COPIES = 3000, BYTES = 2 * MIB, LONGEST = 200000 };
    struct br_device *dev = device(BYTES, 0);
    struct br_stream *s = stream(dev);
    struct br_event *done = event(dev);
    struct br_rng rng = {.seed = 3};
    unsigned char *in = br_malloc(BYTES), *out = br_calloc(1, BYTES), *want = br_calloc(1, BYTES);
    unsigned char *model = br_calloc(1, BYTES);
    for (int i = 0; i < BYTES; i++)
        in[i] = (unsigned char)(256 * br_rng_next(&rng));
    for (int i = 0; i < COPIES; i++) {
        uint64_t n = 1 + (uint64_t)(LONGEST * br_rng_next(&rng) * br_rng_next(&rng));
        uint64_t from = (uint64_t)((double)(BYTES - n) * br_rng_next(&rng)),
                 to = (uint64_t)((double)(BYTES - n) * br_rng_next(&rng));
        double kind = br_rng_next(&rng);
        if (kind < .6) {
            dev->ops->copy(s, BR_COPY_H2D, at(dev, to), in + from, n);
            memcpy(model + to, in + from, n);
        } else if (kind < .9) {
            dev->ops->copy(s, BR_COPY_D2H, out + to, at(dev, from), n);
            memcpy(want + to, model + from, n);
        } else {
            dev->ops->copy(s, BR_COPY_D2D, at(dev, to), at(dev, from), n);
            memmove(model + to, model + from, n);
        }
        if (i % 50 == 49) { /* a new start: gathers in other places */
            dev->ops->event_record(done, s);
            dev->ops->event_sync(done);
        }
    }
    dev->ops->stream_destroy(s);
    assert_memory_equal(out, want, BYTES);
    assert_memory_equal(at(dev, 0), model, BYTES);
    dev->ops->event_destroy(done);
    dev->ops->destroy(dev);
    free(in);
    free(out);
    free(want);
    free(model);
}

struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    struct br_event *before, *after;
    const struct br_device *dev;
    bool early, late;
    int n;
};

static void ring(void *ctx)
{
    struct bell *b = ctx;
    pthread_mutex_lock(&b->lock);
    b->early = !b->dev->ops->event_done(b->before);
    b->late = b->dev->ops->event_done(b->after);
    b->n++;
    pthread_cond_signal(&b->rung);
    pthread_mutex_unlock(&b->lock);
}

/* It is called when what is in front of it is done, before what is behind it. */
static void test_notify(void **state)
{
    struct bell bell = {.lock = PTHREAD_MUTEX_INITIALIZER, .rung = PTHREAD_COND_INITIALIZER};
    struct br_device *dev = device(4 * MIB, 100 * MIB);
    struct br_stream *s = stream(dev);
    char *host = br_calloc(1, MIB);
    (void)state;
    bell.dev = dev;
    bell.before = event(dev);
    bell.after = event(dev);
    for (int i = 1; i <= 3; i++) {
        dev->ops->copy(s, BR_COPY_H2D, at(dev, 0), host, MIB);
        dev->ops->event_record(bell.before, s);
        dev->ops->stream_notify(s, ring, &bell);
        dev->ops->copy(s, BR_COPY_H2D, at(dev, 0), host, MIB);
        dev->ops->event_record(bell.after, s);
        pthread_mutex_lock(&bell.lock);
        while (bell.n < i)
            pthread_cond_wait(&bell.rung, &bell.lock);
        assert_false(bell.early || bell.late);
        pthread_mutex_unlock(&bell.lock);
        dev->ops->event_sync(bell.after);
    }
    dev->ops->stream_destroy(s);
    dev->ops->event_destroy(bell.before);
    dev->ops->event_destroy(bell.after);
    dev->ops->destroy(dev);
    free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reservation),
        cmocka_unit_test(test_bad_config),
        cmocka_unit_test(test_copies_in_order),
        cmocka_unit_test(test_overlapping_move),
        cmocka_unit_test(test_wait_across_streams),
        cmocka_unit_test(test_notify),
        cmocka_unit_test(test_copies_as_if_one_by_one),
        cmocka_unit_test(test_link_cap),
        cmocka_unit_test(test_streams_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
