/* Matrix products of every weight format against double precision, and a row's bits with one row and with many. */
#include "tests/unit/worker/cuda/bench.h"

extern "C" {
#include "tests/unit/worker/device/quant_twin.h"
}

static constexpr int DENSE = QUANT_SORTS;
static const char *sort_name(int sort)
{
    return sort == DENSE ? "dense" : quant_sort_names[sort];
}

/* Weights of a sort: packed for the device, and their numbers [n][k] in F32. */
struct weights {
    uint32_t k, n;
    struct br_matrix_format format = {};
    std::vector<float> value;
    std::vector<unsigned char> packed;
    weights(int sort, enum br_numeric numeric, uint32_t k_, uint32_t n_, struct br_rng *rng) : k(k_), n(n_)
    {
        if (sort == DENSE)
            dense(numeric, rng);
        else
            quantised(sort, numeric, rng);
    }
    void dense(enum br_numeric numeric, struct br_rng *rng)
    {
        uint32_t pair = numeric == BR_NUMERIC_BF16 ? 2 : 1;
        uint64_t cells = (k + pair - 1) / pair;
        value.resize((size_t)n * k);
        packed.resize(br_panel_bytes(k, n, numeric));
        for (uint64_t i = 0; i < value.size(); i++) {
            uint64_t row = i / k, in = i % k, at = ((row / 64 * cells + in / pair) * 64 + row % 64) * pair + in % pair;
            value[i] = bf16(to_bf16(draw_value(rng)));
            if (numeric == BR_NUMERIC_BF16)
                ((uint16_t *)packed.data())[at] = to_bf16(value[i]);
            else
                ((float *)packed.data())[at] = value[i];
        }
    }
    void quantised(int sort, enum br_numeric numeric, struct br_rng *rng)
    {
        struct quant_twin twin;
        quant_twin_init(&twin, (enum quant_sort)sort, n, k, rng);
        struct br_linear_set set = {};
        set.part[0] = &twin.linear, set.parts = 1, set.k = set.k_padded = k;
        struct br_matrix_format none = {};
        uint64_t panels = br_quant_panels(&set);
        format = br_quant_format_of(&set);
        uint64_t index = br_quant_index_bytes(&format, k);
        packed.resize(br_matrix_bytes(k, n, numeric, &format));
        if (index)
            br_quant_pack_index(&set, packed.data(), index);
        br_quant_pack(&set, &format, numeric, 0, panels, packed.data() + index);
        std::vector<float> plain(panels * k * 64);
        br_quant_pack(&set, &none, BR_NUMERIC_F32, 0, panels, (unsigned char *)plain.data());
        value.resize((size_t)n * k);
        for (uint64_t i = 0; i < value.size(); i++)
            value[i] = plain[(i / k / 64 * k + i % k) * 64 + i / k % 64];
        quant_twin_free(&twin);
    }
};

/* Sizes that a sort can have; FP8 and dense ones any. */
static void draw_size(int sort, struct br_rng *rng, uint32_t *k, uint32_t *n)
{
    bool any = sort == DENSE || (sort >= QUANT_SORT_FP8_TENSOR && sort <= QUANT_SORT_FP8_BLOCK);
    *k = any ? draw(rng, 1, 700) : 256 * draw(rng, 1, 3);
    *n = any ? draw(rng, 1, 200) : 8 * draw(rng, 1, 25);
}

