/* Room for new blocks: what the pool has, and what the index alone keeps. Each shape's cached blocks are in a list,
 * first to be evicted first; slabs that hold nothing but cached blocks ("idle") can make way for another shape. */
#include <assert.h>

#include "kvcache/books.h"

static void node_link(struct br_kv *kv, struct kv_cached *list, int32_t node)
{
    struct kv_node *n = &kv->nodes[node];
    n->prev = list->tail;
    n->next = BR_KV_NONE;
    n->stamp = ++kv->stamp;
    *(list->tail == BR_KV_NONE ? &list->head : &kv->nodes[list->tail].next) = node;
    list->tail = node;
    list->n++;
}

static void node_unlink(struct br_kv *kv, struct kv_cached *list, int32_t node)
{
    const struct kv_node *n = &kv->nodes[node];
    *(n->prev == BR_KV_NONE ? &list->head : &kv->nodes[n->prev].next) = n->next;
    *(n->next == BR_KV_NONE ? &list->tail : &kv->nodes[n->next].prev) = n->prev;
    list->n--;
}

static void slab_link(struct br_kv *kv, struct kv_tier_books *books, struct kv_cached *list, int32_t slab)
{
    struct kv_slab *s = &books->slabs[slab];
    s->prev = list->idle_tail;
    s->next = BR_KV_NONE;
    s->stamp = kv->stamp;
    *(list->idle_tail == BR_KV_NONE ? &list->idle_head : &books->slabs[list->idle_tail].next) = slab;
    list->idle_tail = slab;
    list->n_idle++;
    books->n_idle++;
}

static void slab_unlink(struct kv_tier_books *books, struct kv_cached *list, int32_t slab)
{
    const struct kv_slab *s = &books->slabs[slab];
    *(s->prev == BR_KV_NONE ? &list->idle_head : &books->slabs[s->prev].next) = s->next;
    *(s->next == BR_KV_NONE ? &list->idle_tail : &books->slabs[s->next].prev) = s->prev;
    list->n_idle--;
    books->n_idle--;
}

void kv_cached_add(struct br_kv *kv, enum kv_tier tier, uint32_t block)
{
    struct kv_tier_books *books = &kv->tiers[tier];
    node_link(kv, &books->cached[pool_shape_of(&books->pool, block)], kv_block_node(&books->blocks[block]));
    books->slabs[pool_slab_of(&books->pool, block)].cached++;
}

void kv_cached_remove(struct br_kv *kv, enum kv_tier tier, uint32_t block)
{
    struct kv_tier_books *books = &kv->tiers[tier];
    node_unlink(kv, &books->cached[pool_shape_of(&books->pool, block)], kv_block_node(&books->blocks[block]));
    books->slabs[pool_slab_of(&books->pool, block)].cached--;
}

void kv_slab_update(struct br_kv *kv, enum kv_tier tier, uint32_t slab, uint32_t shape)
{
    struct kv_tier_books *books = &kv->tiers[tier];
    struct kv_slab *s = &books->slabs[slab];
    bool idle = s->cached && s->cached == books->pool.slabs[slab].used;
    if (idle == s->idle)
        return;
    if (idle)
        slab_link(kv, books, &books->cached[shape], (int32_t)slab);
    else
        slab_unlink(books, &books->cached[shape], (int32_t)slab);
    s->idle = idle;
}

void kv_slab_evict(struct br_kv *kv, enum kv_tier tier, uint32_t slab)
{
    struct kv_tier_books *books = &kv->tiers[tier];
    uint32_t n = books->pool.slabs[slab].used;
    assert(books->slabs[slab].idle);
    for (uint32_t p = 0; n-- > 0; p++) {
        p = places_next_taken(&books->pool.slabs[slab].places, p);
        kv_index_drop(kv, kv_block_node(&books->blocks[pool_block(&books->pool, slab, p)]));
        kv->n_evicted++;
    }
}

uint64_t kv_available(const struct br_kv *kv, enum kv_tier tier, uint32_t shape)
{
    const struct kv_tier_books *books = &kv->tiers[tier];
    const struct kv_cached *own = &books->cached[shape];
    uint64_t others = (uint64_t)(books->n_idle - own->n_idle) * books->pool.shapes[shape].per_slab;
    return pool_available(&books->pool, shape) + own->n + others;
}

/* The slab of another shape that has been idle for the longest time, or BR_KV_NONE. O(shapes). */
static int32_t idle_of_others(const struct br_kv *kv, const struct kv_tier_books *books, uint32_t shape)
{
    int32_t best = BR_KV_NONE;
    for (uint32_t i = 0; i < kv->n_shapes; i++) {
        int32_t slab = books->cached[i].idle_head;
        if (i != shape && slab != BR_KV_NONE &&
            (best == BR_KV_NONE || books->slabs[slab].stamp < books->slabs[best].stamp))
            best = slab;
    }
    return best;
}

/* The older of: the shape's first cached block, and the slab of another shape that has been idle the longest. */
static void evict_for(struct br_kv *kv, enum kv_tier tier, uint32_t shape)
{
    struct kv_tier_books *books = &kv->tiers[tier];
    int32_t own = books->cached[shape].head, other = idle_of_others(kv, books, shape);
    assert(own != BR_KV_NONE || other != BR_KV_NONE);
    if (own == BR_KV_NONE || (other != BR_KV_NONE && books->slabs[other].stamp < kv->nodes[own].stamp)) {
        kv_slab_evict(kv, tier, (uint32_t)other);
        return;
    }
    kv_index_drop(kv, own);
    kv->n_evicted++;
}

uint32_t kv_block_new(struct br_kv *kv, enum kv_tier tier, uint32_t shape)
{
    while (!pool_available(&kv->tiers[tier].pool, shape))
        evict_for(kv, tier, shape);
    return pool_take(&kv->tiers[tier].pool, shape);
}

static void to_front(struct br_kv *kv, struct kv_cached *list, int32_t node)
{
    node_unlink(kv, list, node);
    kv->nodes[node].stamp = 0;
    kv->nodes[node].prev = BR_KV_NONE;
    kv->nodes[node].next = list->head;
    *(list->head == BR_KV_NONE ? &list->tail : &kv->nodes[list->head].prev) = node;
    list->head = node;
    list->n++;
}

void br_kv_evict_first(struct br_kv *kv, uint32_t shape, const struct br_kv_key *keys, uint32_t n)
{
    for (uint32_t i = n; i-- > 0;)
        for (enum kv_tier tier = 0; tier < KV_TIERS; tier++) {
            struct kv_tier_books *books = &kv->tiers[tier];
            int32_t node = kv_find(kv, tier, shape, &keys[i]);
            if (node != BR_KV_NONE && kv_block_use(&books->blocks[kv->nodes[node].block]) == KV_CACHED)
                to_front(kv, &books->cached[shape], node);
        }
}

uint64_t br_kv_evict_device(struct br_kv *kv)
{
    uint64_t before = kv->n_evicted;
    for (uint32_t i = 0; i < kv->n_shapes; i++)
        for (struct kv_cached *list = &kv->tiers[KV_DEVICE].cached[i]; list->head != BR_KV_NONE; kv->n_evicted++)
            kv_index_drop(kv, list->head);
    return kv->n_evicted - before;
}

void br_kv_evict_all(struct br_kv *kv, uint32_t shape)
{
    for (enum kv_tier tier = 0; tier < KV_TIERS; tier++)
        for (struct kv_cached *list = &kv->tiers[tier].cached[shape]; list->head != BR_KV_NONE; kv->n_evicted++)
            kv_index_drop(kv, list->head);
}
