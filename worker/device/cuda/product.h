/* The sums of a warp: 16 rows of activations by the 64 columns of a panel, in registers. */
#ifndef BRIAREUS_WORKER_DEVICE_CUDA_PRODUCT_H
#define BRIAREUS_WORKER_DEVICE_CUDA_PRODUCT_H

#include "worker/device/cuda/weights.h"

/* sum[half][j]: fragment j of a half, see weights.h. */
struct sums {
    float at[2][4][4];
};

static __device__ __forceinline__ void sums_clear(struct sums &s)
{
#pragma unroll
    for (uint32_t e = 0; e < 32; e++)
        s.at[e / 16][e / 4 % 4][e % 4] = 0;
}

static __device__ __forceinline__ void sums_add(struct sums &to, const struct sums &from)
{
#pragma unroll
    for (uint32_t e = 0; e < 32; e++)
        to.at[e / 16][e / 4 % 4][e % 4] += from.at[e / 16][e / 4 % 4][e % 4];
}

/* Column of the panel that fragment value f of fragment j of a half holds in this lane. */
static __device__ __forceinline__ uint32_t sums_column(uint32_t half, uint32_t j, uint32_t f)
{
    return half * 32 + threadIdx.x % 4 * 8 + f % 2 * 4 + j;
}

/* Activations of 32 inputs for rows g and g + 8 of a tile. */
struct inputs {
    uint4 at[2];
};

/* Zeros for rows from `rows` on and inputs from k on, where there may be anything. */
static __device__ __forceinline__ struct inputs inputs_load(const char *act, uint64_t stride, uint32_t row,
                                                            uint32_t rows, uint32_t first, uint32_t k)
{
    uint32_t g = threadIdx.x % GPU_WARP / 4, input = first + threadIdx.x % 4 * 8;
    struct inputs in;
#pragma unroll
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t at = row + g + 8 * r;
        in.at[r] = make_uint4(0, 0, 0, 0);
        if (at < rows && input < k)
            in.at[r] = *reinterpret_cast<const uint4 *>(act + at * stride + (uint64_t)input * 2);
        if (input + 8 > k && input < k) {
            uint32_t left = k - input;
            uint32_t keep[4];
#pragma unroll
            for (uint32_t p = 0; p < 4; p++)
                keep[p] = 2 * p + 1 < left ? 0xffffffffu : 2 * p < left ? 0xffffu : 0;
            in.at[r] =
                make_uint4(in.at[r].x & keep[0], in.at[r].y & keep[1], in.at[r].z & keep[2], in.at[r].w & keep[3]);
        }
    }
    return in;
}

/* s += inputs x cells of column fragment j; cells: this lane's four pairs. */
static __device__ __forceinline__ void product_step(float s[4], const struct inputs &in, const uint32_t cells[4])
{
#pragma unroll
    for (uint32_t step = 0; step < 2; step++) {
        uint32_t a[4] = {uint4_at(in.at[0], step), uint4_at(in.at[1], step), uint4_at(in.at[0], step + 2),
                         uint4_at(in.at[1], step + 2)};
        uint32_t b[2] = {cells[step], cells[step + 2]};
        gpu_mma(s, a, b);
    }
}

/* to += scale from, by columns: what ends a group. */
static __device__ __forceinline__ void sums_scale(struct sums &to, const struct sums &from, const struct panel_view &v,
                                                  uint32_t group)
{
#pragma unroll
    for (uint32_t half = 0; half < 2; half++)
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
#pragma unroll
            for (uint32_t f = 0; f < 2; f++) {
                float scale = panel_scale(v, group, sums_column(half, j, f));
                to.at[half][j][f] = fmaf(scale, from.at[half][j][f], to.at[half][j][f]);
                to.at[half][j][f + 2] = fmaf(scale, from.at[half][j][f + 2], to.at[half][j][f + 2]);
            }
}

template <enum cell_kind KIND> static constexpr bool cell_grouped = KIND >= CELL_U4 &&KIND <= CELL_E4M3;

/* Steps that a group takes; a group that goes over all inputs: all of them. */
static __device__ __forceinline__ uint32_t group_steps(const struct panel_view &v)
{
    return v.format.group ? v.format.group / STEP_INPUTS : 0xffffffffu;
}

#endif
