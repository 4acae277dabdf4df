/* The fewest GPUs that hold a target: for each policy and GPU kind. */
#ifndef BRIAREUS_SIM_PLAN_PLAN_H
#define BRIAREUS_SIM_PLAN_PLAN_H

#include "sim/plan/place.h"

enum { PLAN_MAX_CURVE = 8 };

struct plan_part { /* one pool of a result */
    struct plan_kind kind;
    uint32_t devices, redundant, n_models; /* devices: redundant ones included */
    uint32_t *models;                      /* [n_models] of the ask, owned */
    double weights_bytes;
    double attainment, compute_busy, link_busy;
    double fluid_devices; /* the fluid bound of its models */
};

struct plan_point {
    uint32_t gpus;
    double attainment;
};

struct plan_result {
    const char *policy;
    char gpu[2 * PLAN_NAME]; /* kinds joined by + */
    uint32_t tp;             /* the largest */
    uint32_t gpus;           /* 0: no count holds the target; why says more */
    char why[256];
    uint32_t redundant_gpus; /* part of gpus */
    uint32_t memory_gpus;    /* part of gpus: only there for their nodes' host memory */
    uint32_t *need_by_seed;  /* [n_seeds], GPUs, owned */
    double ci95[2];          /* of the mean need of a seed; NAN with less than three */
    struct plan_tally tally; /* all pools and seeds, without redundant devices */
    uint32_t nodes, dedicated_gpus, host_floor_gpus;
    double host_bytes_per_node, disk_bytes, fluid_gpus, cost_per_hour;
    struct plan_part *parts; /* owned */
    uint32_t n_parts;
    struct plan_point curve[PLAN_MAX_CURVE];
    uint32_t n_curve;
};

struct plan_mixed {        /* the search of mix.h */
    uint32_t tried;        /* splits that were simulated; 0: there was nothing to search */
    bool found;            /* the last result is a split that costs less than every kind alone */
    double cost_per_hour;  /* of the cheapest split with all seeds; 0: none holds */
    double alone_per_hour; /* of the cheapest kind alone */
    const char *alone_gpu;
};

struct plan_answer {
    struct plan_result *results; /* [n], owned; GPU kinds within policies, in the order asked; then the split of mix */
    uint32_t n;
    struct plan_mixed mix;
    struct plan_requests *requests; /* [n_seeds], owned */
    uint32_t n_seeds;
};

/* BR_ENOMEM, BR_EINVAL with one sentence and the numbers when a model fits nowhere, its traffic is wrong, a policy is
 * unknown; then *out is empty. */
int plan_solve(const struct plan_ask *ask, struct plan_answer *out, struct br_err *err);
void plan_answer_free(struct plan_answer *answer);

/* Mean and half-width of its 95 % interval (Student's t); NAN for n < PLAN_MIN_INTERVAL: t over two values is 12.7
 * times their standard error, which says nothing. */
enum { PLAN_MIN_INTERVAL = 3 };
void plan_interval(const uint32_t *values, uint32_t n, double *mean, double *half);

#endif
