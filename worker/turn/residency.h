/* Which weights are on the device. One arena holds units of many models (worker/weights/layout.h); loads go to one
 * stream in unit order, each unit with an event, and the engine is told where a unit lies as soon as its copy is
 * enqueued: a step may be started at once and waits for each layer by itself.
 *
 * Nothing of the slot whose step runs is evicted or moved, and everything that is written here is written by the one
 * load stream: so a free extent is never read by a step, and a copy into an extent comes after the copies that still
 * write or read it. */
#ifndef BRIAREUS_WORKER_TURN_RESIDENCY_H
#define BRIAREUS_WORKER_TURN_RESIDENCY_H

#include "worker/engine/engine.h"
#include "worker/weights/image.h"

struct br_residency;

struct br_residency_cb {
    void *ctx;
    /* The slot whose weights may go for target's, never target itself; -1: none. */
    int32_t (*victim)(void *ctx, uint32_t target);
    /* bytes of bytes_all are resident or on their way now. */
    void (*changed)(void *ctx, uint32_t slot, uint64_t bytes, uint64_t bytes_all);
};

struct br_residency_stats {
    uint64_t loaded_bytes, moved_bytes; /* over the link; within the device */
    uint32_t compactions, from_scratch; /* how often extents were moved; everything else evicted */
};

/* max_slots models with max_units units in all. The arena: [memory, memory + bytes) of the device. */
int br_residency_create(struct br_device *dev, br_devptr memory, uint64_t bytes, uint32_t max_slots, uint32_t max_units,
                        const struct br_residency_cb *cb, struct br_residency **out, struct br_err *err);
void br_residency_destroy(struct br_residency *r); /* waits for its copies; places nothing */

/* model and image stay the caller's and must outlive r. BR_ENOMEM with the numbers when the weights can never fit. */
int br_residency_add(struct br_residency *r, uint32_t slot, struct br_engine_model *model,
                     const struct br_weight_image *image, struct br_err *err);

/* The slot whose step is about to run or runs; -1: none. */
void br_residency_running(struct br_residency *r, int32_t slot);

/* Has the missing units of a slot come in, in order. Prefetch: as far as victims and gaps give room; true when
 * everything is resident or on its way. */
bool br_residency_prefetch(struct br_residency *r, uint32_t slot);
/* The same for a step that comes next: always succeeds. No step may be running. */
void br_residency_require(struct br_residency *r, uint32_t slot);
/* Gives the extents of a slot back; it must not be running. */
void br_residency_evict(struct br_residency *r, uint32_t slot);

/* Every copy for this slot is done. */
bool br_residency_ready(const struct br_residency *r, uint32_t slot);
void br_residency_sync(struct br_residency *r); /* blocks until every copy is done */
uint64_t br_residency_bytes(const struct br_residency *r, uint32_t slot);
void br_residency_stats(const struct br_residency *r, struct br_residency_stats *out);

#endif
