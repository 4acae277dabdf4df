/* Embedding, norm, silu-mul, rotary embedding with the write into KV blocks: against double precision. */
#include "tests/unit/worker/cuda/bench.h"

static const enum br_numeric numerics[] = {BR_NUMERIC_BF16, BR_NUMERIC_F32};
/* A result in BF16 is rounded by up to 2^-9; in F32 the sums are. */
static const double bounds[] = {1e-2, 1e-3};

static void test_embed(void **)
{
    struct device dev;
    int n = shapes(200);
    for (int shape = 0; shape < n; shape++) {
        struct br_rng rng = {(uint64_t)shape, 0};
        enum br_numeric numeric = numerics[shape % 2];
        bool panels = shape / 2 % 2;
        uint32_t vocab = draw(&rng, 1, 200), hidden = draw(&rng, 1, 300), count = draw(&rng, 1, 9);
        uint64_t elt = numeric == BR_NUMERIC_BF16 ? 2 : 4;
        uint64_t bytes = panels ? br_panel_bytes(hidden, vocab, numeric) : vocab * hidden * elt;
        struct area table(bytes), ids(count * 4);
        struct rows out(count, hidden, numeric, true);
        for (uint64_t i = 0; i < bytes / elt; i++)
            numeric == BR_NUMERIC_BF16 ? (void)(table.as<uint16_t>()[i] = (uint16_t)(i * 7 % 0x7f00))
                                       : (void)(table.as<float>()[i] = (float)i);
        for (uint32_t i = 0; i < count; i++)
            ids.as<int32_t>()[i] = (int32_t)draw(&rng, 0, vocab - 1);
        struct br_embed_op op = {};
        op.batch.rows = count, op.batch.ids = ids, op.numeric = numeric, op.panels = panels, op.hidden = hidden;
        op.weights = table, op.out = out.memory;
        br_cuda_embed(dev.stream, &op);
        dev.finish();
        for (uint32_t r = 0; r < count; r++)
            for (uint32_t j = 0; j < hidden; j++) {
                uint32_t id = (uint32_t)ids.as<int32_t>()[r], pair = numeric == BR_NUMERIC_BF16 ? 2 : 1;
                uint64_t cells = (hidden + pair - 1) / pair, at = (uint64_t)id * hidden + j;
                if (panels) /* layout.h */
                    at = ((id / 64 * cells + j / pair) * 64 + id % 64) * pair + j % pair;
                float want = numeric == BR_NUMERIC_BF16 ? bf16((uint16_t)(at * 7 % 0x7f00)) : (float)at;
                assert_true(out.get(r, j) == want);
            }
    }
}

static void test_norm(void **)
{
    struct device dev;
    int n = shapes(200);
    for (int kind = 0; kind < 2; kind++) {
        struct worst worst;
        for (int shape = 0; shape < n; shape++) {
            struct br_rng rng = {(uint64_t)shape, 0};
            uint32_t k = draw(&rng, 1, shape % 5 ? 700 : 5000), count = draw(&rng, 1, 5), all = count + 3;
            bool add = shape % 3 == 1, pick = shape % 3 == 2;
            struct rows in(all, k, BR_NUMERIC_F32, true), more(all, k, BR_NUMERIC_F32, true),
                weight(1, k, BR_NUMERIC_F32, true), out(count, k, numerics[kind], false);
            struct area row(count * 4);
            in.fill(&rng);
            more.fill(&rng);
            weight.fill(&rng);
            for (uint32_t r = 0; r < count; r++)
                row.as<uint32_t>()[r] = draw(&rng, 0, all - 1);
            struct br_cuda_norm_op op = {};
            op.numeric = numerics[kind], op.rows = count, op.k = k, op.in = in.memory, op.eps = 1e-5f;
            op.norm = weight.memory, op.out = out.memory, op.row = pick ? (br_devptr)row : 0;
            op.add = add ? (br_devptr)more.memory : 0;
            std::vector<std::vector<double>> x(count);
            for (uint32_t r = 0; r < count; r++)
                for (uint32_t j = 0; j < k; j++)
                    x[r].push_back((double)in.get(pick ? row.as<uint32_t>()[r] : r, j) +
                                   (add ? (double)more.get(r, j) : 0));
            br_cuda_norm(dev.stream, &op);
            dev.finish();
            for (uint32_t r = 0; r < count; r++) {
                double squares = 0;
                for (double v : x[r])
                    squares += v * v;
                for (uint32_t j = 0; j < k; j++) {
                    double want = x[r][j] / sqrt(squares / k + 1e-5) * (double)weight.get(0, j);
                    worst.add(out.get(r, j), want, fabs(want) + 1e-6);
                    if (add)
                        assert_true(fabs(in.get(r, j) - x[r][j]) < 1e-6);
                }
                for (uint32_t j = k; j < out.stride / (kind ? 4 : 2); j++)
                    assert_true(out.get(r, j) == 0);
            }
        }
        worst.check(bounds[kind], kind ? "norm F32" : "norm BF16", n);
    }
}

