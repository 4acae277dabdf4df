/* Private to the CUDA device. */
#ifndef BRIAREUS_WORKER_DEVICE_CUDA_DEVICE_H
#define BRIAREUS_WORKER_DEVICE_CUDA_DEVICE_H

#include <stddef.h>

#include "worker/device/cuda/gpu.h"
#include "worker/device/cuda/kernels.h"

struct cuda_device {
    struct br_device base; /* first: a br_device is a cuda_device */
    uint32_t index;
    void *mapping; /* the reservation, not yet aligned */
    struct br_cuda_work work;
    cudaStream_t setup; /* for what is done before steps */
};

struct br_stream {
    struct cuda_device *dev;
    cudaStream_t at;
    void *staging; /* for moves onto what is read */
};

/* A call that cannot fail but by a GPU or driver that is lost: its context is good for nothing more, so the process
 * says which call it was and ends; the supervisor starts another one, and siblings go on. */
void cuda_check(cudaError_t error, const char *what);

/* stream.cpp */
static constexpr uint64_t CUDA_STAGING_BYTES = 4 << 20;
int cuda_stream_create(struct br_device *dev, struct br_stream **out, struct br_err *err);
void cuda_stream_destroy(struct br_stream *stream);
int cuda_event_create(struct br_device *dev, struct br_event **out, struct br_err *err);
void cuda_event_destroy(struct br_event *event);
void cuda_event_record(struct br_event *event, struct br_stream *stream);
bool cuda_event_done(const struct br_event *event);
void cuda_event_sync(struct br_event *event);
void cuda_event_wait(struct br_stream *stream, struct br_event *event);
void cuda_stream_notify(struct br_stream *stream, void (*fn)(void *ctx), void *ctx);
void cuda_copy(struct br_stream *stream, enum br_copy kind, void *dst, const void *src, uint64_t bytes);

/* steps.cpp */
extern const struct br_kernels cuda_kernels;

#endif
