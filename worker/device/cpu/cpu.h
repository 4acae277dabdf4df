/* Private to the CPU device: its parts and how they hang together. */
#ifndef BRIAREUS_WORKER_DEVICE_CPU_CPU_H
#define BRIAREUS_WORKER_DEVICE_CPU_CPU_H

#include "base/pages.h"
#include "worker/device/cpu/isa.h"
#include "worker/device/cpu/link.h"
#include "worker/device/cpu/pool.h"
#include "worker/device/kernels.h"

struct cpu_device {
    struct br_device base; /* first: a br_device is a cpu_device */
    const struct cpu_isa *isa;
    struct cpu_pool *pool, *copy_pool; /* copy_pool: for a link without a cap */
    struct cpu_link link[2];           /* host to device, device to host */
    void *mapping;                     /* the reservation */
};

static inline void *cpu_ptr(br_devptr at)
{
    return (void *)(uintptr_t)at;
}

/* stream.c. A command is a function and a copy of its arguments, run in order on the stream's thread. */
enum { CPU_COMMAND_BYTES = 192, CPU_STREAM_COMMANDS = 256 };
typedef void cpu_command_fn(struct cpu_device *dev, const void *args);
void cpu_stream_enqueue(struct br_stream *stream, cpu_command_fn *run, const void *args, size_t bytes);
int cpu_stream_create(struct br_device *dev, struct br_stream **out, struct br_err *err);
void cpu_stream_destroy(struct br_stream *stream);
int cpu_event_create(struct br_device *dev, struct br_event **out, struct br_err *err);
void cpu_event_destroy(struct br_event *event);
void cpu_event_record(struct br_event *event, struct br_stream *stream);
bool cpu_event_done(const struct br_event *event);
void cpu_event_sync(struct br_event *event);
void cpu_event_wait(struct br_stream *stream, struct br_event *event);
void cpu_stream_notify(struct br_stream *stream, void (*fn)(void *ctx), void *ctx);

/* copy.c */
enum { CPU_COPIES_MAX = 64 };
struct cpu_copy {
    enum br_copy kind;
    void *dst;
    const void *src;
    uint64_t bytes;
};
/* May the last of these run at the same time as the others, which may? One alone: could it be joined by others? */
bool cpu_copies_together(struct cpu_device *dev, const struct cpu_copy *const *copies, uint32_t n);
void cpu_copies_run(struct cpu_device *dev, const struct cpu_copy *const *copies, uint32_t n);
void cpu_copy_run(struct cpu_device *dev, const void *args); /* a cpu_command_fn: struct cpu_copy */
void cpu_copy(struct br_stream *stream, enum br_copy kind, void *dst, const void *src, uint64_t bytes);

/* kernels.c */
extern const struct br_kernels cpu_kernels;

/* device.c: zeroed, on 2 MiB pages where the system gives them; NULL: no memory. */
void *cpu_map(uint64_t bytes, enum br_pages *got);
void cpu_unmap(void *at, uint64_t bytes);

#endif
