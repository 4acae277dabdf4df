#include "worker/turn/unit_copy.h"

#include <stdlib.h>

#include "base/buf.h"

int unit_copies_init(struct unit_copies *c, struct br_device *dev, struct br_stream *stream, struct br_err *err)
{
    *c = (struct unit_copies){.dev = dev, .stream = stream};
    return dev->ops->event_create(dev, &c->done, err);
}

static void held_release(struct unit_copies *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        br_lease_release(c->held[i]);
    c->n = 0;
}

void unit_copies_sync(struct unit_copies *c)
{
    c->dev->ops->event_sync(c->done);
    held_release(c);
}

void unit_copies_free(struct unit_copies *c)
{
    if (!c->done)
        return;
    unit_copies_sync(c);
    c->dev->ops->event_destroy(c->done);
    free(c->held);
}

static void hold(struct unit_copies *c, struct br_lease *lease)
{
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 64;
        c->held = br_realloc(c->held, c->cap * sizeof *c->held);
    }
    c->held[c->n++] = lease;
    c->dev->ops->event_record(c->done, c->stream);
}

void unit_copies_poll(struct unit_copies *c)
{
    if (c->n && c->dev->ops->event_done(c->done))
        held_release(c);
}

static void stream_wait(void *lease)
{
    br_lease_wait(lease); /* whether it could be had is asked before anything computed with it counts */
}

static void stream_release(void *lease)
{
    br_lease_release(lease);
}

/* The stream waits for the bytes, and gives its place in the ring to the next lease as soon as it is copied. */
static void copy_when_there(struct unit_copies *c, struct br_lease *lease, void *dst, uint64_t bytes)
{
    c->dev->ops->stream_hold(c->stream, stream_wait, lease);
    c->dev->ops->copy(c->stream, BR_COPY_H2D, dst, br_lease_data(lease), bytes);
    c->dev->ops->stream_hold(c->stream, stream_release, lease);
    c->dev->ops->event_record(c->done, c->stream);
}

void unit_copy(struct unit_copies *c, const struct br_weight_image *image, uint32_t unit, void *dst)
{
    uint64_t bytes = br_layout_unit_bytes(&image->layout, unit);
    struct br_lease *lease = image->books ? br_lease_acquire(image, unit) : NULL;
    bool pending = lease && br_lease_pending(lease);
    if (pending && c->dev->ops->stream_hold) {
        copy_when_there(c, lease, dst, bytes);
        return;
    }
    if (pending)
        br_lease_wait(lease);
    c->dev->ops->copy(c->stream, BR_COPY_H2D, dst, lease ? br_lease_data(lease) : NULL, bytes);
    if (lease)
        hold(c, lease);
    if (pending) /* its place in the ring is needed for the next */
        unit_copies_sync(c);
}
