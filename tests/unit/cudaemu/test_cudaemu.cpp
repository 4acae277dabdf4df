/* The stand-in for CUDA: indices, barriers, warps, shared memory, streams and events; and that it finds what it says it
 * finds. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "worker/device/cuda/gpu.h"

extern "C" {
#include "tests/cmocka.h"
}

static cudaStream_t stream()
{
    cudaStream_t s;
    assert_int_equal(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
    return s;
}

template <class T> static T *device_of(size_t n)
{
    void *at;
    assert_int_equal(cudaMalloc(&at, n * sizeof(T)), cudaSuccess);
    return (T *)at;
}

/* Every thread of a grid of three dimensions once. */
__global__ void count_threads(uint32_t *out)
{
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], 1);
}

static void test_indices(void **)
{
    cudaStream_t s = stream();
    dim3 grid(3, 2, 4), block(5, 3, 2);
    size_t n = 24 * 30;
    uint32_t *out = device_of<uint32_t>(n);
    cudaMemsetAsync(out, 0, n * 4, s);
    LAUNCH(count_threads, grid, block, 0, s, out);
    cudaStreamSynchronize(s);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(out[i], 1);
    cudaFree(out);
    cudaStreamDestroy(s);
}

/* Sum of a block through shared memory; SYNC false leaves one barrier out. */
template <bool SYNC> __global__ void block_sum(const float *in, float *out)
{
    SHARED(float, part, 256);
    uint32_t t = threadIdx.x;
    part[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    for (uint32_t width = 128; width; width /= 2) {
        if (t < width)
            part[t] += part[t + width];
        if (SYNC || width != 64)
            __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = part[0];
}

static bool sums_right(const float *in, void (*kernel)(const float *, float *), uint64_t seed)
{
    float out[4] = {0}, want[4] = {0};
    cudaemu_run(4, 256, 0, seed, [&] { kernel(in, out); });
    for (int i = 0; i < 1024; i++)
        want[i / 256] += in[i];
    return memcmp(out, want, sizeof out) == 0;
}

/* Whole numbers: sums are exact in any order. Without one barrier some order of warps gives another sum. */
static void test_missing_barrier(void **)
{
    std::vector<float> in(1024);
    int wrong = 0;
    for (int i = 0; i < 1024; i++)
        in[i] = (float)(i * 7 % 101);
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_true(sums_right(in.data(), block_sum<true>, seed));
#ifndef __SANITIZE_THREAD__ /* which would report it: see cudaemu_race.cpp */
        wrong += !sums_right(in.data(), block_sum<false>, seed);
#else
        wrong++;
#endif
    }
    assert_true(wrong > 10);
}

__global__ void warp_things(uint32_t *out)
{
    uint32_t t = threadIdx.x, lane = t % 32;
    out[t * 4] = __shfl_sync(GPU_ALL, t, 5);
    out[t * 4 + 1] = __shfl_xor_sync(GPU_ALL, t, 3);
    out[t * 4 + 2] = __ballot_sync(GPU_ALL, lane % 3 == 0);
    out[t * 4 + 3] = (uint32_t)gpu_warp_sum((float)lane);
}

static void test_warps(void **)
{
    std::vector<uint32_t> out(64 * 4);
    cudaemu_run(1, 64, 0, 1, [&] { warp_things(out.data()); });
    for (uint32_t t = 0; t < 64; t++) {
        assert_int_equal(out[t * 4], t / 32 * 32 + 5);
        assert_int_equal(out[t * 4 + 1], t ^ 3);
        assert_int_equal(out[t * 4 + 2], 0x49249249u); /* bits 0, 3, 6 ... 30 */
        assert_int_equal(out[t * 4 + 3], 31 * 32 / 2);
    }
}

/* The fragments' places are PTX's (see warp.cpp): laid out from whole matrices here, independently. */
__global__ void mma_once(const float *a, const float *b, float *d)
{
    uint32_t g = threadIdx.x / 4, q = threadIdx.x % 4, fa[4], fb[2];
    float fd[4];
    for (uint32_t i = 0; i < 4; i++) {
        const float *at = a + (g + (i & 1) * 8) * 16 + 2 * q + (i >> 1) * 8;
        fa[i] = gpu_to_bf16_pair(at[0], at[1]);
        fd[i] = d[(g + (i >> 1) * 8) * 8 + 2 * q + (i & 1)];
    }
    for (uint32_t i = 0; i < 2; i++)
        fb[i] = gpu_to_bf16_pair(b[(2 * q + 8 * i) * 8 + g], b[(2 * q + 8 * i + 1) * 8 + g]);
    gpu_mma(fd, fa, fb);
    for (uint32_t i = 0; i < 4; i++)
        d[(g + (i >> 1) * 8) * 8 + 2 * q + (i & 1)] = fd[i];
}

static void test_mma(void **)
{
    float a[256], b[128], d[128], want[128];
    for (int i = 0; i < 256; i++)
        a[i] = (float)(i * 37 % 19 - 9); /* small whole numbers: exact */
    for (int i = 0; i < 128; i++) {
        b[i] = (float)(i * 53 % 23 - 11);
        want[i] = d[i] = (float)i;
    }
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int n = 0; n < 8; n++)
                want[i * 8 + n] += a[i * 16 + k] * b[k * 8 + n];
    cudaemu_run(1, 32, 0, 1, [&] { mma_once(a, b, d); });
    assert_memory_equal(d, want, sizeof d);
}

