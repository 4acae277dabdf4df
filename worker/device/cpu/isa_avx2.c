#include "worker/device/cpu/isa.h"
#include "worker/device/cpu/vec_avx2.h"

#include "worker/device/cpu/kernel_set.h"

static bool usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

const struct cpu_isa cpu_isa_avx2 = {"avx2", usable, KERNEL_SET(f32), KERNEL_SET(bf16)};
