#include <string.h>

#include "worker/device/cuda/plugin.h"

static int cuda_create(const struct br_device_config *config, struct br_device **out, struct br_err *err)
{
    const struct br_cuda_plugin *plugin;
    if (br_cuda_plugin_open(&plugin, err))
        return err->code;
    return plugin->create(config, out, err);
}

int br_device_create(const struct br_device_config *config, struct br_device **out, struct br_err *err)
{
    uint32_t index;
    if (!config->kind || strcmp(config->kind, "cpu") == 0)
        return br_device_cpu_create(config, out, err);
    if (br_cuda_kind(config->kind, &index))
        return cuda_create(config, out, err);
    return br_device_sim_create(config, out, err);
}
