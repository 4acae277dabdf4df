/* The forward pass against the same in double precision, and what a step refuses. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tests/unit/worker/engine/device_any.h"
#include "tests/unit/worker/engine/rig.h"

enum { TOKENS = 270 };

/* Relative distance of the rows of logits: |got - want| / |want|, worst over some positions. */
static double worst_error(struct rig *rig, const double *want)
{
    static const uint32_t stops[] = {1, 2, 16, 17, 40, 255, 256, 257, TOKENS};
    uint32_t vocab = rig->toy->layout.shape.vocab;
    double worst = 0;
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        uint32_t n[RIG_SEQS] = {stops[i] - rig->seq[0].pos};
        rig_step(rig, n);
        double off = 0, size = 0;
        for (uint32_t v = 0; v < vocab; v++) {
            double x = want[(size_t)(stops[i] - 1) * vocab + v], d = rig->seq[0].logits[v] - x;
            off += d * d;
            size += x * x;
        }
        worst = fmax(worst, sqrt(off / size));
        assert_false(isnan(off));
    }
    return worst;
}

/* The bounds are a few roundings of the format: 2^-24 for F32, 2^-9 for BF16, accumulated over layers. */
static void forward(int index, enum br_numeric numeric, const char *isa)
{
    const struct br_model_shape *shape = &toy_shapes[index].shape;
    double bound = numeric == BR_NUMERIC_F32 ? 5e-6 : 2e-2;
    struct toy *toy = toy_create(shape, numeric, 3);
    double *want = br_malloc((size_t)TOKENS * shape->vocab * sizeof *want);
    struct rig rig;
    rig_open(&rig, toy, isa, 1);
    rig_start(&rig, 0, 100, TOKENS);
    toy_reference(toy, rig.seq[0].ids, TOKENS, want);
    double error = worst_error(&rig, want);
    print_message("%-14s %-20s %s: %.1e\n", toy_shapes[index].name, rig.dev->numeric_profile,
                  numeric == BR_NUMERIC_F32 ? "F32" : "BF16", error);
    assert_true(error < bound);
    rig_close(&rig);
    free(want);
    toy_destroy(toy);
}

static void test_forward(void **state)
{
    (void)state;
    static const char *const isas[] = {"generic", "avx2", "avx512", "avx512bf16", "amx", "cuda"};
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        struct br_device_config config = {.memory_bytes = 4096, .threads = 1, .isa = isas[i]};
        struct br_device *dev;
        struct br_err err;
        if (device_any(&config, &dev, &err)) {
            assert_string_not_equal(isas[i], "cuda");
            continue; /* not on this CPU */
        }
        dev->ops->destroy(dev);
        for (int s = 0; s < TOY_SHAPES; s++) {
            forward(s, BR_NUMERIC_F32, isas[i]);
            forward(s, BR_NUMERIC_BF16, isas[i]);
        }
    }
}

static int step_with(struct rig *rig, struct br_step_item item, uint32_t n_items, struct br_err *err)
{
    struct br_step_item items[RIG_SEQS + 1];
    for (int i = 0; i <= RIG_SEQS; i++)
        items[i] = item;
    return br_engine_step(rig->engine, rig->model, rig->compute, items, n_items, err);
}

static void test_refusals(void **state)
{
    (void)state;
    struct toy *toy = toy_create(&toy_shapes[0].shape, BR_NUMERIC_F32, 3);
    struct rig rig;
    struct br_err err;
    rig_open(&rig, toy, NULL, 1);
    rig_start(&rig, 0, 1, 8);
    br_devptr blocks[RIG_BLOCKS + 1] = {rig.slot[0]};
    struct br_step_item good = {rig.seq[0].ids, 8, 0, blocks, false, NULL}, item = good;
    assert_int_equal(step_with(&rig, good, 0, &err), BR_EINVAL);
    assert_int_equal(step_with(&rig, good, RIG_SEQS + 1, &err), BR_EINVAL);
    item.n_ids = 0;
    assert_int_equal(step_with(&rig, item, 1, &err), BR_EINVAL);
    item = good, item.pos = RIG_MAX_TOKENS - 7;
    assert_int_equal(step_with(&rig, item, 1, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "context"));
    item = good, item.n_ids = 17;
    memset(rig.seq[0].ids, 0, sizeof rig.seq[0].ids);
    assert_int_equal(step_with(&rig, item, 1, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "KV block 1"));
    rig.seq[0].ids[3] = 70;
    assert_int_equal(step_with(&rig, good, 1, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "70"));
    rig.seq[0].ids[3] = -1;
    assert_int_equal(step_with(&rig, good, 1, &err), BR_EINVAL);
    rig.seq[0].ids[3] = 69;
    assert_int_equal(step_with(&rig, good, 1, &err), 0);
    rig.dev->ops->event_record(rig.stepped, rig.compute);
    rig.dev->ops->event_sync(rig.stepped);
    br_engine_model_place(rig.model, 2, 0, NULL);
    assert_int_equal(step_with(&rig, good, 1, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "unit 2"));
    rig_close(&rig);
    toy_destroy(toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
