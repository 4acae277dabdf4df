/* The host cache: a folder of weight images under /dev/shm, one worker at a time. */
#ifndef BRIAREUS_WORKER_NODE_CACHE_H
#define BRIAREUS_WORKER_NODE_CACHE_H

#include "worker/node/plan.h"

struct node_cache {
    char dir[256];
    int lock; /* descriptor of the folder's lock file */
};

/* Makes the folder (mode 0700) and locks it; BR_EBUSY when another worker uses it. In the default place, caches that
 * killed workers left behind are removed. */
int node_cache_open(struct node_cache *cache, const struct br_worker_config *config, struct br_err *err);
/* Unlocks; removes the images and the folder unless keep. */
void node_cache_close(struct node_cache *cache, bool keep);

/* Builds or finds the image of every model; images[i] says where, or why not. *bytes: of all weights together. Returns
 * how many there are. */
uint32_t node_cache_fill(const struct node_cache *cache, const struct br_worker_config *config,
                         struct node_image *images, uint64_t *bytes);

#endif
