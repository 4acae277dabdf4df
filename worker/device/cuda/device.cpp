/* A GPU: found, checked, its memory reserved once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/device/cuda/device.h"
extern "C" {
#include "base/log.h"
#include "worker/device/cuda/plugin.h"
}

enum { KERNEL_VERSION = 1, EXIT_LOST = 70, LEAST_MAJOR = 8 };
static constexpr uint64_t ALIGN = 2 << 20, WORK_LEAST = 1 << 20, WORK_MOST = 64 << 20;
static constexpr uint64_t DRIVER_BYTES = 1ull << 30; /* context, kernels, scratch of models */

void cuda_check(cudaError_t error, const char *what)
{
    if (!error)
        return;
    br_log(BR_ERROR, "gpu_lost", "call=\"%s\" error=%s why=\"%s\" what_now=\"this device's process ends\"", what,
           cudaGetErrorName(error), cudaGetErrorString(error));
    _exit(EXIT_LOST);
}

static int gpu_count(struct br_err *err)
{
    int n = 0;
    cudaError_t error = cudaGetDeviceCount(&n);
    if (error == cudaErrorInsufficientDriver)
        return br_err_set(err, BR_ENOTSUP,
                          "CUDA device: the NVIDIA driver is too old for CUDA 13: it has to be 580 or "
                          "newer (nvidia-smi shows which it is)");
    if (error || n == 0)
        return br_err_set(err, BR_ENOTSUP,
                          "CUDA device: no GPU or no NVIDIA driver here (%s); nvidia-smi has to list one",
                          cudaGetErrorString(error ? error : cudaErrorNoDevice));
    return n;
}

static int gpu_choose(uint32_t index, struct cudaDeviceProp *prop, struct br_err *err)
{
    int n = gpu_count(err);
    if (n < 0)
        return n;
    if (index >= (uint32_t)n)
        return br_err_set(err, BR_EINVAL, "CUDA device: there is no GPU %u: this machine has %d, numbered from 0",
                          index, n);
    cudaError_t error = cudaSetDevice((int)index);
    if (!error)
        error = cudaGetDeviceProperties(prop, (int)index);
    if (error)
        return br_err_set(err, BR_EIO, "CUDA device: GPU %u does not answer: %s", index, cudaGetErrorString(error));
    if (prop->major < LEAST_MAJOR)
        return br_err_set(err, BR_ENOTSUP,
                          "CUDA device: GPU %u (%s) has compute capability %d.%d; 8.0 (A100) or newer is needed", index,
                          prop->name, prop->major, prop->minor);
    return 0;
}

static int gpu_memory(uint32_t index, uint64_t *bytes, struct br_err *err)
{
    struct cudaDeviceProp prop;
    size_t free_bytes, total;
    if (gpu_choose(index, &prop, err))
        return err->code;
    cudaError_t error = cudaMemGetInfo(&free_bytes, &total);
    if (error)
        return br_err_set(err, BR_EIO, "CUDA device: GPU %u does not say how much memory is free: %s", index,
                          cudaGetErrorString(error));
    uint64_t keep = DRIVER_BYTES + total / 50;
    *bytes = free_bytes > keep ? free_bytes - keep : 0;
    return 0;
}

static void device_destroy(struct br_device *base)
{
    struct cuda_device *dev = (struct cuda_device *)base;
    cuda_check(cudaSetDevice((int)dev->index), "choose the GPU");
    if (dev->setup)
        cudaStreamDestroy(dev->setup);
    cudaFree((void *)(uintptr_t)dev->work.at);
    cudaFree(dev->mapping);
    free(dev);
}

