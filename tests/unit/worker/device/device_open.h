/* Streams and events that have to come into being. */
#ifndef BRIAREUS_TESTS_DEVICE_OPEN_H
#define BRIAREUS_TESTS_DEVICE_OPEN_H

#include "tests/cmocka.h"
#include "worker/device/device.h"

static inline struct br_stream *stream(struct br_device *dev)
{
    struct br_stream *s;
    struct br_err err;
    assert_int_equal(dev->ops->stream_create(dev, &s, &err), 0);
    return s;
}

static inline struct br_event *event(struct br_device *dev)
{
    struct br_event *e;
    struct br_err err;
    assert_int_equal(dev->ops->event_create(dev, &e, &err), 0);
    return e;
}

#endif
