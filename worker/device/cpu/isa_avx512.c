#include "worker/device/cpu/isa.h"
#include "worker/device/cpu/vec_avx512.h"

#include "worker/device/cpu/kernel_set.h"

static bool usable(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

const struct cpu_isa cpu_isa_avx512 = {"avx512", usable, KERNEL_SET(f32), KERNEL_SET(bf16)};
