/* A stand-in for the part of the CUDA runtime that Briareus uses, so that its .cu files compile with a C++ compiler and
 * run on the CPU. Names, arguments and return values are those of the CUDA Runtime API reference; only what is declared
 * here exists. Differences that matter:
 *   - a kernel is started with LAUNCH(...) and gets shared memory with SHARED or DYN_SHARED (worker/device/cuda/gpu.h);
 *   - the threads of a block are fibers of one CPU thread, a stream is a CPU thread: streams run at the same time, so
 *     what events do not order may happen in any order;
 *   - blocks, and the warps of a block between two barriers, run in an order drawn from CUDAEMU_SEED (default 1): a
 *     result that depends on it is a bug in the kernel, and TSan sees the race behind it;
 *   - fresh device and shared memory is filled with 0xff bytes: not-a-number in every format;
 *   - device memory ends at an inaccessible page; under ASan both it and shared memory have red zones. */
#ifndef BRIAREUS_TESTS_CUDAEMU_H
#define BRIAREUS_TESTS_CUDAEMU_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

/* ---- Inside kernels ---- */
static constexpr uint32_t CUDAEMU_WARP = 32, CUDAEMU_MAX_THREADS = 1024, CUDAEMU_SHARED_BYTES = 227 << 10;

struct cudaemu_lane { /* what the thread that runs now is */
    dim3 thread, block, block_dim, grid_dim;
};
extern constinit thread_local struct cudaemu_lane cudaemu_here;
#define threadIdx (cudaemu_here.thread)
#define blockIdx (cudaemu_here.block)
#define blockDim (cudaemu_here.block_dim)
#define gridDim (cudaemu_here.grid_dim)

/* Waits for every thread of the block that has not ended. */
void __syncthreads(void);

/* All lanes of `mask` come with the same `name`; the last one calls fn, whose [32] arguments are NULL for other lanes,
 * then all go on. Lanes that meet another name, or never come, are reported. */
void cudaemu_warp(uint32_t mask, const char *name, void *mine, void (*fn)(void *const lanes[CUDAEMU_WARP]));
void __syncwarp(uint32_t mask = 0xffffffffu);
uint32_t __ballot_sync(uint32_t mask, int predicate);
int __any_sync(uint32_t mask, int predicate);
int __all_sync(uint32_t mask, int predicate);

/* A 32-bit value of the lane `from` of the caller's warp. */
uint32_t cudaemu_shuffle(uint32_t mask, uint32_t value, uint32_t from);
uint32_t cudaemu_lane_id(void);
template <class T> static inline T __shfl_sync(uint32_t mask, T value, int from)
{
    static_assert(sizeof(T) == 4, "32-bit values only");
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = cudaemu_shuffle(mask, bits, (uint32_t)from % CUDAEMU_WARP);
    memcpy(&value, &bits, 4);
    return value;
}
template <class T> static inline T __shfl_xor_sync(uint32_t mask, T value, int with)
{
    return __shfl_sync(mask, value, (int)(cudaemu_lane_id() ^ (uint32_t)with));
}
template <class T> static inline T __shfl_down_sync(uint32_t mask, T value, unsigned by)
{
    uint32_t lane = cudaemu_lane_id();
    return __shfl_sync(mask, value, (int)(lane + by < CUDAEMU_WARP ? lane + by : lane));
}

/* Shared memory of `bytes` for the declaration that `key` stands for, the same for all threads of the block. */
void *cudaemu_shared(const void *key, size_t bytes, size_t align);
void *cudaemu_dyn_shared(size_t align);

/* mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 of PTX: d = a b + d, fragments as there. */
void cudaemu_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]);

static inline uint32_t atomicAdd(uint32_t *at, uint32_t value)
{
    return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL);
}
static inline uint32_t atomicMax(uint32_t *at, uint32_t value)
{
    uint32_t old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    while (old < value && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    return old;
}
static inline void __threadfence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline uint32_t __float_as_uint(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static inline float __uint_as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static inline float rsqrtf(float x)
{
    return 1.0f / __builtin_sqrtf(x);
}
static inline int __popc(uint32_t x)
{
    return __builtin_popcount(x);
}

/* ---- The runtime ---- */
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorIllegalAddress = 700,
    cudaErrorHostMemoryAlreadyRegistered = 712,
    cudaErrorHostMemoryNotRegistered = 713,
    cudaErrorNotReady = 600,
    cudaErrorUnknown = 999
};
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostRegisterDefault = 0, cudaHostAllocDefault = 0 };
typedef struct cudaemu_stream *cudaStream_t;
typedef struct cudaemu_event *cudaEvent_t;
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor, multiProcessorCount;
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *at);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaFreeHost(void *at);
cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *at);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream); /* waits, which CUDA's need not */
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*fn)(void *ctx), void *ctx);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaDeviceSynchronize(void);
template <class F> cudaError_t cudaFuncSetAttribute(F *, cudaFuncAttribute, int bytes)
{
    return (uint32_t)bytes <= CUDAEMU_SHARED_BYTES ? cudaSuccess : cudaErrorInvalidValue;
}

/* ---- Launches ---- */
void cudaemu_launch(dim3 grid, dim3 block, size_t dyn_shared, cudaStream_t stream, std::function<void()> body);
template <class... P, class... A>
static inline void cudaemu_launch_kernel(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                                         cudaStream_t stream, A... args)
{
    cudaemu_launch(grid, block, shared, stream, [=]() { kernel(args...); });
}
/* Runs a grid at once on the calling thread. For tests; the seed decides the order of blocks and warps. */
void cudaemu_run(dim3 grid, dim3 block, size_t dyn_shared, uint64_t seed, const std::function<void()> &body);

/* What the emulated device has; before its first use. 0: leave as it is (defaults: 8 GPUs with 64 GiB and 4 SMs). */
void cudaemu_set_device(int gpus, size_t bytes, int sms);
/* Every call from here on fails with `error`, as after a fault on the GPU; cudaSuccess: no longer. */
void cudaemu_set_fault(cudaError_t error);

#endif
