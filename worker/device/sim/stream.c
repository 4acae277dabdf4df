#include <stdlib.h>
#include <sys/prctl.h>

#include "base/buf.h"
#include "base/clock.h"
#include "worker/device/sim/sim.h"

static void wait_until(struct sim_device *dev, int64_t when_ns)
{
    static _Thread_local bool precise;
    struct timespec at = {.tv_sec = (time_t)(when_ns / BR_NS_PER_S), .tv_nsec = (long)(when_ns % BR_NS_PER_S)};
    if (!precise)
        prctl(PR_SET_TIMERSLACK, 1ul);
    precise = true;
    dev->waiting++;
    if (when_ns == INT64_MAX)
        pthread_cond_wait(&dev->changed, &dev->lock);
    else
        pthread_cond_timedwait(&dev->changed, &dev->lock, &at);
    dev->waiting--;
}

static void wake_others(struct sim_device *dev)
{
    if (dev->waiting)
        pthread_cond_broadcast(&dev->changed);
}

/* Blocks while the ring is full. A command that comes within the host's lateness begins where the stream stands. */
static void stream_enqueue(struct br_stream *s, struct sim_command command)
{
    struct sim_device *dev = s->dev;
    int64_t now = br_now_ns();
    sim_advance(dev, now);
    while (s->count == SIM_STREAM_COMMANDS) {
        wait_until(dev, sim_next_ns(dev, s));
        now = br_now_ns();
        sim_advance(dev, now);
    }
    command.earliest_ns = now - s->free_ns <= dev->late_ns + SIM_GRACE_NS ? s->free_ns : now;
    s->ring[(s->head + s->count++) % SIM_STREAM_COMMANDS] = command;
    sim_advance(dev, now);
    wake_others(dev);
}

int sim_stream_create(struct br_device *base, struct br_stream **out, struct br_err *err)
{
    struct sim_device *dev = (struct sim_device *)base;
    struct br_stream *s = br_calloc(1, sizeof *s), **end = &dev->streams;
    (void)err;
    s->dev = dev;
    pthread_mutex_lock(&dev->lock);
    while (*end)
        end = &(*end)->next;
    *end = s;
    pthread_mutex_unlock(&dev->lock);
    *out = s;
    return 0;
}

void sim_stream_destroy(struct br_stream *s)
{
    struct sim_device *dev = s->dev;
    struct br_stream **at = &dev->streams;
    pthread_mutex_lock(&dev->lock);
    sim_advance(dev, br_now_ns());
    while (s->count) {
        wait_until(dev, sim_next_ns(dev, s));
        sim_advance(dev, br_now_ns());
    }
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    wake_others(dev);
    pthread_mutex_unlock(&dev->lock);
    free(s);
}

int sim_event_create(struct br_device *dev, struct br_event **out, struct br_err *err)
{
    struct br_event *event = br_calloc(1, sizeof *event);
    (void)err;
    event->dev = (struct sim_device *)dev;
    *out = event;
    return 0;
}

void sim_event_destroy(struct br_event *event)
{
    free(event);
}

void sim_event_record(struct br_event *event, struct br_stream *stream)
{
    pthread_mutex_lock(&event->dev->lock);
    event->stream = stream;
    stream_enqueue(stream, (struct sim_command){.kind = SIM_RECORD, .event = event, .generation = ++event->recorded});
    pthread_mutex_unlock(&event->dev->lock);
}

/* The host has come to know that the event is done. */
static void event_seen(struct br_event *event, int64_t now_ns)
{
    int64_t late_ns = now_ns - event->done_ns;
    if (event->seen < event->done)
        event->dev->late_ns = late_ns < SIM_LATE_MAX_NS ? late_ns : SIM_LATE_MAX_NS;
    event->seen = event->done;
}

bool sim_event_done(const struct br_event *event)
{
    struct br_event *e = (struct br_event *)event; // NOLINT: what the host sees is not the event's
    int64_t now;
    bool done;
    pthread_mutex_lock(&e->dev->lock);
    now = br_now_ns();
    if (e->done < e->recorded)
        sim_advance(e->dev, now);
    done = e->done >= e->recorded;
    if (done)
        event_seen(e, now);
    pthread_mutex_unlock(&e->dev->lock);
    return done;
}

void sim_event_sync(struct br_event *event)
{
    struct sim_device *dev = event->dev;
    int64_t now = br_now_ns();
    uint64_t generation;
    pthread_mutex_lock(&dev->lock);
    generation = event->recorded;
    sim_advance(dev, now);
    while (event->done < generation) {
        wait_until(dev, sim_next_ns(dev, event->stream));
        now = br_now_ns();
        sim_advance(dev, now);
    }
    event_seen(event, now);
    wake_others(dev);
    pthread_mutex_unlock(&dev->lock);
}

int64_t sim_next_end_ns(struct br_device *base)
{
    struct sim_device *dev = (struct sim_device *)base;
    int64_t now, next;
    pthread_mutex_lock(&dev->lock);
    now = br_now_ns();
    sim_advance(dev, now);
    next = dev->marked ? now : sim_next_ns(dev, NULL); /* what has passed may not have been seen yet */
    dev->marked = false;
    pthread_mutex_unlock(&dev->lock);
    return next;
}

void sim_event_wait(struct br_stream *stream, struct br_event *event)
{
    struct sim_command command = {.kind = SIM_WAIT, .event = event};
    pthread_mutex_lock(&event->dev->lock);
    command.generation = event->recorded;
    if (command.generation)
        stream_enqueue(stream, command);
    pthread_mutex_unlock(&event->dev->lock);
}

static void enqueue_timed(struct br_stream *s, enum sim_kind kind, double ns)
{
    struct sim_command command = {.kind = kind, .takes_ns = (int64_t)(ns + .5)};
    pthread_mutex_lock(&s->dev->lock);
    stream_enqueue(s, command);
    pthread_mutex_unlock(&s->dev->lock);
}

void sim_copy(struct br_stream *s, enum br_copy kind, void *dst, const void *src, uint64_t bytes)
{
    (void)dst, (void)src;
    if (kind == BR_COPY_D2D)
        enqueue_timed(s, SIM_DELAY, (double)bytes * s->dev->memory_ns_per_byte);
    else
        enqueue_timed(s, kind == BR_COPY_H2D ? SIM_COPY_IN : SIM_COPY_OUT, (double)bytes * s->dev->link_ns_per_byte);
}

void sim_delay(struct br_stream *s, double seconds)
{
    enqueue_timed(s, SIM_DELAY, seconds * s->dev->ns_per_s);
}