/* Every code there and back, and the roundings between neighbours. */
static void test_e4m3(void **)
{
    for (uint32_t code = 0; code < 127; code++) {
        float x = gpu_of_e4m3(code);
        uint32_t e = code >> 3, m = code & 7;
        assert_true(x == (e ? ldexpf((float)(8 + m), (int)e - 10) : ldexpf((float)m, -9)));
        assert_int_equal(gpu_to_e4m3(x), code);
        assert_int_equal(gpu_to_e4m3(-x), code | 0x80);
        if (code < 126) {
            float between = (x + gpu_of_e4m3(code + 1)) / 2;
            assert_int_equal(gpu_to_e4m3(between), code + (code & 1));
            assert_int_equal(gpu_to_e4m3(nextafterf(between, 1e9f)), code + 1);
            assert_int_equal(gpu_to_e4m3(nextafterf(between, 0)), code);
        }
    }
    assert_int_equal(gpu_to_e4m3(1e9f), 0x7e);
    assert_true(isnan(gpu_of_e4m3(0x7f)));
}

static void test_f16(void **)
{
    assert_true(gpu_of_f16(0x3c00) == 1.0f);
    assert_true(gpu_of_f16(0xc000) == -2.0f);
    assert_true(gpu_of_f16(0x0001) == 0x1p-24f);
    assert_true(gpu_of_f16(0x7bff) == 65504.0f);
    assert_true(isinf(gpu_of_f16(0x7c00)));
}

/* Two streams run at the same time: each one's host function waits for the other's. */
struct meeting {
    std::atomic<int> there{0};
};

static void meet(void *ctx)
{
    struct meeting *m = (struct meeting *)ctx;
    m->there++;
    while (m->there < 2) /* ends only if the other stream runs meanwhile */
        usleep(100);
}

static void test_streams_overlap(void **)
{
    struct meeting m;
    cudaStream_t a = stream(), b = stream();
    cudaLaunchHostFunc(a, meet, &m);
    cudaLaunchHostFunc(b, meet, &m);
    cudaStreamSynchronize(a);
    cudaStreamSynchronize(b);
    assert_int_equal(m.there, 2);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
}

static void slow(void *)
{
    usleep(30000);
}

__global__ void put(float *at, float value)
{
    at[threadIdx.x] = value;
}

static void test_events(void **)
{
    cudaStream_t a = stream(), b = stream();
    cudaEvent_t e;
    float *x = device_of<float>(32), got[32];
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    assert_int_equal(cudaEventQuery(e), cudaSuccess); /* never recorded */
    for (int round = 0; round < 3; round++) {
        cudaLaunchHostFunc(a, slow, NULL);
        LAUNCH(put, 1, 32, 0, a, x, (float)round);
        cudaEventRecord(e, a);
        assert_int_equal(cudaEventQuery(e), cudaErrorNotReady);
        cudaStreamWaitEvent(b, e, 0);
        cudaMemcpyAsync(got, x, sizeof got, cudaMemcpyDeviceToHost, b);
        cudaStreamSynchronize(b);
        assert_true(got[31] == (float)round);
    }
    cudaEventDestroy(e);
    cudaFree(x);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
}

static void test_launch_errors(void **)
{
    cudaStream_t s = stream();
    float *x = device_of<float>(32);
    LAUNCH(put, 1, 1025, 0, s, x, 1.0f);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    LAUNCH(put, 0, 32, 0, s, x, 1.0f);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    LAUNCH(put, 1, 32, 300 << 10, s, x, 1.0f);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaFree(x), cudaSuccess);
    assert_int_equal(cudaFree((char *)x + 64), cudaErrorInvalidValue);
    cudaStreamDestroy(s);
}

