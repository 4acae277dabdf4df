/* The host cache as one process sees it: the images it has open, the threads that read for them, a staging ring for
 * units that the cache has no room for, and what all of that has cost so far.
 *
 * The supervisor (device -1) opens it first: it counts what is there, sets the limit, builds or takes up the images and
 * fills them as far as the limit goes. Device processes attach to its images; what is missing they read from the model
 * folder when they need it, and keep it in the cache when there is room. */
#ifndef BRIAREUS_WORKER_WEIGHTS_STORE_H
#define BRIAREUS_WORKER_WEIGHTS_STORE_H

#include "worker/weights/image.h"

struct br_weight_store_config {
    const char *dir;        /* of the cache: made (mode 0700) if its parent is there */
    uint64_t limit_bytes;   /* supervisor: of cached units, over all models and processes; 0: what the folder holds */
    uint64_t staging_bytes; /* of the ring, at most; 0: three times the largest unit that has to pass through it */
    uint32_t threads;       /* that read; 0: chosen */
    int32_t device;         /* 0..63: this device process; -1: the supervisor */
    bool drop;              /* a unit that is on a device gives its place in the cache to one that has none */
    bool pin;               /* lock cached units in memory, in the background */
    double recheck_s;       /* a unit whose checksum was verified longer ago is verified before it is used */
};

/* Sums since the store was opened. */
struct br_weight_stats {
    uint64_t hits, hit_bytes;      /* units that were in the cache when they were asked for */
    uint64_t misses, missed_bytes; /* ... and that were not: they came through the ring */
    uint64_t filled, filled_bytes; /* units put into the cache */
    uint64_t dropped_bytes;        /* taken out of it again */
    uint64_t disk_bytes;           /* read from model folders */
    uint64_t checked_bytes;        /* of units whose checksum was computed to verify them */
    uint64_t repaired, failures;   /* units read again because their checksum was wrong; that could not be had */
    double disk_s, check_s,
        wait_s; /* while at least... summed over units: reading; verifying; whoever waited for one */
};

struct br_weight_store;

void br_weight_store_config_init(struct br_weight_store_config *config);
/* BR_ENOENT, for a device: there is no such cache. */
int br_weight_store_open(const struct br_weight_store_config *config, struct br_weight_store **out, struct br_err *err);
void br_weight_store_close(struct br_weight_store *store); /* after its images and leases */
void br_weight_store_stats(const struct br_weight_store *store, struct br_weight_stats *out);
/* Bytes of units in the cache, over all processes, and how many may be (UINT64_MAX: no limit). */
uint64_t br_weight_store_used(const struct br_weight_store *store, uint64_t *limit);

/* Takes up or makes DIR/<name>.weights for a model folder, verifies what is in it, and fills it as far as there is
 * room: br_weight_image_cached says how far. numeric AUTO: BF16 when every matrix of the files is BF16, else F32. name
 * is a plain file name. Waits while another process builds the same image. Errors name file and tensor; nothing
 * half-built stays behind. BR_ENOMEM: not even its header finds room. */
int br_weight_store_build(struct br_weight_store *store, const char *dir, const char *name, enum br_numeric numeric,
                          struct br_weight_image **out, struct br_err *err);
/* Opens an image that was built, for this device process; dir: the model folder, which need not be there as long as
 * every unit is in the cache and undamaged. */
int br_weight_store_attach(struct br_weight_store *store, const char *path, const char *dir,
                           struct br_weight_image **out, struct br_err *err);
/* After the last attach, and before the first acquire: reserves the ring, if a unit may have to pass through it. Images
 * that it is too small for have failed then (br_weight_image_failed). */
int br_weight_store_ready(struct br_weight_store *store, struct br_err *err);

#endif
