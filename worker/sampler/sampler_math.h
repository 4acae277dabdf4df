/* exp, log and row scans of the sampler: plain IEEE double arithmetic in a fixed order, so that every machine and every
 * vector width gives the same bits (libm's do not promise that). Rows are worked on in blocks of 64. */
#ifndef BRIAREUS_WORKER_SAMPLER_SAMPLER_MATH_H
#define BRIAREUS_WORKER_SAMPLER_SAMPLER_MATH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BR_ROW_BLOCK = 64 };

enum br_row_isa { BR_ROW_PLAIN, BR_ROW_AVX2, BR_ROW_AVX512, BR_ROW_BEST };

/* For x <= 0, relative error below 1e-12; exactly 0 below -700 and for -infinity. */
static inline double br_exp(double x)
{
    /* Cody and Waite: x = k ln2 + r, |r| <= ln2 / 2; adding 1.5 * 2^52 rounds to the integer k and leaves it in the low
     * bits. e^r by its Taylor polynomial of degree 10. */
    double bounded = x < -700 ? -700 : x, shifted = bounded * 1.4426950408889634 + 0x1.8p52, k = shifted - 0x1.8p52;
    double r = (bounded - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 3628800;
    int64_t bits, scale;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&scale, &shifted, sizeof scale);
    /* Without a branch, so that loops over it vectorise. */
    bits = (int64_t)((uint64_t)bits + ((uint64_t)scale << 52)) & -(int64_t)(x >= -700);
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* For finite x > 0, relative error of the result below 1e-12 away from 1. */
double br_ln(double x);

/* max[b] of each block (the last may be short); returns whether every value is finite. */
bool br_row_scan(const float *x, uint32_t n, float *max, enum br_row_isa isa);

/* sums[b] = sum of exp((x - from) * scale) over block b; x <= from. -infinity counts 0. */
void br_row_exp_sums(const float *x, uint32_t n, double from, double scale, double *sums, enum br_row_isa isa);

#endif
