/* Units of weights on their way from the host cache, or from disk through the staging ring, to the device. */
#ifndef BRIAREUS_WORKER_TURN_UNIT_COPY_H
#define BRIAREUS_WORKER_TURN_UNIT_COPY_H

#include "worker/device/device.h"
#include "worker/weights/lease.h"

struct unit_copies {
    struct br_device *dev;
    struct br_stream *stream;
    struct br_event *done;  /* owned: every copy of those held */
    struct br_lease **held; /* owned: bytes that a copy still reads, or did when it was last looked */
    uint32_t n, cap;
};

/* stream: all copies run on it. */
int unit_copies_init(struct unit_copies *c, struct br_device *dev, struct br_stream *stream, struct br_err *err);
void unit_copies_free(struct unit_copies *c); /* waits for its copies; c may be zeroed */

/* Enqueues the copy of a unit to dst. If the bytes cannot be had, what arrives there is not the unit, and
 * br_weight_image_failed is true before the copy is done. */
void unit_copy(struct unit_copies *c, const struct br_weight_image *image, uint32_t unit, void *dst);
void unit_copies_sync(struct unit_copies *c); /* waits until nothing is held */
/* Gives up the bytes that are copied. */
void unit_copies_poll(struct unit_copies *c);

#endif
