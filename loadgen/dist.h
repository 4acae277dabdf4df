/* Samples kept whole, so that percentiles are exact. */
#ifndef BRIAREUS_LOADGEN_DIST_H
#define BRIAREUS_LOADGEN_DIST_H

#include <stdbool.h>
#include <stddef.h>

struct load_dist {
    float *v; /* owned */
    size_t n, room;
    bool sorted;
};

void load_dist_add(struct load_dist *dist, double value);
void load_dist_free(struct load_dist *dist);
double load_dist_mean(const struct load_dist *dist); /* 0 when empty, as are the others */
double load_dist_std(const struct load_dist *dist);
/* p in 0..1; between two samples linearly, as numpy's percentile. Sorts on first use. */
double load_dist_quantile(struct load_dist *dist, double p);

#endif
