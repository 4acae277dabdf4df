/* How many models a node holds: the largest count whose attainment, the mean over seeds, reaches a target. */
#ifndef BRIAREUS_SIM_GOODPUT_H
#define BRIAREUS_SIM_GOODPUT_H

#include "sim/ideal_cost.h"
#include "sim/sim.h"

enum { SIM_MAX_MODELS = 400, SIM_MIX = 10 };

struct sim_scenario {
    const char *name;
    const struct sim_gpu *gpu;
    const struct sim_model *mix[SIM_MIX]; /* model i is mix[i mod 10] */
    double rate;                          /* requests/s of each model */
    double horizon_s;
    double ttft_s, tbt_s;
    uint32_t n_devices;
};

struct sim_search {
    const struct sim_scenario *scenario;
    struct br_pl_options options;
    uint64_t first_seed;
    uint32_t n_seeds;
    uint32_t guess;    /* where to begin */
    double give_up;    /* attainments below this need not be exact */
    bool check, books; /* as of sim_run */
    /* found so far; < 0: not yet */
    double attainment[SIM_MAX_MODELS + 1];
    uint32_t n_runs;
};

void sim_search_init(struct sim_search *search, const struct sim_scenario *scenario,
                     const struct br_pl_options *options);
/* One run of so many models. */
int sim_scenario_run(const struct sim_search *search, uint32_t n_models, uint64_t seed, struct sim_result *out,
                     struct br_err *err);
/* Mean attainment over the seeds; < 0: *err. */
double sim_attainment(struct sim_search *search, uint32_t n_models, struct br_err *err);
/* The largest count that reaches the target (a crossing, looked two counts beyond); < 0: *err. */
int32_t sim_goodput(struct sim_search *search, double target, struct br_err *err);

#endif
