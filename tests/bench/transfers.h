/* Private to bench_transfers: what its parts share. */
#ifndef BRIAREUS_TESTS_BENCH_TRANSFERS_H
#define BRIAREUS_TESTS_BENCH_TRANSFERS_H

#include "worker/weights/image.h"

struct transfers {
    const struct br_weight_image *image; /* of a model of about 115M parameters in BF16 */
    int rounds;
    uint32_t threads; /* that compute, and that the plain copies use */
};

/* Each prints what it measured beside its bar, and returns how many bars were missed. */
int transfers_weights(const struct transfers *t);   /* host to device, beside a plain copy */
int transfers_kv(const struct transfers *t);        /* 100 sequences out and in, beside a plain copy */
int transfers_planned(const struct transfers *t);   /* a load behind other steps, link of 1 GB/s */
int transfers_unplanned(const struct transfers *t); /* a step behind its own load */

/* common.c */
double median(double *values, int n); /* sorts them */
double plain_copy_s(void *dst, const void *src, uint64_t bytes, uint32_t threads);
void *memory_touched(uint64_t bytes); /* exits when there is none */
int bar(const char *what, double value, double limit, bool at_least);

#endif
