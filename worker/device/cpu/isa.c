#include "worker/device/cpu/isa.h"

#include <string.h>

/* Best first. */
static const struct cpu_isa *const known[] = {
#if defined(__x86_64__)
    &cpu_isa_amx,     &cpu_isa_avx512bf16, &cpu_isa_avx512, &cpu_isa_avx2,
#endif
    &cpu_isa_generic,
};

enum { KNOWN = sizeof known / sizeof known[0] };

static const struct cpu_isa *isa_best(void)
{
    for (int i = 0; i < KNOWN - 1; i++)
        if (known[i]->usable())
            return known[i];
    return known[KNOWN - 1];
}

const struct cpu_isa *cpu_isa_pick(const char *name, struct br_err *err)
{
    if (!name)
        return isa_best();
    for (int i = 0; i < KNOWN; i++) {
        if (strcmp(known[i]->name, name))
            continue;
        if (known[i]->usable())
            return known[i];
        br_err_set(err, BR_ENOTSUP, "this CPU has no %s; leave the instruction set open", name);
        return NULL;
    }
    br_err_set(err, BR_EINVAL, "unknown instruction set '%s': generic, avx2, avx512, avx512bf16 or amx", name);
    return NULL;
}
