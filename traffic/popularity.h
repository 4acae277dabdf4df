/* How traffic divides over models: shares that add up to 1. Rate of model i = total rate * share[i]. */
#ifndef BRIAREUS_TRAFFIC_POPULARITY_H
#define BRIAREUS_TRAFFIC_POPULARITY_H

#include <stdint.h>

#include "base/err.h"
#include "traffic/workload.h"

/* All fill share[n]; BR_EINVAL says what is wrong (n = 0, a weight negative or not finite, no weight above 0, s out of
 * 0..10). */
int br_popularity_equal(double *share, uint32_t n, struct br_err *err);
int br_popularity_weights(double *share, const double *weight, uint32_t n, struct br_err *err);
/* share[i] proportional to 1 / (i + 1)^s */
int br_popularity_zipf(double *share, uint32_t n, double s, struct br_err *err);
/* The share of requests of each of the workload's models (n = workload->n_models). */
int br_popularity_workload(double *share, const struct br_workload *workload, struct br_err *err);

#endif
