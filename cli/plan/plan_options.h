/* The options of `briareus plan`, and what is asked of the planner. Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_PLAN_OPTIONS_H
#define BRIAREUS_CLI_PLAN_PLAN_OPTIONS_H

#include "base/options.h"
#include "cli/plan/prices.h"
#include "sim/plan/ask.h"
#include "traffic/trace.h"

struct plan_options {
    /* what is asked for */
    char *stands_for;
    struct br_option_list models, gpus, policies;
    char *weights, *kv, *large_weights, *costs;
    double ttft_s, tbt_s, target, pool_floor;
    uint32_t seed, seeds, redundancy, threads;
    /* traffic */
    double rate, cv, zipf, total_rate, rate_scale, mean_rate;
    char *rates, *traffic, *market, *market_models, *from;
    bool shuffle;
    double horizon_s, margin_s;
    /* hardware */
    double memory_use, host_tb, hysteresis;
    uint64_t load_chunk;
    uint32_t node_gpus, context, large_tp;
    char *prices, *kv_count;
    /* the other way round, money */
    char *max;
    uint32_t fleet;
    char *load_curve;
    struct br_option_list train;
    double months;
    /* out */
    char *json, *html, *trace;
    double trace_s;
    bool one_kind, curve, quiet, handicapped;
    /* not options */
    const char *scenario; /* borrowed from the command line */
};

/* 0; 1: help was printed; < 0: *err. */
int plan_options_read(struct plan_options *out, int argc, char **argv, struct br_err *err);
void plan_options_free(struct plan_options *options);

/* What an ask borrows. */
struct plan_material {
    struct plan_ask ask;
    struct br_market market;
    struct br_workload recorded;
    struct br_measured measured;
    struct br_gpu device;                  /* that `measured` is of */
    struct br_gpu gpus[PLAN_MAX_GPUS * 4]; /* with the user's prices */
    uint32_t n_gpus;
    struct prices prices;
    double from_s;
};
int plan_material_make(const struct plan_options *options, struct plan_material *out, struct br_err *err);
void plan_material_free(struct plan_material *material);

#endif
