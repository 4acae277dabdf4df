/* Single kernels against double precision, at odd sizes, for every instruction set of this CPU. */
// clang-format off
#include "tests/cmocka.h"
// clang-format on
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tests/unit/worker/engine/toy.h"
#include "worker/device/kernels.h"

static struct br_device *dev;
static struct br_stream *stream;
static const char *const isas[] = {"generic", "avx2", "avx512", "avx512bf16", "amx"};
enum { ISAS = sizeof isas / sizeof isas[0], MEMORY_BYTES = 32 << 20 };

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

static void start(void)
{
    struct br_err err;
    assert_int_equal(dev->ops->stream_create(dev, &stream, &err), 0);
}

static void finish(void)
{
    dev->ops->stream_destroy(stream); /* waits */
}

static void *at(br_devptr p)
{
    return (void *)(uintptr_t)p;
}

static float value_at(const void *row, uint32_t i, enum br_numeric numeric)
{
    return numeric == BR_NUMERIC_BF16 ? toy_from_bf16(((const uint16_t *)row)[i]) : ((const float *)row)[i];
}

static void put(void *row, uint32_t i, enum br_numeric numeric, float x)
{
    if (numeric == BR_NUMERIC_BF16)
        ((uint16_t *)row)[i] = toy_to_bf16(x);
    else
        ((float *)row)[i] = x;
}

static float small(struct br_rng *rng)
{
    return toy_from_bf16(toy_to_bf16((float)(2 * br_rng_next(rng) - 1)));
}

struct linear_case {
    uint32_t rows, k, n;
};

struct matrix {
    const float *w; /* [k][n] */
    uint32_t n;
};

static float matrix_value(const void *ctx, uint32_t k, uint32_t n)
{
    const struct matrix *m = ctx;
    return m->w[(size_t)k * m->n + n];
}

static void check_product(const struct linear_case *c, const float *w, const float *bias, const struct br_linear_op *op)
{
    for (uint32_t r = 0; r < c->rows; r++) {
        const char *in = (char *)at(op->in) + r * br_act_stride(c->k, op->numeric);
        const float *out = at(op->out + r * br_f32_stride(c->n));
        for (uint32_t n = 0; n < c->n; n++) {
            double want = bias[n], size = fabs(want);
            for (uint32_t k = 0; k < c->k; k++) {
                want += (double)value_at(in, k, op->numeric) * w[(size_t)k * c->n + n];
                size += fabs(value_at(in, k, op->numeric) * w[(size_t)k * c->n + n]);
            }
            assert_true(fabs(out[n] - want) <= 1e-6 * size + 1e-30); /* sums in F32: inputs are exact */
        }
    }
}

static void linear_once(const struct linear_case *c, enum br_numeric numeric)
{
    struct br_rng rng = {.seed = c->k * 31 + c->n};
    float *w = br_malloc((size_t)c->k * c->n * sizeof *w);
    struct matrix matrix = {w, c->n};
    struct br_linear_op op = {.numeric = numeric, .end = BR_LINEAR_STORE, .rows = c->rows, .k = c->k, .n = c->n};
    op.weights = dev->memory, op.bias = op.weights + (8 << 20), op.in = op.bias + (1 << 20), op.out = op.in + (8 << 20);
    for (size_t i = 0; i < (size_t)c->k * c->n; i++)
        w[i] = small(&rng);
    memset(at(op.weights), 0, br_panel_bytes(c->k, c->n, numeric));
    toy_pack(at(op.weights), c->k, c->n, numeric, matrix_value, &matrix);
    for (uint32_t n = 0; n < c->n; n++)
        ((float *)at(op.bias))[n] = small(&rng);
    for (uint32_t r = 0; r < c->rows; r++) {
        void *row = at(op.in + r * br_act_stride(c->k, numeric));
        memset(row, 0, br_act_stride(c->k, numeric));
        for (uint32_t k = 0; k < c->k; k++)
            put(row, k, numeric, small(&rng));
    }
    start();
    dev->kernels->linear(stream, &op);
    finish();
    check_product(c, w, at(op.bias), &op);
    free(w);
}

static void test_linear(void **state)
{
    (void)state;
    static const struct linear_case cases[] = {{1, 1, 1},   {1, 64, 64},  {2, 33, 65},   {3, 7, 130},
                                               {5, 100, 1}, {7, 31, 200}, {13, 129, 64}, {100, 65, 70}};
    for (int i = 0; i < ISAS; i++) {
        if (!begin(isas[i]))
            continue;
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            linear_once(&cases[c], BR_NUMERIC_F32);
            linear_once(&cases[c], BR_NUMERIC_BF16);
        }
        dev->ops->destroy(dev);
    }
}

/* Attention over one item whose blocks are full of not-a-number beyond its last position. */
struct attention_case {
    uint32_t heads, kv_heads, head_dim, pos, rows;
};

struct attention_data {
    const struct attention_case *c;
    enum br_numeric numeric;
    float *q, *k, *v; /* [rows][heads][d], [positions][kv_heads][d] */
};

static void put_kv(const struct attention_data *d, br_devptr block, uint32_t pos)
{
    const struct attention_case *c = d->c;
    uint32_t slot = pos % 16, elt = d->numeric == BR_NUMERIC_BF16 ? 2 : 4, pair = 4 / elt;
    for (uint32_t h = 0; h < c->kv_heads; h++) {
        char *k = at(block + br_kv_offset(1, h, c->kv_heads, c->head_dim, d->numeric));
        char *v = k + 16 * c->head_dim * elt;
        const float *kx = d->k + (pos * c->kv_heads + h) * c->head_dim;
        const float *vx = d->v + (pos * c->kv_heads + h) * c->head_dim;
        for (uint32_t i = 0; i < c->head_dim; i++) {
            put(k, (i / pair * 16 + slot) * pair + i % pair, d->numeric, kx[i]);
            put(v, (slot / pair * c->head_dim + i) * pair + slot % pair, d->numeric, vx[i]);
        }
    }
}

