/* Random draws keyed by (seed, model, purpose, how-manieth): the counter of Philox is that key, so streams of different
 * models or purposes never meet and none depends on how much another has drawn. */
#ifndef BRIAREUS_TRAFFIC_DRAWS_H
#define BRIAREUS_TRAFFIC_DRAWS_H

#include <stdint.h>

/* Other parts that need randomness for a request take a purpose of their own, below 256. */
enum br_purpose { BR_DRAW_ARRIVAL = 16, BR_DRAW_LENGTH, BR_DRAW_MODEL };

struct br_draws {
    uint64_t seed, next;
    uint32_t model, purpose;
};

double br_draw_unit(struct br_draws *draws);   /* uniform in [0, 1) */
double br_draw_exp(struct br_draws *draws);    /* exponential of mean 1 */
double br_draw_normal(struct br_draws *draws); /* standard normal, Box-Muller */
/* Gamma of the given shape > 0 and scale 1: Marsaglia and Tsang, "A simple method for generating gamma variables",
 * 2000; shapes below 1 by gamma(shape + 1) * U^(1/shape). */
double br_draw_gamma(struct br_draws *draws, double shape);

#endif
