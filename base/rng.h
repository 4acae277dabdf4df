/* Counter-based random numbers: a value is a function of its key alone, so recomputing gives it again. */
#ifndef BRIAREUS_BASE_RNG_H
#define BRIAREUS_BASE_RNG_H

#include <stdint.h>

/* 64 random bits for (seed, choice, token index, draw); Philox4x32-10, Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3", SC'11. key = seed, counter = (choice, index lo, index hi, draw). */
uint64_t br_rng_u64(uint64_t seed, uint32_t choice, uint64_t index, uint32_t draw);

/* Uniform in [0, 1), 53 bits. */
double br_rng_unit(uint64_t seed, uint32_t choice, uint64_t index, uint32_t draw);

/* A sequential stream over the same generator, for load generators and tests. */
struct br_rng {
    uint64_t seed, next;
};
static inline double br_rng_next(struct br_rng *rng)
{
    return br_rng_unit(rng->seed, 0x5354u, rng->next++, 0);
}
/* Exponential with the given mean (inter-arrival times of a Poisson process); always > 0. */
double br_rng_exp(struct br_rng *rng, double mean);

/* 64 bits from the operating system, for ids and missing seeds. */
uint64_t br_rng_entropy(void);

#endif
