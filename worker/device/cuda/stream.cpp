/* Streams, events and copies. */
#include <stdlib.h>

#include "worker/device/cuda/device.h"

struct br_event {
    cudaEvent_t at;
};

/* The current GPU is a thread's own. */
static void use(const struct cuda_device *dev)
{
    cuda_check(cudaSetDevice((int)dev->index), "choose the GPU");
}

static int refuse(struct br_err *err, cudaError_t error, const char *what)
{
    return br_err_set(err, BR_ENOMEM, "CUDA device: cannot make %s: %s", what, cudaGetErrorString(error));
}

int cuda_stream_create(struct br_device *base, struct br_stream **out, struct br_err *err)
{
    struct cuda_device *dev = (struct cuda_device *)base;
    struct br_stream *s = (struct br_stream *)calloc(1, sizeof *s);
    use(dev);
    if (!s)
        return br_err_set(err, BR_ENOMEM, "CUDA device: no memory for a stream");
    s->dev = dev;
    cudaError_t error = cudaStreamCreateWithFlags(&s->at, cudaStreamNonBlocking);
    if (!error && (error = cudaMalloc(&s->staging, CUDA_STAGING_BYTES)))
        cudaStreamDestroy(s->at);
    if (error) {
        free(s);
        return refuse(err, error, "a stream");
    }
    *out = s;
    return 0;
}

void cuda_stream_destroy(struct br_stream *s)
{
    use(s->dev);
    cuda_check(cudaStreamSynchronize(s->at), "wait for a stream");
    cuda_check(cudaFree(s->staging), "free a stream's staging");
    cuda_check(cudaStreamDestroy(s->at), "end a stream");
    free(s);
}

int cuda_event_create(struct br_device *base, struct br_event **out, struct br_err *err)
{
    struct br_event *e = (struct br_event *)calloc(1, sizeof *e);
    use((struct cuda_device *)base);
    cudaError_t error = e ? cudaEventCreateWithFlags(&e->at, cudaEventDisableTiming) : cudaErrorMemoryAllocation;
    if (error) {
        free(e);
        return refuse(err, error, "an event");
    }
    *out = e;
    return 0;
}

void cuda_event_destroy(struct br_event *e)
{
    cuda_check(cudaEventDestroy(e->at), "end an event");
    free(e);
}

void cuda_event_record(struct br_event *e, struct br_stream *s)
{
    cuda_check(cudaEventRecord(e->at, s->at), "record an event");
}

bool cuda_event_done(const struct br_event *e)
{
    cudaError_t error = cudaEventQuery(e->at);
    if (error == cudaErrorNotReady)
        return false;
    cuda_check(error, "ask for an event");
    return true;
}

void cuda_event_sync(struct br_event *e)
{
    cuda_check(cudaEventSynchronize(e->at), "wait for an event");
}

void cuda_event_wait(struct br_stream *s, struct br_event *e)
{
    cuda_check(cudaStreamWaitEvent(s->at, e->at, 0), "wait for an event on a stream");
}

void cuda_stream_notify(struct br_stream *s, void (*fn)(void *ctx), void *ctx)
{
    use(s->dev);
    cuda_check(cudaLaunchHostFunc(s->at, fn, ctx), "call the host from a stream");
}

static void copy_async(struct br_stream *s, char *dst, const char *src, uint64_t bytes, enum cudaMemcpyKind kind)
{
    cuda_check(cudaMemcpyAsync(dst, src, bytes, kind, s->at), "copy");
}

/* Onto what is read: piece by piece from the side that is free, none longer than the way it goes, or through the
 * staging where that is short. */
static void move(struct br_stream *s, char *dst, const char *src, uint64_t bytes)
{
    uint64_t way = (uint64_t)(dst < src ? src - dst : dst - src), piece = way, done = 0;
    bool stage = way < CUDA_STAGING_BYTES;
    if (stage)
        piece = CUDA_STAGING_BYTES;
    while (done < bytes) {
        uint64_t n = bytes - done < piece ? bytes - done : piece, at = dst < src ? done : bytes - done - n;
        if (stage)
            copy_async(s, (char *)s->staging, src + at, n, cudaMemcpyDeviceToDevice);
        copy_async(s, dst + at, stage ? (char *)s->staging : src + at, n, cudaMemcpyDeviceToDevice);
        done += n;
    }
}

void cuda_copy(struct br_stream *s, enum br_copy kind, void *dst, const void *src, uint64_t bytes)
{
    static const enum cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                                cudaMemcpyDeviceToDevice};
    char *to = (char *)dst;
    const char *from = (const char *)src;
    use(s->dev);
    if (bytes == 0 || to == from)
        return;
    if (kind == BR_COPY_D2D && to < from + bytes && from < to + bytes)
        move(s, to, from, bytes);
    else
        copy_async(s, to, from, bytes, kinds[kind]);
}
