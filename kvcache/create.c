#include <stdlib.h>

#include "kvcache/books.h"

static uint32_t place_bits(const struct br_kv_config *c)
{
    uint64_t places = c->slab_bytes / c->min_block_bytes;
    uint32_t bits = 0;
    while (bits < 18 && 1ull << bits < places)
        bits++;
    return bits;
}

static int sizes_check(const struct br_kv_config *c, struct br_err *err)
{
    uint64_t most = c->device_bytes > c->host_bytes ? c->device_bytes : c->host_bytes;
    uint64_t slabs = (most > c->disk_bytes ? most : c->disk_bytes) / c->slab_bytes;
    if (slabs > (uint64_t)(INT32_MAX >> place_bits(c)))
        return br_err_set(err, BR_EINVAL,
                          "kvcache: %llu slabs of up to %llu blocks are too many: use larger slab_bytes (%llu) or "
                          "min_block_bytes (%llu)",
                          (unsigned long long)slabs, 1ull << place_bits(c), (unsigned long long)c->slab_bytes,
                          (unsigned long long)c->min_block_bytes);
    if ((uint64_t)c->max_seqs * c->max_blocks_per_seq > INT32_MAX || c->max_moves > INT32_MAX ||
        c->max_cached > INT32_MAX)
        return br_err_set(
            err, BR_EINVAL,
            "kvcache: max_seqs (%u) x max_blocks_per_seq (%u), max_moves (%u) or max_cached (%u) above %d", c->max_seqs,
            c->max_blocks_per_seq, c->max_moves, c->max_cached, INT32_MAX);
    if (c->device_bytes < c->slab_bytes)
        return br_err_set(err, BR_EINVAL, "kvcache: a device region of %llu bytes holds no slab of %llu bytes",
                          (unsigned long long)c->device_bytes, (unsigned long long)c->slab_bytes);
    return 0;
}

static int config_check(struct br_kv_config *c, struct br_err *err)
{
    c->max_moves = c->max_moves ? c->max_moves : 1024;
    c->min_block_bytes = c->min_block_bytes > BR_KV_TOKENS ? c->min_block_bytes : BR_KV_TOKENS;
    if (c->slab_bytes < c->min_block_bytes || !c->max_shapes || !c->max_seqs || !c->max_blocks_per_seq)
        return br_err_set(err, BR_EINVAL,
                          "kvcache: slab_bytes (%llu) must be at least %llu, max_shapes (%u), max_seqs (%u) and "
                          "max_blocks_per_seq (%u) at least 1",
                          (unsigned long long)c->slab_bytes, (unsigned long long)c->min_block_bytes, c->max_shapes,
                          c->max_seqs, c->max_blocks_per_seq);
    return sizes_check(c, err);
}

static uint64_t *carve(uint64_t **storage, size_t words)
{
    *storage += words;
    return *storage - words;
}

/* The pool's sets and places out of one array. */
static int pool_create(const struct br_kv_config *c, struct pool *pool, uint64_t **storage)
{
    size_t set = bits_words(pool->n_slabs), n = pool->n_slabs ? pool->n_slabs : 1;
    uint64_t *at;
    pool->leaf_words = (uint32_t)(((1ull << pool->place_bits) + 63) / 64);
    pool->mid_words = (pool->leaf_words + 63) / 64;
    pool->slabs = calloc(n, sizeof *pool->slabs);
    pool->shapes = calloc(c->max_shapes, sizeof *pool->shapes);
    at = *storage = calloc(2 * set + n * (pool->leaf_words + pool->mid_words), sizeof *at);
    if (!pool->slabs || !pool->shapes || !at)
        return BR_ENOMEM;
    bits_init(&pool->free, carve(&at, set), pool->n_slabs);
    bits_init(&pool->bound, carve(&at, set), pool->n_slabs);
    for (uint32_t i = 0; i < pool->n_slabs; i++) {
        pool->slabs[i].places.leaf = carve(&at, pool->leaf_words);
        pool->slabs[i].places.mid = carve(&at, pool->mid_words);
    }
    pool_init(pool, c->max_shapes);
    return 0;
}

