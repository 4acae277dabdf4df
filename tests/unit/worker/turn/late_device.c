#include "late_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/rng.h"

enum { LONGEST_NS = 300000, SMALL = 4096 };

static struct {
    pthread_mutex_t lock;
    struct br_rng rng;
    const struct br_device_ops *cpu;
    struct br_device_ops ops;
    uint64_t delays;
} g = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct delay {
    void *dst;
    uint64_t bytes, ns;
};

static double draw(void)
{
    double x;
    pthread_mutex_lock(&g.lock);
    x = br_rng_next(&g.rng);
    pthread_mutex_unlock(&g.lock);
    return x;
}

static void hold_up(void *ctx)
{
    struct delay *d = ctx;
    struct timespec t = {.tv_nsec = (long)d->ns};
    if (d->dst)
        memset(d->dst, 0xff, d->bytes); /* NaN in every format */
    nanosleep(&t, NULL);
    free(d);
}

/* Logits of a step come out at once: they are no transfer that anything may run ahead of. */
static void late_copy(struct br_stream *stream, enum br_copy kind, void *dst, const void *src, uint64_t bytes)
{
    bool overlaps =
        kind == BR_COPY_D2D && (char *)dst < (const char *)src + bytes && (const char *)src < (char *)dst + bytes;
    if (bytes >= SMALL && draw() < .7) {
        struct delay *d = br_malloc(sizeof *d);
        *d = (struct delay){overlaps ? NULL : dst, bytes, (uint64_t)(draw() * draw() * LONGEST_NS)};
        __atomic_add_fetch(&g.delays, 1, __ATOMIC_RELAXED);
        g.cpu->stream_notify(stream, hold_up, d);
    }
    g.cpu->copy(stream, kind, dst, src, bytes);
}

static bool late_done(const struct br_event *event)
{
    if (!g.cpu->event_done(event))
        return false;
    if (draw() < .7)
        return true;
    __atomic_add_fetch(&g.delays, 1, __ATOMIC_RELAXED);
    return false;
}

void late_device_seed(uint64_t seed)
{
    g.rng = (struct br_rng){.seed = seed};
    g.delays = 0;
}

uint64_t late_device_delays(void)
{
    return __atomic_load_n(&g.delays, __ATOMIC_RELAXED);
}

int late_device_create(const struct br_device_config *config, struct br_device **out, struct br_err *err)
{
    int rc = br_device_cpu_create(config, out, err);
    if (rc)
        return rc;
    g.cpu = (*out)->ops;
    g.ops = *g.cpu;
    g.ops.copy = late_copy;
    g.ops.event_done = late_done;
    g.ops.stream_notify = NULL; /* an event may be done before it is said to be: it has to be asked again */
    (*out)->ops = &g.ops;
    return 0;
}
