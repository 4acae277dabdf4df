#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/device/cuda/plugin.h"

static const char NAME[] = "briareus-cuda.so";

bool br_cuda_kind(const char *kind, uint32_t *index)
{
    char *end;
    *index = 0;
    if (!kind || strncmp(kind, "cuda", 4) != 0)
        return false;
    if (kind[4] == '\0')
        return true;
    if (kind[4] != ':' || kind[5] < '0' || kind[5] > '9')
        return false;
    unsigned long n = strtoul(kind + 5, &end, 10);
    *index = (uint32_t)n;
    return *end == '\0' && n < 1024;
}

static void plugin_path(char *out, size_t size)
{
    const char *named = getenv("BRIAREUS_CUDA_PLUGIN");
    char program[PATH_MAX];
    ssize_t n;
    if (named && *named) {
        snprintf(out, size, "%s", named);
        return;
    }
    n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash)
        slash[1] = '\0';
    snprintf(out, size, "%s%s", program, NAME);
}

int br_cuda_plugin_open(const struct br_cuda_plugin **out, struct br_err *err)
{
    char path[2 * PATH_MAX];
    plugin_path(path, sizeof path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return br_err_set(
            err, BR_ENOTSUP,
            "no CUDA device: %s; build with -DBRIAREUS_CUDA=ON where nvcc is, put %s beside the program or "
            "name it in BRIAREUS_CUDA_PLUGIN",
            dlerror(), NAME);
    const struct br_cuda_plugin *plugin = dlsym(handle, "br_cuda_plugin");
    if (!plugin || plugin->version != BR_CUDA_PLUGIN_VERSION)
        return br_err_set(err, BR_ENOTSUP, "%s is not of this build (version %u, not %u): install both together", path,
                          plugin ? plugin->version : 0, BR_CUDA_PLUGIN_VERSION);
    *out = plugin;
    return 0;
}
