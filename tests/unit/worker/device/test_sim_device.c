/* The sim device in wall time. A busy machine may make anything late, so upper bounds are wide; the exact times are in
 * test_sim_device_schedule. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <string.h>

#include "base/clock.h"
#include "tests/unit/worker/device/device_open.h"
#include "worker/device/kernels.h"

static struct br_device *device(const char *kind, uint32_t tp, double speed)
{
    struct br_device_config config = {.kind = kind, .memory_bytes = 80000000000, .tensor_parallel = tp, .speed = speed};
    struct br_device *dev;
    struct br_err err;
    if (br_device_create(&config, &dev, &err))
        fail_msg("%s", err.msg);
    return dev;
}

static double since_s(int64_t from_ns)
{
    return (double)(br_now_ns() - from_ns) / 1e9;
}

/* H20: PCIe 5 x16, 64 GB/s raw, .8 of it for large copies. 5.12 GB are .1 s then, and .05 s at speed 2. */
static void test_copies(void **state)
{
    struct br_device *dev = device("sim:h20", 1, 2);
    struct br_stream *a = stream(dev), *b = stream(dev), *c = stream(dev);
    struct br_event *done[3] = {event(dev), event(dev), event(dev)};
    int64_t from = br_now_ns();
    double took;
    (void)state;
    dev->ops->copy(a, BR_COPY_H2D, NULL, NULL, 5120000000);
    dev->ops->event_record(done[0], a);
    dev->ops->copy(b, BR_COPY_H2D, NULL, NULL, 5120000000);
    dev->ops->event_record(done[1], b);
    dev->ops->copy(c, BR_COPY_D2H, NULL, NULL, 5120000000);
    dev->ops->event_record(done[2], c);
    assert_false(dev->ops->event_done(done[0]));
    dev->ops->event_sync(done[2]);
    took = since_s(from);
    assert_true(took >= .05 && took < .095); /* the other direction is not in the way */
    dev->ops->event_sync(done[1]);
    took = since_s(from);
    assert_true(took >= .1 && took < .3); /* one after the other */
    assert_true(dev->ops->event_done(done[0]));
    for (int i = 0; i < 3; i++)
        dev->ops->event_destroy(done[i]);
    dev->ops->stream_destroy(a);
    dev->ops->stream_destroy(b);
    dev->ops->stream_destroy(c);
    dev->ops->destroy(dev);
}

/* The host waits for each step and starts the next: its own time and its late wake-ups must not add up. */
static void test_steps_do_not_drift(void **state)
{
    enum { STEPS = 300 };
    struct br_device *dev = device("sim:H100", 1, 10);
    struct br_stream *s = stream(dev);
    struct br_event *done = event(dev);
    int64_t from = br_now_ns();
    double mean;
    (void)state;
    for (int i = 0; i < STEPS; i++) {
        dev->kernels->delay(s, .01);
        dev->ops->event_record(done, s);
        dev->ops->event_sync(done);
    }
    mean = since_s(from) / STEPS;
    print_message("a step of 1 ms took %.4f ms on average\n", 1e3 * mean);
    assert_true(mean > .00099 && mean < .00125);
    dev->ops->event_destroy(done);
    dev->ops->stream_destroy(s);
    dev->ops->destroy(dev);
}

/* A GPU that was idle does not do its work in the past. */
static void test_idle_time_counts(void **state)
{
    struct br_device *dev = device("sim:l20", 2, 1);
    struct br_stream *s = stream(dev), *other = stream(dev);
    struct br_event *done = event(dev);
    int64_t from;
    (void)state;
    dev->kernels->delay(s, .001);
    dev->ops->event_record(done, s);
    dev->ops->event_sync(done);
    dev->kernels->delay(other, .2); /* longer than any lateness that is made up for */
    dev->ops->event_record(done, other);
    dev->ops->event_sync(done);
    from = br_now_ns();
    dev->kernels->delay(s, .02);
    dev->ops->event_record(done, s);
    dev->ops->event_sync(done);
    assert_true(since_s(from) >= .02);
    dev->ops->event_destroy(done);
    dev->ops->stream_destroy(other);
    dev->ops->stream_destroy(s);
    dev->ops->destroy(dev);
}

/* Of a group: links side by side, in the catalogue's effective rate. */
static void test_group(void **state)
{
    struct br_device *one = device("sim:l20", 1, 1), *four = device("sim:NVIDIA L20", 4, 5);
    (void)state;
    assert_int_equal(one->config.link_bytes_per_s, 25600000000);
    assert_int_equal(four->config.link_bytes_per_s, 4 * 5 * 25600000000);
    assert_string_equal(one->ops->kind, "sim");
    assert_string_equal(one->numeric_profile, four->numeric_profile);
    assert_int_equal(one->memory % (2 << 20), 0);
    one->ops->destroy(one);
    four->ops->destroy(four);
}

static void refused(struct br_device_config config, int code, const char *says)
{
    struct br_device *dev;
    struct br_err err;
    assert_int_equal(br_device_create(&config, &dev, &err), code);
    if (!strstr(err.msg, says))
        fail_msg("'%s' does not say '%s'", err.msg, says);
}

static void test_refused(void **state)
{
    struct br_device_config c = {.kind = "sim:h21", .memory_bytes = 1 << 20};
    (void)state;
    refused(c, BR_ENOENT, "did you mean 'H20'");
    c.kind = "rocm:0";
    refused(c, BR_EINVAL, "cpu, cuda, cuda:NUMBER, sim:GPU");
    c.kind = "sim:h20";
    c.tensor_parallel = 3;
    refused(c, BR_EINVAL, "1, 2, 4 or 8");
    c.tensor_parallel = 1;
    c.speed = 1e6;
    refused(c, BR_EINVAL, "from 0.01 to 1000");
    c.speed = 1;
    c.memory_bytes = 0;
    refused(c, BR_EINVAL, "0 bytes of memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),           cmocka_unit_test(test_steps_do_not_drift),
        cmocka_unit_test(test_idle_time_counts), cmocka_unit_test(test_group),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
