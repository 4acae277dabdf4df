/* Private to the sim device. There are no threads: a device keeps, for every stream, the commands that are still to
 * come, and whoever calls brings its books up to the present. Each command begins exactly when the former one of its
 * stream ended and what it waits for was there, whenever it was looked at; so nothing drifts, and an idle device costs
 * nothing. */
#ifndef BRIAREUS_WORKER_DEVICE_SIM_SIM_H
#define BRIAREUS_WORKER_DEVICE_SIM_SIM_H

#include <pthread.h>

#include "worker/device/kernels.h"

enum { SIM_STREAM_COMMANDS = 1024 };

/* How late the host may be with a stream's next command for the stream to go on as if it had been there in time: what
 * the host did meanwhile, and how late it woke up (at most the second). Without that the host's own time, which does
 * not shrink with --speed, would count as the GPU's. */
#define SIM_GRACE_NS 2000000
#define SIM_LATE_MAX_NS 50000000

enum sim_kind { SIM_DELAY, SIM_COPY_IN, SIM_COPY_OUT, SIM_RECORD, SIM_WAIT };

struct sim_command {
    enum sim_kind kind;
    int64_t earliest_ns; /* when it was enqueued */
    int64_t takes_ns;
    struct br_event *event; /* RECORD, WAIT */
    uint64_t generation;
};

struct br_stream {
    struct sim_device *dev;
    struct br_stream *next;                       /* of the device */
    struct sim_command ring[SIM_STREAM_COMMANDS]; /* the one at head runs or is the next */
    uint32_t head, count;
    bool running;
    int64_t end_ns;  /* of the running one */
    int64_t free_ns; /* when the last one that is off the ring ended */
};

struct br_event {
    struct sim_device *dev;
    struct br_stream *stream; /* of the latest record */
    uint64_t recorded, done;  /* generations */
    int64_t done_ns;          /* when the latest that is done was reached */
    uint64_t seen;            /* the host knows of the generations up to this one */
};

struct sim_device {
    struct br_device base; /* first: a br_device is a sim_device */
    struct br_gpu gpu;
    uint32_t tp;
    double ns_per_s;                             /* of the modelled time: 1e9 / speed */
    double link_ns_per_byte, memory_ns_per_byte; /* one direction; a copy within the device */
    void *mapping;
    uint64_t mapping_bytes;
    br_devptr scratch; /* the next address to give away */

    pthread_mutex_t lock;   /* everything below, streams and events too */
    pthread_cond_t changed; /* commands were enqueued or have ended, while someone waits */
    uint32_t waiting;
    struct br_stream *streams;      /* in the order of their creation */
    struct br_stream *link_user[2]; /* whose copy in, out is under way */
    int64_t link_free_ns[2];        /* when the last copy ended */
    bool marked;                    /* a mark was passed since the host asked when to look again */
    int64_t late_ns;                /* how late the host saw the event that it saw last */
};

/* schedule.c; the lock is held. */
/* Ends everything that has ended by `now` and starts what follows, in the order of time. */
void sim_advance(struct sim_device *dev, int64_t now_ns);
/* When to look again for one stream (the device's next change if it waits for others); INT64_MAX: nothing is under way.
 */
int64_t sim_next_ns(const struct sim_device *dev, const struct br_stream *stream);

/* stream.c */
int sim_stream_create(struct br_device *dev, struct br_stream **out, struct br_err *err);
void sim_stream_destroy(struct br_stream *stream);
int sim_event_create(struct br_device *dev, struct br_event **out, struct br_err *err);
void sim_event_destroy(struct br_event *event);
void sim_event_record(struct br_event *event, struct br_stream *stream);
bool sim_event_done(const struct br_event *event);
int64_t sim_next_end_ns(struct br_device *dev);
void sim_event_sync(struct br_event *event);
void sim_event_wait(struct br_stream *stream, struct br_event *event);
void sim_copy(struct br_stream *stream, enum br_copy kind, void *dst, const void *src, uint64_t bytes);
void sim_delay(struct br_stream *stream, double seconds);

#endif
