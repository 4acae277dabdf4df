/* GPUs by name: what their data sheets say. Peaks are dense (no sparsity), sizes are decimal (80 GB = 80e9 bytes). */
#ifndef BRIAREUS_COST_GPU_H
#define BRIAREUS_COST_GPU_H

#include <stddef.h>

#include "base/err.h"

struct br_gpu {
    const char *name;
    double memory_bytes, memory_bytes_per_s;
    double peak_bf16, peak_fp8, peak_int8; /* operations/s with 32-bit sums; 0: the GPU has no such units */
    double power_watts;                    /* board power limit */
    double link_bytes_per_s;               /* PCIe, one direction, raw */
    double link_effective_bytes_per_s;     /* what large copies from pinned memory reach */
    double nvlink_bytes_per_s;             /* one direction, all links; 0: none */
    double price_usd_per_hour;             /* a placeholder, to be overridden: see gpu.c */
};

/* The catalogue, in a fixed order. */
const struct br_gpu *br_gpu_at(size_t index); /* NULL past the end */

/* By name; case, punctuation, "NVIDIA" and "GB" do not count ("h20", "RTX4090", "A100-80GB"); "A100" is the one with 80
 * GB. NULL and BR_ENOENT with the nearest name when there is none. The result is static. */
const struct br_gpu *br_gpu_find(const char *name, struct br_err *err);

#endif
