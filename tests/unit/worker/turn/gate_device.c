#include "gate_device.h"

#include <pthread.h>

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const struct br_device_ops *cpu;
    struct br_device_ops ops;
    struct br_stream *kv_in;
    unsigned streams, waiting;
    bool open;
} g = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void gate_set(bool open)
{
    pthread_mutex_lock(&g.mutex);
    g.open = open;
    pthread_cond_broadcast(&g.changed);
    pthread_mutex_unlock(&g.mutex);
}

void gate_wait(void)
{
    pthread_mutex_lock(&g.mutex);
    while (!g.waiting)
        pthread_cond_wait(&g.changed, &g.mutex);
    pthread_mutex_unlock(&g.mutex);
}

static void stand(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&g.mutex);
    g.waiting++;
    pthread_cond_broadcast(&g.changed);
    while (!g.open)
        pthread_cond_wait(&g.changed, &g.mutex);
    g.waiting--;
    pthread_mutex_unlock(&g.mutex);
}

/* The turn makes its streams in this order: steps, KV in, KV out, weights. */
static int gate_stream(struct br_device *dev, struct br_stream **out, struct br_err *err)
{
    int rc = g.cpu->stream_create(dev, out, err);
    if (rc == 0 && g.streams++ == 1)
        g.kv_in = *out;
    return rc;
}

static void gate_copy(struct br_stream *stream, enum br_copy kind, void *dst, const void *src, uint64_t bytes)
{
    if (stream == g.kv_in)
        g.cpu->stream_notify(stream, stand, NULL);
    g.cpu->copy(stream, kind, dst, src, bytes);
}

int gate_device_create(const struct br_device_config *config, struct br_device **out, struct br_err *err)
{
    int rc = br_device_cpu_create(config, out, err);
    if (rc)
        return rc;
    g.cpu = (*out)->ops;
    g.ops = *g.cpu;
    g.ops.stream_create = gate_stream;
    g.ops.copy = gate_copy;
    g.streams = 0;
    (*out)->ops = &g.ops;
    return 0;
}
