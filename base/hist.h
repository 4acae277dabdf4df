/* Log-bucketed histogram (HdrHistogram-like): relative error of a percentile at most 1/64. Values are non-negative
 * integers, e.g. microseconds. Fixed size, mergeable. */
#ifndef BRIAREUS_BASE_HIST_H
#define BRIAREUS_BASE_HIST_H

#include <stdint.h>

enum { BR_HIST_SUB = 64, BR_HIST_BUCKETS = BR_HIST_SUB * 59 };

struct br_hist {
    uint64_t count[BR_HIST_BUCKETS];
    uint64_t total;
    uint64_t sum, min, max;
};

void br_hist_init(struct br_hist *hist);
void br_hist_add(struct br_hist *hist, uint64_t value);
void br_hist_merge(struct br_hist *into, const struct br_hist *from);
/* The value below or at which a share p (0..1) of the samples lies; 0 when empty. */
uint64_t br_hist_quantile(const struct br_hist *hist, double p);

#endif
