/* The check and the dump of a region's slabs. */
#include <inttypes.h>

#include "kvcache/pool.h"

static const char *slab_broken(const struct pool *pool, uint32_t slab)
{
    const struct pool_slab *s = &pool->slabs[slab];
    bool bound = s->shape != POOL_NONE;
    if (bits_has(&pool->bound, slab) != bound || bits_has(&pool->free, slab) == bound)
        return "a slab is in the wrong set";
    if (!bound && (s->used || s->leaving))
        return "a free slab holds blocks";
    if (bound && s->used == 0)
        return "an empty slab is bound to a shape";
    if (bound && slab >= pool->limit)
        return "a slab beyond the limit is in use";
    return places_broken(&s->places, pool->leaf_words, s->used);
}

static uint32_t expected_list(const struct pool_shape *shape, const struct pool_slab *slab)
{
    return slab->leaving ? POOL_LEAVING : 1 + (uint32_t)((uint64_t)slab->used * (POOL_CLASSES - 1) / shape->per_slab);
}

static const char *shape_broken(const struct pool *pool, uint32_t shape)
{
    const struct pool_shape *s = &pool->shapes[shape];
    uint64_t bound_free = 0, listed_free = 0, leaving = 0, n_slabs = 0;
    for (uint32_t i = 0; i < pool->n_slabs; i++)
        if (pool->slabs[i].shape == (int32_t)shape) {
            bound_free += s->per_slab - pool->slabs[i].used;
            leaving += pool->slabs[i].leaving ? s->per_slab - pool->slabs[i].used : 0;
            n_slabs++;
        }
    for (uint32_t class = 0; class < POOL_CLASSES; class ++) {
        if ((s->lists[class] != POOL_NONE) != (s->nonempty >> class & 1))
            return "the mask of fullness lists is wrong";
        for (int32_t i = s->lists[class]; i != POOL_NONE; i = pool->slabs[i].next) {
            if (pool->slabs[i].shape != (int32_t)shape || expected_list(s, &pool->slabs[i]) != class)
                return "a slab is in the wrong list";
            listed_free += s->per_slab - pool->slabs[i].used;
        }
    }
    if (n_slabs != s->n_slabs)
        return "a shape's count of slabs is wrong";
    return bound_free == s->free && listed_free == s->free && leaving == s->free_leaving
               ? NULL
               : "a shape's count of free blocks is wrong";
}

const char *pool_broken(const struct pool *pool, uint32_t n_shapes)
{
    const char *broken = bits_broken(&pool->free);
    uint32_t n_bound = 0;
    if (!broken)
        broken = bits_broken(&pool->bound);
    for (uint32_t i = 0; i < pool->n_slabs && !broken; i++) {
        n_bound += pool->slabs[i].shape != POOL_NONE;
        broken = slab_broken(pool, i);
    }
    for (uint32_t i = 0; i < n_shapes && !broken; i++)
        broken = shape_broken(pool, i);
    if (!broken && (n_bound != pool->n_bound || pool->limit > pool->n_slabs))
        broken = "the count of slabs in use is wrong";
    return broken;
}

void pool_dump(const struct pool *pool, uint32_t n_shapes, struct br_buf *out)
{
    br_buf_printf(out, "  slabs %" PRIu32 " bound %" PRIu32 " limit %" PRIu32 " reach %" PRIu32 "\n", pool->n_slabs,
                  pool->n_bound, pool->limit, pool_reach(pool));
    for (uint32_t i = 0; i < n_shapes; i++)
        br_buf_printf(out, "  shape %" PRIu32 ": %" PRIu32 " slabs of %" PRIu32 " blocks, %" PRIu64 " free\n", i,
                      pool->shapes[i].n_slabs, pool->shapes[i].per_slab, pool->shapes[i].free);
    for (uint32_t i = 0; i < pool->n_slabs; i++)
        if (pool->slabs[i].shape != POOL_NONE)
            br_buf_printf(out, "  slab %" PRIu32 ": shape %" PRId32 " used %" PRIu32 "%s\n", i, pool->slabs[i].shape,
                          pool->slabs[i].used, pool->slabs[i].leaving ? " leaving" : "");
}
