/* A device by what a test calls it: an instruction set of the CPU device, or "cuda": the emulated one. */
#ifndef BRIAREUS_TESTS_DEVICE_ANY_H
#define BRIAREUS_TESTS_DEVICE_ANY_H

#include <string.h>

#include "worker/device/device.h"

static inline int device_any(const struct br_device_config *config, struct br_device **out, struct br_err *err)
{
    struct br_device_config c = *config;
    if (!c.isa || strcmp(c.isa, "cuda") != 0)
        return br_device_cpu_create(config, out, err);
    c.kind = "cuda";
    c.isa = NULL;
    return br_device_create(&c, out, err);
}

#endif
