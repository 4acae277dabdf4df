/* Selection among candidate tokens, in expected linear time: no sort of a vocabulary. The order is by value, highest
 * first, then by id. */
#ifndef BRIAREUS_WORKER_SAMPLER_SAMPLER_SELECT_H
#define BRIAREUS_WORKER_SAMPLER_SAMPLER_SELECT_H

#include <stddef.h>
#include <stdint.h>

struct br_candidate {
    double weight; /* unnormalised probability, > 0 where mass matters */
    float value;
    int32_t id;
};

/* Rearranges so that the first k (1..n) of the order stand in front, in no particular order. */
void br_select_count(struct br_candidate *c, size_t n, size_t k);

/* The least m (1..n) for which the first m of the order weigh `mass` or more together (n when all weigh less, by
 * rounding); rearranges so that those stand in front, the m-th at c[m - 1]. */
size_t br_select_mass(struct br_candidate *c, size_t n, double mass);

#endif
