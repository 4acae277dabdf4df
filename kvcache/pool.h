/* One region cut into equal slabs, and the blocks in them (Aegaeon 5.2). A slab belongs to one shape while any of its
 * blocks is taken. A block is named by its number within the shape: slab * (blocks in a slab) + place in the slab.
 *
 * Blocks come from the fullest slab of the shape that has room, lowest place first, so that the emptier ones run empty
 * and can serve another shape. All operations are O(1) a block. Internal to kvcache. */
#ifndef BRIAREUS_KVCACHE_POOL_H
#define BRIAREUS_KVCACHE_POOL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    POOL_NONE = -1,
    POOL_CLASSES = 32,              /* slabs of a shape are listed by fullness, in steps of 1/32 */
    POOL_SLAB_BLOCKS = 64 * 64 * 64 /* most blocks in a slab: three levels of 64 */
};

struct pool_slab {
    int32_t shape;      /* POOL_NONE: free */
    int32_t prev, next; /* in the list of its fullness, or of the free slabs (next only) */
    uint32_t used;      /* blocks taken */
    uint32_t high;      /* places from here on have not been taken since the slab was bound */
    uint64_t top;       /* returned places: bit i = mid word i is not 0 */
};

struct pool_shape {
    uint32_t per_slab;           /* blocks in a slab */
    uint64_t free;               /* blocks free in bound slabs */
    uint32_t nonempty;           /* bit i: list i has slabs */
    int32_t lists[POOL_CLASSES]; /* slabs that have room, by fullness */
};

struct pool {
    uint32_t n_slabs, n_free;
    int32_t free; /* first free slab */
    uint32_t leaf_words, mid_words;
    struct pool_slab *slabs;   /* [n_slabs] */
    struct pool_shape *shapes; /* [max_shapes] */
    uint64_t *leaf, *mid;      /* [n_slabs][leaf_words], [n_slabs][mid_words]: places returned, and a summary */
};

/* The pool's arrays are the caller's: see create.c. */
void pool_init(struct pool *pool, uint32_t max_shapes);
void pool_shape_init(struct pool *pool, uint32_t shape, uint32_t per_slab);
uint64_t pool_available(const struct pool *pool, uint32_t shape);
/* There has to be one: pool_available() > 0. */
uint32_t pool_take(struct pool *pool, uint32_t shape);
void pool_give(struct pool *pool, uint32_t shape, uint32_t block);
/* Is the place marked as taken? For checks. */
bool pool_taken(const struct pool *pool, uint32_t slab, uint32_t place);
/* 0, or what is wrong as a constant sentence. */
const char *pool_broken(const struct pool *pool, uint32_t n_shapes);

#endif
