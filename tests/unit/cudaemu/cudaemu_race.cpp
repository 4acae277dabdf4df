/* For TSan: a sum over a block, `clean`, or `racy` with a barrier left out, which it has to report. */
#include <stdio.h>

#include "worker/device/cuda/gpu.h"

template <bool SYNC> __global__ void block_sum(const float *in, float *out)
{
    SHARED(float, part, 256);
    uint32_t t = threadIdx.x;
    part[t] = in[t];
    __syncthreads();
    for (uint32_t width = 128; width; width /= 2) {
        if (t < width)
            part[t] += part[t + width];
        if (SYNC || width != 64)
            __syncthreads();
    }
    if (t == 0)
        out[0] = part[0];
}

int main(int argc, char **argv)
{
    bool racy = argc > 1 && strcmp(argv[1], "racy") == 0;
    float in[256], out[1] = {0};
    for (int i = 0; i < 256; i++)
        in[i] = 1;
    cudaemu_run(1, 256, 0, 1, [&] { racy ? block_sum<false>(in, out) : block_sum<true>(in, out); });
    printf("%g\n", (double)out[0]);
    return 0;
}
