#include "kvcache/pool.h"

#include <assert.h>
#include <string.h>

static uint32_t fullness(const struct pool_shape *shape, uint32_t used)
{
    return (uint32_t)((uint64_t)used * POOL_CLASSES / shape->per_slab);
}

static void list_add(struct pool *pool, struct pool_shape *shape, int32_t slab)
{
    struct pool_slab *s = &pool->slabs[slab];
    uint32_t class = fullness(shape, s->used);
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
    uint32_t class = fullness(shape, s->used);
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
    bool moves = !has_room(shape, s) || used == shape->per_slab || fullness(shape, used) != fullness(shape, s->used);
    if (moves && has_room(shape, s))
        list_remove(pool, shape, slab);
    s->used = used;
    if (moves && has_room(shape, s))
        list_add(pool, shape, slab);
}

static int32_t slab_bind(struct pool *pool, uint32_t shape)
{
    int32_t slab = pool->free;
    struct pool_slab *s = &pool->slabs[slab];
    assert(slab != POOL_NONE);
    pool->free = s->next;
    pool->n_free--;
    s->shape = (int32_t)shape;
    s->used = s->high = 0;
    pool->shapes[shape].free += pool->shapes[shape].per_slab;
    list_add(pool, &pool->shapes[shape], slab);
    return slab;
}

/* Clearing the returned places costs a word for every 64 blocks taken since the slab was bound. */
static void slab_unbind(struct pool *pool, int32_t slab)
{
    struct pool_slab *s = &pool->slabs[slab];
    struct pool_shape *shape = &pool->shapes[s->shape];
    list_remove(pool, shape, slab);
    shape->free -= shape->per_slab;
    memset(pool->leaf + (size_t)slab * pool->leaf_words, 0, (s->high + 63) / 64 * sizeof(uint64_t));
    memset(pool->mid + (size_t)slab * pool->mid_words, 0, (s->high + 4095) / 4096 * sizeof(uint64_t));
    s->top = 0;
    s->high = 0;
    s->shape = POOL_NONE;
    s->next = pool->free;
    pool->free = slab;
    pool->n_free++;
}

static void place_return(struct pool *pool, int32_t slab, uint32_t place)
{
    uint64_t *leaf = pool->leaf + (size_t)slab * pool->leaf_words;
    uint64_t *mid = pool->mid + (size_t)slab * pool->mid_words;
    leaf[place >> 6] |= 1ull << (place & 63);
    mid[place >> 12] |= 1ull << (place >> 6 & 63);
    pool->slabs[slab].top |= 1ull << (place >> 12);
}

/* The lowest returned place, or the next one never taken. */
static uint32_t place_take(struct pool *pool, int32_t slab)
{
    struct pool_slab *s = &pool->slabs[slab];
    uint64_t *leaf = pool->leaf + (size_t)slab * pool->leaf_words;
    uint64_t *mid = pool->mid + (size_t)slab * pool->mid_words;
    uint32_t a, b, place;
    if (!s->top)
        return s->high++;
    a = (uint32_t)__builtin_ctzll(s->top);
    b = a << 6 | (uint32_t)__builtin_ctzll(mid[a]);
    place = b << 6 | (uint32_t)__builtin_ctzll(leaf[b]);
    leaf[b] &= leaf[b] - 1;
    if (!leaf[b])
        mid[a] &= mid[a] - 1;
    if (!mid[a])
        s->top &= s->top - 1;
    return place;
}

void pool_init(struct pool *pool, uint32_t max_shapes)
{
    pool->n_free = pool->n_slabs;
    pool->free = pool->n_slabs ? 0 : POOL_NONE;
    for (uint32_t i = 0; i < pool->n_slabs; i++)
        pool->slabs[i] = (struct pool_slab){
            .shape = POOL_NONE, .prev = POOL_NONE, .next = i + 1 < pool->n_slabs ? (int32_t)i + 1 : POOL_NONE};
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
    return s->free + (uint64_t)pool->n_free * s->per_slab;
}

