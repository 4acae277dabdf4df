/* GPUs of a node's configuration. Private to worker/node. */
#ifndef BRIAREUS_WORKER_NODE_GPU_H
#define BRIAREUS_WORKER_NODE_GPU_H

#include <stddef.h>

#include "base/err.h"
#include "worker/device/cuda/plugin.h"

/* Bytes of GPU `index` that a device may reserve. Asked in a process of its own, so that this one never holds a context
 * on a GPU. Errors: the plugin's, BR_EIO. */
int node_gpu_memory(uint32_t index, uint64_t *bytes, struct br_err *err);

/* The kind of device process `device`: of "cuda" or "cuda:N" the GPU that many behind; others as they are. */
void node_gpu_kind(const char *kind, uint32_t device, char *out, size_t size);

#endif
