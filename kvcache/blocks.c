/* Who keeps a block: entries of block tables, and copies under way. */
#include <assert.h>

#include "kvcache/books.h"

enum kv_use kv_block_use(const struct kv_block *b)
{
    if (b->flying || b->holds)
        return KV_IN_FLIGHT;
    if (b->refs)
        return KV_OWNED;
    return b->known ? KV_CACHED : KV_UNUSED;
}

void kv_settle(struct br_kv *kv, enum kv_tier tier, uint32_t block, enum kv_use was)
{
    struct kv_tier_books *books = &kv->tiers[tier];
    enum kv_use use = kv_block_use(&books->blocks[block]);
    uint32_t shape = pool_shape_of(&books->pool, block);
    if (use == was)
        return;
    books->bytes[was] -= was == KV_UNUSED ? 0 : kv->block_bytes[shape];
    books->bytes[use] += use == KV_UNUSED ? 0 : kv->block_bytes[shape];
    if (was == KV_CACHED)
        kv_cached_remove(kv, tier, block);
    if (use == KV_CACHED)
        kv_cached_add(kv, tier, block);
    if (use == KV_UNUSED)
        pool_give(&books->pool, block);
    kv_slab_update(kv, tier, pool_slab_of(&books->pool, block), shape);
}

void kv_ref(struct br_kv *kv, enum kv_tier tier, int32_t entry, uint32_t block)
{
    struct kv_tier_books *books = &kv->tiers[tier];
    struct kv_block *b = &books->blocks[block];
    enum kv_use was = kv_block_use(b);
    if (!b->refs)
        b->head = BR_KV_NONE;
    books->table[entry] = block;
    books->links[entry] = (struct kv_link){.prev = BR_KV_NONE, .next = b->head};
    if (b->head != BR_KV_NONE)
        books->links[b->head].prev = entry;
    b->head = entry;
    b->refs++;
    kv_settle(kv, tier, block, was);
}

void kv_unref(struct br_kv *kv, enum kv_tier tier, int32_t entry)
{
    struct kv_tier_books *books = &kv->tiers[tier];
    uint32_t block = books->table[entry];
    struct kv_block *b = &books->blocks[block];
    struct kv_link link = books->links[entry];
    enum kv_use was = kv_block_use(b);
    assert(b->refs > 0);
    if (link.next != BR_KV_NONE)
        books->links[link.next].prev = link.prev;
    if (link.prev != BR_KV_NONE)
        books->links[link.prev].next = link.next;
    else
        b->head = link.next;
    b->refs--;
    kv_settle(kv, tier, block, was);
}

void kv_hold(struct br_kv *kv, enum kv_tier tier, uint32_t block)
{
    struct kv_block *b = &kv->tiers[tier].blocks[block];
    enum kv_use was = kv_block_use(b);
    b->holds++;
    kv_settle(kv, tier, block, was);
}

void kv_release(struct br_kv *kv, enum kv_tier tier, uint32_t block)
{
    struct kv_block *b = &kv->tiers[tier].blocks[block];
    enum kv_use was = kv_block_use(b);
    assert(b->holds > 0);
    b->holds--;
    kv_settle(kv, tier, block, was);
}

void kv_fly(struct br_kv *kv, enum kv_tier tier, int32_t seq, bool start)
{
    const uint32_t *table = kv_table(kv, tier, seq);
    for (uint32_t i = 0; i < kv->seqs[seq].n_blocks; i++) {
        struct kv_block *b = table[i] == KV_NO_BLOCK ? NULL : &kv->tiers[tier].blocks[table[i]];
        enum kv_use was = b ? kv_block_use(b) : KV_UNUSED;
        if (!b)
            continue;
        b->flying += start ? 1 : -1u;
        kv_settle(kv, tier, table[i], was);
    }
}

void kv_take(struct br_kv *kv, enum kv_tier tier, int32_t seq, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        kv_ref(kv, tier, kv_entry(kv, seq, i), kv_block_new(kv, tier, kv->seqs[seq].shape));
}

void kv_give(struct br_kv *kv, enum kv_tier tier, int32_t seq)
{
    const uint32_t *table = kv_table(kv, tier, seq);
    for (uint32_t i = kv->seqs[seq].n_blocks; i-- > 0;)
        if (table[i] != KV_NO_BLOCK)
            kv_unref(kv, tier, kv_entry(kv, seq, i));
}
