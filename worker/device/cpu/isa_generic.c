#include "worker/device/cpu/isa.h"
#include "worker/device/cpu/vec_generic.h"

#include "worker/device/cpu/kernel_set.h"

static bool usable(void)
{
    return true;
}

const struct cpu_isa cpu_isa_generic = {"generic", usable, KERNEL_SET(f32), KERNEL_SET(bf16)};
