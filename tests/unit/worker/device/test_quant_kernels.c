/* Products with quantised weights on every instruction set of this CPU. In F32, and of formats that are not grouped,
 * they are those with the dequantised weights in panels, bit for bit; of grouped ones in BF16 they are the
 * double-precision products within what F32 sums round, and the same bits for any number of rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tests/cmocka.h"
#include "tests/unit/worker/device/quant_twin.h"
#include "worker/device/kernels.h"
#include "worker/weights/convert.h"

static struct br_device *dev;
static const char *const isas[] = {"generic", "avx2", "avx512", "avx512bf16", "amx"};
enum { ISAS = sizeof isas / sizeof isas[0], MEMORY_BYTES = 32 << 20, MOST_ROWS = 100 };

/* False: not on this CPU. */
static bool begin(const char *isa)
{
    struct br_device_config config = {.memory_bytes = MEMORY_BYTES, .threads = 2, .isa = isa};
    struct br_err err;
    if (br_device_cpu_create(&config, &dev, &err)) {
        assert_int_equal(err.code, BR_ENOTSUP);
        return false;
    }
    memset((void *)(uintptr_t)dev->memory, 0xff, MEMORY_BYTES); /* not-a-number in both formats */
    return true;
}

static void *at(br_devptr p)
{
    return (void *)(uintptr_t)p;
}

static void run(const struct br_linear_op *op)
{
    struct br_stream *stream;
    struct br_err err;
    assert_int_equal(dev->ops->stream_create(dev, &stream, &err), 0);
    dev->kernels->linear(stream, op);
    dev->ops->stream_destroy(stream); /* waits */
}

static void fill_rows(const struct br_linear_op *op, uint32_t rows)
{
    struct br_rng rng = {.seed = op->k};
    for (uint32_t r = 0; r < rows; r++) {
        char *row = (char *)at(op->in) + r * br_act_stride(op->k, op->numeric);
        memset(row, 0, br_act_stride(op->k, op->numeric));
        for (uint32_t k = 0; k < op->k; k++) {
            float x = (float)(2 * br_rng_next(&rng) - 1);
            uint16_t half = br_f32_bits_to_bf16(br_f32_bits(x));
            if (op->numeric == BR_NUMERIC_BF16)
                memcpy(row + 2 * k, &half, 2);
            else
                memcpy(row + 4 * k, &x, 4);
        }
    }
}

static float out_at(br_devptr out, uint64_t n_all, uint32_t row, uint32_t n)
{
    float value;
    memcpy(&value, (char *)at(out + row * br_f32_stride((uint32_t)n_all)) + 4 * n, 4);
    return value;
}

static void check_rows(const struct br_linear_op *op, br_devptr twin, const char *what)
{
    for (uint32_t r = 0; r < op->rows; r++)
        for (uint32_t n = 0; n < op->n; n++) {
            float got = out_at(op->out, op->n, r, n), want = out_at(twin, op->n, r, n);
            if (!(got == want))
                fail_msg("%s, %s, %u rows: row %u, output %u is %g, not %g", dev->config.isa, what, op->rows, r, n,
                         (double)got, (double)want);
        }
}

/* Weight rows in F32, as pack.h reads them: [n][k_padded]. */
static float *values_of(const struct br_linear_set *set, uint64_t n)
{
    float *values = br_calloc(n * set->k_padded, sizeof *values);
    unsigned char *panels =
        br_calloc(br_quant_panels(set) * br_panel_bytes(set->k_padded, BR_PANEL, BR_NUMERIC_F32), 1);
    struct br_matrix_format dense = {0};
    br_quant_pack(set, &dense, BR_NUMERIC_F32, 0, br_quant_panels(set), panels);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < set->k_padded; k++)
            memcpy(&values[i * set->k_padded + k],
                   panels + ((i / BR_PANEL * set->k_padded + k) * BR_PANEL + i % BR_PANEL) * 4, 4);
    free(panels);
    return values;
}

static void check_near(const struct br_linear_op *op, const float *weights, const char *what)
{
    for (uint32_t r = 0; r < op->rows; r++) {
        const uint16_t *in = at(op->in + r * br_act_stride(op->k, op->numeric));
        for (uint32_t n = 0; n < op->n; n++) {
            double want = 0, size = 0, got = out_at(op->out, op->n, r, n);
            for (uint32_t k = 0; k < op->k; k++) {
                double term = (double)br_f32_from_bits(br_bf16_to_f32_bits(in[k])) * weights[(size_t)n * op->k + k];
                want += term;
                size += fabs(term);
            }
            if (!(fabs(got - want) <= 1e-6 * size))
                fail_msg("%s, %s: row %u, output %u is %g, not %g", dev->config.isa, what, r, n, got, want);
        }
    }
}

/* Row r of many rows, run alone, gives the same bits. */
static void check_alone(const struct br_linear_op *op, br_devptr alone, const char *what)
{
    struct br_linear_op one = *op;
    one.rows = 1;
    one.in = op->in + (op->rows - 1) * br_act_stride(op->k, op->numeric);
    one.out = alone;
    run(&one);
    for (uint32_t n = 0; n < op->n; n++)
        if (!(out_at(alone, op->n, 0, n) == out_at(op->out, op->n, op->rows - 1, n)))
            fail_msg("%s, %s: output %u of one row is not that of %u", dev->config.isa, what, n, op->rows);
}

