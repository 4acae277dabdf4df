/* Which weights are on the device. One arena holds units of many models (worker/weights/layout.h); loads go to one
 * stream in unit order, each unit with an event, and the engine is told where a unit lies as soon as its copy is
 * enqueued: a step may be started at once and waits for each layer by itself.
 *
 * The arena is the low end of the device's memory; its end moves, since KV lies behind it. Nothing of the slot whose
 * step runs is evicted or moved, and everything that is written here is written by the one load stream: so a free
 * extent is never read by a step, and a copy into an extent comes after the copies that still write or read it. Who
 * writes behind br_residency_top waits for br_residency_cooling first. */
#ifndef BRIAREUS_WORKER_TURN_RESIDENCY_H
#define BRIAREUS_WORKER_TURN_RESIDENCY_H

#include "worker/engine/engine.h"
#include "worker/weights/image.h"

struct br_residency;

struct br_residency_cb {
    void *ctx;
    /* The slot whose weights may go for target's, never target itself; -1: none. */
    int32_t (*victim)(void *ctx, uint32_t target);
    /* bytes of bytes_all are resident now. */
    void (*changed)(void *ctx, uint32_t slot, uint64_t bytes, uint64_t bytes_all);
    /* A copy of a load has come in (or several): called on a thread of the device's, to wake whoever polls. May be
     * NULL. */
    void (*arrived)(void *ctx);
};

struct br_residency_config {
    br_devptr memory;
    uint64_t bytes;     /* of the arena at most */
    uint32_t max_slots; /* models */
    uint32_t max_units; /* of all models */
    bool tell_at_once;  /* `changed` counts what is on its way; otherwise what br_residency_poll found to be there */
};

struct br_residency_stats {
    uint64_t loaded_bytes, moved_bytes; /* over the link; within the device */
    uint64_t evicted_bytes;
    uint32_t compactions, slides; /* how often extents were moved: out of a window; down, to close gaps */
};

int br_residency_create(struct br_device *dev, const struct br_residency_config *config,
                        const struct br_residency_cb *cb, struct br_residency **out, struct br_err *err);
void br_residency_destroy(struct br_residency *r); /* waits for its copies; places nothing */

/* model and image stay the caller's and must outlive r. BR_ENOMEM with the numbers when the weights can never fit into
 * config.bytes. */
int br_residency_add(struct br_residency *r, uint32_t slot, struct br_engine_model *model,
                     const struct br_weight_image *image, struct br_err *err);

/* The slot is free again; its weights have been vacated. */
void br_residency_remove(struct br_residency *r, uint32_t slot);

/* The slot whose step is about to run or runs; -1: none. */
void br_residency_running(struct br_residency *r, int32_t slot);

/* Has the missing units of a slot come in, in order, until `bytes` of them or more are on their way (UINT64_MAX: all),
 * as far as there is room. Extents are moved where enough bytes are free but not in one piece; with `victims` others'
 * weights go too. Returns the bytes that were enqueued. */
uint64_t br_residency_load(struct br_residency *r, uint32_t slot, uint64_t bytes, bool victims);
/* Gives units of a slot back from the tail, `bytes` at least; it must not be running. Returns how many. */
uint64_t br_residency_evict(struct br_residency *r, uint32_t slot, uint64_t bytes);
/* Tells by `changed` what has come in meanwhile; true: something has. */
bool br_residency_poll(struct br_residency *r);

/* Where the arena ends now: not in front of br_residency_top, nor behind config.bytes. */
void br_residency_end(struct br_residency *r, uint64_t end);
/* Nothing lies from here on; nothing has been written from there on since br_residency_end. */
uint64_t br_residency_top(const struct br_residency *r);
uint64_t br_residency_high(const struct br_residency *r);
/* Moves extents so that nothing lies from `end` on; false: they cannot be, now. */
bool br_residency_lower(struct br_residency *r, uint64_t end);
/* What whoever writes at `at` or behind has to wait for: a copy to or from an extent that has been given back; NULL:
 * nothing. */
struct br_event *br_residency_cooling(struct br_residency *r, uint64_t at);

/* Every unit is on the device or on its way; every copy for this slot is done as well. */
bool br_residency_placed(const struct br_residency *r, uint32_t slot);
bool br_residency_ready(const struct br_residency *r, uint32_t slot);
/* Copies of this slot's units up to the one that was enqueued last when `mark` was taken are done (or evicted). */
uint32_t br_residency_mark(const struct br_residency *r, uint32_t slot);
bool br_residency_reached(const struct br_residency *r, uint32_t slot, uint32_t mark);
bool br_residency_loading(const struct br_residency *r, uint32_t slot); /* as of the last poll */
/* Takes a slot's weights off the device; returns when they are free, with how many bytes. Its step must not run. */
uint64_t br_residency_vacate(struct br_residency *r, uint32_t slot);
/* Takes a slot's weights off the device and out of the host cache. Returns when both are free, with how many bytes each
 * gave back. BR_EBUSY: its step runs, or another device copies them (then they are off this device, and stay cached).
 * Nothing of the slot may be loaded afterwards. */
int br_residency_unload(struct br_residency *r, uint32_t slot, uint64_t *device_bytes, uint64_t *host_bytes,
                        struct br_err *err);
void br_residency_sync(struct br_residency *r);                           /* blocks until every copy is done */
uint64_t br_residency_bytes(const struct br_residency *r, uint32_t slot); /* on the device or on their way */
uint64_t br_residency_told(const struct br_residency *r, uint32_t slot);  /* what `changed` says of it */
uint64_t br_residency_used(const struct br_residency *r);                 /* of all slots together */
uint64_t br_residency_missing(const struct br_residency *r, uint32_t slot);
uint64_t br_residency_next_bytes(const struct br_residency *r, uint32_t slot); /* of its first missing unit; 0: none */
/* Of the missing units, in order, as many as fit `bytes` together, one at least; 0: none is missing. */
uint64_t br_residency_whole_bytes(const struct br_residency *r, uint32_t slot, uint64_t bytes);
void br_residency_stats(const struct br_residency *r, struct br_residency_stats *out);

#endif
