#include <string.h>

#include "worker/device/device.h"

int br_device_create(const struct br_device_config *config, struct br_device **out, struct br_err *err)
{
    if (!config->kind || strcmp(config->kind, "cpu") == 0)
        return br_device_cpu_create(config, out, err);
    return br_device_sim_create(config, out, err);
}
