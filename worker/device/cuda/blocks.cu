/* Many copies of one size at once: KV blocks into a staging area, out of one, or about. */
#include "worker/device/cuda/gpu.h"
#include "worker/device/cuda/kernels.h"

static constexpr uint32_t THREADS = 256, EACH = 4;

__global__ void __launch_bounds__(THREADS) copy_kernel(struct br_cuda_blocks_op op)
{
    struct br_cuda_copy_pair pair = gpu_at<const struct br_cuda_copy_pair>(op.pairs)[blockIdx.x];
    const uint4 *from = gpu_at<const uint4>(pair.src);
    uint4 *to = gpu_at<uint4>(pair.dst), at_hand[EACH];
    uint64_t n = op.bytes / 16, step = (uint64_t)gridDim.y * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.y * THREADS + threadIdx.x; i < n; i += EACH * step) {
#pragma unroll
        for (uint32_t e = 0; e < EACH; e++) /* all reads under way before the first write */
            if (i + e * step < n)
                at_hand[e] = from[i + e * step];
#pragma unroll
        for (uint32_t e = 0; e < EACH; e++)
            if (i + e * step < n)
                to[i + e * step] = at_hand[e];
    }
}

void br_cuda_copy_blocks(void *stream, const struct br_cuda_blocks_op *op)
{
    uint64_t pieces = (op->bytes / 16 + EACH * THREADS - 1) / (EACH * THREADS);
    dim3 grid(op->n, (unsigned)(pieces < 64 ? pieces : 64));
    if (op->n && op->bytes)
        LAUNCH((copy_kernel), grid, THREADS, 0, static_cast<cudaStream_t>(stream), *op);
}
