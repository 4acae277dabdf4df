/* What the lanes of a warp do together. */
#include "tests/cudaemu/fiber.h"
#include "tests/cudaemu/grid.h"

void __syncwarp(uint32_t mask)
{
    cudaemu_warp(mask, "__syncwarp", NULL, NULL);
}

struct ballot {
    uint32_t predicate, result;
};

static FIBER_NO_TSAN void ballot_all(void *const lanes[CUDAEMU_WARP])
{
    uint32_t result = 0;
    for (uint32_t i = 0; i < CUDAEMU_WARP; i++)
        if (lanes[i] && ((struct ballot *)lanes[i])->predicate)
            result |= 1u << i;
    for (uint32_t i = 0; i < CUDAEMU_WARP; i++)
        if (lanes[i])
            ((struct ballot *)lanes[i])->result = result;
}

uint32_t __ballot_sync(uint32_t mask, int predicate)
{
    struct ballot b = {predicate != 0, 0};
    cudaemu_warp(mask, "__ballot_sync", &b, ballot_all);
    return b.result;
}

int __any_sync(uint32_t mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}

int __all_sync(uint32_t mask, int predicate)
{
    return __ballot_sync(mask, !predicate) == 0;
}

struct exchange {
    uint32_t value, from, result;
};

static FIBER_NO_TSAN void exchange_all(void *const lanes[CUDAEMU_WARP])
{
    for (uint32_t i = 0; i < CUDAEMU_WARP; i++) {
        struct exchange *x = (struct exchange *)lanes[i];
        if (!x)
            continue;
        if (!lanes[x->from])
            cudaemu_die("shuffle: lane %u reads lane %u, which takes no part", i, x->from);
        x->result = ((const struct exchange *)lanes[x->from])->value;
    }
}

uint32_t cudaemu_shuffle(uint32_t mask, uint32_t value, uint32_t from)
{
    struct exchange x = {value, from, 0};
    cudaemu_warp(mask, "a shuffle", &x, exchange_all);
    return x.result;
}

struct mma {
    float *d;
    const uint32_t *a, *b;
};

static FIBER_NO_TSAN void halves(float out[2], uint32_t pair)
{
    out[0] = __uint_as_float(pair << 16);
    out[1] = __uint_as_float(pair & 0xffff0000u);
}

/* Fragments of mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"): lane 4 g + q has
 * a0 = A[g][2q..], a1 = A[g+8][2q..], a2 = A[g][2q+8..], a3 = A[g+8][2q+8..], b0 = B[2q..][g], b1 = B[2q+8..][g] and
 * d0, d1 = D[g][2q..], d2, d3 = D[g+8][2q..]. Products are exact in F32 and are added in the order of k. */
static FIBER_NO_TSAN void mma_all(void *const lanes[CUDAEMU_WARP])
{
    float a[16][16], b[16][8], sum[16][8];
    for (uint32_t i = 0; i < CUDAEMU_WARP; i++) {
        const struct mma *m = (const struct mma *)lanes[i];
        uint32_t g = i / 4, q = i % 4;
        for (uint32_t r = 0; r < 4; r++)
            halves(&a[g + r % 2 * 8][2 * q + r / 2 * 8], m->a[r]);
        for (uint32_t r = 0; r < 2; r++) {
            float pair[2];
            halves(pair, m->b[r]);
            b[2 * q + r * 8][g] = pair[0];
            b[2 * q + r * 8 + 1][g] = pair[1];
        }
        for (uint32_t r = 0; r < 4; r++)
            sum[g + r / 2 * 8][2 * q + r % 2] = m->d[r];
    }
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t k = 0; k < 16; k++)
            for (uint32_t n = 0; n < 8; n++)
                sum[row][n] += a[row][k] * b[k][n];
    for (uint32_t i = 0; i < CUDAEMU_WARP; i++)
        for (uint32_t r = 0; r < 4; r++)
            ((struct mma *)lanes[i])->d[r] = sum[i / 4 + r / 2 * 8][2 * (i % 4) + r % 2];
}

void cudaemu_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    struct mma m = {d, a, b};
    cudaemu_warp(0xffffffffu, "mma", &m, mma_all);
}
