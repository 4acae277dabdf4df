/* The file that KV goes to which host memory has no room for: one a node, a part of it for each device. Mode 0600, held
 * by one worker at a time; what is in it means nothing to the next one, and it is removed at the end. */
#ifndef BRIAREUS_WORKER_NODE_KV_FILE_H
#define BRIAREUS_WORKER_NODE_KV_FILE_H

#include "worker/node/worker.h"

struct node_kv_file {
    int fd; /* -1: there is none */
    const char *path;
};

/* What can be told from the options alone: BR_EINVAL. */
int node_kv_file_check(const struct br_worker_config *config, struct br_err *err);
/* Borrows the path. Nothing to do without one. BR_EINVAL: something else is there; BR_EBUSY: another worker has it;
 * BR_ENOMEM: its file system has less room, with the numbers; BR_EIO. */
int node_kv_file_open(struct node_kv_file *file, const struct br_worker_config *config, struct br_err *err);
void node_kv_file_close(struct node_kv_file *file);

/* A device's part. */
uint64_t node_kv_file_bytes(const struct br_worker_config *config);
uint64_t node_kv_file_offset(const struct br_worker_config *config, uint32_t device);

#endif
