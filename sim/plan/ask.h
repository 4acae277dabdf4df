/* What a plan is asked for: models, their traffic, SLOs, the GPUs and nodes that may be used. Filled by whoever reads
 * the user's words (cli/plan); the rest of the folder only reads it. Times in seconds, sizes in bytes. */
#ifndef BRIAREUS_SIM_PLAN_ASK_H
#define BRIAREUS_SIM_PLAN_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "cost/cost.h"
#include "cost/measured.h"
#include "sim/arrivals.h"
#include "traffic/generate.h"
#include "traffic/market.h"

enum {
    PLAN_MAX_MODELS = 4096,
    PLAN_MAX_GPUS = 8,
    PLAN_MAX_POLICIES = 8,
    PLAN_MAX_SEEDS = 100,
    PLAN_NAME = 64,
    PLAN_MAX_REQUESTS = 1000000,
};

struct plan_model {
    char name[PLAN_NAME];
    struct br_footprint footprint;
    const struct br_gpu *gpu; /* the only kind it may run on; NULL: the one that is planned */
    uint32_t tp;              /* 1, 2, 4, 8; 0: chosen */
    uint32_t dedicated_tp;    /* of its replicas in the `dedicated` baseline; 0: the smallest that fits */
    double ttft_s, tbt_s;
    struct br_source source; /* its arrivals and lengths; name is the model's */
};

/* A deployment as the world has it; every list is the caller's. */
struct plan_ask {
    struct plan_model *models;
    uint32_t n_models;
    const struct br_workload *recorded; /* replayed instead of the sources (models by index); NULL: sources */
    bool shuffle;                       /* a seed also draws which model has which source's arrivals */
    double horizon_s, margin_s;
    double run_on_s;   /* runs go on so long after the last token is due */
    double target;     /* share of tokens on time */
    double pool_floor; /* of a single pool's tokens that could be on time at all */
    uint64_t seed;
    uint32_t n_seeds;
    uint32_t redundancy; /* devices of a pool that may be lost */

    const struct br_gpu *gpus[PLAN_MAX_GPUS];
    uint32_t n_gpus;
    bool one_kind; /* no split over several kinds is looked for */
    const char *policies[PLAN_MAX_POLICIES];
    uint32_t n_policies;
    const struct br_measured *measured; /* costs of a device of the user's own; NULL: none. Models are found in it by
                                           footprint.size.name, and their footprints have its bytes */
    const struct br_gpu *measured_gpu;  /* stands for that device in gpus */
    bool ideal_costs;    /* the idealised formulas of the policies' comparison instead of the fitted ones */
    bool by_token;       /* KV is counted by token and out in no time, moves between devices cost nothing: as in the
                            policies' comparison. Otherwise as a worker keeps and moves it: see sim_run.books */
    double memory_use;   /* share of a GPU's memory for weights and KV, before 1 GB is taken off */
    uint32_t context;    /* tokens of KV that have to fit beside the weights */
    double host_bytes;   /* of a node */
    uint32_t node_gpus;  /* of a node */
    double hysteresis;   /* of slack; share of TTFT */
    int64_t chunk_bytes; /* of a load; 0: 1 GB, of a measured device what its link carries in 20 ms */
    uint32_t n_threads;
    bool curve;                         /* attainment at other counts too */
    void (*progress)(const char *line); /* NULL: silent */
};

/* A kind of device: tp GPUs that act as one. */
struct plan_kind {
    const struct br_gpu *gpu;
    uint32_t tp;
};

/* The requests of one seed, all models, sorted; the caller frees. BR_ENOMEM beyond PLAN_MAX_REQUESTS. */
int plan_requests(const struct plan_ask *ask, uint64_t seed, struct sim_request **out, uint32_t *n, struct br_err *err);

#endif
