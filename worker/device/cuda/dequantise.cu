/* Panels to plain rows: a block turns 64 inputs of a panel round in shared memory. */
#include "worker/device/cuda/weights.h"

static constexpr uint32_t THREADS = 256, SIDE = 64;

__global__ void __launch_bounds__(THREADS) dequantise_kernel(struct br_cuda_dequantise_op op)
{
    SHARED(float, tile, SIDE *(SIDE + 1));
    struct panel_view v = panel_view_of(op.format, op.numeric, op.weights, op.k, blockIdx.x);
    uint32_t first = blockIdx.y * SIDE;
    for (uint32_t e = threadIdx.x; e < SIDE * SIDE; e += THREADS) {
        uint32_t i = e / SIDE, column = e % SIDE;
        if (first + i < op.k)
            tile[column * (SIDE + 1) + i] = panel_value(v, op.numeric, first + i, column);
    }
    __syncthreads();
    for (uint32_t e = threadIdx.x; e < SIDE * SIDE; e += THREADS) {
        uint32_t column = e / SIDE, i = e % SIDE, n = blockIdx.x * BR_PANEL + column;
        if (n >= op.n || first + i >= op.k)
            continue;
        float x = tile[column * (SIDE + 1) + i];
        uint64_t at = (uint64_t)n * op.k + first + i;
        if (op.numeric == BR_NUMERIC_BF16)
            gpu_at<uint16_t>(op.out)[at] = (uint16_t)gpu_to_bf16(x);
        else
            gpu_at<float>(op.out)[at] = x;
    }
}

void br_cuda_dequantise(void *stream, const struct br_cuda_dequantise_op *op)
{
    dim3 grid((op->n + BR_PANEL - 1) / BR_PANEL, (op->k + SIDE - 1) / SIDE);
    LAUNCH((dequantise_kernel), grid, THREADS, 0, static_cast<cudaStream_t>(stream), *op);
}
