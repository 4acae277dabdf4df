/* What follows a matrix product: where the sum of a row and column goes. */
#ifndef BRIAREUS_WORKER_DEVICE_CUDA_LINEAR_END_H
#define BRIAREUS_WORKER_DEVICE_CUDA_LINEAR_END_H

#include "worker/device/cuda/gpu.h"
#include "worker/device/cuda/kernels.h"

/* Columns of a panel; not for BR_LINEAR_SWIGLU. */
static __device__ __forceinline__ void end_put(const struct br_linear_op &op, uint32_t row, uint32_t panel,
                                               uint32_t column, float y)
{
    float *out = gpu_at<float>(op.out + row * br_f32_stride(op.n)) + (uint64_t)panel * BR_PANEL + column;
    if (op.end == BR_LINEAR_ADD)
        *out += y;
    else
        *out = op.bias ? y + gpu_at<const float>(op.bias)[(uint64_t)panel * BR_PANEL + column] : y;
}

static __device__ __forceinline__ void end_swiglu(const struct br_linear_op &op, uint32_t row, uint32_t panel,
                                                  uint32_t column, float gate, float up)
{
    br_devptr at = op.out + row * br_act_stride(op.n / 2, op.numeric);
    uint64_t index = (uint64_t)panel * (BR_PANEL / 2) + column;
    float y = gate * up / (1.0f + expf(-gate));
    if (op.numeric == BR_NUMERIC_BF16)
        gpu_at<uint16_t>(at)[index] = (uint16_t)gpu_to_bf16(y);
    else
        gpu_at<float>(at)[index] = y;
}

#endif
