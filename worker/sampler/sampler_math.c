#include "worker/sampler/sampler_math.h"

#include <limits.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))

double br_ln(double x)
{
    /* x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172. */
    int64_t bits, e;
    double m, s, s2, sum = 0;
    memcpy(&bits, &x, sizeof bits);
    e = (bits - 0x3fe6a09e667f3bcd) >> 52;
    bits -= (int64_t)((uint64_t)e << 52);
    memcpy(&m, &bits, sizeof m);
    s = (m - 1) / (m + 1);
    s2 = s * s;
    for (int i = 19; i >= 1; i -= 2)
        sum = sum * s2 + 1.0 / i;
    return (double)e * 0.69314718055994530942 + 2 * s * sum;
}

/* Floats as integers of the same order; -0 counts as 0. */
static ALWAYS_INLINE int32_t order_key(float x)
{
    int32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1);
}

static ALWAYS_INLINE float order_value(int32_t key)
{
    int32_t bits = key ^ (int32_t)((uint32_t)(key >> 31) >> 1);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static ALWAYS_INLINE bool scan_body(const float *x, uint32_t n, float *max)
{
    int32_t bad = 0;
    for (uint32_t at = 0; at < n; at += BR_ROW_BLOCK) {
        uint32_t count = n - at < BR_ROW_BLOCK ? n - at : BR_ROW_BLOCK;
        int32_t best = INT32_MIN;
        for (uint32_t i = 0; i < count; i++) {
            int32_t bits, key = order_key(x[at + i]);
            memcpy(&bits, &x[at + i], sizeof bits);
            bad |= (bits & 0x7f800000) == 0x7f800000 ? 1 : 0;
            best = key > best ? key : best;
        }
        max[at / BR_ROW_BLOCK] = order_value(best);
    }
    return !bad;
}

/* Eight running sums whatever the vector width, added up in order. */
static ALWAYS_INLINE double block_sum(const float *x, double from, double scale)
{
    double e[BR_ROW_BLOCK], lane[8] = {0}, sum = 0;
    for (int i = 0; i < BR_ROW_BLOCK; i++)
        e[i] = br_exp(((double)x[i] - from) * scale);
    for (int i = 0; i < BR_ROW_BLOCK; i += 8)
        for (int j = 0; j < 8; j++)
            lane[j] += e[i + j];
    for (int j = 0; j < 8; j++)
        sum += lane[j];
    return sum;
}

static ALWAYS_INLINE void sums_body(const float *x, uint32_t n, double from, double scale, double *sums)
{
    uint32_t whole = n / BR_ROW_BLOCK;
    for (uint32_t b = 0; b < whole; b++)
        sums[b] = block_sum(x + b * BR_ROW_BLOCK, from, scale);
    if (n % BR_ROW_BLOCK) {
        float tail[BR_ROW_BLOCK];
        for (uint32_t i = 0; i < BR_ROW_BLOCK; i++)
            tail[i] = i < n % BR_ROW_BLOCK ? x[whole * BR_ROW_BLOCK + i] : -__builtin_inff();
        sums[whole] = block_sum(tail, from, scale);
    }
}

/* The same source for every instruction set; -ffp-contract=off keeps fused operations out. */
#define ROW_FUNCTIONS(suffix, attribute)                                                                               \
    attribute static bool scan_##suffix(const float *x, uint32_t n, float *max)                                        \
    {                                                                                                                  \
        return scan_body(x, n, max);                                                                                   \
    }                                                                                                                  \
    attribute static void sums_##suffix(const float *x, uint32_t n, double from, double scale, double *sums)           \
    {                                                                                                                  \
        sums_body(x, n, from, scale, sums);                                                                            \
    }

ROW_FUNCTIONS(plain, )
#ifdef __x86_64__
ROW_FUNCTIONS(avx2, __attribute__((target("avx2"))))
#ifdef __clang__
#define AVX512 "avx512f,avx512dq,avx512bw,avx512vl"
#else
#define AVX512 "avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"
#endif
ROW_FUNCTIONS(avx512, __attribute__((target(AVX512))))

static enum br_row_isa isa_choose(enum br_row_isa asked)
{
    enum br_row_isa best = BR_ROW_PLAIN;
    if (__builtin_cpu_supports("avx2"))
        best = BR_ROW_AVX2;
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        best = BR_ROW_AVX512;
    return asked < best ? asked : best;
}
#else
#define scan_avx2 scan_plain
#define sums_avx2 sums_plain
#define scan_avx512 scan_plain
#define sums_avx512 sums_plain

static enum br_row_isa isa_choose(enum br_row_isa asked)
{
    (void)asked;
    return BR_ROW_PLAIN;
}
#endif

bool br_row_scan(const float *x, uint32_t n, float *max, enum br_row_isa isa)
{
    isa = isa_choose(isa == BR_ROW_BEST ? BR_ROW_AVX2 : isa); /* 64 ids are too few for wider vectors to pay */
    return (isa == BR_ROW_AVX512 ? scan_avx512 : isa == BR_ROW_AVX2 ? scan_avx2 : scan_plain)(x, n, max);
}

void br_row_exp_sums(const float *x, uint32_t n, double from, double scale, double *sums, enum br_row_isa isa)
{
    isa = isa_choose(isa);
    (isa == BR_ROW_AVX512 ? sums_avx512 : isa == BR_ROW_AVX2 ? sums_avx2 : sums_plain)(x, n, from, scale, sums);
}
