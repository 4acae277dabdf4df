/* Weights in panels as kernels read them: one number at a time (plain), or as cells for tensor cores. */
#ifndef BRIAREUS_WORKER_DEVICE_CUDA_WEIGHTS_H
#define BRIAREUS_WORKER_DEVICE_CUDA_WEIGHTS_H

#include "worker/device/cuda/gpu.h"
#include "worker/device/cuda/kernels.h"

/* A panel's parts; dense ones have codes alone: the cells. */
struct panel_view {
    struct br_matrix_format format;
    const uint16_t *index;
    const char *scales, *codes;
    const uint8_t *zeros;
    const float *mins;
    uint32_t k;
};

static __device__ __forceinline__ struct panel_view panel_view_of(const struct br_matrix_format &format,
                                                                  enum br_numeric numeric, br_devptr weights,
                                                                  uint32_t k, uint32_t panel)
{
    struct panel_view v = {};
    v.format = format;
    v.k = k;
    if (!format.code) {
        uint64_t bytes = numeric == BR_NUMERIC_BF16 ? (uint64_t)(k + 1) / 2 * BR_PANEL * 4 : (uint64_t)k * BR_PANEL * 4;
        v.codes = gpu_at<const char>(weights + panel * bytes);
        return v;
    }
    struct br_quant_panel at = br_quant_panel_at(&format, k);
    br_devptr base = weights + br_quant_index_bytes(&format, k) + panel * at.bytes;
    v.index = format.indexed ? gpu_at<const uint16_t>(weights) : nullptr;
    v.scales = gpu_at<const char>(base);
    v.zeros = gpu_at<const uint8_t>(base + at.zeros);
    v.mins = gpu_at<const float>(base + at.mins);
    v.codes = gpu_at<const char>(base + at.codes);
    return v;
}

static __device__ __forceinline__ uint32_t panel_group(const struct panel_view &v, uint32_t input)
{
    return v.index ? v.index[input] : v.format.group ? input / v.format.group : 0;
}

static __device__ __forceinline__ float panel_scale(const struct panel_view &v, uint32_t group, uint32_t column)
{
    uint64_t at = (uint64_t)group * (BR_PANEL / v.format.span) + column / v.format.span;
    return v.format.wide ? reinterpret_cast<const float *>(v.scales)[at]
                         : gpu_of_f16(reinterpret_cast<const uint16_t *>(v.scales)[at]);
}

static __device__ __forceinline__ float panel_zero(const struct panel_view &v, uint32_t group, uint32_t column)
{
    uint32_t stored = v.format.zeros ? v.zeros[(uint64_t)group * BR_PANEL + column] : 0;
    return (float)(stored + v.format.zero);
}

/* What makes a number of a code: code scale + offset, rounded once: the product of zero and scale is exact, and there
 * is a zero or a min, not both. */
static __device__ __forceinline__ float2 panel_factors(const struct panel_view &v, uint32_t group, uint32_t column)
{
    float scale = panel_scale(v, group, column);
    float offset =
        v.format.mins ? -v.mins[(uint64_t)group * BR_PANEL + column] : -(panel_zero(v, group, column) * scale);
    return make_float2(scale, offset);
}

/* Input `input` of a word: inputs 0 2 4 6 1 3 5 7 of eight codes from the low nibble up, 0 2 1 3 of four bytes. */
static __device__ __forceinline__ float panel_code(const struct panel_view &v, uint32_t input, uint32_t column)
{
    bool nibbles = v.format.code == BR_CODE_U4;
    uint32_t per_word = nibbles ? 8 : 4, bits = nibbles ? 4 : 8, i = input % per_word;
    uint32_t word = reinterpret_cast<const uint32_t *>(v.codes)[(uint64_t)(input / per_word) * BR_PANEL + column];
    uint32_t code = word >> (i / 2 * bits + i % 2 * 16) & ((1u << bits) - 1);
    return v.format.code == BR_CODE_E4M3 ? gpu_of_e4m3(code) : (float)code;
}

/* The number in F32. */
static __device__ __forceinline__ float panel_value(const struct panel_view &v, enum br_numeric numeric, uint32_t input,
                                                    uint32_t column)
{
    if (!v.format.code && numeric == BR_NUMERIC_BF16)
        return gpu_of_bf16(
            reinterpret_cast<const uint16_t *>(v.codes)[((uint64_t)(input / 2) * BR_PANEL + column) * 2 + input % 2]);
    if (!v.format.code)
        return reinterpret_cast<const float *>(v.codes)[(uint64_t)input * BR_PANEL + column];
    float2 f = panel_factors(v, panel_group(v, input), column);
    return fmaf(panel_code(v, input, column), f.x, f.y);
}

