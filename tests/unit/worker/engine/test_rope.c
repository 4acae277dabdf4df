/* Rotary tables: the published formulas at the points where they are simple. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "worker/engine/model.h"

enum { HALF = 64, POSITIONS = 4 };

static struct br_model_shape shape(struct br_rope rope, uint32_t max_positions)
{
    return (struct br_model_shape){.head_dim = 2 * HALF, .max_positions = max_positions, .rope = rope};
}

/* The frequency of pair i, read off the table at position 1 (angles are below pi there). */
static double frequency(const float *table, uint32_t i)
{
    const float *row = table + 2 * HALF;
    return atan2(row[HALF + i], row[i]);
}

static double plain(double theta, uint32_t i)
{
    return pow(theta, -2.0 * i / (2 * HALF));
}

static void assert_near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want)))
        fail_msg("%.9g, expected %.9g", got, want);
}

static void test_default(void **state)
{
    (void)state;
    struct br_model_shape s = shape((struct br_rope){.theta = 10000}, 2048);
    float *table = br_malloc(POSITIONS * 2 * HALF * sizeof *table);
    engine_rope_table(&s, POSITIONS, table);
    for (uint32_t i = 0; i < HALF; i++) {
        assert_true(table[i] == 1 && table[HALF + i] == 0); /* position 0 */
        assert_near(frequency(table, i), plain(10000, i), 1e-6);
    }
    assert_near(table[3 * 2 * HALF], cos(3), 1e-6);
    assert_near(table[3 * 2 * HALF + HALF], sin(3), 1e-6);
    assert_int_equal(engine_rope_positions(&s), 2048);
    free(table);
}

static void test_linear(void **state)
{
    (void)state;
    struct br_model_shape s = shape((struct br_rope){.kind = BR_ROPE_LINEAR, .theta = 10000, .factor = 4}, 2048);
    float *table = br_malloc(POSITIONS * 2 * HALF * sizeof *table);
    engine_rope_table(&s, POSITIONS, table);
    for (uint32_t i = 0; i < HALF; i++)
        assert_near(frequency(table, i), plain(10000, i) / 4, 1e-6);
    assert_int_equal(engine_rope_positions(&s), 8192);
    free(table);
}

/* Dynamic scaling would change the past of a growing sequence: plain, up to the original maximum. */
static void test_dynamic(void **state)
{
    (void)state;
    struct br_model_shape s = shape((struct br_rope){.kind = BR_ROPE_DYNAMIC, .theta = 10000, .factor = 4}, 2048);
    float *table = br_malloc(POSITIONS * 2 * HALF * sizeof *table);
    engine_rope_table(&s, POSITIONS, table);
    assert_near(frequency(table, 40), plain(10000, 40), 1e-6);
    assert_int_equal(engine_rope_positions(&s), 2048);
    free(table);
}

/* Llama 3.1's own numbers: waves shorter than 8192/4 as they are, longer than 8192/1 stretched by 8, between them a
 * weighted mean that grows from one to the other. */
static void test_llama3(void **state)
{
    (void)state;
    struct br_rope rope = {.kind = BR_ROPE_LLAMA3, .theta = 500000, .factor = 8};
    rope.low_freq_factor = 1, rope.high_freq_factor = 4, rope.original_max_positions = 8192;
    struct br_model_shape s = shape(rope, 131072);
    float *table = br_malloc(POSITIONS * 2 * HALF * sizeof *table);
    int kept = 0, stretched = 0;
    engine_rope_table(&s, POSITIONS, table);
    for (uint32_t i = 0; i < HALF; i++) {
        double f = plain(500000, i), wave = 2 * 3.14159265358979 / f, got = frequency(table, i);
        if (wave < 2048) {
            assert_near(got, f, 1e-6);
            kept++;
        } else if (wave > 8192) {
            assert_near(got, f / 8, 1e-6);
            stretched++;
        } else {
            assert_true(got < f && got > f / 8);
        }
    }
    assert_int_equal(kept, 29); /* pairs 0-28 turn within 2048 positions */
    assert_int_equal(stretched, 29);
    assert_int_equal(engine_rope_positions(&s), 131072);
    free(table);
}

/* YaRN: fast pairs as they are, slow ones interpolated, everything times 0.1 ln(factor) + 1. */
static void test_yarn(void **state)
{
    (void)state;
    struct br_rope rope = {.kind = BR_ROPE_YARN, .theta = 1000000, .factor = 4, .original_max_positions = 32768};
    struct br_model_shape s = shape(rope, 32768);
    float *table = br_malloc(POSITIONS * 2 * HALF * sizeof *table);
    engine_rope_table(&s, POSITIONS, table);
    assert_near(table[0], 0.1 * log(4) + 1, 1e-6);
    assert_near(frequency(table, 0), 1, 1e-6);
    assert_near(frequency(table, 20), plain(1000000, 20), 1e-6);     /* turns 32 times or more: pairs up to 23 */
    assert_near(frequency(table, 63), plain(1000000, 63) / 4, 1e-6); /* less than once: pairs from 40 on */
    assert_near(frequency(table, 40), plain(1000000, 40) / 4, 1e-6);
    assert_true(frequency(table, 32) < plain(1000000, 32) && frequency(table, 32) > plain(1000000, 32) / 4);
    assert_int_equal(engine_rope_positions(&s), 131072);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_default), cmocka_unit_test(test_linear),
                                       cmocka_unit_test(test_dynamic), cmocka_unit_test(test_llama3),
                                       cmocka_unit_test(test_yarn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