static void test_silu_mul(void **)
{
    struct device dev;
    int n = shapes(200);
    for (int kind = 0; kind < 2; kind++) {
        struct worst worst;
        for (int shape = 0; shape < n; shape++) {
            struct br_rng rng = {(uint64_t)shape, 0};
            uint32_t width = 32 * draw(&rng, 1, 20), count = draw(&rng, 1, 5);
            struct rows in(count, 2 * width, BR_NUMERIC_F32, true), out(count, width, numerics[kind], false);
            in.fill(&rng);
            struct br_cuda_silu_mul_op op = {numerics[kind], count, width, in.memory, out.memory};
            br_cuda_silu_mul(dev.stream, &op);
            dev.finish();
            for (uint32_t r = 0; r < count; r++)
                for (uint32_t j = 0; j < width; j++) {
                    double gate = in.get(r, j / 32 * 64 + j % 32), up = in.get(r, j / 32 * 64 + 32 + j % 32);
                    double want = gate / (1 + exp(-gate)) * up;
                    worst.add(out.get(r, j), want, fabs(want) + 1e-9);
                }
        }
        worst.check(bounds[kind], kind ? "silu-mul F32" : "silu-mul BF16", n);
    }
}

static const uint32_t head_dims[] = {64, 80, 128, 96, 8, 10, 256};

