/* Random inputs for kernels, and the numbers they stand for. Device memory is the emulator's, which the host may touch.
 */
#ifndef BRIAREUS_TESTS_CUDA_BENCH_H
#define BRIAREUS_TESTS_CUDA_BENCH_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

#include "tests/cudaemu/cudaemu.h"
#include "worker/device/cuda/kernels.h"

extern "C" {
#include "base/rng.h"
#include "tests/cmocka.h"
#include "worker/weights/convert.h"
}

/* Shapes of a test: enough for CI, or as many as BRIAREUS_SHAPES says. */
static inline int shapes(int few)
{
    const char *text = getenv("BRIAREUS_SHAPES");
    return text ? atoi(text) : few;
}

static inline uint32_t draw(struct br_rng *rng, uint32_t least, uint32_t most)
{
    return least + (uint32_t)((double)(most - least + 1) * br_rng_next(rng));
}

/* A number of about -1 .. 1. */
static inline float draw_value(struct br_rng *rng)
{
    return (float)(br_rng_next(rng) + br_rng_next(rng) + br_rng_next(rng) - 1.5);
}

static inline float bf16(uint16_t half)
{
    return br_f32_from_bits(br_bf16_to_f32_bits(half));
}

static inline uint16_t to_bf16(float x)
{
    return br_f32_bits_to_bf16(br_f32_bits(x));
}

/* Device memory for the life of a scope. */
struct area {
    void *at = NULL;
    uint64_t bytes;
    explicit area(uint64_t n) : bytes(n)
    {
        assert_int_equal(cudaMalloc(&at, n ? n : 1), cudaSuccess);
    }
    ~area()
    {
        cudaFree(at);
    }
    area(const area &) = delete;
    operator br_devptr() const
    {
        return (uintptr_t)at;
    }
    template <class T> T *as() const
    {
        return (T *)at;
    }
};

struct device {
    cudaStream_t stream;
    device()
    {
        assert_int_equal(cudaStreamCreateWithFlags(&stream, 0), cudaSuccess);
    }
    ~device()
    {
        cudaStreamDestroy(stream);
    }
    void finish() const
    {
        assert_int_equal(cudaGetLastError(), cudaSuccess);
        assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    }
};

/* Rows of activations or of F32, with not-a-number between width and stride. */
struct rows {
    enum br_numeric numeric;
    uint32_t n, width;
    uint64_t stride;
    struct area memory;
    rows(uint32_t n_, uint32_t width_, enum br_numeric numeric_, bool f32)
        : numeric(f32 ? BR_NUMERIC_F32 : numeric_), n(n_), width(width_),
          stride(f32 ? br_f32_stride(width_) : br_act_stride(width_, numeric_)), memory(n_ * stride)
    {
    }
    float get(uint32_t row, uint32_t i) const
    {
        const char *at = memory.as<char>() + row * stride;
        return numeric == BR_NUMERIC_BF16 ? bf16(((const uint16_t *)at)[i]) : ((const float *)at)[i];
    }
    void put(uint32_t row, uint32_t i, float x)
    {
        char *at = memory.as<char>() + row * stride;
        if (numeric == BR_NUMERIC_BF16)
            ((uint16_t *)at)[i] = to_bf16(x);
        else
            ((float *)at)[i] = x;
    }
    void fill(struct br_rng *rng)
    {
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t i = 0; i < width; i++)
                put(r, i, draw_value(rng));
    }
};

/* Worst error relative to `size`, the sum of the magnitudes that went into a result (or the result's own). */
struct worst {
    double error = 0;
    void add(double got, double want, double size)
    {
        double off = fabs(got - want) / (size > 1e-30 ? size : 1e-30);
        error = isnan(off) || off > error ? (isnan(off) ? INFINITY : off) : error;
    }
    void check(double most, const char *what, int n) const
    {
        print_message("%s: %d shapes, worst relative error %.2g\n", what, n, error);
        assert_true(error <= most);
    }
};

#endif
