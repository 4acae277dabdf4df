/* Cached weights on huge pages: in the background, one thread, after the device works already. What the cache's folder
 * gave by itself is left alone. */
#ifndef BRIAREUS_WORKER_WEIGHTS_HUGE_H
#define BRIAREUS_WORKER_WEIGHTS_HUGE_H

#include "worker/weights/store.h"

struct br_huge_job;

/* Moves every cached unit of a store of a device process to huge pages (MADV_COLLAPSE) and says how far that went.
 * NULL: no thread; nothing is lost by that. One process of a node is enough: the pages are the file's. */
struct br_huge_job *br_huge_start(struct br_weight_store *store);
/* To be called before the store's images are closed. now: no further unit. job may be NULL. Returns the bytes that lie
 * on huge pages by its doing. */
uint64_t br_huge_end(struct br_huge_job *job, bool now);

#endif
