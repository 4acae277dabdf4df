/* The sim device's books on a clock of the test's own: exact times, whenever they are looked at. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include "base/rng.h"
#include "worker/device/sim/sim.h"

struct rig {
    struct sim_device *dev;
    struct br_stream *stream[3];
    struct br_event *event[8];
};

static void rig_init(struct rig *r)
{
    struct br_device_config config = {.kind = "sim:h20", .memory_bytes = 1 << 20};
    struct br_device *base;
    struct br_err err;
    assert_int_equal(br_device_create(&config, &base, &err), 0);
    r->dev = (struct sim_device *)base;
    for (int i = 0; i < 3; i++)
        assert_int_equal(base->ops->stream_create(base, &r->stream[i], &err), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(base->ops->event_create(base, &r->event[i], &err), 0);
}

static void rig_free(struct rig *r)
{
    struct br_device *base = &r->dev->base;
    sim_advance(r->dev, INT64_MAX - 1);
    for (int i = 0; i < 3; i++)
        base->ops->stream_destroy(r->stream[i]);
    for (int i = 0; i < 8; i++)
        base->ops->event_destroy(r->event[i]);
    base->ops->destroy(base);
}

static void put(struct br_stream *s, struct sim_command command)
{
    s->ring[(s->head + s->count++) % SIM_STREAM_COMMANDS] = command;
}

static void timed(struct br_stream *s, enum sim_kind kind, int64_t earliest_ns, int64_t takes_ns)
{
    put(s, (struct sim_command){.kind = kind, .earliest_ns = earliest_ns, .takes_ns = takes_ns});
}

static void mark(struct br_stream *s, struct br_event *e)
{
    put(s, (struct sim_command){.kind = SIM_RECORD, .event = e, .generation = ++e->recorded});
}

static void wait_for(struct br_stream *s, struct br_event *e)
{
    put(s, (struct sim_command){.kind = SIM_WAIT, .event = e, .generation = e->recorded});
}

static void test_link(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r);
    timed(r.stream[0], SIM_COPY_IN, 200, 1000); /* ready second */
    mark(r.stream[0], r.event[0]);
    timed(r.stream[1], SIM_COPY_IN, 100, 500); /* ready first */
    mark(r.stream[1], r.event[1]);
    timed(r.stream[1], SIM_COPY_IN, 100, 50); /* ready at 600, after the other stream's */
    mark(r.stream[1], r.event[2]);
    timed(r.stream[2], SIM_COPY_OUT, 100, 2000); /* shares nothing with copies in */
    mark(r.stream[2], r.event[3]);
    sim_advance(r.dev, 599);
    assert_int_equal(r.event[1]->done, 0);
    sim_advance(r.dev, 600);
    assert_int_equal(r.event[1]->done, 1);
    sim_advance(r.dev, 10000);
    assert_int_equal(r.event[1]->done_ns, 600);
    assert_int_equal(r.event[0]->done_ns, 1600);
    assert_int_equal(r.event[2]->done_ns, 1650);
    assert_int_equal(r.event[3]->done_ns, 2100);
    rig_free(&r);
}

/* A step behind two loads, layer by layer: the second layer waits for its weights, the first does not. */
static void test_overlap(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r);
    timed(r.stream[0], SIM_COPY_IN, 0, 1000);
    mark(r.stream[0], r.event[0]);
    timed(r.stream[0], SIM_COPY_IN, 0, 1000);
    mark(r.stream[0], r.event[1]);
    wait_for(r.stream[1], r.event[0]);
    timed(r.stream[1], SIM_DELAY, 0, 300);
    mark(r.stream[1], r.event[2]);
    wait_for(r.stream[1], r.event[1]);
    timed(r.stream[1], SIM_DELAY, 0, 300);
    mark(r.stream[1], r.event[3]);
    sim_advance(r.dev, 100000);
    assert_int_equal(r.event[2]->done_ns, 1300);
    assert_int_equal(r.event[3]->done_ns, 2300);
    rig_free(&r);
}

static void random_work(struct rig *r, uint64_t seed)
{
    struct br_rng rng = {.seed = seed};
    for (int i = 0; i < 300; i++) {
        struct br_stream *s = r->stream[(int)(3 * br_rng_next(&rng))];
        struct br_event *e = r->event[(int)(8 * br_rng_next(&rng))];
        int kind = (int)(5 * br_rng_next(&rng));
        if (kind == SIM_RECORD)
            mark(s, e);
        else if (kind == SIM_WAIT)
            wait_for(s, e);
        else
            timed(s, (enum sim_kind)kind, 0, 1 + (int64_t)(1000 * br_rng_next(&rng)));
    }
}

/* Looked at every few nanoseconds or once at the end: the same times. */
static void test_when_looked_at(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct rig often, once;
        rig_init(&often);
        rig_init(&once);
        random_work(&often, seed);
        random_work(&once, seed);
        for (int64_t now = 0; now < 400000; now += 97)
            sim_advance(often.dev, now);
        sim_advance(once.dev, 400000);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(often.stream[i]->count, 0);
            assert_int_equal(often.stream[i]->free_ns, once.stream[i]->free_ns);
        }
        for (int i = 0; i < 8; i++)
            assert_int_equal(often.event[i]->done_ns, once.event[i]->done_ns);
        rig_free(&often);
        rig_free(&once);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_when_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
