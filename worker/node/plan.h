/* What the supervisor tells a device process: its configuration and where the weights lie, as JSON in an inherited
 * memory file. */
#ifndef BRIAREUS_WORKER_NODE_PLAN_H
#define BRIAREUS_WORKER_NODE_PLAN_H

#include "proto/transfers.h"
#include "worker/node/worker.h"

struct node_image {
    char *path;  /* of the committed image; NULL: there is none */
    char *error; /* then: why */
};

enum { NODE_PARCELS_FD = 4 }; /* in a device process: the memory file of worker/turn/parcels.h */

struct node_plan {
    struct br_worker_config config;
    struct node_image *images;              /* [config.n_models] */
    struct br_model_entry *outlines;        /* [config.n_models], of a plan that was read: what its models point to */
    bool parcels;                           /* NODE_PARCELS_FD is there */
    uint32_t device;                        /* index of this device process */
    char device_kind[80];                   /* of this one: which GPU, where there are several */
    uint64_t kv_disk_bytes, kv_disk_offset; /* of a plan that was read: this device's part of config.kv_disk */
    int64_t parent;                         /* the supervisor's process id */
    struct br_transfers spent; /* by the supervisor, before it started this device: told as the device's own */
    void *json;                /* what strings of a plan that was read belong to */
};

/* A memory file with the plan, to be inherited; the caller closes it. */
int node_plan_write(const struct node_plan *plan, int *fd, struct br_err *err);
int node_plan_read(int fd, struct node_plan *out, struct br_err *err);
void node_plan_free(struct node_plan *plan); /* of a plan that was read */

#endif
