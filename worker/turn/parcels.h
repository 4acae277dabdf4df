/* KV on its way from one device process of a node to another, in memory that all of them share. Each device has a share
 * of the memory that it alone writes to, and a table of parcels that others take from.
 *
 * Nothing is owed: a parcel that nobody takes makes way for the next one after BR_PARCEL_KEEP_S, one whose taker died
 * after twice that, and a device process that starts again has none out. Whoever finds no parcel, or one that is not
 * what it was (a checksum), computes the KV. */
#ifndef BRIAREUS_WORKER_TURN_PARCELS_H
#define BRIAREUS_WORKER_TURN_PARCELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { BR_PARCELS = 64 /* of one device */, BR_PARCEL_KEEP_S = 20 };

struct br_parcels;

/* What is in it: KV of the first `tokens` ids of a sequence, in whole blocks, and behind them the ids (int32_t), which
 * whoever takes it compares with his own. */
struct br_parcel_label {
    uint64_t seq;
    uint64_t model; /* of the weights' content, layout and the numeric profile */
    uint64_t block_bytes;
    uint32_t tokens;
};

/* As found: `version` changes when the place is used again. */
struct br_parcel {
    uint32_t device, place;
    uint64_t version;
    struct br_parcel_label label;
    unsigned char *data; /* its blocks, one behind the other, and the ids */
    uint64_t bytes;
};

enum br_parcel_state {
    BR_PARCEL_NONE,    /* nothing is known of one */
    BR_PARCEL_COMING,  /* it will be there, or refused */
    BR_PARCEL_REFUSED, /* there is nothing to be had */
    BR_PARCEL_HERE,
};

/* A memory file for so many devices, to be inherited by their processes; the caller closes it. */
int br_parcels_create(uint64_t bytes_per_device, uint32_t devices, int *fd, struct br_err *err);
/* Of one device: what an earlier process of it had out is void. BR_ECORRUPT: not such a file, or too few devices. */
int br_parcels_open(int fd, uint32_t device, struct br_parcels **out, struct br_err *err);
void br_parcels_close(struct br_parcels *parcels);

/* ---- the device that gives; one thread of it ---- */

/* Says that the sequence's KV is coming; the place. -1: no place is free, as after 64 in 20 s. */
int32_t br_parcel_announce(struct br_parcels *p, uint64_t seq);
/* Memory for it, a multiple of 4096 from a page's edge on. NULL: no room; it is to be refused then. */
unsigned char *br_parcel_memory(struct br_parcels *p, int32_t place, uint64_t bytes);
/* It is there: sums it up first (on any thread). */
void br_parcel_seal(struct br_parcels *p, int32_t place, const struct br_parcel_label *label);
void br_parcel_refuse(struct br_parcels *p, int32_t place);

/* ---- the device that takes ---- */

/* The latest of a device for a sequence; *out is filled when it is HERE. */
enum br_parcel_state br_parcel_find(const struct br_parcels *p, uint32_t device, uint64_t seq, struct br_parcel *out);
/* Its bytes are what was summed up (on any thread). What is verified stays so as long as br_parcel_take succeeds. */
bool br_parcel_verify(const struct br_parcels *p, const struct br_parcel *parcel);
/* Ours to read until br_parcel_done; false: it has made way. */
bool br_parcel_take(struct br_parcels *p, const struct br_parcel *parcel);
void br_parcel_done(struct br_parcels *p, const struct br_parcel *parcel);

/* Bytes of this device's share that parcels take which may not make way yet. */
uint64_t br_parcels_used(const struct br_parcels *p);

#endif
