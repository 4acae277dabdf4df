#include "worker/node/limits.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const uint64_t g_link_min = 1ull << 20, g_link_max = 1ull << 40;

uint64_t node_memory_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)(1ull << 30);
}

static int memory_check(const char *option, uint64_t bytes, uint32_t times, uint64_t have, struct br_err *err)
{
    if (bytes <= have / times)
        return 0;
    return br_err_set(err, BR_EINVAL, "%s: %.1fG for each of %u is more than the %.1fG of memory that this machine has",
                      option, gib(bytes), times, gib(have));
}

int node_limits_check(const struct br_worker_config *c, uint64_t memory_bytes, struct br_err *err)
{
    bool here = strcmp(c->device_kind, "cpu") == 0; /* device memory is this machine's */
    if (here && (memory_check("device-memory", c->memory_bytes, c->devices, memory_bytes, err) ||
                 memory_check("kv-memory", c->kv_bytes, 1, memory_bytes, err) ||
                 memory_check("host-kv-memory", c->host_kv_bytes, 1, memory_bytes, err)))
        return err->code;
    if (memory_check("host-cache", c->host_cache_bytes, 1, memory_bytes, err) ||
        memory_check("host-staging", c->host_staging_bytes, c->devices, memory_bytes, err))
        return err->code;
    if (c->link_bytes_per_s && (c->link_bytes_per_s < g_link_min || c->link_bytes_per_s > g_link_max))
        return br_err_set(err, BR_EINVAL, "device-link: %" PRIu64 " bytes a second is not 0 nor from 1M to 1T",
                          c->link_bytes_per_s);
    return 0;
}
