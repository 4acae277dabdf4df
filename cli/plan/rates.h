/* How rates are spread over models, and which span of a market's day is planned. Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_RATES_H
#define BRIAREUS_CLI_PLAN_RATES_H

#include "cli/plan/plan_options.h"
#include "traffic/popularity.h"

/* --total-rate with --zipf, --rates, --rate-scale onto the models' processes. */
int rates_fill(const struct plan_options *options, struct plan_ask *ask, struct br_err *err);
/* n rates from min to max with this mean: quantiles i / (n - 1) of a Pareto law bounded to [min, max], descending.
 * BR_EINVAL when n < 2 or no such law has the mean. */
int rates_spread(double min, double mean, double max, double *rates, uint32_t n, struct br_err *err);
/* Loads --market cut to the span and scaled; *from_s is where the span begins. */
int market_span(const struct plan_options *options, struct br_market *out, double *from_s, struct br_err *err);

#endif
