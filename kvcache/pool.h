/* One region cut into equal slabs, and the blocks in them (Aegaeon 5.2). A slab belongs to one shape while any of its
 * blocks is taken. A block is named by its number in the region: slab << place_bits | place in the slab.
 *
 * Free slabs come lowest number first, and none from `limit` on. Blocks come from the fullest slab of the shape that
 * has room, lowest place first, so that the emptier ones run empty and can serve another shape; a slab that compaction
 * is emptying comes last of all. All operations are O(1) a block. Internal to kvcache. */
#ifndef BRIAREUS_KVCACHE_POOL_H
#define BRIAREUS_KVCACHE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "kvcache/bits.h"
#include "kvcache/places.h"

enum {
    POOL_NONE = -1,
    POOL_CLASSES = 32, /* slabs of a shape are listed by fullness, in steps of 1/31 */
    POOL_LEAVING = 0,  /* the class of slabs that are being emptied */
};

struct pool_slab {
    int32_t shape;      /* POOL_NONE: free */
    int32_t prev, next; /* in the list of its fullness */
    uint32_t used;      /* blocks taken */
    bool leaving;       /* compaction is emptying it */
    struct places places;
};

struct pool_shape {
    uint32_t per_slab;           /* blocks in a slab */
    uint32_t n_slabs;            /* bound to it */
    uint64_t free;               /* blocks free in bound slabs */
    uint64_t free_leaving;       /* those of them in slabs being emptied */
    uint32_t nonempty;           /* bit i: list i has slabs */
    int32_t lists[POOL_CLASSES]; /* slabs that have room, by fullness */
};

struct pool {
    uint32_t n_slabs, n_bound;
    uint32_t limit; /* slabs from here on are not handed out; no bound slab is beyond it */
    uint32_t place_bits, leaf_words, mid_words;
    struct bits free, bound;   /* slabs */
    struct pool_slab *slabs;   /* [n_slabs] */
    struct pool_shape *shapes; /* [max_shapes] */
};

static inline uint32_t pool_slab_of(const struct pool *pool, uint32_t block)
{
    return block >> pool->place_bits;
}

static inline uint32_t pool_place_of(const struct pool *pool, uint32_t block)
{
    return block & ((1u << pool->place_bits) - 1);
}

static inline uint32_t pool_block(const struct pool *pool, uint32_t slab, uint32_t place)
{
    return slab << pool->place_bits | place;
}

static inline uint32_t pool_shape_of(const struct pool *pool, uint32_t block)
{
    return (uint32_t)pool->slabs[pool_slab_of(pool, block)].shape;
}

static inline uint32_t pool_free_slabs(const struct pool *pool)
{
    return pool->limit - pool->n_bound;
}

/* The pool's arrays are the caller's: see create.c. */
void pool_init(struct pool *pool, uint32_t max_shapes);
void pool_shape_init(struct pool *pool, uint32_t shape, uint32_t per_slab);
/* Blocks that can be taken: free ones in the shape's slabs, and those of free slabs under the limit. */
uint64_t pool_available(const struct pool *pool, uint32_t shape);
/* There has to be one: pool_available() > 0. */
uint32_t pool_take(struct pool *pool, uint32_t shape);
void pool_give(struct pool *pool, uint32_t block);
bool pool_taken(const struct pool *pool, uint32_t block);
/* The lowest free slab under the limit, or POOL_NONE. */
int32_t pool_lowest_free(const struct pool *pool);
/* Slabs in use reach up to here: the highest bound slab + 1. */
uint32_t pool_reach(const struct pool *pool);
void pool_slab_leaving(struct pool *pool, uint32_t slab, bool leaving);
/* Blocks free in the shape's slabs, but for those being emptied. */
static inline uint64_t pool_holes(const struct pool *pool, uint32_t shape)
{
    return pool->shapes[shape].free - pool->shapes[shape].free_leaving;
}
/* 0, or what is wrong as a constant sentence. O(slabs). */
const char *pool_broken(const struct pool *pool, uint32_t n_shapes);
void pool_dump(const struct pool *pool, uint32_t n_shapes, struct br_buf *out);

#endif
