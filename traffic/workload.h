/* A workload: which request arrives when, for which model, how long. What makes one (generate.h, trace.h) and what
 * runs it (planner, load generator) agree on this alone. Times are seconds since its start, lengths are tokens. */
#ifndef BRIAREUS_TRAFFIC_WORKLOAD_H
#define BRIAREUS_TRAFFIC_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    BR_WORKLOAD_MAX_REQUESTS = 50000000, /* 1.6 GB of them */
    BR_WORKLOAD_MAX_MODELS = 1 << 16,
    BR_WORKLOAD_MAX_NAME = 127,
    BR_WORKLOAD_MAX_TOKENS = 1 << 24, /* of a prompt or an output */
};

struct br_request {
    double at_s;
    uint32_t model;          /* index in names[] */
    uint32_t number;         /* how-manieth of its model, from 0: with `model` it keys the request's own random draws */
    uint32_t prompt, output; /* tokens, each at least 1 */
    uint32_t first_block;    /* in blocks[] */
    uint32_t n_blocks;       /* 0: nothing is known of its prefix */
};

struct br_workload {
    struct br_request *requests; /* owned; by at_s, equal times in the order of their source */
    size_t n;
    char **names; /* owned; n_models */
    uint32_t n_models;
    uint64_t *blocks; /* owned; ids of prefix blocks: equal ids, equal tokens up to the end of that block */
    size_t n_blocks;
    uint32_t block_tokens; /* tokens of a block; a request's last one may be cut short. 0 without blocks */
    double duration_s;     /* of what it stands for: at least the last at_s */

    void *by_name;                     /* private: tree of names */
    size_t requests_room, blocks_room; /* private */
};

void br_workload_free(struct br_workload *workload);

/* Appends a copy of a request (its blocks are n_blocks ids at `blocks`; first_block and number are set here). Any
 * order of times. BR_ENOMEM beyond BR_WORKLOAD_MAX_REQUESTS, BR_EINVAL for a time that is negative or not finite, a
 * length out of 1..BR_WORKLOAD_MAX_TOKENS or an unknown model. */
int br_workload_add(struct br_workload *workload, const struct br_request *request, const uint64_t *blocks,
                    struct br_err *err);
/* The index of a name, which is added when it is new. BR_ENOMEM beyond BR_WORKLOAD_MAX_MODELS, BR_EINVAL for a name
 * that is empty, longer than BR_WORKLOAD_MAX_NAME or has control characters. */
int br_workload_model(struct br_workload *workload, const char *name, uint32_t *model, struct br_err *err);
/* Sorts by time (stable) and numbers the requests of every model; call it once all are added. */
void br_workload_sort(struct br_workload *workload);

/* Totals over all requests. */
struct br_workload_sums {
    uint64_t prompt, output;
    uint64_t blocks, block_hits; /* hits: the request's leading blocks that an earlier one had, unbounded cache */
};
void br_workload_sum(const struct br_workload *workload, struct br_workload_sums *out);

/* Gives every request a model anew, drawn with the shares (n of them, as from popularity.h) by (seed, place in the
 * workload): a trace without names on many models, or one stream split. Names are copied. */
int br_workload_assign(struct br_workload *workload, const char *const *names, const double *shares, uint32_t n,
                       uint64_t seed, struct br_err *err);

#endif
