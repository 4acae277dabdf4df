/* Matrix products of few rows: decode. A block has a panel of 64 columns, a warp one of BR_CUDA_PARTS stretches of the
 * inputs, whose sums are added in order. Weights are read once, unpacked in registers, and go to the tensor cores. */
#include "worker/device/cuda/linear.h"

static constexpr uint32_t THREADS = BR_CUDA_PARTS * GPU_WARP, ROWS = 16;

template <enum cell_kind KIND> struct step_words {
    uint4 half[2][cell_words<KIND>::N];
};

template <enum cell_kind KIND>
static __device__ __forceinline__ void step_load(const struct panel_view &v, uint32_t step, uint32_t end,
                                                 struct step_words<KIND> &w)
{
    if (step >= end)
        return;
    words_load<KIND>(v, step * STEP_INPUTS, 0, w.half[0]);
    words_load<KIND>(v, step * STEP_INPUTS, 1, w.half[1]);
}

/* Zeros of this lane's four columns of a half. */
static __device__ __forceinline__ float4 zeros_load(const struct panel_view &v, uint32_t group, uint32_t half)
{
    float zero = (float)v.format.zero;
    if (!v.format.zeros)
        return make_float4(zero, zero, zero, zero);
    uint32_t column = half * 32 + threadIdx.x % GPU_WARP / 4 * 4;
    uint32_t four = *reinterpret_cast<const uint32_t *>(v.zeros + (uint64_t)group * BR_PANEL + column);
    return make_float4((float)(four & 0xffu) + zero, (float)(four >> 8 & 0xffu) + zero,
                       (float)(four >> 16 & 0xffu) + zero, (float)(four >> 24) + zero);
}

static __device__ __forceinline__ float float4_at(const float4 &v, uint32_t i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

template <enum cell_kind KIND, uint32_t TILES>
static __device__ __forceinline__ void step_product(const struct panel_view &v, const struct step_words<KIND> &w,
                                                    uint32_t step, const float4 zeros[2], const struct inputs in[TILES],
                                                    struct sums s[TILES])
{
    uint32_t g = threadIdx.x % GPU_WARP / 4;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++)
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t cells[4];
#pragma unroll
            for (uint32_t p = 0; p < 4; p++)
                cells[p] = KIND == CELL_VALUE ? cell_value(v, step * STEP_INPUTS, p, half * 32 + 4 * g + j)
                                              : cell_make<KIND>(w.half[half], p, j, float4_at(zeros[half], j));
#pragma unroll
            for (uint32_t t = 0; t < TILES; t++)
                product_step(s[t].at[half][j], in[t], cells);
        }
}

/* This warp's stretch. Words are on their way DEPTH steps ahead. */
template <enum cell_kind KIND, uint32_t TILES>
static __device__ __forceinline__ void part_product(const struct br_linear_op &op, const struct panel_view &v,
                                                    uint32_t row, uint32_t begin, uint32_t end, struct sums part[TILES])
{
    constexpr uint32_t DEPTH = KIND == CELL_U4 ? 4 : KIND == CELL_DENSE ? 1 : 2;
    const char *act = gpu_at<const char>(op.norm ? op.act : op.in);
    uint64_t stride = br_act_stride(op.k, BR_NUMERIC_BF16);
    struct step_words<KIND> ahead[DEPTH];
    struct sums sum[TILES];
    float4 zeros[2] = {};
    uint32_t steps = group_steps(v), group = 0;
#pragma unroll
    for (uint32_t t = 0; t < TILES; t++)
        sums_clear(part[t]);
#pragma unroll
    for (uint32_t d = 0; d < DEPTH; d++)
        step_load<KIND>(v, begin + d, end, ahead[d]);
    for (uint32_t base = begin; base < end; base += DEPTH)
#pragma unroll
        for (uint32_t d = 0; d < DEPTH; d++) {
            uint32_t step = base + d;
            if (step >= end)
                break;
            struct step_words<KIND> now = ahead[d];
            step_load<KIND>(v, step + DEPTH, end, ahead[d]);
            struct inputs in[TILES];
#pragma unroll
            for (uint32_t t = 0; t < TILES; t++)
                in[t] = inputs_load(act, stride, row + t * ROWS, op.rows, step * STEP_INPUTS, op.k);
            if constexpr (!cell_grouped<KIND>) {
                step_product<KIND, TILES>(v, now, step, zeros, in, part);
                continue;
            }
            if (step == begin || step % steps == 0) {
                group = step / steps;
                zeros[0] = zeros_load(v, group, 0);
                zeros[1] = zeros_load(v, group, 1);
#pragma unroll
                for (uint32_t t = 0; t < TILES; t++)
                    sums_clear(sum[t]);
            }
            step_product<KIND, TILES>(v, now, step, zeros, in, sum);
            if (step + 1 == end || (step + 1) % steps == 0)
#pragma unroll
                for (uint32_t t = 0; t < TILES; t++)
                    sums_scale(part[t], sum[t], v, group);
        }
}

