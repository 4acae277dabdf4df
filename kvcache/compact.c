/* Compaction: empties whole slabs by moving their blocks into the holes of others of the shape, or into a free slab
 * nearer to the device's end.
 *
 * The edge first: the slab nearest the weights, then the next. What is left of the budget merges: the emptiest slab of
 * a shape goes into its fuller ones, while these have room for all of it. A slab being emptied hands out no block
 * while there is any other room. */
#include "kvcache/books.h"
#include "kvcache/moves.h"

/* May its bytes be read elsewhere from now on? Not while another copy touches it or a running step has its address. */
static bool block_movable(const struct br_kv *kv, uint32_t block)
{
    const struct kv_tier_books *books = &kv->tiers[KV_DEVICE];
    const struct kv_block *b = &books->blocks[block];
    if (b->flying || b->holds)
        return false;
    for (int32_t e = b->refs ? b->head : BR_KV_NONE; e != BR_KV_NONE; e = books->links[e].next)
        if (kv->seqs[kv_entry_seq(kv, e)].pins)
            return false;
    return true;
}

static uint32_t next_block(const struct pool *pool, uint32_t slab, uint32_t from)
{
    return places_next_taken(&pool->slabs[slab].places, from);
}

static bool slab_movable(const struct br_kv *kv, uint32_t slab)
{
    const struct pool *pool = &kv->tiers[KV_DEVICE].pool;
    if (pool->slabs[slab].leaving)
        return false;
    for (uint32_t p = next_block(pool, slab, 0); p != UINT32_MAX; p = next_block(pool, slab, p + 1))
        if (!block_movable(kv, pool_block(pool, slab, p)))
            return false;
    return true;
}

