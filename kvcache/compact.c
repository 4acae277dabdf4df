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

/* All entries of `from` come to refer to `to`, in the same order. */
static void block_move(struct br_kv *kv, uint32_t from, uint32_t to, struct br_kv_moves *out)
{
    struct kv_tier_books *books = &kv->tiers[KV_DEVICE];
    kv_move_add(kv, from, to, out);
    while (books->blocks[from].refs) {
        int32_t entry = books->blocks[from].head;
        kv_unref(kv, KV_DEVICE, entry);
        kv_ref(kv, KV_DEVICE, entry, to);
    }
}

static void slab_move(struct br_kv *kv, uint32_t slab, uint32_t n, struct br_kv_moves *out)
{
    struct pool *pool = &kv->tiers[KV_DEVICE].pool;
    uint32_t shape = (uint32_t)pool->slabs[slab].shape;
    pool_slab_leaving(pool, slab, true);
    for (uint32_t p = next_block(pool, slab, 0); n-- > 0; p = next_block(pool, slab, p + 1))
        block_move(kv, pool_block(pool, slab, p), pool_take(pool, shape), out);
}

/* Holes in other slabs that could take the slab's blocks. */
static uint64_t holes_elsewhere(const struct pool *pool, uint32_t slab)
{
    uint32_t shape = (uint32_t)pool->slabs[slab].shape;
    return pool_holes(pool, shape) - (pool->shapes[shape].per_slab - pool->slabs[slab].used);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* A budget smaller than a slab still makes progress: the rest of the slab follows in a later call. */
static uint32_t edge_pass(struct br_kv *kv, uint32_t budget, struct br_kv_moves *out)
{
    struct pool *pool = &kv->tiers[KV_DEVICE].pool;
    for (int32_t i = bits_below(&pool->bound, pool->n_slabs); i >= 0 && budget; i = bits_below(&pool->bound, i)) {
        uint32_t n = least(pool->slabs[i].used, budget);
        int32_t free = pool_lowest_free(pool);
        if (!slab_movable(kv, (uint32_t)i) || ((free < 0 || free > i) && holes_elsewhere(pool, (uint32_t)i) < n))
            continue;
        slab_move(kv, (uint32_t)i, n, out);
        budget -= n;
    }
    return budget;
}

/* The emptiest slab of the shape that may move and fits into the holes of the others, or POOL_NONE. */
static int32_t merge_source(const struct br_kv *kv, uint32_t shape)
{
    const struct pool *pool = &kv->tiers[KV_DEVICE].pool;
    const struct pool_shape *s = &pool->shapes[shape];
    for (uint32_t class = POOL_LEAVING + 1; class < POOL_CLASSES; class ++)
        for (int32_t i = s->lists[class]; i != POOL_NONE; i = pool->slabs[i].next)
            if (holes_elsewhere(pool, (uint32_t)i) >= pool->slabs[i].used && slab_movable(kv, (uint32_t)i))
                return i;
    return POOL_NONE;
}

static uint32_t merge_pass(struct br_kv *kv, uint32_t budget, struct br_kv_moves *out)
{
    struct pool *pool = &kv->tiers[KV_DEVICE].pool;
    for (uint32_t shape = 0; shape < kv->n_shapes && budget; shape++)
        for (int32_t i = merge_source(kv, shape); i != POOL_NONE && budget; i = merge_source(kv, shape)) {
            uint32_t n = least(pool->slabs[i].used, budget);
            slab_move(kv, (uint32_t)i, n, out);
            budget -= n;
        }
    return budget;
}

void br_kv_compact(struct br_kv *kv, uint32_t max_copies, struct br_kv_moves *out)
{
    uint32_t budget = least(max_copies, kv_moves_left(kv));
    *out = (struct br_kv_moves){.ticket = BR_KV_NONE};
    merge_pass(kv, edge_pass(kv, budget, out), out);
}

void br_kv_merge(struct br_kv *kv, uint32_t max_copies, struct br_kv_moves *out)
{
    *out = (struct br_kv_moves){.ticket = BR_KV_NONE};
    merge_pass(kv, least(max_copies, kv_moves_left(kv)), out);
}