/* A product as the engine asks for it. */
struct product {
    struct rows in, act, out;
    struct area weight, bias, norm, pick;
    struct br_linear_op op = {};
    product(const struct weights &w, enum br_numeric numeric, enum br_linear_end end, uint32_t n_rows, bool normed,
            struct br_rng *rng)
        : in(n_rows + 2, w.k, numeric, normed), act(n_rows, w.k, numeric, false),
          out(n_rows, end == BR_LINEAR_SWIGLU ? w.n / 2 : (w.n + 63) / 64 * 64, numeric, end != BR_LINEAR_SWIGLU),
          weight(w.packed.size()), bias((w.n + 63) / 64 * 256), norm(w.k * 4), pick(n_rows * 4)
    {
        in.fill(rng);
        memcpy(weight.at, w.packed.data(), w.packed.size());
        for (uint32_t i = 0; i < (w.n + 63) / 64 * 64; i++)
            bias.as<float>()[i] = draw_value(rng);
        for (uint32_t i = 0; i < w.k; i++)
            norm.as<float>()[i] = draw_value(rng);
        for (uint32_t i = 0; i < n_rows; i++)
            pick.as<uint32_t>()[i] = draw(rng, 0, n_rows + 1);
        if (end == BR_LINEAR_ADD)
            out.fill(rng);
        op.numeric = numeric, op.end = end, op.rows = n_rows, op.k = w.k, op.n = w.n, op.in = in.memory;
        op.format = w.format, op.weights = weight, op.out = out.memory, op.eps = 1e-5f;
        op.bias = end == BR_LINEAR_STORE ? (br_devptr)bias : 0;
        if (normed)
            op.norm = norm, op.act = act.memory, op.row = pick;
    }
};

/* y of one row and column, and the magnitudes in it. With a norm its own rounding to BF16 counts as input. */
static double reference(const struct product &p, const struct weights &w, uint32_t row, uint32_t column, double *size)
{
    double y = 0;
    const struct rows &in = p.op.norm ? p.act : p.in;
    for (uint32_t k = 0; k < w.k; k++) {
        double term = (double)in.get(row, k) * w.value[(size_t)column * w.k + k];
        y += term;
        *size += fabs(term);
    }
    return y;
}

static void check(const struct product &p, const struct weights &w, const std::vector<float> &before,
                  struct worst *worst)
{
    uint32_t width = p.op.end == BR_LINEAR_SWIGLU ? w.n / 2 : w.n;
    for (uint32_t r = 0; r < p.op.rows; r++)
        for (uint32_t c = 0; c < width; c++) {
            double size = 0, want;
            if (p.op.end == BR_LINEAR_SWIGLU) { /* layout.h: 32 gates, 32 ups */
                double ups = 0, gate = reference(p, w, r, c / 32 * 64 + c % 32, &size);
                double up = reference(p, w, r, c / 32 * 64 + c % 32 + 32, &ups);
                double silu = gate / (1 + exp(-gate));
                want = silu * up;
                size = size * fabs(up) + fabs(silu) * ups; /* what errors of the two sums are multiplied with */
            } else {
                want = reference(p, w, r, c, &size);
                want += p.op.end == BR_LINEAR_ADD ? (double)before[r * w.n + c] : (double)p.bias.as<float>()[c];
            }
            worst->add(p.out.get(r, c), want, size + fabs(want));
        }
}

static void product_once(const struct device &dev, int sort, enum br_numeric numeric, int shape, struct worst *worst)
{
    struct br_rng rng = {(uint64_t)shape * 31 + (uint64_t)sort, 1};
    enum br_linear_end end = (enum br_linear_end)(shape % 3);
    uint32_t k, n, count = br_rng_next(&rng) < .15 ? draw(&rng, 65, 150) : draw(&rng, 1, shape % 2 ? 5 : 40);
    draw_size(sort, &rng, &k, &n);
    if (end == BR_LINEAR_SWIGLU)
        n = (n + 63) / 64 * 64;
    struct weights w(sort, numeric, k, n, &rng);
    struct product p(w, numeric, end, count, shape % 4 == 3, &rng);
    std::vector<float> before(count * n);
    for (uint32_t i = 0; end == BR_LINEAR_ADD && i < count * n; i++)
        before[i] = p.out.get(i / n, i % n);
    br_cuda_linear(dev.stream, &p.op);
    dev.finish();
    check(p, w, before, worst);
}

