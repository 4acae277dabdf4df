#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "worker/device/sim/sim.h"

static const uint64_t HUGE_PAGE = 2ull << 20;
static const double SLOWEST = .01, FASTEST = 1000;

/* ---- what there is of kernels ---- */

static int scratch_alloc(struct br_device *base, uint64_t bytes, br_devptr *out, struct br_err *err)
{
    struct sim_device *dev = (struct sim_device *)base;
    (void)err;
    *out = dev->scratch;
    dev->scratch += (bytes + 63) / 64 * 64;
    return 0;
}

static void scratch_free(struct br_device *dev, br_devptr at, uint64_t bytes)
{
    (void)dev, (void)at, (void)bytes;
}

static void upload(struct br_stream *stream, br_devptr dst, const void *src, uint64_t bytes)
{
    (void)stream, (void)dst, (void)src, (void)bytes;
}

static int model_cost(const struct br_device *base, const struct br_footprint *model, struct br_cost *out,
                      struct br_err *err)
{
    const struct sim_device *dev = (const struct sim_device *)base;
    return br_cost_init(out, model, &dev->gpu, dev->tp, br_calibration_for(&dev->gpu), err);
}

static const struct br_kernels sim_kernels = {
    .scratch_alloc = scratch_alloc,
    .scratch_free = scratch_free,
    .upload = upload,
    .cost = model_cost,
    .delay = sim_delay,
};

/* ---- the device ---- */

static void device_destroy(struct br_device *base)
{
    struct sim_device *dev = (struct sim_device *)base;
    if (dev->mapping)
        munmap(dev->mapping, dev->mapping_bytes);
    pthread_cond_destroy(&dev->changed);
    pthread_mutex_destroy(&dev->lock);
    free(dev);
}

static const struct br_device_ops sim_ops = {
    .kind = "sim",
    .timed = true,
    .destroy = device_destroy,
    .stream_create = sim_stream_create,
    .stream_destroy = sim_stream_destroy,
    .event_create = sim_event_create,
    .event_destroy = sim_event_destroy,
    .event_record = sim_event_record,
    .event_done = sim_event_done,
    .event_sync = sim_event_sync,
    .event_wait = sim_event_wait,
    .next_ns = sim_next_end_ns,
    .copy = sim_copy,
};

const struct br_gpu *br_device_sim_gpu(const char *kind, struct br_err *err)
{
    if (strncmp(kind, "sim:", 4) == 0)
        return br_gpu_find(kind + 4, err);
    br_err_set(err, BR_EINVAL,
               "device: '%.64s' is not built in; there are: cpu, cuda, cuda:NUMBER, sim:GPU (as in sim:h20)", kind);
    return NULL;
}

static void locks_init(struct sim_device *dev)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&dev->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&dev->lock, NULL);
}

/* D2D reads and writes every byte. A group's GPUs load and compact side by side. */
static struct sim_device *device_alloc(const struct br_device_config *config, const struct br_gpu *gpu)
{
    struct sim_device *dev = br_calloc(1, sizeof *dev);
    double link, speed = config->speed > 0 ? config->speed : 1;
    dev->base.ops = &sim_ops;
    dev->base.kernels = &sim_kernels;
    dev->base.config = *config;
    dev->gpu = *gpu;
    dev->tp = config->tensor_parallel ? config->tensor_parallel : 1;
    link = speed *
           (config->link_bytes_per_s ? (double)config->link_bytes_per_s : dev->tp * gpu->link_effective_bytes_per_s);
    dev->ns_per_s = 1e9 / speed;
    dev->link_ns_per_byte = 1e9 / link;
    dev->memory_ns_per_byte = 2e9 / (speed * dev->tp * gpu->memory_bytes_per_s);
    dev->base.config.link_bytes_per_s = (uint64_t)link;
    dev->base.config.speed = speed;
    dev->base.config.tensor_parallel = dev->tp;
    strcpy(dev->base.numeric_profile, "sim-1"); /* tokens do not depend on the GPU */
    locks_init(dev);
    return dev;
}

/* Addresses that nothing stands behind. */
static int device_reserve(struct sim_device *dev, struct br_err *err)
{
    uint64_t bytes = dev->base.config.memory_bytes;
    dev->mapping_bytes = bytes + HUGE_PAGE;
    dev->mapping = mmap(NULL, dev->mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (dev->mapping == MAP_FAILED) {
        dev->mapping = NULL;
        return br_err_errno(err, BR_ENOMEM, "cannot reserve addresses for %llu bytes", (unsigned long long)bytes);
    }
    dev->base.memory = ((uintptr_t)dev->mapping + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    dev->base.reservations++;
    dev->scratch = HUGE_PAGE;
    return 0;
}

int br_device_sim_create(const struct br_device_config *config, struct br_device **out, struct br_err *err)
{
    const struct br_gpu *gpu = br_device_sim_gpu(config->kind ? config->kind : "", err);
    uint32_t tp = config->tensor_parallel;
    struct sim_device *dev;
    if (!gpu)
        return err->code;
    if (config->memory_bytes == 0 || config->memory_bytes > 1ull << 46)
        return br_err_set(err, BR_EINVAL, "sim device: %llu bytes of memory", (unsigned long long)config->memory_bytes);
    if (tp > 8 || (tp & (tp - 1)))
        return br_err_set(err, BR_EINVAL, "sim device: tensor parallelism %u: must be 1, 2, 4 or 8", tp);
    if (config->speed != 0 && !(config->speed >= SLOWEST && config->speed <= FASTEST))
        return br_err_set(err, BR_EINVAL, "sim device: speed %g: must be from %g to %g", config->speed, SLOWEST,
                          FASTEST);
    dev = device_alloc(config, gpu);
    if (device_reserve(dev, err)) {
        device_destroy(&dev->base);
        return err->code;
    }
    *out = &dev->base;
    return 0;
}
