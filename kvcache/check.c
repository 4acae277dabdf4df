/* Numbers, and the check of every invariant: each count is made again from the tables. */
#include <string.h>

#include "kvcache/books.h"

void br_kv_stats(const struct br_kv *kv, struct br_kv_stats *out)
{
    const struct kv_tier_books *device = &kv->tiers[KV_DEVICE], *host = &kv->tiers[KV_HOST];
    *out = (struct br_kv_stats){
        .device_slabs = device->pool.n_slabs,
        .device_slabs_free = pool_free_slabs(&device->pool),
        .host_slabs = host->pool.n_slabs,
        .host_slabs_free = pool_free_slabs(&host->pool),
        .device_bytes_owned = device->bytes[KV_OWNED],
        .device_bytes_in_flight = device->bytes[KV_IN_FLIGHT],
        .host_bytes_owned = host->bytes[KV_OWNED],
        .host_bytes_in_flight = host->bytes[KV_IN_FLIGHT],
    };
}

static bool in_tier(const struct kv_seq *s, enum kv_tier tier)
{
    enum br_kv_where home = tier == KV_DEVICE ? BR_KV_DEVICE : BR_KV_HOST;
    return s->life != KV_FREE && (s->where == home || kv_moving(s));
}

/* Marks the sequence's blocks as seen. */
static const char *seq_broken(const struct br_kv *kv, enum kv_tier tier, int32_t seq)
{
    const struct kv_tier_books *books = &kv->tiers[tier];
    const struct pool *pool = &books->pool;
    for (uint32_t i = 0; i < kv->seqs[seq].n_blocks; i++) {
        uint32_t block = kv_table(kv, tier, seq)[i], slab = pool_slab_of(pool, block),
                 place = pool_place_of(pool, block);
        if (slab >= pool->n_slabs || pool->slabs[slab].shape != (int32_t)kv->seqs[seq].shape)
            return "a sequence's block lies in a slab of another shape";
        if (!pool_taken(pool, block))
            return "a sequence owns a free block";
        books->seen[(size_t)slab * pool->leaf_words + (place >> 6)] |= 1ull << (place & 63);
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

const char *kv_tier_broken(const struct br_kv *kv, enum kv_tier tier)
{
    const struct kv_tier_books *books = &kv->tiers[tier];
    const char *broken = pool_broken(&books->pool, kv->n_shapes);
    uint64_t entries = 0;
    memset(books->seen, 0, (size_t)books->pool.n_slabs * books->pool.leaf_words * sizeof *books->seen);
    for (uint32_t i = 0; i < kv->config.max_seqs && !broken; i++)
        if (in_tier(&kv->seqs[i], tier)) {
            entries += kv->seqs[i].n_blocks;
            broken = seq_broken(kv, tier, (int32_t)i);
        }
    return broken ? broken : blocks_broken(kv, tier, entries);
}

static const char *seqs_broken(const struct br_kv *kv)
{
    uint32_t open = 0, free = 0;
    for (uint32_t i = 0; i < kv->config.max_seqs; i++) {
        const struct kv_seq *s = &kv->seqs[i];
        open += s->life != KV_FREE;
        if (s->life == KV_CLOSING && !kv_moving(s))
            return "a closed sequence is still there";
        if (s->life != KV_FREE && (s->where == BR_KV_EMPTY) != (s->n_blocks == 0))
            return "an empty sequence owns blocks, or none is empty";
    }
    for (int32_t i = kv->free_seq; i != BR_KV_NONE && free <= kv->config.max_seqs; i = kv->seqs[i].next)
        free++;
    return open == kv->n_open && open + free == kv->config.max_seqs ? NULL : "the count of sequences is wrong";
}

/* Every copy under way holds both its blocks, and nothing else holds any. */
static const char *flights_broken(const struct br_kv *kv)
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

int br_kv_check(const struct br_kv *kv, struct br_err *err)
{
    static const char *const names[] = {"sequences", "device", "host", "copies on the device"};
    const char *broken[] = {seqs_broken(kv), kv_tier_broken(kv, KV_DEVICE), kv_tier_broken(kv, KV_HOST),
                            flights_broken(kv)};
    for (int i = 0; i < 4; i++)
        if (broken[i])
            return br_err_set(err, BR_ECORRUPT, "kvcache: %s: %s", names[i], broken[i]);
    return 0;
}