static void check_set(const struct br_linear_set *set, uint64_t n, enum br_numeric numeric, const char *what)
{
    static const uint32_t rows[] = {1, 2, 5, 17, MOST_ROWS};
    struct br_matrix_format format = br_quant_format_of(set), dense = {0};
    struct br_linear_op op = {.numeric = numeric, .end = BR_LINEAR_STORE, .k = (uint32_t)set->k_padded};
    br_devptr twin_weights = dev->memory + (8 << 20), twin_out = dev->memory + (24 << 20);
    assert_int_not_equal(format.code, BR_CODE_NONE);
    op.n = (uint32_t)n;
    op.weights = dev->memory, op.in = dev->memory + (16 << 20), op.out = dev->memory + (20 << 20);
    uint64_t index = br_quant_index_bytes(&format, set->k_padded);
    if (index)
        br_quant_pack_index(set, at(op.weights), index);
    br_quant_pack(set, &format, numeric, 0, br_quant_panels(set), (unsigned char *)at(op.weights) + index);
    br_quant_pack(set, &dense, numeric, 0, br_quant_panels(set), at(twin_weights));
    fill_rows(&op, MOST_ROWS);
    float *values = values_of(set, n);
    bool near = numeric == BR_NUMERIC_BF16 && br_quant_grouped(&format);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct br_linear_op twin = op;
        twin.rows = op.rows = rows[i];
        twin.format = dense;
        twin.weights = twin_weights, twin.out = twin_out;
        op.format = format;
        run(&op);
        run(&twin);
        if (near)
            check_near(&op, values, what);
        else
            check_rows(&op, twin_out, what);
        check_alone(&op, twin_out, what);
    }
    free(values);
}

static void each_sort(enum br_numeric numeric)
{
    for (int sort = 0; sort < QUANT_SORTS; sort++) {
        struct br_rng rng = {.seed = (uint64_t)sort + 1};
        struct quant_twin twin;
        quant_twin_init(&twin, (enum quant_sort)sort, 136, 512, &rng);
        struct br_linear_set set = {.part = {&twin.linear}, .parts = 1, .k = 512, .k_padded = 512};
        check_set(&set, 136, numeric, quant_sort_names[sort]);
        quant_twin_free(&twin);
    }
}

static void test_sorts(void **state)
{
    (void)state;
    for (int i = 0; i < ISAS; i++) {
        if (!begin(isas[i]))
            continue;
        each_sort(BR_NUMERIC_F32);
        each_sort(BR_NUMERIC_BF16);
        dev->ops->destroy(dev);
    }
}

/* Joined linears of two kinds of blocks, and gate with up whose width is no multiple of 32. */
static void test_sets(void **state)
{
    struct br_rng rng = {.seed = 5};
    struct quant_twin a, b, gate, up;
    (void)state;
    quant_twin_init(&a, QUANT_SORT_Q4_K, 64, 256, &rng);
    quant_twin_init(&b, QUANT_SORT_Q6_K, 40, 256, &rng);
    quant_twin_init(&gate, QUANT_SORT_AWQ, 104, 256, &rng);
    quant_twin_init(&up, QUANT_SORT_AWQ, 104, 256, &rng);
    struct br_linear_set joined = {.part = {&a.linear, &b.linear, &b.linear}, .parts = 3, .k = 256, .k_padded = 256};
    struct br_linear_set both = {
        .part = {&gate.linear, &up.linear}, .parts = 2, .k = 256, .k_padded = 256, .half = 128};
    for (int i = 0; i < ISAS; i++) {
        if (!begin(isas[i]))
            continue;
        check_set(&joined, 144, BR_NUMERIC_BF16, "Q4_K and Q6_K");
        check_set(&both, 256, BR_NUMERIC_BF16, "gate and up");
        check_set(&both, 256, BR_NUMERIC_F32, "gate and up");
        dev->ops->destroy(dev);
    }
    quant_twin_free(&a);
    quant_twin_free(&b);
    quant_twin_free(&gate);
    quant_twin_free(&up);
}

/* FP8 need not be a multiple of anything. */
static void test_odd_sizes(void **state)
{
    static const enum quant_sort sorts[] = {QUANT_SORT_FP8_TENSOR, QUANT_SORT_FP8_CHANNEL, QUANT_SORT_FP8_BLOCK};
    (void)state;
    for (int i = 0; i < ISAS; i++) {
        if (!begin(isas[i]))
            continue;
        for (size_t s = 0; s < sizeof sorts / sizeof sorts[0]; s++) {
            struct br_rng rng = {.seed = s + 1};
            struct quant_twin twin;
            quant_twin_init(&twin, sorts[s], 77, 333, &rng);
            struct br_linear_set set = {.part = {&twin.linear}, .parts = 1, .k = 333, .k_padded = 333};
            check_set(&set, 77, BR_NUMERIC_BF16, quant_sort_names[sorts[s]]);
            check_set(&set, 77, BR_NUMERIC_F32, quant_sort_names[sorts[s]]);
            quant_twin_free(&twin);
        }
        dev->ops->destroy(dev);
    }
}

/* Bits a weight: what the planner counts for INT4 is half a byte, a 16-bit scale and a 4-bit zero a group of 128. */
static void test_memory(void **state)
{
    struct br_rng rng = {.seed = 9};
    struct quant_twin twin;
    (void)state;
    quant_twin_init(&twin, QUANT_SORT_AWQ, 256, 1024, &rng);
    struct br_linear_set set = {.part = {&twin.linear}, .parts = 1, .k = 1024, .k_padded = 1024};
    struct br_matrix_format f = br_quant_format_of(&set);
    double per_weight = (double)br_matrix_bytes(1024, 256, BR_NUMERIC_BF16, &f) / (1024 * 256);
    assert_true(per_weight < (0.5 + 2.5 / 128) * 1.01);
    quant_twin_free(&twin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorts),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_odd_sizes),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
