/* A model's weights in device-ready layout, in a memory file that outlives the process that built it.
 *
 * File (image_file.h): a header (magic, layout version, shape, numeric, TP rank, hash of the configuration, commit word
 * written last), a record of each unit, then the units, each of which is there or is not. Mode 0600, made under a lock
 * (flock on NAME.weights.lock) as NAME.weights.tmp and renamed. A unit's record has its checksum, the hash of the
 * tensors it was made from, and a word that commits it: what a killed process left half-written is not there.
 *
 * Checksums are verified when an image is taken up or attached by br_weight_image_*, by the supervisor at every start,
 * and before a use when the last time is longer ago than the store's recheck_s. A unit whose checksum is wrong is read
 * again from the model folder. The folder's files are read again as a whole only when their size, time or inode
 * changed; then the units' contents decide. */
#ifndef BRIAREUS_WORKER_WEIGHTS_IMAGE_H
#define BRIAREUS_WORKER_WEIGHTS_IMAGE_H

#include <stdbool.h>

#include "base/err.h"
#include "cost/model_list.h"
#include "worker/weights/layout.h"

struct br_image_books; /* worker/weights/image_books.h */

struct br_weight_image {
    struct br_model_layout layout;
    const unsigned char *map; /* whole file, read-only, but for units that are not there; NULL: no weights */
    uint64_t map_bytes;
    uint64_t *unit_offset; /* [layout.units], from map */
    char path[512];
    struct br_image_books *books;     /* private to worker/weights; NULL: there are no weights */
    struct br_model_outline *outline; /* owned; NULL: there are weights */
};

/* Opens or builds CACHE_DIR/<name>.weights with all its units, in a store of its own: for programs that need no cache
 * beyond one model. BR_ENOMEM: cache_dir has no room, with the numbers. Else as br_weight_store_build. */
int br_weight_image_open(const char *dir, const char *name, const char *cache_dir, enum br_numeric numeric,
                         struct br_weight_image **out, struct br_err *err);
/* Opens a complete image only, without the model folder. BR_ENOENT: no such file; BR_ECORRUPT: another format or layout
 * version, not committed, truncated, incomplete, or a checksum is wrong. */
int br_weight_image_attach(const char *path, struct br_weight_image **out, struct br_err *err);
/* An image without bytes: units of the entry's size, one a layer, and KV blocks as a group of `tensor_parallel` GPUs
 * holds them (KV heads are repeated where there are fewer of them). vocab, first_id and n_ids are its tokenizer's. */
void br_weight_image_outline(const struct br_model_entry *entry, uint32_t tensor_parallel, uint32_t vocab,
                             int32_t first_id, uint32_t n_ids, struct br_weight_image **out);
void br_weight_image_close(struct br_weight_image *image);

/* Of a unit that is in the cache; NULL in a model without weights. */
static inline const void *br_weight_image_unit(const struct br_weight_image *image, uint32_t unit)
{
    return image->map ? image->map + image->unit_offset[unit] : NULL;
}

/* XXH3 of configuration, numeric, layout version, TP rank, and the content of all units known so far. */
uint64_t br_weight_image_key(const struct br_weight_image *image);
bool br_weight_image_has(const struct br_weight_image *image, uint32_t unit); /* in the cache, now */
uint64_t br_weight_image_cached(const struct br_weight_image *image);         /* bytes of units in the cache, now */
uint64_t br_weight_image_huge_bytes(const struct br_weight_image *image); /* of these, on huge pages of this mapping */

/* This device process has the unit on its device, or no longer. */
void br_weight_image_resident(const struct br_weight_image *image, uint32_t unit, bool resident);
/* Takes a unit out of the cache; returns the bytes that are free now, 0: it was not there or is in use. */
uint64_t br_weight_image_drop(const struct br_weight_image *image, uint32_t unit);
/* Sees to it that the units can be read again when they are not in the cache: the folder is there, and so is a staging
 * ring. From the thread that acquires leases. */
int br_weight_image_may_go(const struct br_weight_image *image, struct br_err *err);
/* Takes all units out of the cache, in every process whose image may go; they come back as they are used. *freed: bytes
 * of memory that are free when it returns, as the file system counts them. BR_EBUSY: a unit is in use; others may have
 * gone. */
int br_weight_image_vacate(const struct br_weight_image *image, uint64_t *freed, struct br_err *err);
/* Takes all units out of the cache and removes the file. *freed: bytes of memory that are free when it returns, as the
 * file system counts them. BR_EBUSY: a unit is in use; nothing was taken out then. Only br_weight_image_close may
 * follow. */
int br_weight_image_unload(struct br_weight_image *image, uint64_t *freed, struct br_err *err);

/* A unit could not be had, so what was given out for it is not what it should be: *err says why. */
bool br_weight_image_failed(const struct br_weight_image *image, struct br_err *err);

#endif