/* Arrays by block are sized for the worst case; the system backs only the pages that get used. */
static int tier_create(const struct br_kv_config *c, uint64_t bytes, struct kv_tier_books *tier)
{
    size_t entries = (size_t)c->max_seqs * c->max_blocks_per_seq, slabs;
    tier->pool.n_slabs = (uint32_t)(bytes / c->slab_bytes);
    tier->pool.place_bits = place_bits(c);
    slabs = tier->pool.n_slabs ? tier->pool.n_slabs : 1;
    if (pool_create(c, &tier->pool, &tier->storage))
        return BR_ENOMEM;
    tier->blocks = calloc(slabs << tier->pool.place_bits, sizeof *tier->blocks);
    tier->seen = calloc(slabs * tier->pool.leaf_words, sizeof *tier->seen);
    tier->table = calloc(entries, sizeof *tier->table);
    tier->links = calloc(entries, sizeof *tier->links);
    tier->cached = calloc(c->max_shapes, sizeof *tier->cached);
    tier->slabs = calloc(slabs, sizeof *tier->slabs);
    if (!tier->blocks || !tier->seen || !tier->table || !tier->links || !tier->cached || !tier->slabs)
        return BR_ENOMEM;
    for (uint32_t i = 0; i < c->max_shapes; i++)
        tier->cached[i] = (struct kv_cached){BR_KV_NONE, BR_KV_NONE, 0, BR_KV_NONE, BR_KV_NONE, 0};
    return 0;
}

static void tier_destroy(struct kv_tier_books *tier)
{
    free(tier->pool.slabs);
    free(tier->pool.shapes);
    free(tier->storage);
    free(tier->blocks);
    free(tier->seen);
    free(tier->table);
    free(tier->links);
    free(tier->cached);
    free(tier->slabs);
}

static int index_create(struct br_kv *kv)
{
    uint32_t n = kv->config.max_cached, buckets = 1;
    while (buckets < n)
        buckets *= 2;
    kv->bucket_mask = buckets - 1;
    kv->free_node = n ? 0 : BR_KV_NONE;
    kv->nodes = calloc(n ? n : 1, sizeof *kv->nodes);
    kv->buckets = calloc(buckets, sizeof *kv->buckets);
    if (!kv->nodes || !kv->buckets)
        return BR_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        kv->nodes[i].chain = i + 1 < n ? (int32_t)i + 1 : BR_KV_NONE;
    for (uint32_t i = 0; i < buckets; i++)
        kv->buckets[i] = BR_KV_NONE;
    return 0;
}

static int books_create(struct br_kv *kv)
{
    const struct br_kv_config *c = &kv->config;
    kv->block_bytes = calloc(c->max_shapes, sizeof *kv->block_bytes);
    kv->seqs = calloc(c->max_seqs, sizeof *kv->seqs);
    kv->copies = calloc((size_t)c->max_seqs * c->max_blocks_per_seq, sizeof *kv->copies);
    kv->moves = calloc(c->max_moves, sizeof *kv->moves);
    kv->flights = calloc(c->max_moves, sizeof *kv->flights);
    if (!kv->block_bytes || !kv->seqs || !kv->copies || !kv->moves || !kv->flights ||
        tier_create(c, c->device_bytes, &kv->tiers[KV_DEVICE]) || tier_create(c, c->host_bytes, &kv->tiers[KV_HOST]) ||
        tier_create(c, c->disk_bytes, &kv->tiers[KV_DISK]) || index_create(kv))
        return BR_ENOMEM;
    for (uint32_t i = 0; i < c->max_seqs; i++)
        kv->seqs[i].next = i + 1 < c->max_seqs ? (int32_t)i + 1 : BR_KV_NONE;
    for (uint32_t i = 0; i < c->max_moves; i++)
        kv->flights[i].next = i + 1 < c->max_moves ? (int32_t)i + 1 : BR_KV_NONE;
    return 0;
}

int br_kv_create(const struct br_kv_config *config, struct br_kv **out, struct br_err *err)
{
    struct br_kv_config c = *config;
    int rc = config_check(&c, err);
    struct br_kv *kv;
    if (rc)
        return rc;
    kv = calloc(1, sizeof *kv);
    if (kv)
        kv->config = c;
    if (!kv || books_create(kv)) {
        br_kv_destroy(kv);
        return br_err_set(err, BR_ENOMEM, "kvcache: no memory for the books of %u sequences of %u blocks",
                          config->max_seqs, config->max_blocks_per_seq);
    }
    *out = kv;
    return 0;
}

void br_kv_destroy(struct br_kv *kv)
{
    if (!kv)
        return;
    for (int tier = 0; tier < KV_TIERS; tier++)
        tier_destroy(&kv->tiers[tier]);
    free(kv->block_bytes);
    free(kv->seqs);
    free(kv->copies);
    free(kv->moves);
    free(kv->flights);
    free(kv->nodes);
    free(kv->buckets);
    free(kv);
}