static void test_memory(void **)
{
    size_t before, after, total;
    void *at, *too_much;
    cudaMemGetInfo(&before, &total);
    assert_int_equal(cudaMalloc(&at, 1000), cudaSuccess);
    assert_int_equal((uintptr_t)at % 256, 0);
    cudaMemGetInfo(&after, &total);
    assert_int_equal(before - after, 1024);
    assert_true(isnan(((float *)at)[7])); /* never written */
    assert_int_equal(cudaMalloc(&too_much, total), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    cudaFree(at);
    char host[100];
    assert_int_equal(cudaHostRegister(host, 100, 0), cudaSuccess);
    assert_int_equal(cudaHostRegister(host + 50, 10, 0), cudaErrorHostMemoryAlreadyRegistered);
    assert_int_equal(cudaHostUnregister(host), cudaSuccess);
    assert_int_equal(cudaHostUnregister(host), cudaErrorHostMemoryNotRegistered);
    cudaGetLastError();
}

static void test_fault(void **)
{
    cudaStream_t s = stream();
    float *x = device_of<float>(32);
    cudaemu_set_fault(cudaErrorIllegalAddress);
    assert_int_equal(cudaMemcpyAsync(x, x, 4, cudaMemcpyDefault, s), cudaErrorIllegalAddress);
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    cudaemu_set_fault(cudaSuccess);
    cudaGetLastError();
    cudaFree(x);
    cudaStreamDestroy(s);
}

/* ---- What it has to find; each in a process of its own, which has to end by a signal or a sanitizer's exit ---- */

__global__ void uninitialised(float *out)
{
    SHARED(float, s, 32);
    out[threadIdx.x] = s[threadIdx.x];
}

static void test_shared_is_poisoned(void **)
{
    float out[32] = {0};
    cudaemu_run(1, 32, 0, 1, [&] { uninitialised(out); });
    assert_true(isnan(out[0]) && isnan(out[31]));
}

static void run_body(const std::function<void()> &body)
{
    cudaemu_run(1, 64, 64, 1, body);
}

static void assert_dies(const std::function<void()> &body, const char *with)
{
    int pipes[2];
    char text[8192] = {0};
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        dup2(pipes[1], 2);
        close(pipes[0]);
        close(pipes[1]);
        body();
        _exit(0);
    }
    close(pipes[1]);
    while (n < sizeof text - 1 && (got = read(pipes[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    close(pipes[0]);
    int status;
    waitpid(child, &status, 0);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (with && !strstr(text, with))
        fail_msg("it said: %s", text);
}

static void test_stray_lanes(void **)
{
    assert_dies([] { run_body([] { threadIdx.x < 40 ? __syncwarp() : __syncthreads(); }); }, "lanes that do not come");
    assert_dies(
        [] {
            run_body([] {
                if (threadIdx.x % 2)
                    __syncwarp();
                else
                    __shfl_sync(GPU_ALL, 1, 0);
            });
        },
        "meets lanes in");
    assert_dies([] { run_body([] { __shfl_sync(0xffffu, 1, 0); }); }, "not in the mask");
}

static void test_out_of_bounds(void **)
{
    cudaStream_t s = stream();
    float *x = device_of<float>(1024); /* ends at a page's end */
    assert_dies([=] { run_body([=] { x[1024 + threadIdx.x] = 1; }); }, NULL);
    assert_dies([=] { run_body([=] { x[0] = x[1024 + threadIdx.x]; }); }, NULL);
    float *odd = device_of<float>(10); /* a write into the gap: found when it is freed, or at once under ASan */
    assert_dies(
        [=] {
            run_body([=] { odd[10] = 1; });
            cudaFree(odd);
        },
        NULL);
    cudaFree(odd);
    cudaFree(x);
    cudaStreamDestroy(s);
}

static void test_too_much_shared(void **)
{
    assert_dies(
        [] {
            run_body([] {
                SHARED(char, big, 49 << 10);
                big[0] = 0;
            });
        },
        "shared memory");
}

#ifdef __SANITIZE_ADDRESS__
/* GCC has no check of alignment without -fsanitize=undefined, which the asan preset has. */
static void test_sanitizers(void **)
{
    float *x = device_of<float>(1024);
    assert_dies(
        [] {
            run_body([] {
                SHARED(float, a, 32);
                SHARED(float, b, 32);
                b[0] = 0;
                a[32 + threadIdx.x % 2] = 1;
            });
        },
        "AddressSanitizer");
    assert_dies([=] { run_body([=] { *(uint4 *)(x + 1) = make_uint4(1, 2, 3, 4); }); }, "misaligned");
    cudaFree(x);
}
#endif

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_indices),
        cmocka_unit_test(test_missing_barrier),
        cmocka_unit_test(test_warps),
        cmocka_unit_test(test_mma),
        cmocka_unit_test(test_e4m3),
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_streams_overlap),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_launch_errors),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_shared_is_poisoned),
        cmocka_unit_test(test_stray_lanes),
        cmocka_unit_test(test_out_of_bounds),
        cmocka_unit_test(test_too_much_shared),
#ifdef __SANITIZE_ADDRESS__
        cmocka_unit_test(test_sanitizers),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
