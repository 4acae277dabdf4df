/* Matrix products in F32 without tensor cores: of F32 models, whose bits are those of the dequantised weights. A block
 * has a panel and up to four rows, a warp one stretch of the inputs, a lane two columns. */
#include "worker/device/cuda/linear.h"

static constexpr uint32_t THREADS = BR_CUDA_PARTS * GPU_WARP, ROWS = 4;

static __device__ __forceinline__ void part_product(const struct br_linear_op &op, const struct panel_view &v,
                                                    uint32_t row, uint32_t part, float sum[ROWS][2])
{
    uint32_t column = threadIdx.x % GPU_WARP * 2, end = part_begin(op.k, part + 1) * STEP_INPUTS;
    const char *act = gpu_at<const char>(op.norm ? op.act : op.in);
    uint64_t stride = br_act_stride(op.k, op.numeric);
    end = end < op.k ? end : op.k;
    for (uint32_t k = part_begin(op.k, part) * STEP_INPUTS; k < end; k++) {
        float a = panel_value(v, op.numeric, k, column), b = panel_value(v, op.numeric, k, column + 1);
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            if (row + r >= op.rows)
                break;
            float x = reinterpret_cast<const float *>(act + (row + r) * stride)[k];
            sum[r][0] = fmaf(x, a, sum[r][0]);
            sum[r][1] = fmaf(x, b, sum[r][1]);
        }
    }
}

__global__ void __launch_bounds__(THREADS) linear_plain_kernel(struct br_linear_op op)
{
    SHARED(float, parts, BR_CUDA_PARTS *ROWS *BR_PANEL);
    uint32_t warp = threadIdx.x / GPU_WARP, lane = threadIdx.x % GPU_WARP, row = blockIdx.y * ROWS;
    struct panel_view v = panel_view_of(op.format, op.numeric, op.weights, op.k, blockIdx.x);
    float sum[ROWS][2] = {};
    part_product(op, v, row, warp, sum);
#pragma unroll
    for (uint32_t e = 0; e < 2 * ROWS; e++)
        parts[(warp * ROWS + e / 2) * BR_PANEL + lane * 2 + e % 2] = sum[e / 2][e % 2];
    __syncthreads();
    uint32_t r = threadIdx.x / BR_PANEL, column = threadIdx.x % BR_PANEL;
    if (row + r >= op.rows)
        return;
    float y = parts[r * BR_PANEL + column], up = parts[r * BR_PANEL + (column + 32) % BR_PANEL];
    for (uint32_t p = 1; p < BR_CUDA_PARTS; p++) {
        y += parts[(p * ROWS + r) * BR_PANEL + column];
        up += parts[(p * ROWS + r) * BR_PANEL + (column + 32) % BR_PANEL];
    }
    if (op.end != BR_LINEAR_SWIGLU)
        end_put(op, row + r, blockIdx.x, column, y);
    else if (column < 32)
        end_swiglu(op, row + r, blockIdx.x, column, y, up);
}

void linear_plain(cudaStream_t stream, const struct br_linear_op *op)
{
    dim3 grid((op->n + BR_PANEL - 1) / BR_PANEL, (op->rows + ROWS - 1) / ROWS);
    LAUNCH((linear_plain_kernel), grid, THREADS, 0, stream, *op);
}
