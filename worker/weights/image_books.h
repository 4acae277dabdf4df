/* The inside of images and stores, shared by the files of this folder. */
#ifndef BRIAREUS_WORKER_WEIGHTS_IMAGE_BOOKS_H
#define BRIAREUS_WORKER_WEIGHTS_IMAGE_BOOKS_H

#include <pthread.h>

#include "worker/weights/budget.h"
#include "worker/weights/image_file.h"
#include "worker/weights/lease.h"
#include "worker/weights/unit_load.h"

struct br_image_books {
    struct br_weight_store *store;
    bool own_store;                 /* goes with the image */
    struct br_image_header *header; /* the file's, writable */
    int fd;
    char *dir; /* model folder; NULL: it has none */
    pthread_mutex_t lock;
    struct br_weight_source *source; /* opened when it is needed */
    uint32_t *uses;                  /* [units] leases of this process */
    bool failed;
    struct br_err failure;
    struct br_weight_image *next; /* of the store's */
};

/* One slot of the ring, and who waits for it, in order. */
struct ring_slot {
    unsigned char *data;
    bool busy;
    struct br_lease *first, *last;
};

enum { RING_MAX_SLOTS = 8, RING_SLOTS = 3 };

struct br_weight_store {
    struct br_weight_store_config config;
    char dir[400];
    struct br_budget *budget; /* NULL: no cache to share */
    struct br_load_pool *pool;
    struct br_weight_image *images;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a lease has ended, or nothing runs any more */
    uint32_t running;       /* leases that a thread of the pool works for */
    struct ring_slot slots[RING_MAX_SLOTS];
    uint32_t n_slots, next_slot;
    unsigned char *ring;
    uint64_t slot_bytes, ring_bytes;
    struct br_weight_stats stats;
    bool full_told, unpinned_told;
};

/* ---- image_open.c ---- */

/* Maps a file and checks its header; *out has no store yet. */
int image_map(const char *path, struct br_weight_image **out, struct br_err *err);
/* A new file for the source's model, header only, committed. */
int image_create(const char *path, const struct br_weight_source *source, struct br_err *err);
void image_join(struct br_weight_image *image, struct br_weight_store *store, const char *dir);

/* ---- image.c ---- */

struct br_image_state *image_state(const struct br_weight_image *image, uint32_t unit);
/* Opened now if it was not. */
int image_source(const struct br_weight_image *image, struct br_weight_source **out, struct br_err *err);
void image_fail(const struct br_weight_image *image, const struct br_err *err);
/* ABSENT becomes ours to fill, with its bytes taken from the budget; BR_EBUSY: somebody else is at it, or it is there;
 * BR_ENOMEM: no room. */
int image_claim(const struct br_weight_image *image, uint32_t unit);
void image_unclaim(const struct br_weight_image *image, uint32_t unit); /* and frees what was written */
void image_commit(const struct br_weight_image *image, uint32_t unit);
/* The unit stays in the cache until the end; false: it is not there. */
bool image_use_begin(const struct br_weight_image *image, uint32_t unit);
void image_use_end(const struct br_weight_image *image, uint32_t unit);
/* What a load has read is what the unit was before, if it is known; noted if not. */
int image_accept(const struct br_weight_image *image, const struct br_unit_load *load, struct br_err *err);
/* The checksum is what the record says; noted as verified now. */
bool image_verified(const struct br_weight_image *image, uint32_t unit, uint64_t checksum);
/* Verifies what is in the cache; a damaged unit is taken out, or, strict, is an error. */
int image_check(struct br_weight_image *image, bool strict, struct br_err *err);
/* Fills what is missing as far as the budget goes. */
int image_fill(struct br_weight_image *image, struct br_err *err);

/* ---- store.c ---- */

void store_count(struct br_weight_store *store, uint64_t *count, uint64_t by);
void store_count_load(struct br_weight_store *store, const struct br_unit_load *load);
/* Room for so many bytes, by dropping what is on devices if the configuration says so. */
bool store_take(struct br_weight_store *store, uint64_t bytes);
void store_give(struct br_weight_store *store, uint64_t bytes);
/* There is a ring through which the image's units fit. Not from two threads at a time, nor beside an acquire. */
int store_ring_for(struct br_weight_store *store, const struct br_weight_image *image, struct br_err *err);
void store_pin(struct br_weight_store *store, const struct br_weight_image *image, uint32_t unit);

#endif
