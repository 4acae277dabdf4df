/* Counters' text for Prometheus (text exposition format 0.0.4) and histograms with fixed bounds. One thread. */
#ifndef BRIAREUS_BASE_METRICS_H
#define BRIAREUS_BASE_METRICS_H

#include <stdint.h>

#include "base/buf.h"

enum { BR_METRIC_MAX_BOUNDS = 32 };

/* A sample counts in the first bucket whose bound is not below it; beyond the last bound only in the total. */
struct br_metric_hist {
    const double *bounds; /* borrowed, ascending: [n] */
    uint32_t n;
    uint64_t count[BR_METRIC_MAX_BOUNDS + 1]; /* of each bucket alone */
    double sum;
};

/* n: at most BR_METRIC_MAX_BOUNDS. */
void br_metric_hist_init(struct br_metric_hist *hist, const double *bounds, uint32_t n);
/* The same value `times` times. */
void br_metric_hist_add(struct br_metric_hist *hist, double value, uint64_t times);

/* The lines HELP and TYPE that all samples of a family follow. type: counter, gauge, histogram. */
void br_metric_family(struct br_buf *out, const char *name, const char *type, const char *help);
/* Appends key="value", escaped, with a comma before it when there is something already. */
void br_metric_label(struct br_buf *labels, const char *key, const char *value);
/* labels: as made by br_metric_label; NULL or empty: none. */
void br_metric_put(struct br_buf *out, const char *name, const struct br_buf *labels, double value);
/* The lines _bucket (cumulated), _sum and _count. */
void br_metric_hist_put(struct br_buf *out, const char *name, const struct br_buf *labels,
                        const struct br_metric_hist *hist);

#endif