/* Sums of all parts of 16 rows in shared memory to where they belong: a thread has four columns of a row. */
static __device__ void rows_end(const struct br_linear_op &op, const float *parts, uint32_t row, uint32_t panel)
{
    uint32_t r = threadIdx.x / 16, c = threadIdx.x % 16;
    if (row + r >= op.rows)
        return;
    bool swiglu = op.end == BR_LINEAR_SWIGLU;
    float y[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t column = swiglu ? 2 * c + i % 2 + i / 2 * 32 : 4 * c + i;
        y[i] = parts[r * BR_PANEL + column];
        for (uint32_t p = 1; p < BR_CUDA_PARTS; p++)
            y[i] += parts[(p * ROWS + r) * BR_PANEL + column];
        if (!swiglu)
            end_put(op, row + r, panel, column, y[i]);
    }
    if (swiglu) {
        end_swiglu(op, row + r, panel, 2 * c, y[0], y[2]);
        end_swiglu(op, row + r, panel, 2 * c + 1, y[1], y[3]);
    }
}

template <enum cell_kind KIND, uint32_t TILES>
__global__ void __launch_bounds__(THREADS, 1) linear_kernel(struct br_linear_op op)
{
    SHARED(float, parts, BR_CUDA_PARTS *ROWS *BR_PANEL);
    uint32_t warp = threadIdx.x / GPU_WARP, g = threadIdx.x % GPU_WARP / 4, row = blockIdx.y * (ROWS * TILES);
    struct panel_view v = panel_view_of(op.format, BR_NUMERIC_BF16, op.weights, op.k, blockIdx.x);
    struct sums part[TILES];
    part_product<KIND, TILES>(op, v, row, part_begin(op.k, warp), part_begin(op.k, warp + 1), part);
#pragma unroll
    for (uint32_t t = 0; t < TILES; t++) {
        __syncthreads();
#pragma unroll
        for (uint32_t e = 0; e < 32; e++) {
            uint32_t half = e / 16, j = e / 4 % 4, f = e % 4, r = g + f / 2 * 8;
            parts[(warp * ROWS + r) * BR_PANEL + sums_column(half, j, f)] = part[t].at[half][j][f];
        }
        __syncthreads();
        rows_end(op, parts, row + t * ROWS, blockIdx.x);
    }
}

enum cell_kind cell_kind_of(const struct br_matrix_format *format)
{
    if (!format->code)
        return CELL_DENSE;
    if (!br_quant_grouped(format))
        return CELL_VALUE;
    return format->code == BR_CODE_U4 ? CELL_U4 : format->code == BR_CODE_U8 ? CELL_U8 : CELL_E4M3;
}

template <enum cell_kind KIND> static void few_rows(cudaStream_t stream, const struct br_linear_op *op)
{
    uint32_t panels = (op->n + BR_PANEL - 1) / BR_PANEL;
    if (op->rows <= ROWS)
        LAUNCH((linear_kernel<KIND, 1>), panels, THREADS, 0, stream, *op);
    else
        LAUNCH((linear_kernel<KIND, 2>), dim3(panels, (op->rows + 2 * ROWS - 1) / (2 * ROWS)), THREADS, 0, stream, *op);
}

void linear_few_rows(cudaStream_t stream, const struct br_linear_op *op)
{
    switch (cell_kind_of(&op->format)) {
    case CELL_DENSE:
        few_rows<CELL_DENSE>(stream, op);
        break;
    case CELL_U4:
        few_rows<CELL_U4>(stream, op);
        break;
    case CELL_U8:
        few_rows<CELL_U8>(stream, op);
        break;
    case CELL_E4M3:
        few_rows<CELL_E4M3>(stream, op);
        break;
    case CELL_VALUE:
        few_rows<CELL_VALUE>(stream, op);
        break;
    }
}

static void norm(void *stream, const struct br_linear_op *op)
{
    struct br_cuda_norm_op norm = {};
    norm.numeric = op->numeric, norm.rows = op->rows, norm.k = op->k, norm.eps = op->eps;
    norm.in = op->in, norm.row = op->row, norm.norm = op->norm, norm.out = op->act;
    br_cuda_norm(stream, &norm);
}

void br_cuda_linear(void *stream, const struct br_linear_op *op)
{
    if (!op->rows)
        return;
    if (op->norm)
        norm(stream, op);
    if (op->numeric != BR_NUMERIC_BF16)
        linear_plain(static_cast<cudaStream_t>(stream), op);
    else if (op->rows <= LINEAR_FEW_ROWS)
        linear_few_rows(static_cast<cudaStream_t>(stream), op);
    else
        linear_many_rows(static_cast<cudaStream_t>(stream), op);
}
