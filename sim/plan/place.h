/* Which models share which pool of devices, and which nodes the devices stand in.
 *
 * Models of one kind of device are one pool as far as a node's host memory holds a copy of each: any device of a pool
 * may get any of its models, so every node that has one of its devices keeps all of them. Where that is too much the
 * kind's models are split into shards of even load, each a pool of its own. */
#ifndef BRIAREUS_SIM_PLAN_PLACE_H
#define BRIAREUS_SIM_PLAN_PLACE_H

#include "sim/plan/pool.h"

/* Degrees worth a try for a model: the smallest at which it fits, and the smallest at which two like it do (so that a
 * load can overlap a step); its own if it says one. BR_ENOMEM with numbers when it fits nowhere. */
enum { PLAN_MAX_DEGREES = 2 };
struct plan_degrees {
    const struct br_gpu *gpu;
    uint32_t tp[PLAN_MAX_DEGREES], n;
};
int plan_degrees_of(const struct plan_ask *ask, const struct plan_model *model, const struct br_gpu *gpu,
                    struct plan_degrees *out, struct br_err *err);
/* Twice the degrees, where the model can be split so and a node has so many: shorter prompts in time. */
void plan_degrees_double(const struct plan_ask *ask, const struct plan_model *model, struct plan_degrees *degrees);

struct plan_layout {
    struct plan_pool *pools; /* owned */
    uint32_t n_pools;
};
/* Pools for models whose kinds are given ([n_models]). load: busy devices of each model, to split evenly. BR_ENOMEM
 * when a model alone is too large for a node's host memory. */
int plan_layout_make(const struct plan_ask *ask, const struct plan_kind *kinds, const double *load,
                     struct plan_layout *out, struct br_err *err);
void plan_layout_free(struct plan_layout *layout);

/* Stands devices ([n_pools] counts) into nodes, few nodes first. kv_bytes: of each pool's sequences on the host. */
struct plan_nodes {
    uint32_t n;
    double most_bytes; /* of weights and KV on one node */
};
int plan_nodes_fill(const struct plan_ask *ask, const struct plan_layout *layout, const uint32_t *devices,
                    const double *kv_bytes, struct plan_nodes *out, struct br_err *err);

/* GPUs that come with the memory for one copy of every model, when memory is bought with them. */
uint32_t plan_host_floor(const struct plan_ask *ask);

#endif
