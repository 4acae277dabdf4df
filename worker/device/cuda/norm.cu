/* RMSNorm of rows, a block each, with what is to be added to them first. */
#include "worker/device/cuda/gpu.h"
#include "worker/device/cuda/kernels.h"

static constexpr uint32_t THREADS = 256, WARPS = THREADS / GPU_WARP;

/* Sum over the block in one order; all threads get it. */
static __device__ float block_sum(float x)
{
    SHARED(float, part, WARPS);
    x = gpu_warp_sum(x);
    if (threadIdx.x % GPU_WARP == 0)
        part[threadIdx.x / GPU_WARP] = x;
    __syncthreads();
    float sum = 0;
    for (uint32_t w = 0; w < WARPS; w++)
        sum += part[w];
    return sum;
}

__global__ void __launch_bounds__(THREADS) norm_kernel(struct br_cuda_norm_op op)
{
    uint32_t index = op.row ? gpu_at<const uint32_t>(op.row)[blockIdx.x] : blockIdx.x;
    float *in = gpu_at<float>(op.in + index * br_f32_stride(op.k));
    const float *add = op.add ? gpu_at<const float>(op.add + index * br_f32_stride(op.k)) : nullptr;
    const float *weight = gpu_at<const float>(op.norm);
    float squares = 0;
    for (uint32_t j = threadIdx.x; j < op.k; j += THREADS) {
        float x = in[j];
        if (add)
            in[j] = x += add[j];
        squares = fmaf(x, x, squares);
    }
    float scale = 1.0f / sqrtf(block_sum(squares) / (float)op.k + op.eps);
    bool half = op.numeric == BR_NUMERIC_BF16;
    uint64_t stride = br_act_stride(op.k, op.numeric);
    for (uint32_t j = threadIdx.x; j < stride / (half ? 2 : 4); j += THREADS) {
        float y = j < op.k ? in[j] * scale * weight[j] : 0;
        if (half)
            gpu_at<uint16_t>(op.out + blockIdx.x * stride)[j] = (uint16_t)gpu_to_bf16(y);
        else
            gpu_at<float>(op.out + blockIdx.x * stride)[j] = y;
    }
}

void br_cuda_norm(void *stream, const struct br_cuda_norm_op *op)
{
    if (op->rows)
        LAUNCH((norm_kernel), op->rows, THREADS, 0, static_cast<cudaStream_t>(stream), *op);
}
