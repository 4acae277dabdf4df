/* silu(gate) * up for products that end without it. */
#include "worker/device/cuda/gpu.h"
#include "worker/device/cuda/kernels.h"

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) silu_mul_kernel(struct br_cuda_silu_mul_op op)
{
    uint32_t row = blockIdx.x, j = blockIdx.y * THREADS + threadIdx.x;
    if (j >= op.width)
        return;
    const float *in = gpu_at<const float>(op.in + row * br_f32_stride(2 * op.width)) + j / 32 * BR_PANEL + j % 32;
    float y = in[0] * in[32] / (1.0f + expf(-in[0]));
    br_devptr out = op.out + row * br_act_stride(op.width, op.numeric);
    if (op.numeric == BR_NUMERIC_BF16)
        gpu_at<uint16_t>(out)[j] = (uint16_t)gpu_to_bf16(y);
    else
        gpu_at<float>(out)[j] = y;
}

void br_cuda_silu_mul(void *stream, const struct br_cuda_silu_mul_op *op)
{
    dim3 grid(op->rows, (op->width + THREADS - 1) / THREADS);
    if (op->rows)
        LAUNCH((silu_mul_kernel), grid, THREADS, 0, static_cast<cudaStream_t>(stream), *op);
}
