/* Checks of blocks: each count is made again from the tables. */
#include <string.h>

#include "kvcache/books.h"

static bool in_tier(const struct kv_seq *s, enum kv_tier tier)
{
    return s->life != KV_FREE && kv_in_tier(s->where, tier);
}

/* Marks the sequence's blocks as seen. */
static const char *seq_broken(const struct br_kv *kv, enum kv_tier tier, int32_t seq, uint64_t *entries)
{
    const struct kv_tier_books *books = &kv->tiers[tier];
    const struct pool *pool = &books->pool;
    for (uint32_t i = 0; i < kv->seqs[seq].n_blocks; i++) {
        uint32_t block = kv_table(kv, tier, seq)[i], slab = pool_slab_of(pool, block),
                 place = pool_place_of(pool, block);
        if (block == KV_NO_BLOCK && kv_moving(&kv->seqs[seq]))
            continue;
        if (slab >= pool->n_slabs || pool->slabs[slab].shape != (int32_t)kv->seqs[seq].shape)
            return "a sequence's block lies in a slab of another shape";
        if (!pool_taken(pool, block))
            return "a sequence owns a free block";
        books->seen[(size_t)slab * pool->leaf_words + (place >> 6)] |= 1ull << (place & 63);
        ++*entries;
    }
    return NULL;
}

/* The list of entries that refer to the block against its counts. */
static const char *block_broken(const struct br_kv *kv, enum kv_tier tier, uint32_t block, uint64_t *entries)
{
    const struct kv_tier_books *books = &kv->tiers[tier];
    const struct kv_block *b = &books->blocks[block];
    uint32_t refs = 0, flying = 0, place = pool_place_of(&books->pool, block);
    int32_t prev = BR_KV_NONE;
    for (int32_t e = b->refs ? b->head : BR_KV_NONE; e != BR_KV_NONE && refs <= b->refs; e = books->links[e].next) {
        const struct kv_seq *s = &kv->seqs[kv_entry_seq(kv, e)];
        if (books->table[e] != block || books->links[e].prev != prev || !in_tier(s, tier))
            return "a block's list of entries is wrong";
        refs++;
        flying += kv_moving(s);
        prev = e;
    }
    *entries += refs;
    if (refs != b->refs || flying != b->flying)
        return "a block's count of entries is wrong";
    if (b->known && (b->known > kv->config.max_cached || kv->nodes[b->known - 1].block != block ||
                     kv->nodes[b->known - 1].tier != tier))
        return "a block's node is another's";
    if (kv_block_use(b) == KV_UNUSED)
        return "a taken block has no owner";
    if (refs && !(books->seen[(size_t)pool_slab_of(&books->pool, block) * books->pool.leaf_words + (place >> 6)] >>
                      (place & 63) &
                  1))
        return "a block's owner does not know it";
    return NULL;
}

static const char *blocks_broken(const struct br_kv *kv, enum kv_tier tier, uint64_t entries_expected)
{
    const struct kv_tier_books *books = &kv->tiers[tier];
    const struct pool *pool = &books->pool;
    uint64_t bytes[KV_USES] = {0}, entries = 0;
    const char *broken = NULL;
    for (uint32_t slab = 0; slab < pool->n_slabs && !broken; slab++) {
        const struct places *places = &pool->slabs[slab].places;
        for (uint32_t p = places_next_taken(places, 0); p != UINT32_MAX && !broken;
             p = places_next_taken(places, p + 1)) {
            uint32_t block = pool_block(pool, slab, p);
            bytes[kv_block_use(&books->blocks[block])] += kv->block_bytes[pool_shape_of(pool, block)];
            broken = block_broken(kv, tier, block, &entries);
        }
    }
    if (!broken && entries != entries_expected)
        broken = "a block has an owner it does not know";
    if (!broken && memcmp(bytes, books->bytes, sizeof bytes))
        broken = "the counts of bytes owned or in flight are wrong";
    return broken;
}

