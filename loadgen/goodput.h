/* The highest rate that holds an attainment, by bisection over noisy measurements.
 *
 * A measurement is the attainment of one run with its standard error. A rate is known to hold (or to break) when the
 * 95 % interval of all runs at that rate lies on one side of the target; runs are repeated, with other seeds, until it
 * does or REPEATS are spent, and then the mean decides. The bounds reported are the highest rate known to hold and the
 * lowest known to break: what lies between has not been told apart. */
#ifndef BRIAREUS_LOADGEN_GOODPUT_H
#define BRIAREUS_LOADGEN_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loadgen/journal.h"
#include "loadgen/measure.h"

enum { LOAD_GOODPUT_RATES = 64, LOAD_GOODPUT_REPEATS = 3, LOAD_BATCHES = 20 };

struct load_probe {
    double rate, attainment, error; /* error: standard error */
    uint32_t runs;
};

struct load_goodput {
    double target, rate; /* rate: the middle of the last bracket; 0: even the lowest rate tried breaks */
    double low, high;    /* bounds as above; 0, infinity where there is none */
    struct load_probe probes[LOAD_GOODPUT_RATES]; /* by when they were made */
    uint32_t n_probes, runs;
    bool bracketed; /* both a rate that holds and one that breaks were found */
};

/* Attainment and its standard error at a rate; nonzero ends the search. */
typedef int (*load_probe_fn)(void *ctx, double rate, uint32_t run, double *attainment, double *error,
                             struct br_err *err);

/* Starts at start_rate, doubles or halves until the target is crossed, then bisects until the bracket's ends differ by
 * less than `precision`, or max_runs are spent. */
int load_goodput_find(double target, double start_rate, double precision, uint32_t max_runs, load_probe_fn probe,
                      void *ctx, struct load_goodput *out, struct br_err *err);

/* Attainment of a run and its standard error, by batch means over LOAD_BATCHES spans of scheduled time (requests near
 * each other share a queue, so they are not independent): the ratio estimator's, Cochran, "Sampling techniques", 1977.
 */
void load_attainment_error(const struct load_journal *journal, const struct load_slo *slo, double warmup_s,
                           double *attainment, double *error);

#endif
