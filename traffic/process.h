/* Arrival processes: when the requests of one model come. Every draw is a function of (seed, model, how-manieth draw),
 * so a model's arrivals do not depend on which other models there are.
 *
 * Renewal processes start in equilibrium, as if they had run for ever before t = 0 (the first gap has the law of the
 * residual life), so that the expected number of arrivals in [0, t) is exactly rate * t: an ordinary start would offer
 * up to (cv^2 - 1) / 2 requests too many (Cox, "Renewal theory", 1962), to every model and in every window. */
#ifndef BRIAREUS_TRAFFIC_PROCESS_H
#define BRIAREUS_TRAFFIC_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "traffic/draws.h"

enum br_process_kind {
    BR_PROCESS_POISSON,
    BR_PROCESS_GAMMA,    /* gamma gaps of mean 1/rate; shape is vLLM's --burstiness: 1 = Poisson, less = burstier */
    BR_PROCESS_WEIBULL,  /* Weibull gaps of mean 1/rate */
    BR_PROCESS_MMPP,     /* Poisson whose rate changes between calm and burst, each of exponential length */
    BR_PROCESS_CONSTANT, /* every 1/rate s, from a uniform phase */
    BR_PROCESS_RAMP,     /* Poisson whose rate goes linearly from rate to end_rate in ramp_s and stays there */
    BR_PROCESS_WINDOWS,  /* a rate and a family of gaps for each window, none between windows */
};

/* One window; its process starts anew in equilibrium. kind: POISSON, GAMMA, WEIBULL or CONSTANT. */
struct br_window {
    double start_s, end_s;
    double rate;
    double shape;
    enum br_process_kind kind;
};

/* Only the fields of its kind count; rates in requests/s, 0 = no arrivals. */
struct br_process {
    enum br_process_kind kind;
    double rate;                     /* long-run mean; RAMP: at t = 0; not used by WINDOWS */
    double shape;                    /* GAMMA, WEIBULL */
    double end_rate, ramp_s;         /* RAMP */
    double peak;                     /* MMPP: rate in a burst over the mean rate, 1 .. (burst_s + calm_s) / burst_s */
    double burst_s, calm_s;          /* MMPP: mean lengths */
    const struct br_window *windows; /* WINDOWS: borrowed, ascending, not overlapping */
    uint32_t n_windows;
};

/* "poisson", "gamma", "weibull", "mmpp", "constant", "ramp", "windows". BR_EINVAL names the nearest one. */
int br_process_kind_parse(const char *name, enum br_process_kind *out, struct br_err *err);
const char *br_process_kind_name(enum br_process_kind kind);

/* BR_EINVAL with the field, its value and what it may be: rates 0..1e6, shapes .01..1000, lengths above 0, all
 * finite; windows ascending; MMPP: at least 1e-4 requests in a burst and a calm together. */
int br_process_check(const struct br_process *process, struct br_err *err);
/* Expected arrivals in [0, t_s) of a checked process. */
double br_process_count(const struct br_process *process, double t_s);
/* All its rates times `factor` (MMPP, RAMP included); windows are borrowed, so those are left to their owner. */
void br_process_scale(struct br_process *process, double factor);

struct br_arrivals {
    struct br_process process;
    struct br_draws draws;
    double at_s;     /* of the last arrival, or where the current part started */
    double until_s;  /* end of the current window or MMPP state */
    uint32_t window; /* being walked */
    bool started, burst;
};

/* The process must have passed br_process_check; it is copied, its windows are borrowed until the last call. */
void br_arrivals_init(struct br_arrivals *arrivals, const struct br_process *process, uint64_t seed, uint32_t model);
/* The next arrival, never before the one before it; INFINITY when none follows. */
double br_arrivals_next(struct br_arrivals *arrivals);
/* Up to `room` arrivals before until_s; how many. What is at or after until_s is dropped, so a shorter result than
 * room ends the iterator. */
uint32_t br_arrivals_fill(struct br_arrivals *arrivals, double until_s, double *at_s, uint32_t room);

#endif
