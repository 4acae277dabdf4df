/* Attention of decodes and chunks of prompt, split and not, against double precision; and the same bits however rows
 * are grouped. */
#include "tests/unit/worker/cuda/bench.h"

struct sequence {
    uint32_t pos, rows;
};

/* A step: sequences whose blocks are in a random order and hold not-a-number past their ends. */
struct step {
    uint32_t heads, kv_heads, head_dim, elt, positions, n_rows;
    enum br_numeric numeric;
    enum br_kv_format kv;
    std::vector<struct sequence> items;
    std::vector<float> k, v; /* [positions of all items][kv_heads][head_dim], as stored */
    std::vector<uint32_t> start;
    struct rows q, out;
    struct area table, item, row_item, pos, memory;
    static uint32_t total(const std::vector<struct sequence> &s, bool rows_only)
    {
        uint32_t n = 0;
        for (const struct sequence &i : s)
            n += i.rows + (rows_only ? 0 : i.pos);
        return n;
    }
    static uint32_t blocks(const std::vector<struct sequence> &s)
    {
        uint32_t n = 0;
        for (const struct sequence &i : s)
            n += (i.pos + i.rows + 15) / 16;
        return n;
    }
    step(uint32_t h, uint32_t kvh, uint32_t hd, enum br_numeric num, enum br_kv_format format,
         const std::vector<struct sequence> &s)
        : heads(h), kv_heads(kvh), head_dim(hd), elt(num == BR_NUMERIC_F32 ? 4
                                                     : format == BR_KV_FP8 ? 1
                                                                           : 2),
          positions(total(s, false)), n_rows(total(s, true)), numeric(num), kv(format), items(s),
          q(n_rows, h * hd, num, false), out(n_rows, h * hd, num, false), table(blocks(s) * 8),
          item(s.size() * sizeof(struct br_batch_item)), row_item(n_rows * 4), pos(n_rows * 4),
          memory((uint64_t)blocks(s) * block_bytes())
    {
    }
    uint64_t block_bytes() const
    {
        return 2ull * kv_heads * 2 * 16 * head_dim * elt; /* two layers */
    }
    void put(br_devptr at, uint64_t i, float *x) const
    {
        if (elt == 4) {
            ((float *)at)[i] = *x;
        } else if (elt == 2) {
            ((uint16_t *)at)[i] = to_bf16(*x);
            *x = bf16(to_bf16(*x));
        } else { /* any code but not-a-number */
            uint8_t code = (uint8_t)(0x20 + (int)(fabsf(*x) * 16) % 0x20) | (*x < 0 ? 0x80 : 0);
            int e = code >> 3 & 15, m = code & 7;
            ((uint8_t *)at)[i] = code;
            *x = (float)((code & 0x80 ? -1 : 1) * (e ? ldexp(8 + m, e - 10) : ldexp(m, -9)));
        }
    }
    void fill(struct br_rng *rng)
    {
        uint32_t row = 0, position = 0, tables = 0, n = blocks(items), pair = elt == 4 ? 1 : 2;
        std::vector<uint32_t> order(n);
        for (uint32_t i = 0; i < n; i++)
            order[i] = i;
        for (uint32_t i = n; i > 1; i--)
            std::swap(order[i - 1], order[draw(rng, 0, i - 1)]);
        q.fill(rng);
        for (size_t i = 0; i < items.size(); i++) {
            struct sequence s = items[i];
            item.as<struct br_batch_item>()[i] = {row, s.rows, s.pos, tables};
            start.push_back(position);
            for (uint32_t t = 0; t < s.pos + s.rows; t++, position++) {
                br_devptr block = memory + order[tables + t / 16] * block_bytes();
                table.as<br_devptr>()[tables + t / 16] = block;
                for (uint32_t h = 0; h < kv_heads; h++)
                    for (uint32_t d = 0; d < head_dim; d++) {
                        br_devptr at = block + (kv_heads + h) * 2ull * 16 * head_dim * elt; /* layer 1 */
                        float x = draw_value(rng), y = draw_value(rng);
                        put(at, ((uint64_t)(d / pair) * 16 + t % 16) * pair + d % pair, &x);
                        put(at + 16ull * head_dim * elt, ((uint64_t)(t % 16 / pair) * head_dim + d) * pair + t % pair,
                            &y);
                        k.push_back(x);
                        v.push_back(y);
                    }
            }
            for (uint32_t r = 0; r < s.rows; r++, row++)
                row_item.as<uint32_t>()[row] = (uint32_t)i, pos.as<uint32_t>()[row] = s.pos + r;
            tables += (s.pos + s.rows + 15) / 16;
        }
    }
    void run(const struct device &dev, const struct area &work, uint64_t work_bytes)
    {
        struct br_attention_op op = {};
        op.batch = {n_rows, (uint32_t)items.size(), 0, pos, row_item, item, table};
        op.numeric = numeric, op.heads = heads, op.kv_heads = kv_heads, op.head_dim = head_dim, op.layer = 1;
        op.q = q.memory, op.out = out.memory;
        struct br_cuda_work w = {work, work_bytes};
        br_cuda_attention(dev.stream, &op, kv, &w);
        dev.finish();
    }
    void check_row(uint32_t i, uint32_t r, uint32_t row, struct worst *worst) const
    {
        uint32_t group = heads / kv_heads, seen = items[i].pos + r + 1;
        std::vector<double> p(seen);
        for (uint32_t h = 0; h < heads; h++) {
            double total = 0, most = -INFINITY;
            const float *keys = &k[((uint64_t)start[i] * kv_heads + h / group) * head_dim];
            const float *values = &v[((uint64_t)start[i] * kv_heads + h / group) * head_dim];
            for (uint32_t t = 0; t < seen; t++) {
                p[t] = 0;
                for (uint32_t d = 0; d < head_dim; d++)
                    p[t] += (double)q.get(row, h * head_dim + d) * keys[(uint64_t)t * kv_heads * head_dim + d];
                most = fmax(most, p[t]);
            }
            for (uint32_t t = 0; t < seen; t++)
                total += p[t] = exp(p[t] - most);
            for (uint32_t d = 0; d < head_dim; d++) {
                double want = 0, size = 0;
                for (uint32_t t = 0; t < seen; t++) {
                    double x = values[(uint64_t)t * kv_heads * head_dim + d];
                    want += p[t] / total * x;
                    size += p[t] / total * fabs(x);
                }
                worst->add(out.get(row, h * head_dim + d), want, size);
            }
        }
    }
    void check(struct worst *worst) const
    {
        for (uint32_t i = 0, row = 0; i < items.size(); i++)
            for (uint32_t r = 0; r < items[i].rows; r++, row++)
                if (r < 2 || r + 2 >= items[i].rows || r % 7 == 0)
                    check_row(i, r, row, worst);
    }
};

