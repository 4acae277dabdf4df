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

/* A model's name as a plain file name, one to one; its image is that with ".weights" behind it. */
void node_cache_file_name(const char *model, char *out, size_t size);
/* Takes up, verifies, and fills the image of every model, in their order, as far as host_cache_bytes goes; images of
 * other models go. images[i] says where it is, or why there is none. *bytes: of all weights together; *n: how many
 * images there are; *spent: what that has cost is added to it. BR_EINVAL: more is asked for than the folder's file
 * system has. */
int node_cache_fill(const struct node_cache *cache, const struct br_worker_config *config, struct node_image *images,
                    uint64_t *bytes, uint32_t *n, struct br_transfers *spent, struct br_err *err);

#endif
