/* The index of prefixes: key -> block, for each tier of its own. A hash table with chains; nodes come from a fixed
 * array. */
#include <assert.h>

#include "kvcache/books.h"

static int32_t *bucket_of(const struct br_kv *kv, const struct br_kv_key *key)
{
    return &kv->buckets[key->lo & kv->bucket_mask];
}

int32_t kv_find(const struct br_kv *kv, enum kv_tier tier, uint32_t shape, const struct br_kv_key *key)
{
    for (int32_t i = *bucket_of(kv, key); i != BR_KV_NONE; i = kv->nodes[i].chain) {
        const struct kv_node *n = &kv->nodes[i];
        if (n->key.lo == key->lo && n->key.hi == key->hi && n->tier == tier && n->shape == shape)
            return i;
    }
    return BR_KV_NONE;
}

/* The cached block that has waited longest, of any tier and shape. */
static int32_t oldest(const struct br_kv *kv)
{
    int32_t best = BR_KV_NONE;
    for (int tier = 0; tier < KV_TIERS; tier++)
        for (uint32_t i = 0; i < kv->n_shapes; i++) {
            int32_t node = kv->tiers[tier].cached[i].head;
            if (node != BR_KV_NONE && (best == BR_KV_NONE || kv->nodes[node].stamp < kv->nodes[best].stamp))
                best = node;
        }
    return best;
}

static int32_t node_new(struct br_kv *kv)
{
    int32_t node;
    if (kv->free_node == BR_KV_NONE) {
        int32_t old = oldest(kv);
        if (old == BR_KV_NONE)
            return BR_KV_NONE;
        kv_index_drop(kv, old);
        kv->n_evicted++;
    }
    node = kv->free_node;
    kv->free_node = kv->nodes[node].chain;
    kv->n_nodes++;
    return node;
}

void kv_index_add(struct br_kv *kv, enum kv_tier tier, uint32_t block, const struct br_kv_key *key)
{
    struct kv_tier_books *books = &kv->tiers[tier];
    uint32_t shape = pool_shape_of(&books->pool, block);
    int32_t node;
    assert(books->blocks[block].refs);
    if (books->blocks[block].known || kv_find(kv, tier, shape, key) != BR_KV_NONE)
        return;
    node = node_new(kv);
    if (node == BR_KV_NONE)
        return;
    kv->nodes[node] =
        (struct kv_node){.key = *key, .chain = *bucket_of(kv, key), .block = block, .shape = shape, .tier = tier};
    *bucket_of(kv, key) = node;
    books->blocks[block].known = (uint32_t)node + 1;
}

static void cached_free(struct br_kv *kv, enum kv_tier tier, uint32_t block)
{
    struct kv_tier_books *books = &kv->tiers[tier];
    uint32_t shape = pool_shape_of(&books->pool, block);
    kv_cached_remove(kv, tier, block);
    books->bytes[KV_CACHED] -= kv->block_bytes[shape];
    books->blocks[block].known = 0;
    pool_give(&books->pool, block);
    kv_slab_update(kv, tier, pool_slab_of(&books->pool, block), shape);
}

void kv_index_drop(struct br_kv *kv, int32_t node)
{
    struct kv_node *n = &kv->nodes[node];
    struct kv_block *b = &kv->tiers[n->tier].blocks[n->block];
    int32_t *at = bucket_of(kv, &n->key);
    while (*at != node)
        at = &kv->nodes[*at].chain;
    *at = n->chain;
    if (kv_block_use(b) == KV_CACHED)
        cached_free(kv, n->tier, n->block);
    b->known = 0;
    n->chain = kv->free_node;
    kv->free_node = node;
    kv->n_nodes--;
}

void kv_index_move(struct br_kv *kv, uint32_t from, uint32_t to)
{
    struct kv_block *blocks = kv->tiers[KV_DEVICE].blocks;
    int32_t node = kv_block_node(&blocks[from]);
    assert(blocks[from].holds && blocks[to].holds);
    if (node == BR_KV_NONE)
        return;
    kv->nodes[node].block = to;
    blocks[to].known = blocks[from].known;
    blocks[from].known = 0;
}

static const char *node_broken(const struct br_kv *kv, int32_t node, uint32_t bucket)
{
    const struct kv_node *n = &kv->nodes[node];
    const struct kv_tier_books *books = &kv->tiers[n->tier];
    if ((n->key.lo & kv->bucket_mask) != bucket)
        return "a node is in the wrong bucket";
    if (kv_find(kv, n->tier, n->shape, &n->key) != node)
        return "a key is there twice";
    if (!pool_taken(&books->pool, n->block) || kv_block_node(&books->blocks[n->block]) != node)
        return "a node's block does not know it";
    return pool_shape_of(&books->pool, n->block) == n->shape ? NULL : "a node's block is of another shape";
}

const char *kv_index_broken(const struct br_kv *kv)
{
    uint32_t n = 0, free = 0;
    const char *broken = NULL;
    for (uint32_t b = 0; b <= kv->bucket_mask && !broken; b++)
        for (int32_t i = kv->buckets[b]; i != BR_KV_NONE && !broken && n <= kv->n_nodes; i = kv->nodes[i].chain, n++)
            broken = node_broken(kv, i, b);
    for (int32_t i = kv->free_node; i != BR_KV_NONE && free <= kv->config.max_cached; i = kv->nodes[i].chain)
        free++;
    if (!broken && (n != kv->n_nodes || n + free != kv->config.max_cached))
        broken = "the count of nodes is wrong";
    return broken;
}

void kv_index_dump(const struct br_kv *kv, struct br_buf *out)
{
    br_buf_printf(out, "index: %u of %u nodes, %llu hits, %llu evicted\n", kv->n_nodes, kv->config.max_cached,
                  (unsigned long long)kv->n_hits, (unsigned long long)kv->n_evicted);
    for (uint32_t b = 0; b <= kv->bucket_mask; b++)
        for (int32_t i = kv->buckets[b]; i != BR_KV_NONE; i = kv->nodes[i].chain)
            br_buf_printf(out, "  %016llx%016llx: tier %d shape %u block %u\n", (unsigned long long)kv->nodes[i].key.hi,
                          (unsigned long long)kv->nodes[i].key.lo, kv->nodes[i].tier, kv->nodes[i].shape,
                          kv->nodes[i].block);
}
