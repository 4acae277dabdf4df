/* A region cut into extents, first fit: which unit of which slot lies where. Pure; allocates at init only. */
#ifndef BRIAREUS_WORKER_TURN_EXTENTS_H
#define BRIAREUS_WORKER_TURN_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#define BR_EXTENT_NONE UINT64_MAX

struct br_extent {
    uint64_t at, bytes; /* multiples of 64 */
    uint32_t slot, unit;
};

struct br_extents {
    uint64_t bytes, used;
    uint32_t n, cap;
    uint64_t high;          /* the furthest that any was taken to; the owner sets it back */
    struct br_extent *list; /* owned, in order of at */
};

void br_extents_init(struct br_extents *x, uint64_t bytes, uint32_t cap);
void br_extents_free(struct br_extents *x);

/* The lowest gap of at least bytes that does not touch [avoid, avoid + avoid_bytes); BR_EXTENT_NONE: there is none. */
uint64_t br_extents_fit(const struct br_extents *x, uint64_t bytes, uint64_t avoid, uint64_t avoid_bytes);
/* Takes [at, at + bytes), which must be free. */
void br_extents_take(struct br_extents *x, uint64_t at, uint64_t bytes, uint32_t slot, uint32_t unit);
/* Gives back the extent that begins at `at`. */
void br_extents_give(struct br_extents *x, uint64_t at);

/* The place for `bytes` that is cheapest to clear: begins behind an extent (or at 0), and as few bytes as possible lie
 * in the way, none of them of slot `fixed` (UINT32_MAX: every extent may move). BR_EXTENT_NONE: none. *first and *n:
 * the extents in the way, as indices into list. */
uint64_t br_extents_window(const struct br_extents *x, uint64_t bytes, uint32_t fixed, uint32_t *first, uint32_t *n);

#endif