/* ---- Cells. A warp takes 32 inputs and 64 columns at a time. Lane 4g + q has inputs 8q .. 8q + 7 of columns 4g .. 4g
 * + 3 of both halves of the panel: one 16-byte load brings a word of four columns. Step s of two feeds pairs s and s +
 * 2 of a lane's four to the tensor cores, and of the activations the same ones, so what the hardware takes for
 * neighbouring inputs are others; a sum does not mind. Fragment j of a half has column 4c + j where the hardware has c,
 * so lane 4g + q ends up with columns 8q .. 8q + 7: 8q + j and 8q + 4 + j. ---- */

static constexpr uint32_t STEP_INPUTS = 32;

/* How weights are made to cells; a template parameter of kernels. */
enum cell_kind {
    CELL_DENSE,
    CELL_U4,    /* code - zero, exact in BF16: a group's sum is scaled afterwards */
    CELL_U8,    /* the same */
    CELL_E4M3,  /* the number; the group's sum is scaled afterwards */
    CELL_VALUE, /* code scale + offset, rounded to BF16: any format */
};

template <enum cell_kind KIND> struct cell_words {
    static constexpr uint32_t N = KIND == CELL_DENSE ? 4 : KIND == CELL_U4 ? 1 : 2; /* 16-byte loads of a half */
};

static __device__ __forceinline__ uint32_t uint4_at(const uint4 &v, uint32_t i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Words of this lane for the 32 inputs from `first` on; those that are not there are 0. VALUE: nothing, see cells_of.
 */
template <enum cell_kind KIND>
static __device__ __forceinline__ void words_load(const struct panel_view &v, uint32_t first, uint32_t half,
                                                  uint4 words[cell_words<KIND>::N])
{
    constexpr uint32_t N = cell_words<KIND>::N, INPUTS = 8 / N; /* inputs of a word */
    uint32_t lane = threadIdx.x % GPU_WARP, g = lane / 4, q = lane % 4, rows = (v.k + INPUTS - 1) / INPUTS;
    const uint4 *at = reinterpret_cast<const uint4 *>(v.codes) + half * 8 + g;
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        uint32_t row = first / INPUTS + q * N + i;
        words[i] = KIND != CELL_VALUE && row < rows ? at[(uint64_t)row * (BR_PANEL / 4)] : make_uint4(0, 0, 0, 0);
    }
}

/* Upper halves of two F32 that BF16 holds exactly. */
static __device__ __forceinline__ uint32_t pair_exact(float low, float high)
{
    return __float_as_uint(low) >> 16 | (__float_as_uint(high) & 0xffff0000u);
}

/* Pair `pair` (inputs 2 pair, 2 pair + 1 of this lane's eight) of column j of its four. zero: of that column. */
template <enum cell_kind KIND>
static __device__ __forceinline__ uint32_t cell_make(const uint4 words[cell_words<KIND>::N], uint32_t pair, uint32_t j,
                                                     float zero)
{
    if constexpr (KIND == CELL_DENSE)
        return uint4_at(words[pair], j);
    if constexpr (KIND == CELL_U4) {
        /* 0x4b000000 | code is 2^23 + code as an F32 */
        uint32_t codes = uint4_at(words[0], j) >> (4 * pair) & 0x000f000fu;
        return pair_exact(__uint_as_float(0x4b000000u | (codes & 0xffffu)) - (8388608.0f + zero),
                          __uint_as_float(0x4b000000u | codes >> 16) - (8388608.0f + zero));
    }
    uint32_t codes = uint4_at(words[pair / 2], j) >> (8 * (pair % 2)) & 0x00ff00ffu;
    if constexpr (KIND == CELL_U8)
        return pair_exact(__uint_as_float(0x4b000000u | (codes & 0xffffu)) - (8388608.0f + zero),
                          __uint_as_float(0x4b000000u | codes >> 16) - (8388608.0f + zero));
    return pair_exact(gpu_of_e4m3(codes & 0xffu), gpu_of_e4m3(codes >> 16));
}

/* The same for CELL_VALUE, straight from memory. */
static __device__ __forceinline__ uint32_t cell_value(const struct panel_view &v, uint32_t first, uint32_t pair,
                                                      uint32_t column)
{
    uint32_t input = first + threadIdx.x % 4 * 8 + 2 * pair;
    float low = input < v.k ? panel_value(v, BR_NUMERIC_BF16, input, column) : 0;
    float high = input + 1 < v.k ? panel_value(v, BR_NUMERIC_BF16, input + 1, column) : 0;
    return gpu_to_bf16_pair(low, high);
}

/* Where stretch `part` of the inputs begins, in steps of 32: whole groups of 128 where there are enough. */
static __host__ __device__ __forceinline__ uint32_t part_begin(uint32_t k, uint32_t part)
{
    uint32_t steps = (k + STEP_INPUTS - 1) / STEP_INPUTS;
    uint32_t each = ((steps + BR_CUDA_PARTS - 1) / BR_CUDA_PARTS + 3) / 4 * 4, at = part * each;
    return at < steps ? at : steps;
}

#endif