/* The lists of cached blocks and idle slabs against the slabs' blocks. */
static const char *shape_cached_broken(const struct br_kv *kv, const struct kv_tier_books *books, uint32_t shape)
{
    const struct kv_cached *list = &books->cached[shape];
    uint64_t n = 0, idle = 0;
    for (int32_t i = list->head; i != BR_KV_NONE && n <= list->n; i = kv->nodes[i].next, n++) {
        const struct kv_node *node = &kv->nodes[i];
        if (kv_block_use(&books->blocks[node->block]) != KV_CACHED || pool_shape_of(&books->pool, node->block) != shape)
            return "the list of cached blocks has another one";
        if (node->next == BR_KV_NONE ? list->tail != i : kv->nodes[node->next].prev != i)
            return "the list of cached blocks is not linked both ways";
    }
    for (int32_t i = list->idle_head; i != BR_KV_NONE && idle <= list->n_idle; i = books->slabs[i].next, idle++)
        if (!books->slabs[i].idle || books->pool.slabs[i].shape != (int32_t)shape)
            return "the list of idle slabs has another one";
    return n == list->n && idle == list->n_idle ? NULL : "a count of cached blocks or idle slabs is wrong";
}

static uint32_t slab_cached(const struct kv_tier_books *books, uint32_t slab)
{
    const struct places *places = &books->pool.slabs[slab].places;
    uint32_t n = 0;
    for (uint32_t p = places_next_taken(places, 0); p != UINT32_MAX; p = places_next_taken(places, p + 1))
        n += kv_block_use(&books->blocks[pool_block(&books->pool, slab, p)]) == KV_CACHED;
    return n;
}

static const char *cached_broken(const struct br_kv *kv, enum kv_tier tier)
{
    const struct kv_tier_books *books = &kv->tiers[tier];
    uint64_t listed = 0, cached = 0, idle = 0;
    const char *broken = NULL;
    for (uint32_t i = 0; i < kv->n_shapes && !broken; i++) {
        broken = shape_cached_broken(kv, books, i);
        listed += books->cached[i].n;
    }
    for (uint32_t i = 0; i < books->pool.n_slabs && !broken; i++) {
        uint32_t n = slab_cached(books, i);
        cached += n;
        idle += books->slabs[i].idle;
        if (n != books->slabs[i].cached || books->slabs[i].idle != (n && n == books->pool.slabs[i].used))
            broken = "a slab's count of cached blocks is wrong";
    }
    if (!broken && (cached != listed || idle != books->n_idle))
        broken = "the count of cached blocks is wrong";
    return broken;
}

const char *kv_tier_broken(const struct br_kv *kv, enum kv_tier tier)
{
    const struct kv_tier_books *books = &kv->tiers[tier];
    const char *broken = pool_broken(&books->pool, kv->n_shapes);
    uint64_t entries = 0;
    memset(books->seen, 0, (size_t)books->pool.n_slabs * books->pool.leaf_words * sizeof *books->seen);
    for (uint32_t i = 0; i < kv->config.max_seqs && !broken; i++)
        if (in_tier(&kv->seqs[i], tier))
            broken = seq_broken(kv, tier, (int32_t)i, &entries);
    if (!broken)
        broken = blocks_broken(kv, tier, entries);
    return broken ? broken : cached_broken(kv, tier);
}

/* Every copy under way holds both its blocks, and nothing else holds any. */
const char *kv_flights_broken(const struct br_kv *kv)
{
    const struct kv_tier_books *books = &kv->tiers[KV_DEVICE];
    uint32_t free = 0;
    uint64_t holds = 0;
    for (int32_t i = kv->free_flight; i != BR_KV_NONE && free <= kv->config.max_moves; i = kv->flights[i].next)
        free++;
    for (uint32_t i = 0; i < kv->config.max_moves; i++) {
        const struct kv_flight *f = &kv->flights[i];
        if (f->from != f->to && (!books->blocks[f->from].holds || !books->blocks[f->to].holds))
            return "a copy under way does not hold its blocks";
    }
    for (uint64_t i = 0; i < (uint64_t)books->pool.n_slabs; i++)
        for (uint32_t p = places_next_taken(&books->pool.slabs[i].places, 0); p != UINT32_MAX;
             p = places_next_taken(&books->pool.slabs[i].places, p + 1))
            holds += books->blocks[pool_block(&books->pool, (uint32_t)i, p)].holds;
    return free + kv->n_flights == kv->config.max_moves && holds == 2ull * kv->n_flights
               ? NULL
               : "the count of copies under way is wrong";
}
