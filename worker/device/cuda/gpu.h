/* What .cu files are written on: CUDA's runtime under nvcc, its stand-in (tests/cudaemu) elsewhere. Kernels are started
 * with LAUNCH and declare shared memory with SHARED and DYN_SHARED; every mma or PTX instruction is a function here
 * with a twin. Own types for BF16 and E4M3, as words: no header of the toolkit is needed for them. */
#ifndef BRIAREUS_WORKER_DEVICE_CUDA_GPU_H
#define BRIAREUS_WORKER_DEVICE_CUDA_GPU_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define LAUNCH(kernel, grid, block, shared, stream, ...) (GPU_NAME kernel<<<grid, block, shared, stream>>>(__VA_ARGS__))
#define SHARED(T, name, n) __shared__ T name[n]
#define DYN_SHARED(T, name)                                                                                            \
    extern __shared__ uint4 gpu_dyn_shared[];                                                                          \
    T *name = reinterpret_cast<T *>(gpu_dyn_shared)
#define GPU_NAME
#else
#include "tests/cudaemu/cudaemu.h"
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                                               \
    cudaemu_launch_kernel(GPU_NAME kernel, grid, block, shared, stream, __VA_ARGS__)
#define SHARED(T, name, n)                                                                                             \
    static const char name##_key = 0;                                                                                  \
    T *const name = static_cast<T *>(cudaemu_shared(&name##_key, sizeof(T) * (n), alignof(T)))
#define DYN_SHARED(T, name) T *const name = static_cast<T *>(cudaemu_dyn_shared(alignof(T)))
#define GPU_NAME
#endif

/* LAUNCH((kernel<A, B>), ...): what is in a pair of brackets is one argument of a macro. */

static constexpr int GPU_WARP = 32;
#define GPU_ALL 0xffffffffu

template <class T> static __device__ __forceinline__ T *gpu_at(uint64_t address)
{
    return reinterpret_cast<T *>(static_cast<uintptr_t>(address));
}

static __device__ __forceinline__ float gpu_of_bf16(uint32_t half)
{
    return __uint_as_float(half << 16);
}

/* To nearest, ties to even; not-a-number stays that. */
static __device__ __forceinline__ uint32_t gpu_to_bf16(float x)
{
    uint32_t bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

/* Two neighbours in a word, the first one low. */
static __device__ __forceinline__ uint32_t gpu_to_bf16_pair(float low, float high)
{
#ifdef __CUDACC__
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return gpu_to_bf16(low) | gpu_to_bf16(high) << 16;
#endif
}

static __device__ __forceinline__ float gpu_of_f16(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u)
        return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    /* Subnormals too: the exponent's bias is made up for by a multiplication, which is exact. */
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest << 13) * 0x1p112f));
}

/* E4M3 ("fn": no infinities, 0x7f is not-a-number) to F32, subnormals too. */
static __device__ __forceinline__ float gpu_of_e4m3(uint32_t code)
{
    uint32_t sign = (code & 0x80u) << 24, rest = code & 0x7fu;
    if (rest == 0x7fu)
        return __uint_as_float(0x7fc00000u);
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest << 20) * 0x1p120f));
}

/* F32 to E4M3: to nearest, ties to even; beyond 448: 448, as saturating conversions do. */
static __device__ __forceinline__ uint32_t gpu_to_e4m3(float x)
{
    uint32_t bits = __float_as_uint(x), sign = bits >> 24 & 0x80u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return sign | 0x7fu;
    if (rest >= 0x43e00000u) /* 448 */
        return sign | 0x7eu;
    if (rest < 0x3c800000u) /* below 2^-6: multiples of 2^-9, and adding 2^14 leaves them in the low bits */
        return sign | (__float_as_uint(__uint_as_float(rest) + 16384.0f) - 0x46800000u);
    return sign | (((rest + 0x7ffffu + (rest >> 20 & 1)) >> 20) - (120u << 3));
}

/* d += a b on tensor cores, 16 x 16 times 16 x 8, BF16 with sums in F32. Lane 4 g + q holds
 *   a: rows g, g + 8 | columns 2q, 2q + 1, then those + 8: a[0] (g, 2q) a[1] (g + 8, 2q) a[2] (g, 2q + 8) a[3]
 *   b: column g | rows 2q, 2q + 1, then those + 8
 *   d: rows g (0, 1), g + 8 (2, 3) | columns 2q, 2q + 1 */
static __device__ __forceinline__ void gpu_mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
#ifdef __CUDACC__
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    cudaemu_mma_bf16(d, a, b);
#endif
}

/* In one order, whatever the warp: all lanes get the same bits. */
static __device__ __forceinline__ float gpu_warp_sum(float x)
{
    for (int with = GPU_WARP / 2; with; with /= 2)
        x += __shfl_xor_sync(GPU_ALL, x, with);
    return x;
}

static __device__ __forceinline__ float gpu_warp_max(float x)
{
    for (int with = GPU_WARP / 2; with; with /= 2)
        x = fmaxf(x, __shfl_xor_sync(GPU_ALL, x, with));
    return x;
}

#endif
