/* Commands of all streams in the order of time. */
#include "worker/device/sim/sim.h"

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct sim_command *stream_head(struct br_stream *s)
{
    return s->count && !s->running ? &s->ring[s->head] : NULL;
}

static void stream_pop(struct br_stream *s)
{
    s->head = (s->head + 1) % SIM_STREAM_COMMANDS;
    s->count--;
}

/* Marks and waits take no time. True when one was done with. */
static bool marks_pass(struct br_stream *s)
{
    struct sim_command *c = stream_head(s);
    if (!c || (c->kind != SIM_RECORD && c->kind != SIM_WAIT))
        return false;
    if (c->kind == SIM_WAIT && c->event->done < c->generation)
        return false;
    if (c->kind == SIM_WAIT)
        s->free_ns = later(s->free_ns, c->event->done_ns);
    else if (c->event->done < c->generation) {
        s->dev->marked = true;
        c->event->done = c->generation;
        c->event->done_ns = s->free_ns;
    }
    stream_pop(s);
    return true;
}

static int64_t ready_ns(const struct br_stream *s)
{
    return later(s->free_ns, s->ring[s->head].earliest_ns);
}

static void command_start(struct br_stream *s, int64_t from_ns)
{
    s->running = true;
    s->end_ns = from_ns + s->ring[s->head].takes_ns;
}

/* One copy a direction at a time: the one that has been ready for longest. */
static bool link_start(struct sim_device *dev, enum sim_kind kind)
{
    int out = kind == SIM_COPY_OUT;
    struct br_stream *first = NULL;
    if (dev->link_user[out])
        return false;
    for (struct br_stream *s = dev->streams; s; s = s->next) {
        const struct sim_command *c = stream_head(s);
        if (c && c->kind == kind && (!first || ready_ns(s) < ready_ns(first)))
            first = s;
    }
    if (!first)
        return false;
    dev->link_user[out] = first;
    command_start(first, later(ready_ns(first), dev->link_free_ns[out]));
    return true;
}

static bool streams_start(struct sim_device *dev)
{
    bool any = false;
    for (struct br_stream *s = dev->streams; s; s = s->next) {
        const struct sim_command *c;
        while (marks_pass(s))
            any = true;
        c = stream_head(s);
        if (c && c->kind == SIM_DELAY)
            command_start(s, ready_ns(s));
    }
    return any;
}

/* A mark may set another stream free: until nothing changes. */
static void start_all(struct sim_device *dev)
{
    while (streams_start(dev))
        ;
    link_start(dev, SIM_COPY_IN);
    link_start(dev, SIM_COPY_OUT);
}

static struct br_stream *next_to_end(const struct sim_device *dev)
{
    struct br_stream *first = NULL;
    for (struct br_stream *s = dev->streams; s; s = s->next)
        if (s->running && (!first || s->end_ns < first->end_ns))
            first = s;
    return first;
}

static void command_end(struct sim_device *dev, struct br_stream *s)
{
    s->running = false;
    s->free_ns = s->end_ns;
    for (int out = 0; out < 2; out++)
        if (dev->link_user[out] == s) {
            dev->link_user[out] = NULL;
            dev->link_free_ns[out] = s->end_ns;
        }
    stream_pop(s);
}

void sim_advance(struct sim_device *dev, int64_t now_ns)
{
    struct br_stream *s;
    start_all(dev);
    while ((s = next_to_end(dev)) && s->end_ns <= now_ns) {
        command_end(dev, s);
        start_all(dev);
    }
}

int64_t sim_next_ns(const struct sim_device *dev, const struct br_stream *stream)
{
    const struct br_stream *s = stream && stream->running ? stream : next_to_end(dev);
    return s ? s->end_ns : INT64_MAX;
}