uint32_t pool_take(struct pool *pool, uint32_t shape)
{
    struct pool_shape *s = &pool->shapes[shape];
    int32_t slab;
    uint32_t place;
    if (s->nonempty)
        slab = s->lists[31 - __builtin_clz(s->nonempty)];
    else
        slab = slab_bind(pool, shape);
    place = place_take(pool, slab);
    assert(place < s->per_slab);
    s->free--;
    slab_count(pool, s, slab, pool->slabs[slab].used + 1);
    return (uint32_t)slab * s->per_slab + place;
}

void pool_give(struct pool *pool, uint32_t shape, uint32_t block)
{
    struct pool_shape *s = &pool->shapes[shape];
    int32_t slab = (int32_t)(block / s->per_slab);
    assert(pool->slabs[slab].shape == (int32_t)shape && pool_taken(pool, (uint32_t)slab, block % s->per_slab));
    place_return(pool, slab, block % s->per_slab);
    s->free++;
    slab_count(pool, s, slab, pool->slabs[slab].used - 1);
    if (pool->slabs[slab].used == 0)
        slab_unbind(pool, slab);
}

bool pool_taken(const struct pool *pool, uint32_t slab, uint32_t place)
{
    const uint64_t *leaf = pool->leaf + (size_t)slab * pool->leaf_words;
    return place < pool->slabs[slab].high && !(leaf[place >> 6] >> (place & 63) & 1);
}

static const char *slab_broken(const struct pool *pool, uint32_t slab)
{
    const struct pool_slab *s = &pool->slabs[slab];
    const uint64_t *leaf = pool->leaf + (size_t)slab * pool->leaf_words;
    const uint64_t *mid = pool->mid + (size_t)slab * pool->mid_words;
    uint32_t returned = 0;
    for (uint32_t i = 0; i < pool->leaf_words; i++) {
        returned += (uint32_t)__builtin_popcountll(leaf[i]);
        if ((leaf[i] != 0) != (mid[i >> 6] >> (i & 63) & 1))
            return "a summary word disagrees with its places";
    }
    for (uint32_t i = 0; i < pool->mid_words; i++)
        if ((mid[i] != 0) != (s->top >> i & 1))
            return "a top word disagrees with its summary";
    if (s->shape == POOL_NONE)
        return s->used || s->high || s->top ? "a free slab holds blocks" : NULL;
    if (s->used == 0)
        return "an empty slab is bound to a shape";
    return s->high - returned == s->used ? NULL : "a slab's count of taken blocks is wrong";
}

static const char *shape_broken(const struct pool *pool, uint32_t shape)
{
    const struct pool_shape *s = &pool->shapes[shape];
    uint64_t bound_free = 0, listed_free = 0;
    for (uint32_t i = 0; i < pool->n_slabs; i++)
        if (pool->slabs[i].shape == (int32_t)shape)
            bound_free += s->per_slab - pool->slabs[i].used;
    for (uint32_t class = 0; class < POOL_CLASSES; class ++) {
        if ((s->lists[class] != POOL_NONE) != (s->nonempty >> class & 1))
            return "the mask of fullness lists is wrong";
        for (int32_t i = s->lists[class]; i != POOL_NONE; i = pool->slabs[i].next) {
            if (pool->slabs[i].shape != (int32_t)shape || fullness(s, pool->slabs[i].used) != class)
                return "a slab is in the wrong list";
            listed_free += s->per_slab - pool->slabs[i].used;
        }
    }
    return bound_free == s->free && listed_free == s->free ? NULL : "a shape's count of free blocks is wrong";
}

const char *pool_broken(const struct pool *pool, uint32_t n_shapes)
{
    const char *broken = NULL;
    uint32_t n_free = 0, n_listed = 0;
    for (uint32_t i = 0; i < pool->n_slabs && !broken; i++) {
        n_free += pool->slabs[i].shape == POOL_NONE;
        broken = slab_broken(pool, i);
    }
    for (uint32_t i = 0; i < n_shapes && !broken; i++)
        broken = shape_broken(pool, i);
    for (int32_t i = pool->free; !broken && i != POOL_NONE && n_listed <= pool->n_slabs; i = pool->slabs[i].next)
        n_listed++;
    if (!broken && (n_free != pool->n_free || n_listed != n_free))
        broken = "the count of free slabs is wrong";
    return broken;
}
