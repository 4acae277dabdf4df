/* A leader (br_fleet) and its devices (a pool of one each, as in the simulator) on a virtual clock, with clients that
 * ask first, obey once when they are told to come back, and count their tokens. */
#ifndef BRIAREUS_TESTS_CORE_WORLD_H
#define BRIAREUS_TESTS_CORE_WORLD_H

#include "scheduler/core/fleet.h"

struct world_config {
    uint32_t devices, models;
    double memory_bytes, link_bytes_per_s; /* of each device */
    double weights_bytes, kv_token_bytes;  /* of each model */
    struct br_step_shape shape;            /* what steps take */
    double ttft_s, tbt_s;
    double believed; /* the leader's costs at first, by the true ones; 1: right */
    bool corrected;  /* it hears the true ones every .25 s */
    bool admission;
    double rate;                 /* requests/s of all models together, Poisson */
    double seconds;              /* they come for so long */
    double prompt[2], output[2]; /* log-normal: median, sigma */
    uint64_t seed;
};

struct world_result {
    uint32_t offered, accepted, refused; /* at first */
    uint32_t came_back, welcome;         /* of those refused */
    double tokens, on_time;              /* of all that were accepted */
    double retry_most_s;
};

void world_run(const struct world_config *config, struct world_result *out);

#endif
