#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "worker/device/cpu/cpu.h"

enum { MAX_THREADS = 1024, COPY_THREADS = 4 };
enum { VECTOR_BYTES = 64 }; /* vectors may read past the last element */

void *cpu_map(uint64_t bytes, enum br_pages *got)
{
    return br_pages_alloc(bytes + VECTOR_BYTES, got);
}

void cpu_unmap(void *at, uint64_t bytes)
{
    br_pages_free(at, bytes + VECTOR_BYTES);
}

static void device_free(struct cpu_device *dev)
{
    cpu_link_destroy(&dev->link[0]);
    cpu_link_destroy(&dev->link[1]);
    if (dev->mapping)
        cpu_unmap(dev->mapping, dev->base.config.memory_bytes);
    free(dev);
}

static void device_destroy(struct br_device *base)
{
    struct cpu_device *dev = (struct cpu_device *)base;
    cpu_pool_destroy(dev->pool);
    cpu_pool_destroy(dev->copy_pool);
    device_free(dev);
}

static const struct br_device_ops cpu_ops = {
    .kind = "cpu",
    .destroy = device_destroy,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_done = cpu_event_done,
    .event_sync = cpu_event_sync,
    .event_wait = cpu_event_wait,
    .stream_notify = cpu_stream_notify,
    .stream_hold = cpu_stream_notify,
    .copy = cpu_copy,
};

static struct cpu_device *device_alloc(const struct br_device_config *config, const struct cpu_isa *isa)
{
    struct cpu_device *dev = br_calloc(1, sizeof *dev);
    dev->base.ops = &cpu_ops;
    dev->base.kernels = &cpu_kernels;
    dev->base.config = *config;
    dev->base.config.isa = isa->name;
    dev->isa = isa;
    snprintf(dev->base.numeric_profile, sizeof dev->base.numeric_profile, "cpu-%s-%d", isa->name, CPU_KERNEL_VERSION);
    cpu_link_init(&dev->link[0], config->link_bytes_per_s);
    cpu_link_init(&dev->link[1], config->link_bytes_per_s);
    return dev;
}

static int device_reserve(struct cpu_device *dev, struct br_err *err)
{
    uint64_t bytes = dev->base.config.memory_bytes;
    enum br_pages pages;
    dev->mapping = cpu_map(bytes, &pages);
    if (!dev->mapping)
        return br_err_errno(err, BR_ENOMEM, "cannot reserve %llu bytes of device memory", (unsigned long long)bytes);
    dev->base.memory = (uintptr_t)dev->mapping;
    dev->base.reservations++;
    br_log(BR_INFO, "device_pages", "bytes=%" PRIu64 " pages=%s", bytes, br_pages_name(pages));
    return 0;
}

/* A capped link is paced by the stream's thread alone. */
static uint32_t copy_threads(const struct br_device_config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return config->link_bytes_per_s ? 1 : cores < 1 ? 1 : cores > COPY_THREADS ? COPY_THREADS : (uint32_t)cores;
}

int br_device_cpu_create(const struct br_device_config *config, struct br_device **out, struct br_err *err)
{
    if (config->memory_bytes == 0 || config->threads == 0 || config->threads > MAX_THREADS)
        return br_err_set(err, BR_EINVAL, "cpu device: memory must not be 0 and threads be 1..%d, not %u", MAX_THREADS,
                          config->threads);
    const struct cpu_isa *isa = cpu_isa_pick(config->isa, err);
    if (!isa)
        return err->code;
    struct cpu_device *dev = device_alloc(config, isa);
    if (device_reserve(dev, err))
        goto fail_reserve;
    if (cpu_pool_create(config->threads, CPU_SCRATCH_BYTES, &dev->pool, err))
        goto fail_reserve;
    if (cpu_pool_create(copy_threads(config), 64, &dev->copy_pool, err))
        goto fail_copy_pool;
    *out = &dev->base;
    return 0;

fail_copy_pool:
    cpu_pool_destroy(dev->pool);
fail_reserve:
    device_free(dev);
    return err->code;
}
