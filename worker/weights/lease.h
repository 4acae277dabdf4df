/* The bytes of one unit, for as long as a copy to a device needs them: in the cache, or in a slot of the staging ring
 * that they are read into meanwhile.
 *
 * Slots are given in the order of the calls, and again when they were released: so whoever holds several leases must
 * release them in that order, and waits inside br_lease_wait for his own earlier ones only. */
#ifndef BRIAREUS_WORKER_WEIGHTS_LEASE_H
#define BRIAREUS_WORKER_WEIGHTS_LEASE_H

#include "worker/weights/store.h"

struct br_lease;

/* Never blocks for long: reading and verifying go on on other threads. */
struct br_lease *br_lease_acquire(const struct br_weight_image *image, uint32_t unit);
/* Where the bytes are or will be: fixed. Readable at once, right when br_lease_wait has returned 0. */
const void *br_lease_data(const struct br_lease *lease);
bool br_lease_pending(const struct br_lease *lease); /* the bytes are not there, or not verified yet */
/* Blocks until they are. Not 0: they cannot be had; br_weight_image_failed says why, from before this returns. */
int br_lease_wait(struct br_lease *lease);
/* After br_lease_wait, or when it is not pending. Never blocks. */
void br_lease_release(struct br_lease *lease);

#endif
