/* Rows of the embedding table, or columns of the head's panels where it is tied. */
#include "worker/device/cuda/gpu.h"
#include "worker/device/cuda/kernels.h"

enum { THREADS = 256 };

static __device__ __forceinline__ float embed_element(const struct br_embed_op &op, uint32_t id, uint32_t j)
{
    uint64_t at = (uint64_t)id * op.hidden + j;
    if (op.panels && op.numeric == BR_NUMERIC_BF16)
        at = (((uint64_t)(id / BR_PANEL) * ((op.hidden + 1) / 2) + j / 2) * BR_PANEL + id % BR_PANEL) * 2 + j % 2;
    else if (op.panels)
        at = ((uint64_t)(id / BR_PANEL) * op.hidden + j) * BR_PANEL + id % BR_PANEL;
    return op.numeric == BR_NUMERIC_BF16 ? gpu_of_bf16(gpu_at<const uint16_t>(op.weights)[at])
                                         : gpu_at<const float>(op.weights)[at];
}

__global__ void __launch_bounds__(THREADS) embed_kernel(struct br_embed_op op)
{
    uint32_t row = blockIdx.x, j = blockIdx.y * THREADS + threadIdx.x;
    uint32_t id = (uint32_t)gpu_at<const int32_t>(op.batch.ids)[row];
    if (j < op.hidden)
        gpu_at<float>(op.out + row * br_f32_stride(op.hidden))[j] = embed_element(op, id, j);
}

void br_cuda_embed(void *stream, const struct br_embed_op *op)
{
    dim3 grid(op->batch.rows, (op->hidden + THREADS - 1) / THREADS);
    LAUNCH((embed_kernel), grid, THREADS, 0, static_cast<cudaStream_t>(stream), *op);
}
