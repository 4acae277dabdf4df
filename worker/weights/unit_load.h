/* What threads do with one unit: read and pack it, hash what it would be packed from, sum it up.
 *
 * The checksum of a unit is XXH3 of the XXH3 sums of its blocks of 64 KiB: so threads can share it, and sum up what
 * they have just packed; one block's sum is the unit's. The content of a unit is a hash of its tensors' names, dtypes,
 * shapes and bytes, the bytes in the pieces that they are read in. */
#ifndef BRIAREUS_WORKER_WEIGHTS_UNIT_LOAD_H
#define BRIAREUS_WORKER_WEIGHTS_UNIT_LOAD_H

#include <pthread.h>

#include "worker/weights/load_pool.h"

enum { BR_CHECK_BLOCK = 64 << 10, BR_READ_BYTES = 1 << 20 };

enum br_unit_task {
    BR_UNIT_READ,    /* source to out, then the checksum */
    BR_UNIT_CONTENT, /* source, but nothing is kept */
    BR_UNIT_CHECK,   /* the checksum of out, which is only read */
};

struct br_unit_load {
    struct br_load_job job; /* first; private, as is all from lock on */
    enum br_unit_task task;
    struct br_weight_source *source; /* NULL: check */
    uint32_t unit;
    unsigned char *out; /* br_layout_unit_bytes long, 64-byte aligned */
    uint64_t bytes;
    int fd; /* READ: written to this file at `offset`, where there is nothing yet; out is a mapping of that, only read.
               -1: out is written to */
    uint64_t offset;
    void (*done)(struct br_unit_load *load); /* on a thread of the pool; may free the load or start it again */
    void *ctx;

    int rc; /* results */
    struct br_err err;
    uint64_t checksum, content;
    int64_t started_ns, read_ns; /* when it began, and when the last byte was there (0: nothing was read) */

    pthread_mutex_t lock;
    struct br_load_pool *pool;
    struct br_pack_part parts[BR_UNIT_PARTS];
    uint32_t n_parts;
    uint64_t *hashes; /* [job.items] of what was read */
    uint64_t *sums;   /* of blocks; 0: not computed yet */
};

/* Starts it; first: before what waits. The load stays where it is until `done`. */
void br_unit_load_start(struct br_load_pool *pool, struct br_unit_load *load, bool first);

/* Starts n loads and waits for all; sets their `done`. Returns the first rc that is not 0, with its error. */
int br_unit_loads_run(struct br_load_pool *pool, struct br_unit_load *loads, uint32_t n, struct br_err *err);

/* The checksum, by the calling thread alone. */
uint64_t br_unit_checksum(const void *unit, uint64_t bytes);

#endif