static void test_products(void **)
{
    struct device dev;
    for (int numeric = 0; numeric < 2; numeric++)
        for (int sort = 0; sort <= DENSE; sort++) {
            struct worst worst;
            char name[64];
            int n = shapes(numeric ? 8 : 20);
            snprintf(name, sizeof name, "%s, %s", sort_name(sort), numeric ? "F32" : "BF16");
            for (int shape = 0; shape < n; shape++)
                product_once(dev, sort, numeric ? BR_NUMERIC_F32 : BR_NUMERIC_BF16, shape, &worst);
            worst.check(numeric ? 1e-3 : 1e-2, name, n);
        }
}

/* Products that end in F32, whose weights are exact: within what sums round. */
static void test_exact_weights(void **)
{
    static const int sorts[] = {QUANT_SORT_AWQ, QUANT_SORT_GPTQ8, QUANT_SORT_FP8_BLOCK, QUANT_SORT_Q4_0, DENSE};
    struct device dev;
    for (int sort : sorts) {
        struct worst worst;
        for (int shape = 0; shape < shapes(6); shape++)
            product_once(dev, sort, BR_NUMERIC_BF16, 12 * shape + (shape % 2), &worst); /* stores and adds, no norm */
        worst.check(1e-5, sort_name(sort), shapes(6));
    }
}

/* The last of many rows, run with fewer. */
static void test_same_bits(void **)
{
    struct device dev;
    for (int sort = 0; sort <= DENSE; sort++) {
        struct br_rng rng = {(uint64_t)sort, 2};
        struct weights w(sort, BR_NUMERIC_BF16, 1024, 64, &rng);
        struct product many(w, BR_NUMERIC_BF16, BR_LINEAR_STORE, 70, false, &rng);
        br_cuda_linear(dev.stream, &many.op);
        dev.finish();
        for (uint32_t fewer : {1u, 17u, 40u}) {
            struct product few(w, BR_NUMERIC_BF16, BR_LINEAR_STORE, fewer, false, &rng);
            uint64_t stride = few.in.stride;
            memcpy(few.in.memory.at, many.in.memory.as<char>() + (70 - fewer) * stride, fewer * stride);
            memcpy(few.bias.at, many.bias.at, few.bias.bytes);
            br_cuda_linear(dev.stream, &few.op);
            dev.finish();
            assert_memory_equal(few.out.memory.at, many.out.memory.as<char>() + (70 - fewer) * many.out.stride,
                                few.out.stride * fewer);
        }
    }
}

static void test_dequantise(void **)
{
    struct device dev;
    int n = shapes(200);
    for (int shape = 0; shape < n; shape++) {
        struct br_rng rng = {(uint64_t)shape, 3};
        int sort = shape % (DENSE + 1);
        enum br_numeric numeric = shape / (DENSE + 1) % 2 ? BR_NUMERIC_F32 : BR_NUMERIC_BF16;
        uint32_t k, rows;
        draw_size(sort, &rng, &k, &rows);
        struct weights w(sort, numeric, k, rows, &rng);
        struct area packed(w.packed.size()), out((uint64_t)k * rows * 4);
        memcpy(packed.at, w.packed.data(), packed.bytes);
        struct br_cuda_dequantise_op op = {numeric, k, rows, w.format, packed, out};
        br_cuda_dequantise(dev.stream, &op);
        dev.finish();
        for (uint64_t i = 0; i < (uint64_t)k * rows; i++) { /* bit-exact, but for the sign of zero */
            if (numeric == BR_NUMERIC_BF16)
                assert_true(bf16(out.as<uint16_t>()[i]) == bf16(to_bf16(w.value[i])));
            else
                assert_true(out.as<float>()[i] == w.value[i]);
        }
    }
}

int main()
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_exact_weights),
                                       cmocka_unit_test(test_same_bits), cmocka_unit_test(test_dequantise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
