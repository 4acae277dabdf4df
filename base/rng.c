#include "base/rng.h"

#include <math.h>
#include <sys/random.h>

#include "base/clock.h"

struct philox {
    uint32_t c[4], k[2];
};

static void philox_round(struct philox *p)
{
    uint64_t a = (uint64_t)0xD2511F53u * p->c[0];
    uint64_t b = (uint64_t)0xCD9E8D57u * p->c[2];
    uint32_t c1 = p->c[1], c3 = p->c[3];
    p->c[0] = (uint32_t)(b >> 32) ^ c1 ^ p->k[0];
    p->c[1] = (uint32_t)b;
    p->c[2] = (uint32_t)(a >> 32) ^ c3 ^ p->k[1];
    p->c[3] = (uint32_t)a;
    p->k[0] += 0x9E3779B9u;
    p->k[1] += 0xBB67AE85u;
}

uint64_t br_rng_u64(uint64_t seed, uint32_t choice, uint64_t index, uint32_t draw)
{
    struct philox p = {{choice, (uint32_t)index, (uint32_t)(index >> 32), draw},
                       {(uint32_t)seed, (uint32_t)(seed >> 32)}};
    for (int round = 0; round < 10; round++)
        philox_round(&p);
    return (uint64_t)p.c[1] << 32 | p.c[0];
}

double br_rng_unit(uint64_t seed, uint32_t choice, uint64_t index, uint32_t draw)
{
    return (double)(br_rng_u64(seed, choice, index, draw) >> 11) * 0x1p-53;
}

double br_rng_exp(struct br_rng *rng, double mean)
{
    return -mean * log1p(-br_rng_next(rng)) + 1e-12 * mean;
}

uint64_t br_rng_entropy(void)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) == (ssize_t)sizeof bits)
        return bits;
    return br_rng_u64((uint64_t)br_now_ns(), 0, 0, 0);
}
