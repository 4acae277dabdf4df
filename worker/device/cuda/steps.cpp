/* The step kernels behind the device's table. */
#include "worker/device/cuda/device.h"

static int scratch_alloc(struct br_device *base, uint64_t bytes, br_devptr *out, struct br_err *err)
{
    struct cuda_device *dev = (struct cuda_device *)base;
    void *at;
    cuda_check(cudaSetDevice((int)dev->index), "choose the GPU");
    cudaError_t error = cudaMalloc(&at, bytes);
    if (error)
        return br_err_set(err, BR_ENOMEM,
                          "CUDA device: cannot take %llu bytes of scratch: %s; reserve less with "
                          "device-memory",
                          (unsigned long long)bytes, cudaGetErrorString(error));
    cuda_check(cudaMemsetAsync(at, 0, bytes, dev->setup), "clear scratch");
    cuda_check(cudaStreamSynchronize(dev->setup), "clear scratch");
    *out = (uintptr_t)at;
    return 0;
}

static void scratch_free(struct br_device *dev, br_devptr at, uint64_t bytes)
{
    (void)dev, (void)bytes;
    cuda_check(cudaFree((void *)(uintptr_t)at), "free scratch");
}

static void upload(struct br_stream *s, br_devptr dst, const void *src, uint64_t bytes)
{
    cuda_copy(s, BR_COPY_H2D, (void *)(uintptr_t)dst, src, bytes);
}

static void launched(const char *what)
{
    cuda_check(cudaGetLastError(), what);
}

static void embed(struct br_stream *s, const struct br_embed_op *op)
{
    br_cuda_embed(s->at, op);
    launched("look up the embedding");
}

static void linear(struct br_stream *s, const struct br_linear_op *op)
{
    br_cuda_linear(s->at, op);
    launched("multiply with weights");
}

static void rope(struct br_stream *s, const struct br_rope_op *op)
{
    br_cuda_rope(s->at, op, BR_KV_BF16);
    launched("write K and V");
}

static void attention(struct br_stream *s, const struct br_attention_op *op)
{
    br_cuda_attention(s->at, op, BR_KV_BF16, &s->dev->work);
    launched("attend");
}

static struct br_kernels table(void)
{
    struct br_kernels k = {};
    k.scratch_alloc = scratch_alloc;
    k.scratch_free = scratch_free;
    k.upload = upload;
    k.embed = embed;
    k.linear = linear;
    k.rope = rope;
    k.attention = attention;
    return k;
}

const struct br_kernels cuda_kernels = table();
