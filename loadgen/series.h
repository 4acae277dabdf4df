/* The parts of a result that charts and closer looks need: over time, as distributions, request by request. */
#ifndef BRIAREUS_LOADGEN_SERIES_H
#define BRIAREUS_LOADGEN_SERIES_H

#include "loadgen/result.h"

enum { LOAD_SERIES_POINTS = 120, LOAD_CDF_POINTS = 200 };

/* "series": by time of the scheduled send; "cdf": latencies in ms at rising shares. */
void load_series_put(json_t *result, const struct load_outcome_of_run *run, struct load_measure *measure);
/* vLLM's --save-detailed: input_lens, output_lens, ttfts, itls, errors. */
void load_details_put(json_t *result, const struct load_outcome_of_run *run);

#endif
