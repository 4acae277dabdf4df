/* Matrix products of many rows: prefill. A block has a panel of 64 columns and WARPS tiles of rows; a step's weights
 * are unpacked into shared memory once and read by every warp, which goes through all stretches of the inputs in the
 * order in which decode adds them up. */
#include "worker/device/cuda/linear.h"

static constexpr uint32_t WARPS = 8, THREADS = WARPS * GPU_WARP, TILE = 16;
static constexpr uint32_t STEP_WORDS = 2 * 4 * GPU_WARP; /* 16-byte words of a step: half, pair, lane */

/* Warp w unpacks pair w % 4 of half w / 4. */
template <enum cell_kind KIND>
static __device__ __forceinline__ void step_unpack(const struct panel_view &v, uint32_t step, uint4 *out)
{
    uint32_t warp = threadIdx.x / GPU_WARP, lane = threadIdx.x % GPU_WARP, half = warp / 4, pair = warp % 4;
    uint32_t column = half * 32 + lane / 4 * 4, cell[4], group = 0;
    uint4 words[cell_words<KIND>::N];
    words_load<KIND>(v, step * STEP_INPUTS, half, words);
    if constexpr (cell_grouped<KIND>)
        group = step / group_steps(v);
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        float zero = cell_grouped<KIND> && KIND != CELL_E4M3 ? panel_zero(v, group, column + j) : 0;
        if constexpr (KIND == CELL_VALUE)
            cell[j] = cell_value(v, step * STEP_INPUTS, pair, column + j);
        else
            cell[j] = cell_make<KIND>(words, pair, j, zero);
    }
    out[warp * GPU_WARP + lane] = make_uint4(cell[0], cell[1], cell[2], cell[3]);
}

static __device__ __forceinline__ void step_multiply(const uint4 *words, const struct inputs &in, struct sums &s)
{
    uint32_t lane = threadIdx.x % GPU_WARP;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        uint4 pair[4];
#pragma unroll
        for (uint32_t p = 0; p < 4; p++)
            pair[p] = words[(half * 4 + p) * GPU_WARP + lane];
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t cells[4] = {uint4_at(pair[0], j), uint4_at(pair[1], j), uint4_at(pair[2], j),
                                 uint4_at(pair[3], j)};
            product_step(s.at[half][j], in, cells);
        }
    }
}

static __device__ __forceinline__ void tile_end(const struct br_linear_op &op, const struct sums &s, uint32_t row,
                                                uint32_t panel)
{
    uint32_t g = threadIdx.x % GPU_WARP / 4;
#pragma unroll
    for (uint32_t e = 0; e < 16; e++) {
        uint32_t j = e / 4, f = e % 4, at = row + g + f / 2 * 8, column = sums_column(0, j, f);
        if (at >= op.rows)
            continue;
        if (op.end == BR_LINEAR_SWIGLU) {
            end_swiglu(op, at, panel, column, s.at[0][j][f], s.at[1][j][f]);
        } else {
            end_put(op, at, panel, column, s.at[0][j][f]);
            end_put(op, at, panel, column + 32, s.at[1][j][f]);
        }
    }
}

template <enum cell_kind KIND> __global__ void __launch_bounds__(THREADS) linear_many_kernel(struct br_linear_op op)
{
    SHARED(uint4, cells, 2 * STEP_WORDS); /* this step's and the next one's */
    uint32_t row = (blockIdx.y * WARPS + threadIdx.x / GPU_WARP) * TILE, turn = 0;
    struct panel_view v = panel_view_of(op.format, BR_NUMERIC_BF16, op.weights, op.k, blockIdx.x);
    const char *act = gpu_at<const char>(op.norm ? op.act : op.in);
    uint64_t stride = br_act_stride(op.k, BR_NUMERIC_BF16);
    struct sums total, part, sum;
    uint32_t steps = part_begin(op.k, BR_CUDA_PARTS), group = group_steps(v);
    sums_clear(total);
    step_unpack<KIND>(v, 0, cells);
#pragma unroll 1
    for (uint32_t p = 0; p < BR_CUDA_PARTS; p++) {
        uint32_t begin = part_begin(op.k, p), end = part_begin(op.k, p + 1);
        sums_clear(part);
#pragma unroll 1
        for (uint32_t step = begin; step < end; step++, turn ^= STEP_WORDS) {
            struct inputs in = inputs_load(act, stride, row, op.rows, step * STEP_INPUTS, op.k);
            __syncthreads();
            if (step + 1 < steps)
                step_unpack<KIND>(v, step + 1, cells + (turn ^ STEP_WORDS));
            if constexpr (!cell_grouped<KIND>) {
                step_multiply(cells + turn, in, part);
                continue;
            }
            if (step == begin || step % group == 0)
                sums_clear(sum);
            step_multiply(cells + turn, in, sum);
            if (step + 1 == end || (step + 1) % group == 0)
                sums_scale(part, sum, v, step / group);
        }
        if (p == 0)
            total = part;
        else
            sums_add(total, part);
    }
    tile_end(op, total, row, blockIdx.x);
}

template <enum cell_kind KIND> static void many_rows(cudaStream_t stream, const struct br_linear_op *op)
{
    dim3 grid((op->n + BR_PANEL - 1) / BR_PANEL, (op->rows + WARPS * TILE - 1) / (WARPS * TILE));
    LAUNCH((linear_many_kernel<KIND>), grid, THREADS, 0, stream, *op);
}

void linear_many_rows(cudaStream_t stream, const struct br_linear_op *op)
{
    switch (cell_kind_of(&op->format)) {
    case CELL_DENSE:
        many_rows<CELL_DENSE>(stream, op);
        break;
    case CELL_U4:
        many_rows<CELL_U4>(stream, op);
        break;
    case CELL_U8:
        many_rows<CELL_U8>(stream, op);
        break;
    case CELL_E4M3:
        many_rows<CELL_E4M3>(stream, op);
        break;
    case CELL_VALUE:
        many_rows<CELL_VALUE>(stream, op);
        break;
    }
}