/* One sequence whose rows go to blocks in reverse order. */
static void rope_once(const struct device &dev, int shape, int kind, struct worst *worst)
{
    struct br_rng rng = {(uint64_t)shape, 0};
    enum br_numeric numeric = numerics[kind == 1];
    enum br_kv_format kv = kind == 2 ? BR_KV_FP8 : BR_KV_BF16;
    uint32_t hd = head_dims[draw(&rng, 0, 6)], kvh = draw(&rng, 1, 3), heads = kvh * draw(&rng, 1, 4);
    uint32_t count = draw(&rng, 1, 20), pos = draw(&rng, 0, 40), all = heads + 2 * kvh, layer = draw(&rng, 0, 2);
    uint32_t blocks = (pos + count + 15) / 16, elt = kind == 1 ? 4 : kind == 2 ? 1 : 2;
    uint64_t block_bytes = 3ull * kvh * 2 * 16 * hd * elt, half = 16ull * hd * elt;
    bool norms = shape % 2;
    struct rows qkv(count, all * hd, numeric, true), q(count, heads * hd, numeric, false),
        norm(2, hd, BR_NUMERIC_F32, true), angles(pos + count, hd, BR_NUMERIC_F32, true);
    struct area table(blocks * 8), item(sizeof(struct br_batch_item)), row_item(count * 4), positions(count * 4),
        memory(blocks * block_bytes), cos_sin((pos + count) * hd * 4ull);
    qkv.fill(&rng);
    norm.fill(&rng);
    for (uint32_t i = 0; i < (pos + count) * hd; i++)
        cos_sin.as<float>()[i] = draw_value(&rng);
    for (uint32_t b = 0; b < blocks; b++)
        table.as<br_devptr>()[b] = (br_devptr)memory + (blocks - 1 - b) * block_bytes;
    *item.as<struct br_batch_item>() = {0, count, pos, 0};
    for (uint32_t r = 0; r < count; r++)
        row_item.as<uint32_t>()[r] = 0, positions.as<uint32_t>()[r] = pos + r;
    struct br_rope_op op = {};
    op.batch = {count, 1, 0, positions, row_item, item, table};
    op.numeric = numeric, op.heads = heads, op.kv_heads = kvh, op.head_dim = hd, op.layer = layer, op.eps = 1e-6f;
    op.qkv = qkv.memory, op.cos_sin = cos_sin, op.q = q.memory;
    op.q_norm = norms ? (br_devptr)norm.memory : 0, op.k_norm = norms ? norm.memory + norm.stride : 0;
    br_cuda_rope(dev.stream, &op, kv);
    dev.finish();
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t h = 0; h < all; h++) {
            bool is_q = h < heads, is_v = h >= heads + kvh;
            double squares = 0;
            for (uint32_t d = 0; d < hd; d++)
                squares += (double)qkv.get(r, h * hd + d) * qkv.get(r, h * hd + d);
            double by = norms && !is_v ? 1 / sqrt(squares / hd + 1e-6) : 1;
            for (uint32_t d = 0; d < hd; d++) {
                uint32_t low = d % (hd / 2), at = (pos + r) % 16, kv_head = (h - heads) % kvh;
                double w[2] = {1, 1}, want, size;
                for (int i = 0; norms && i < 2; i++)
                    w[i] = norm.get(is_q ? 0 : 1, low + (i ? hd / 2 : 0));
                double a = qkv.get(r, h * hd + low) * by * w[0], b = qkv.get(r, h * hd + low + hd / 2) * by * w[1];
                const float *cs = cos_sin.as<float>() + (pos + r) * hd;
                double c = cs[low], s = cs[low + hd / 2];
                want = is_v ? qkv.get(r, h * hd + d) : d < hd / 2 ? a * c - b * s : b * c + a * s;
                size = is_v ? fabs(want) : fabs(a) + fabs(b);
                if (is_q) {
                    worst->add(q.get(r, h * hd + d), want / sqrt(hd), size / sqrt(hd));
                    continue;
                }
                const char *base = memory.as<char>() + (blocks - 1 - (pos + r) / 16) * block_bytes +
                                   (layer * kvh + kv_head) * 2 * half + (is_v ? half : 0);
                uint32_t pair = kind == 1 ? 1 : 2; /* kernels.h */
                uint64_t i = is_v ? (uint64_t)(at / pair) * hd * pair + d * pair + at % pair
                                  : ((uint64_t)(d / pair) * 16 + at) * pair + d % pair;
                double got = kind == 1 ? ((const float *)base)[i] : kind == 0 ? bf16(((const uint16_t *)base)[i]) : 0;
                if (kind == 2) { /* E4M3 by its definition: the nearest of 4 significant bits, steps of 2^-9 at least */
                    uint8_t code = ((const uint8_t *)base)[i];
                    int e = code >> 3 & 15, m = code & 7;
                    got = (code & 0x80 ? -1 : 1) * (e ? ldexp(8 + m, e - 10) : ldexp(m, -9));
                    assert_true(fabs(got - want) <= fabs(want) / 16 * 1.001 + ldexp(1, -10));
                } else {
                    worst->add(got, want, size);
                }
            }
        }
}

static void test_rope(void **)
{
    static const char *const names[] = {"rope BF16", "rope F32", "rope FP8"};
    static const double most[] = {1e-2, 1e-3, 1e-2};
    struct device dev;
    int n = shapes(200);
    for (int kind = 0; kind < 3; kind++) {
        struct worst worst;
        for (int shape = 0; shape < n; shape++)
            rope_once(dev, shape, kind, &worst);
        worst.check(most[kind], names[kind], n);
    }
}

static void test_blocks(void **)
{
    struct device dev;
    for (int shape = 0; shape < shapes(200); shape++) {
        struct br_rng rng = {(uint64_t)shape, 0};
        uint32_t n = draw(&rng, 1, 9);
        uint64_t bytes = 16ull * draw(&rng, 1, 2000);
        struct area scattered(n * bytes), staged(n * bytes), pairs(n * sizeof(struct br_cuda_copy_pair));
        for (uint64_t i = 0; i < n * bytes / 4; i++)
            scattered.as<uint32_t>()[i] = (uint32_t)(i * 2654435761u);
        for (uint32_t i = 0; i < n; i++) /* gathered backwards */
            pairs.as<struct br_cuda_copy_pair>()[i] = {staged + i * bytes, scattered + (n - 1 - i) * bytes};
        struct br_cuda_blocks_op op = {n, bytes, pairs};
        br_cuda_copy_blocks(dev.stream, &op);
        dev.finish();
        for (uint32_t i = 0; i < n; i++)
            assert_memory_equal(staged.as<char>() + i * bytes, scattered.as<char>() + (n - 1 - i) * bytes, bytes);
    }
}

int main()
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_embed), cmocka_unit_test(test_norm),
                                       cmocka_unit_test(test_silu_mul), cmocka_unit_test(test_rope),
                                       cmocka_unit_test(test_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
