#define BR_HAVE_AVX512BF16
#include "worker/device/cpu/isa.h"
#include "worker/device/cpu/vec_avx512.h"

#include "worker/device/cpu/kernel_set.h"

static bool usable(void)
{
    return cpu_isa_avx512.usable() && __builtin_cpu_supports("avx512bf16");
}

const struct cpu_isa cpu_isa_avx512bf16 = {"avx512bf16", usable, KERNEL_SET(f32), KERNEL_SET(bf16)};