static struct br_device_ops ops_make(void)
{
    struct br_device_ops ops = {};
    ops.kind = "cuda";
    ops.destroy = device_destroy;
    ops.stream_create = cuda_stream_create;
    ops.stream_destroy = cuda_stream_destroy;
    ops.event_create = cuda_event_create;
    ops.event_destroy = cuda_event_destroy;
    ops.event_record = cuda_event_record;
    ops.event_done = cuda_event_done;
    ops.event_sync = cuda_event_sync;
    ops.event_wait = cuda_event_wait;
    ops.stream_notify = cuda_stream_notify;
    ops.copy = cuda_copy;
    /* No stream_hold: host functions of all streams may share one thread of the driver's, which must not block. */
    return ops;
}

static const struct br_device_ops cuda_ops = ops_make();

static int reserve(struct cuda_device *dev, struct br_err *err)
{
    uint64_t bytes = dev->base.config.memory_bytes, work = bytes / 64;
    size_t free_bytes = 0, total = 0;
    void *at;
    work = work < WORK_LEAST ? WORK_LEAST : work > WORK_MOST ? WORK_MOST : work;
    cudaMemGetInfo(&free_bytes, &total);
    cudaError_t error = cudaMalloc(&dev->mapping, bytes + ALIGN);
    if (error)
        return br_err_set(err, BR_ENOMEM,
                          "CUDA device: cannot reserve %.2f GB of GPU %u, which has %.2f GB free of %.2f: %s; set "
                          "device-memory lower, or end what else uses the GPU",
                          (double)bytes / 1e9, dev->index, (double)free_bytes / 1e9, (double)total / 1e9,
                          cudaGetErrorString(error));
    error = cudaMalloc(&at, work);
    if (!error)
        dev->work = {(uintptr_t)at, work};
    if (!error)
        error = cudaStreamCreateWithFlags(&dev->setup, cudaStreamNonBlocking);
    if (error)
        return br_err_set(err, BR_ENOMEM, "CUDA device: no room for %.1f MB of scratch: %s; set device-memory lower",
                          (double)work / 1e6, cudaGetErrorString(error));
    dev->base.memory = ((uintptr_t)dev->mapping + ALIGN - 1) / ALIGN * ALIGN;
    dev->base.reservations++;
    return 0;
}

/* The stand-in adds in another order than tensor cores do: a profile of its own. */
static void profile_put(struct br_device *dev, const struct cudaDeviceProp *prop)
{
    if (strcmp(prop->name, "cudaemu") == 0)
        snprintf(dev->numeric_profile, sizeof dev->numeric_profile, "cuda-emulated-%d", KERNEL_VERSION);
    else
        snprintf(dev->numeric_profile, sizeof dev->numeric_profile, "cuda-sm%d%d-%d", prop->major, prop->minor,
                 KERNEL_VERSION);
}

static int device_create(const struct br_device_config *config, struct br_device **out, struct br_err *err)
{
    struct cudaDeviceProp prop;
    uint32_t index;
    if (!br_cuda_kind(config->kind, &index))
        return br_err_set(err, BR_EINVAL, "CUDA device: '%.64s' is neither cuda nor cuda:NUMBER",
                          config->kind ? config->kind : "");
    if (config->memory_bytes == 0)
        return br_err_set(err, BR_EINVAL, "CUDA device: no memory asked for");
    if (gpu_choose(index, &prop, err))
        return err->code;
    struct cuda_device *dev = (struct cuda_device *)calloc(1, sizeof *dev);
    if (!dev)
        return br_err_set(err, BR_ENOMEM, "CUDA device: no memory");
    dev->base.ops = &cuda_ops;
    dev->base.kernels = &cuda_kernels;
    dev->base.config = *config;
    dev->index = index;
    profile_put(&dev->base, &prop);
    if (reserve(dev, err)) {
        device_destroy(&dev->base);
        return err->code;
    }
    *out = &dev->base;
    return 0;
}

extern "C" __attribute__((visibility("default"))) const struct br_cuda_plugin br_cuda_plugin;
const struct br_cuda_plugin br_cuda_plugin = {BR_CUDA_PLUGIN_VERSION, device_create, gpu_memory};
