#include "kvcache/pool.h"

#include <assert.h>

static uint32_t list_of(const struct pool_shape *shape, const struct pool_slab *slab, uint32_t used)
{
    return slab->leaving ? POOL_LEAVING : 1 + (uint32_t)((uint64_t)used * (POOL_CLASSES - 1) / shape->per_slab);
}

static void list_add(struct pool *pool, struct pool_shape *shape, int32_t slab)
{
    struct pool_slab *s = &pool->slabs[slab];
    uint32_t class = list_of(shape, s, s->used);
    s->prev = POOL_NONE;
    s->next = shape->lists[class];
    if (s->next != POOL_NONE)
        pool->slabs[s->next].prev = slab;
    shape->lists[class] = slab;
    shape->nonempty |= 1u << class;
}

static void list_remove(struct pool *pool, struct pool_shape *shape, int32_t slab)
{
    struct pool_slab *s = &pool->slabs[slab];
    uint32_t class = list_of(shape, s, s->used);
    if (s->next != POOL_NONE)
        pool->slabs[s->next].prev = s->prev;
    if (s->prev != POOL_NONE)
        pool->slabs[s->prev].next = s->next;
    else
        shape->lists[class] = s->next;
    if (shape->lists[class] == POOL_NONE)
        shape->nonempty &= ~(1u << class);
}

static bool has_room(const struct pool_shape *shape, const struct pool_slab *slab)
{
    return slab->used < shape->per_slab;
}

/* Changes a slab's number of taken blocks and keeps it in the right list; full slabs are in none. */
static void slab_count(struct pool *pool, struct pool_shape *shape, int32_t slab, uint32_t used)
{
    struct pool_slab *s = &pool->slabs[slab];
    bool moves =
        !has_room(shape, s) || used == shape->per_slab || list_of(shape, s, used) != list_of(shape, s, s->used);
    if (moves && has_room(shape, s))
        list_remove(pool, shape, slab);
    shape->free = shape->free + s->used - used;
    if (s->leaving)
        shape->free_leaving = shape->free_leaving + s->used - used;
    s->used = used;
    if (moves && has_room(shape, s))
        list_add(pool, shape, slab);
}

static int32_t slab_bind(struct pool *pool, uint32_t shape)
{
    int32_t slab = pool_lowest_free(pool);
    assert(slab != POOL_NONE);
    bits_remove(&pool->free, (uint32_t)slab);
    bits_add(&pool->bound, (uint32_t)slab);
    pool->n_bound++;
    pool->slabs[slab].shape = (int32_t)shape;
    pool->slabs[slab].used = 0;
    pool->shapes[shape].n_slabs++;
    pool->shapes[shape].free += pool->shapes[shape].per_slab;
    list_add(pool, &pool->shapes[shape], slab);
    return slab;
}

static void slab_unbind(struct pool *pool, int32_t slab)
{
    struct pool_slab *s = &pool->slabs[slab];
    struct pool_shape *shape = &pool->shapes[s->shape];
    list_remove(pool, shape, slab);
    shape->free -= shape->per_slab;
    shape->free_leaving -= s->leaving ? shape->per_slab : 0;
    shape->n_slabs--;
    places_reset(&s->places);
    s->leaving = false;
    s->shape = POOL_NONE;
    bits_remove(&pool->bound, (uint32_t)slab);
    bits_add(&pool->free, (uint32_t)slab);
    pool->n_bound--;
}

void pool_init(struct pool *pool, uint32_t max_shapes)
{
    pool->limit = pool->n_slabs;
    for (uint32_t i = 0; i < pool->n_slabs; i++) {
        pool->slabs[i].shape = POOL_NONE;
        bits_add(&pool->free, i);
    }
    for (uint32_t i = 0; i < max_shapes; i++)
        pool_shape_init(pool, i, 0);
}

void pool_shape_init(struct pool *pool, uint32_t shape, uint32_t per_slab)
{
    struct pool_shape *s = &pool->shapes[shape];
    *s = (struct pool_shape){.per_slab = per_slab};
    for (uint32_t i = 0; i < POOL_CLASSES; i++)
        s->lists[i] = POOL_NONE;
}

uint64_t pool_available(const struct pool *pool, uint32_t shape)
{
    const struct pool_shape *s = &pool->shapes[shape];
    return s->free + (uint64_t)pool_free_slabs(pool) * s->per_slab;
}

static int32_t slab_choose(struct pool *pool, uint32_t shape)
{
    const struct pool_shape *s = &pool->shapes[shape];
    if (s->nonempty >> (POOL_LEAVING + 1))
        return s->lists[31 - __builtin_clz(s->nonempty)];
    return pool_free_slabs(pool) ? slab_bind(pool, shape) : s->lists[POOL_LEAVING];
}

uint32_t pool_take(struct pool *pool, uint32_t shape)
{
    struct pool_shape *s = &pool->shapes[shape];
    int32_t slab = slab_choose(pool, shape);
    uint32_t place;
    assert(slab != POOL_NONE);
    place = places_take(&pool->slabs[slab].places);
    assert(place < s->per_slab);
    slab_count(pool, s, slab, pool->slabs[slab].used + 1);
    return pool_block(pool, (uint32_t)slab, place);
}

void pool_give(struct pool *pool, uint32_t block)
{
    int32_t slab = (int32_t)pool_slab_of(pool, block);
    struct pool_slab *b = &pool->slabs[slab];
    struct pool_shape *s = &pool->shapes[b->shape];
    assert(b->shape != POOL_NONE && pool_taken(pool, block));
    places_return(&b->places, pool_place_of(pool, block));
    slab_count(pool, s, slab, b->used - 1);
    if (b->used == 0)
        slab_unbind(pool, slab);
}

bool pool_taken(const struct pool *pool, uint32_t block)
{
    return places_taken(&pool->slabs[pool_slab_of(pool, block)].places, pool_place_of(pool, block));
}

int32_t pool_lowest_free(const struct pool *pool)
{
    return pool_free_slabs(pool) ? bits_lowest(&pool->free) : POOL_NONE;
}

uint32_t pool_reach(const struct pool *pool)
{
    return (uint32_t)(bits_below(&pool->bound, pool->n_slabs) + 1);
}

void pool_slab_leaving(struct pool *pool, uint32_t slab, bool leaving)
{
    struct pool_slab *s = &pool->slabs[slab];
    struct pool_shape *shape = &pool->shapes[s->shape];
    if (s->leaving == leaving)
        return;
    if (has_room(shape, s))
        list_remove(pool, shape, (int32_t)slab);
    s->leaving = leaving;
    if (leaving)
        shape->free_leaving += shape->per_slab - s->used;
    else
        shape->free_leaving -= shape->per_slab - s->used;
    if (has_room(shape, s))
        list_add(pool, shape, (int32_t)slab);
}
