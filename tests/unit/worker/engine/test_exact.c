/* Exact mode: the logits at a position are the same bits however the work is cut up. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tests/unit/worker/engine/device_any.h"
#include "tests/unit/worker/engine/rig.h"

/* Bits do not change under ThreadSanitizer, only patience does. */
#ifdef __SANITIZE_THREAD__
enum { SHAPES = 1 };
#else
enum { SHAPES = TOY_SHAPES };
#endif

static const uint32_t lengths[RIG_SEQS] = {290, 33, 17, 60, 5, 48, 16, 21};

/* Logits of every position of every sequence, one token at a time, one sequence at a time. */
struct truth {
    float *logits[RIG_SEQS];
};

static void start_all(struct rig *rig)
{
    for (uint32_t i = 0; i < RIG_SEQS; i++)
        rig_start(rig, i, 100 + i, lengths[i]);
}

static struct truth truth_make(const struct toy *toy, const char *isa)
{
    struct rig rig;
    struct truth truth;
    size_t vocab = toy->layout.shape.vocab;
    rig_open(&rig, toy, isa, 1);
    start_all(&rig);
    for (uint32_t i = 0; i < RIG_SEQS; i++) {
        uint32_t n[RIG_SEQS] = {0};
        n[i] = 1;
        truth.logits[i] = br_malloc(lengths[i] * vocab * sizeof(float));
        for (uint32_t pos = 0; pos < lengths[i]; pos++) {
            rig_step(&rig, n);
            memcpy(truth.logits[i] + pos * vocab, rig.seq[i].logits, vocab * sizeof(float));
        }
    }
    rig_close(&rig);
    return truth;
}

static void truth_free(struct truth *truth)
{
    for (int i = 0; i < RIG_SEQS; i++)
        free(truth->logits[i]);
}

static void check(const struct rig *rig, const struct truth *truth, uint32_t i, const char *what)
{
    size_t vocab = rig->toy->layout.shape.vocab;
    const float *want = truth->logits[i] + (rig->seq[i].pos - 1) * vocab;
    for (size_t v = 0; v < vocab; v++)
        assert_true(want[v] == want[v]); /* no not-a-number came through */
    if (memcmp(want, rig->seq[i].logits, vocab * sizeof(float)))
        fail_msg("%s: %s: sequence %u differs at position %u", rig->dev->numeric_profile, what, i, rig->seq[i].pos - 1);
}

static void check_chunks(struct rig *rig, const struct truth *truth)
{
    static const uint32_t chunks[] = {7, 64, 290};
    for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
        rig_start(rig, 0, 100, lengths[0]);
        while (rig->seq[0].pos < lengths[0]) {
            uint32_t left = lengths[0] - rig->seq[0].pos, n[RIG_SEQS] = {left < chunks[c] ? left : chunks[c]};
            rig_step(rig, n);
            check(rig, truth, 0, "chunked prefill");
        }
    }
}

/* Rounds of random chunks of `seqs` sequences in one step, decodes and prefill mixed, until all have run. */
static void check_batch(struct rig *rig, const struct truth *truth, uint32_t seqs, bool moving)
{
    bool more = true;
    start_all(rig);
    for (uint32_t round = 0; more; round++) {
        uint32_t n[RIG_SEQS] = {0};
        more = false;
        for (uint32_t i = 0; i < seqs; i++) {
            uint32_t left = lengths[i] - rig->seq[i].pos, want = (uint32_t)(br_rng_next(&rig->rng) * 3);
            want = i == 0 && want ? want * 15 : want;
            n[i] = want < left ? want : left;
            more |= left > n[i];
        }
        n[0] = n[0] || !lengths[0] || rig->seq[0].pos == lengths[0] ? n[0] : 1;
        for (uint32_t i = 0; moving && i < seqs; i++)
            if (br_rng_next(&rig->rng) < 0.3)
                rig_move_blocks(rig, i);
        if (moving && round % 3 == 1)
            rig_move_weights(rig);
        uint32_t any = 0;
        for (uint32_t i = 0; i < seqs; i++)
            any |= n[i];
        if (any)
            rig_step(rig, n);
        for (uint32_t i = 0; i < seqs; i++)
            if (n[i])
                check(rig, truth, i, moving ? "moving batch" : "batch");
    }
}

static void exact(const struct br_model_shape *shape, enum br_numeric numeric, const char *isa)
{
    struct toy *toy = toy_create(shape, numeric, 3);
    struct truth truth = truth_make(toy, isa);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct rig rig;
        rig_open(&rig, toy, isa, threads);
        check_chunks(&rig, &truth);
        check_batch(&rig, &truth, 3, false);
        check_batch(&rig, &truth, 8, true);
        rig_close(&rig);
    }
    truth_free(&truth);
    toy_destroy(toy);
}

static void exact_all(const char *isa)
{
    struct br_device_config config = {.memory_bytes = 4096, .threads = 1, .isa = isa};
    struct br_device *dev;
    struct br_err err;
    if (device_any(&config, &dev, &err)) {
        assert_string_not_equal(isa, "cuda");
        assert_int_equal(err.code, BR_ENOTSUP); /* nothing to hold this CPU to */
        return;
    }
    dev->ops->destroy(dev);
    for (int i = 0; i < SHAPES; i++) {
        exact(&toy_shapes[i].shape, BR_NUMERIC_F32, isa);
        exact(&toy_shapes[i].shape, BR_NUMERIC_BF16, isa);
    }
}

static void test_generic(void **state)
{
    (void)state;
    exact_all("generic");
}

static void test_avx2(void **state)
{
    (void)state;
    exact_all("avx2");
}

static void test_avx512(void **state)
{
    (void)state;
    exact_all("avx512");
}

static void test_avx512bf16(void **state)
{
    (void)state;
    exact_all("avx512bf16");
}

static void test_amx(void **state)
{
    (void)state;
    exact_all("amx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generic),    cmocka_unit_test(test_avx2), cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_avx512bf16), cmocka_unit_test(test_amx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
