/* Between the program and the CUDA device, which is a shared object of its own that is opened at run time: one program
 * runs with and without CUDA. */
#ifndef BRIAREUS_WORKER_DEVICE_CUDA_PLUGIN_H
#define BRIAREUS_WORKER_DEVICE_CUDA_PLUGIN_H

#include "worker/device/device.h"

/* Grows when device.h, kernels.h or this changes: plugin and program are of one build. */
enum { BR_CUDA_PLUGIN_VERSION = 1 };

/* What the symbol `br_cuda_plugin` of the plugin is. */
struct br_cuda_plugin {
    uint32_t version;
    int (*create)(const struct br_device_config *config, struct br_device **out, struct br_err *err);
    /* Bytes of GPU `index` that a device may reserve: what is free now, less what the driver needs for its own. */
    int (*memory)(uint32_t index, uint64_t *bytes, struct br_err *err);
};

/* "cuda" or "cuda:N" and the GPU's number (0 for "cuda"); false: another kind. */
bool br_cuda_kind(const char *kind, uint32_t *index);

/* Opens the plugin: $BRIAREUS_CUDA_PLUGIN, or briareus-cuda.so beside the program. It stays open. BR_ENOTSUP: there is
 * none, or it cannot be loaded, or it is of another build; the message says what to do. */
int br_cuda_plugin_open(const struct br_cuda_plugin **out, struct br_err *err);

#endif