static std::vector<struct sequence> draw_items(struct br_rng *rng, uint32_t most)
{
    std::vector<struct sequence> items(draw(rng, 1, 4));
    for (struct sequence &s : items) {
        s.rows = br_rng_next(rng) < .6 ? 1 : draw(rng, 1, 40);
        s.pos = draw(rng, 0, br_rng_next(rng) < .3 ? most : most / 8);
    }
    return items;
}

static void shapes_of(const char *what, enum br_numeric numeric, enum br_kv_format kv, const uint32_t *dims, int n_dims,
                      int n, double bound)
{
    struct device dev;
    struct area work(8 << 20);
    struct worst worst;
    for (int shape = 0; shape < n; shape++) {
        struct br_rng rng = {(uint64_t)shape, 7};
        uint32_t kvh = draw(&rng, 1, 2), group = draw(&rng, 1, shape % 10 == 0 ? 20 : 5);
        struct step s(kvh * group, kvh, dims[shape % n_dims], numeric, kv, draw_items(&rng, 700));
        s.fill(&rng);
        s.run(dev, work, shape % 3 ? work.bytes : shape % 2 * 40000u); /* all fits, nothing, some */
        s.check(&worst);
    }
    worst.check(bound, what, n);
}

static void test_bf16(void **)
{
    static const uint32_t dims[] = {64, 80, 128, 96};
    shapes_of("attention BF16", BR_NUMERIC_BF16, BR_KV_BF16, dims, 4, shapes(200), 1e-2);
}

static void test_fp8(void **)
{
    static const uint32_t dims[] = {128, 80, 64};
    shapes_of("attention, KV in FP8", BR_NUMERIC_BF16, BR_KV_FP8, dims, 3, shapes(60), 1e-2);
}

static void test_plain(void **)
{
    static const uint32_t dims[] = {64, 8, 80, 10, 128, 2}, odd[] = {8, 48, 256, 10};
    shapes_of("attention F32", BR_NUMERIC_F32, BR_KV_BF16, dims, 6, shapes(60), 1e-3);
    shapes_of("attention BF16, other head sizes", BR_NUMERIC_BF16, BR_KV_BF16, odd, 4, shapes(20), 1e-2);
    shapes_of("attention FP8, other head sizes", BR_NUMERIC_BF16, BR_KV_FP8, odd, 4, shapes(10), 1e-2);
}

/* The last rows of a prompt in one step, alone without room for partial results, and one at a time with it. */
static void same_bits(enum br_numeric numeric, uint32_t head_dim)
{
    enum { POSITIONS = 530, ROWS = 37, HEADS = 6, KV_HEADS = 2 };
    struct device dev;
    struct area work(8 << 20);
    struct br_rng rng = {head_dim, 0};
    struct step all(HEADS, KV_HEADS, head_dim, numeric, BR_KV_BF16, {{POSITIONS - ROWS, ROWS}, {3, 2}});
    all.fill(&rng);
    all.run(dev, work, 0);
    for (uint32_t r = 0; r < ROWS; r += r % 5 + 1) {
        struct step one(HEADS, KV_HEADS, head_dim, numeric, BR_KV_BF16, {{POSITIONS - ROWS + r, 1}});
        *one.item.as<struct br_batch_item>() = {0, 1, POSITIONS - ROWS + r, 0};
        *one.row_item.as<uint32_t>() = 0;
        *one.pos.as<uint32_t>() = POSITIONS - ROWS + r;
        memcpy(one.table.at, all.table.at, one.table.bytes); /* the same blocks */
        memcpy(one.q.memory.at, all.q.memory.as<char>() + r * all.q.stride, all.q.stride);
        one.run(dev, work, r % 2 ? work.bytes : 0);
        uint64_t width = HEADS * head_dim * (numeric == BR_NUMERIC_BF16 ? 2 : 4);
        assert_memory_equal(one.out.memory.at, all.out.memory.as<char>() + r * all.out.stride, width);
    }
}

static void test_same_bits(void **)
{
    same_bits(BR_NUMERIC_BF16, 64);
    same_bits(BR_NUMERIC_BF16, 128);
    same_bits(BR_NUMERIC_BF16, 80);
    same_bits(BR_NUMERIC_F32, 64);
}

int main()
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bf16), cmocka_unit_test(test_fp8),
                                       cmocka_unit_test(test_plain), cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