/* Worst distance from the double-precision answer; values are within -1 .. 1. */
static double attention_error(const struct attention_data *d, br_devptr out)
{
    const struct attention_case *c = d->c;
    uint32_t group = c->heads / c->kv_heads;
    double worst = 0, *p = br_malloc((c->pos + c->rows) * sizeof *p);
    for (uint32_t r = 0; r < c->rows; r++)
        for (uint32_t h = 0; h < c->heads; h++) {
            const float *q = d->q + (r * c->heads + h) * c->head_dim;
            uint32_t seen = c->pos + r + 1, width = c->kv_heads * c->head_dim, head = h / group * c->head_dim;
            double total = 0;
            for (uint32_t t = 0; t < seen; t++) {
                double s = 0;
                for (uint32_t i = 0; i < c->head_dim; i++)
                    s += (double)q[i] * d->k[t * width + head + i];
                total += p[t] = exp(s);
            }
            const char *row = (char *)at(out) + r * br_act_stride(c->heads * c->head_dim, d->numeric);
            for (uint32_t i = 0; i < c->head_dim; i++) {
                double want = 0;
                for (uint32_t t = 0; t < seen; t++)
                    want += p[t] / total * d->v[t * width + head + i];
                double off = fabs(value_at(row, h * c->head_dim + i, d->numeric) - want);
                assert_false(isnan(off));
                worst = fmax(worst, off);
            }
        }
    free(p);
    return worst;
}

static float *smalls(struct br_rng *rng, size_t n)
{
    float *x = br_malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = small(rng);
    return x;
}

static void attention_once(const struct attention_case *c, enum br_numeric numeric)
{
    struct br_rng rng = {.seed = c->head_dim + c->pos};
    uint32_t positions = c->pos + c->rows, blocks = (positions + 15) / 16;
    struct attention_data d = {c, numeric, smalls(&rng, (size_t)c->rows * c->heads * c->head_dim),
                               smalls(&rng, (size_t)positions * c->kv_heads * c->head_dim),
                               smalls(&rng, (size_t)positions * c->kv_heads * c->head_dim)};
    struct br_attention_op op = {.batch = {.rows = c->rows, .items = 1}, .numeric = numeric, .heads = c->heads};
    uint64_t block_bytes = br_kv_offset(2, 0, c->kv_heads, c->head_dim, numeric);
    op.kv_heads = c->kv_heads, op.head_dim = c->head_dim, op.layer = 1;
    op.q = dev->memory, op.out = op.q + (4 << 20), op.batch.table = op.out + (4 << 20);
    op.batch.item = op.batch.table + 65536;
    *(struct br_batch_item *)at(op.batch.item) = (struct br_batch_item){0, c->rows, c->pos, 0};
    br_devptr first = dev->memory + (16 << 20);
    memset(at(first), 0xff, blocks * block_bytes);
    for (uint32_t b = 0; b < blocks; b++) /* last block first */
        ((br_devptr *)at(op.batch.table))[b] = first + (blocks - 1 - b) * block_bytes;
    for (uint32_t t = 0; t < positions; t++)
        put_kv(&d, ((br_devptr *)at(op.batch.table))[t / 16], t);
    for (uint32_t r = 0; r < c->rows; r++)
        for (uint32_t i = 0; i < c->heads * c->head_dim; i++)
            put(at(op.q + r * br_act_stride(c->heads * c->head_dim, numeric)), i, numeric,
                d.q[r * c->heads * c->head_dim + i]);
    start();
    dev->kernels->attention(stream, &op);
    finish();
    double error = attention_error(&d, op.out);
    assert_true(error < (numeric == BR_NUMERIC_F32 ? 1e-6 : 8e-3)); /* BF16 rounds weights and result: 2^-8 of 1 */
    free(d.q), free(d.k), free(d.v);
}

static void test_attention(void **state)
{
    (void)state;
    static const struct attention_case cases[] = {{1, 1, 2, 0, 1},    {4, 4, 8, 0, 17},   {4, 2, 64, 15, 2},
                                                  {8, 1, 128, 16, 1}, {8, 1, 64, 0, 40},  {6, 2, 80, 30, 5},
                                                  {2, 1, 10, 250, 9}, {3, 1, 64, 510, 4}, {64, 1, 16, 3, 3}};
    for (int i = 0; i < ISAS; i++) {
        if (!begin(isas[i]))
            continue;
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            attention_once(&cases[c], BR_NUMERIC_F32);
            attention_once(&cases[c], BR_NUMERIC_BF16);
        }
        dev->ops->destroy(dev);
    }
}

/* The profile names the instruction set, and the open choice is the best this CPU has. */
static void test_profiles(void **state)
{
    (void)state;
    char best[64] = "";
    for (int i = 0; i < ISAS; i++) {
        if (!begin(isas[i]))
            continue;
        assert_non_null(strstr(dev->numeric_profile, isas[i]));
        strcpy(best, dev->numeric_profile);
        dev->ops->destroy(dev);
    }
    assert_true(begin(NULL));
    assert_string_equal(dev->numeric_profile, best);
    dev->ops->destroy(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear), cmocka_unit_test(test_attention),
                                       cmocka_unit_test(test_profiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
