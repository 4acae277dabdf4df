/* Configured sizes that this machine cannot mean. Private to worker/node. */
#ifndef BRIAREUS_WORKER_NODE_LIMITS_H
#define BRIAREUS_WORKER_NODE_LIMITS_H

#include <stdint.h>

#include "worker/node/worker.h"

uint64_t node_memory_bytes(void); /* this machine's memory */

/* 0, or BR_EINVAL with the option's name: of CPU devices, memory, KV or host KV above memory_bytes (what the
 * machine has); of all, a link slower than 1 MiB/s or faster than 1 TiB/s. */
int node_limits_check(const struct br_worker_config *config, uint64_t memory_bytes, struct br_err *err);

#endif