/* All entries of `from` come to refer to `to`, and the index too. */
static void block_move(struct br_kv *kv, uint32_t from, uint32_t to, struct br_kv_moves *out)
{
    struct kv_tier_books *books = &kv->tiers[KV_DEVICE];
    kv_move_add(kv, from, to, out);
    kv_index_move(kv, from, to);
    while (books->blocks[from].refs) {
        int32_t entry = books->blocks[from].head;
        kv_unref(kv, KV_DEVICE, entry);
        kv_ref(kv, KV_DEVICE, entry, to);
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Holes in other slabs that could take the slab's blocks. */
static uint64_t holes_elsewhere(const struct pool *pool, uint32_t slab)
{
    uint32_t shape = (uint32_t)pool->slabs[slab].shape;
    return pool_holes(pool, shape) - (pool->shapes[shape].per_slab - pool->slabs[slab].used);
}

/* What evicting cached blocks of other slabs would add. */
static uint64_t cached_elsewhere(const struct kv_tier_books *books, uint32_t slab)
{
    return books->cached[books->pool.slabs[slab].shape].n - books->slabs[slab].cached;
}

static uint32_t live_blocks(const struct kv_tier_books *books, uint32_t slab)
{
    return books->pool.slabs[slab].used - books->slabs[slab].cached;
}

static void cached_evict(struct br_kv *kv, uint32_t slab)
{
    struct kv_tier_books *books = &kv->tiers[KV_DEVICE];
    for (uint32_t p = next_block(&books->pool, slab, 0); p != UINT32_MAX; p = next_block(&books->pool, slab, p + 1)) {
        const struct kv_block *b = &books->blocks[pool_block(&books->pool, slab, p)];
        if (kv_block_use(b) == KV_CACHED) {
            kv_index_drop(kv, kv_block_node(b));
            kv->n_evicted++;
        }
    }
}

/* A free slab nearer to the far end, for an edge slab only (edge >= 0). */
static bool free_below(const struct pool *pool, int32_t edge)
{
    int32_t free = pool_lowest_free(pool);
    return free >= 0 && free < edge;
}

/* Makes a hole for a block of the shape outside of slabs being emptied; false when there is nothing to evict. */
static bool hole_make(struct br_kv *kv, uint32_t shape, int32_t edge)
{
    struct kv_tier_books *books = &kv->tiers[KV_DEVICE];
    while (!pool_holes(&books->pool, shape) && !free_below(&books->pool, edge)) {
        if (books->cached[shape].head == BR_KV_NONE)
            return false;
        kv_index_drop(kv, books->cached[shape].head);
        kv->n_evicted++;
    }
    return true;
}

/* Moves up to n blocks of the slab; the number moved. */
static uint32_t slab_move(struct br_kv *kv, uint32_t slab, uint32_t n, int32_t edge, struct br_kv_moves *out)
{
    struct pool *pool = &kv->tiers[KV_DEVICE].pool;
    uint32_t shape = (uint32_t)pool->slabs[slab].shape, moved = 0;
    pool_slab_leaving(pool, slab, true);
    for (uint32_t p = next_block(pool, slab, 0); moved < n && p != UINT32_MAX; p = next_block(pool, slab, p + 1)) {
        if (!hole_make(kv, shape, edge))
            break;
        block_move(kv, pool_block(pool, slab, p), pool_take(pool, shape), out);
        moved++;
    }
    if (!moved)
        pool_slab_leaving(pool, slab, false);
    return moved;
}

/* Empties an edge slab as far as the budget goes: all of its blocks when there is room for them as it is; else what is
 * live of it, with cached blocks making way. A slab without live blocks makes way by itself. */
static uint32_t edge_empty(struct br_kv *kv, int32_t slab, uint32_t budget, struct br_kv_moves *out)
{
    struct kv_tier_books *books = &kv->tiers[KV_DEVICE];
    const struct pool_shape *shape = &books->pool.shapes[books->pool.slabs[slab].shape];
    uint32_t used = books->pool.slabs[slab].used, live = live_blocks(books, (uint32_t)slab);
    uint64_t room = holes_elsewhere(&books->pool, (uint32_t)slab);
    room += free_below(&books->pool, slab) ? shape->per_slab : 0;
    if (live == 0 || !slab_movable(kv, (uint32_t)slab))
        return 0;
    if (room >= least(used, budget))
        return slab_move(kv, (uint32_t)slab, least(used, budget), slab, out);
    if (room + cached_elsewhere(books, (uint32_t)slab) < least(live, budget))
        return 0;
    cached_evict(kv, (uint32_t)slab);
    return slab_move(kv, (uint32_t)slab, least(live, budget), slab, out);
}

/* A budget smaller than a slab still makes progress: the rest of the slab follows in a later call. */
static uint32_t edge_pass(struct br_kv *kv, uint32_t budget, struct br_kv_moves *out)
{
    const struct bits *bound = &kv->tiers[KV_DEVICE].pool.bound;
    for (int32_t i = bits_below(bound, bound->n); i >= 0 && budget; i = bits_below(bound, (uint32_t)i))
        budget -= edge_empty(kv, i, budget, out);
    return budget;
}

/* The slab of the shape with the fewest live blocks that may move and fits into the others, or POOL_NONE. O(slabs). */
static int32_t merge_source(const struct br_kv *kv, uint32_t shape, bool evict)
{
    const struct kv_tier_books *books = &kv->tiers[KV_DEVICE];
    const struct bits *bound = &books->pool.bound;
    int32_t best = POOL_NONE;
    for (int32_t i = bits_below(bound, bound->n); i >= 0; i = bits_below(bound, (uint32_t)i)) {
        uint32_t live = live_blocks(books, (uint32_t)i), n = evict ? live : books->pool.slabs[i].used;
        if (books->pool.slabs[i].shape != (int32_t)shape || live == 0 || books->pool.slabs[i].leaving ||
            (best != POOL_NONE && live >= live_blocks(books, (uint32_t)best)))
            continue;
        if (holes_elsewhere(&books->pool, (uint32_t)i) + (evict ? cached_elsewhere(books, (uint32_t)i) : 0) >= n &&
            slab_movable(kv, (uint32_t)i))
            best = i;
    }
    return best;
}

static void merge_pass(struct br_kv *kv, uint32_t budget, bool evict, struct br_kv_moves *out)
{
    const struct pool *pool = &kv->tiers[KV_DEVICE].pool;
    for (uint32_t shape = 0; shape < kv->n_shapes; shape++)
        while (budget) {
            int32_t slab = merge_source(kv, shape, evict);
            uint32_t moved;
            if (slab == POOL_NONE)
                break;
            if (evict)
                cached_evict(kv, (uint32_t)slab);
            moved = slab_move(kv, (uint32_t)slab, least(pool->slabs[slab].used, budget), POOL_NONE, out);
            if (!moved)
                break;
            budget -= moved;
        }
}

void br_kv_compact(struct br_kv *kv, uint32_t max_copies, struct br_kv_moves *out)
{
    uint32_t budget = least(max_copies, kv_moves_left(kv));
    *out = (struct br_kv_moves){.ticket = BR_KV_NONE};
    budget = edge_pass(kv, budget, out);
    merge_pass(kv, budget, false, out);
}

void br_kv_merge(struct br_kv *kv, uint32_t max_copies, struct br_kv_moves *out)
{
    *out = (struct br_kv_moves){.ticket = BR_KV_NONE};
    merge_pass(kv, least(max_copies, kv_moves_left(kv)), true, out);
}
