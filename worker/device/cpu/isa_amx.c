#define BR_HAVE_AVX512BF16
#define BR_HAVE_AMX
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/device/cpu/isa.h"
#include "worker/device/cpu/vec_avx512.h"

#include "worker/device/cpu/kernel_set.h"

enum { REQUEST_XCOMP_PERM = 0x1023, XTILEDATA = 18 }; /* asm/prctl.h, arch/x86/include/asm/fpu/types.h */

/* Tiles are for processes that ask the kernel for them; asking again is fine. */
static bool usable(void)
{
    return cpu_isa_avx512bf16.usable() && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
           syscall(SYS_arch_prctl, REQUEST_XCOMP_PERM, XTILEDATA) == 0;
}

const struct cpu_isa cpu_isa_amx = {"amx", usable, KERNEL_SET(f32), KERNEL_SET(bf16)};
