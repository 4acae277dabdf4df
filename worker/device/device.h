/* What one engine computes on. A table of functions, picked once; the CPU implements it with an arena apart from host
 * memory, threads as streams and a link whose rate can be capped, so that loads, swaps and overlap are real. The sim
 * device does not compute: its streams, links and events only tell the time.
 *
 * Streams run their work in order; different streams run at the same time. Every call that starts work may be followed
 * by event_record on its stream; event_wait makes one stream wait for another. */
#ifndef BRIAREUS_WORKER_DEVICE_DEVICE_H
#define BRIAREUS_WORKER_DEVICE_DEVICE_H

#include "cost/gpu.h"
#include "worker/weights/layout.h"

typedef uint64_t br_devptr; /* an address in device memory; 0: none */

struct br_stream;
struct br_event;
struct br_device;

enum br_copy { BR_COPY_H2D, BR_COPY_D2H, BR_COPY_D2D };

struct br_device_config {
    const char *kind;          /* NULL or "cpu", or "sim:GPU" with a GPU of the catalogue (cost/gpu.h) */
    uint64_t memory_bytes;     /* reserved once, at creation; sim: of all GPUs of the group together */
    uint32_t threads;          /* cpu: compute threads, 1.. */
    uint64_t link_bytes_per_s; /* host<->device rate a direction; 0: as fast as it goes, sim: as the catalogue says */
    const char *isa;           /* cpu: NULL best, or "generic", "avx2", "avx512", "avx512bf16" or "amx" */
    uint32_t tensor_parallel;  /* sim: GPUs of the group; 0: 1 */
    double speed;              /* sim: everything takes 1/speed of its time; 0: 1 */
};

struct br_kernels; /* worker/device/kernels.h: the step kernels, enqueued on a stream */

struct br_device_ops {
    const char *kind; /* "cpu", "cuda", "sim" */
    bool timed;       /* nothing is computed or moved, everything only takes its time; memory is addresses alone */
    void (*destroy)(struct br_device *dev);
    int (*stream_create)(struct br_device *dev, struct br_stream **out, struct br_err *err);
    void (*stream_destroy)(struct br_stream *stream); /* waits for its work */
    int (*event_create)(struct br_device *dev, struct br_event **out, struct br_err *err);
    void (*event_destroy)(struct br_event *event);
    /* Marks the point that the stream has reached; an event may be recorded again and again. Waits and syncs mean the
     * latest record before them. An event must outlive the records and waits that were enqueued for it. */
    void (*event_record)(struct br_event *event, struct br_stream *stream);
    bool (*event_done)(const struct br_event *event); /* an event never recorded is done */
    void (*event_sync)(struct br_event *event);       /* blocks the caller */
    void (*event_wait)(struct br_stream *stream, struct br_event *event);
    /* So that nobody has to poll event_done; a device has one of them, the other is NULL (without both: poll).
     * stream_notify calls fn(ctx) once, on a thread of the device's, when the stream has come this far; fn must be
     * short, not block, and not call the device. next_ns says when, on the monotonic clock, a command will end next, or
     * the present if an event was reached since it was asked last; INT64_MAX: nothing is under way. */
    void (*stream_notify)(struct br_stream *stream, void (*fn)(void *ctx), void *ctx);
    int64_t (*next_ns)(struct br_device *dev);
    /* Runs fn(ctx) when the stream has come this far, on a thread that may block: what follows on the stream waits for
     * it. NULL: there is no such thread. */
    void (*stream_hold)(struct br_stream *stream, void (*fn)(void *ctx), void *ctx);
    /* Starts a copy; host memory (sim: src and dst may be any, nothing is read) must stay valid until an event after it
     * is done. H2D and D2H share nothing: the link is full duplex, each direction capped at link_bytes_per_s over all
     * streams. D2D: the two may overlap. */
    void (*copy)(struct br_stream *stream, enum br_copy kind, void *dst, const void *src, uint64_t bytes);
};

struct br_device {
    const struct br_device_ops *ops;
    const struct br_kernels *kernels;
    struct br_device_config config; /* as asked for; sim: link_bytes_per_s in wall time */
    br_devptr memory;               /* base of the reservation, 2 MiB aligned */
    uint32_t reservations;          /* how often device memory was taken from the system: stays 1 */
    char numeric_profile[64];       /* e.g. "cpu-avx512bf16-1": same profile, weights and ids give the same bits */
};

/* By config->kind. BR_EINVAL: a kind that is not built in. */
int br_device_create(const struct br_device_config *config, struct br_device **out, struct br_err *err);

/* Errors: BR_EINVAL no memory asked for or unknown isa; BR_ENOTSUP this CPU lacks the isa; BR_ENOMEM. */
int br_device_cpu_create(const struct br_device_config *config, struct br_device **out, struct br_err *err);

/* Takes the time that cost/ says and does nothing: no byte is moved, none of its memory exists (touching it is a
 * fault), and of the kernels there are only those of kernels.h for such a device. Errors: BR_ENOENT unknown GPU, with
 * the nearest; BR_EINVAL no memory, or tensor_parallel or speed out of range; BR_ENOMEM no address space. */
int br_device_sim_create(const struct br_device_config *config, struct br_device **out, struct br_err *err);
/* The GPU that "sim:GPU" names; NULL with BR_ENOENT (the nearest name) or BR_EINVAL (another kind). Static. */
const struct br_gpu *br_device_sim_gpu(const char *kind, struct br_err *err);

#endif
