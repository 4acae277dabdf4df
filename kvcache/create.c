#include <stdlib.h>

#include "kvcache/books.h"

static int config_check(const struct br_kv_config *c, struct br_err *err)
{
    uint64_t slabs;
    if (c->slab_bytes < BR_KV_TOKENS || !c->max_shapes || !c->max_seqs || !c->max_blocks_per_seq)
        return br_err_set(err, BR_EINVAL,
                          "kvcache: slab_bytes (%llu) must be at least %d, max_shapes (%u), max_seqs (%u) and "
                          "max_blocks_per_seq (%u) at least 1",
                          (unsigned long long)c->slab_bytes, BR_KV_TOKENS, c->max_shapes, c->max_seqs,
                          c->max_blocks_per_seq);
    slabs = (c->device_bytes > c->host_bytes ? c->device_bytes : c->host_bytes) / c->slab_bytes;
    if (slabs > INT32_MAX || c->max_seqs > INT32_MAX)
        return br_err_set(err, BR_EINVAL, "kvcache: %llu slabs, %u sequences are too many: use larger slab_bytes",
                          (unsigned long long)slabs, c->max_seqs);
    if (c->device_bytes < c->slab_bytes)
        return br_err_set(err, BR_EINVAL, "kvcache: a device region of %llu bytes holds no slab of %llu bytes",
                          (unsigned long long)c->device_bytes, (unsigned long long)c->slab_bytes);
    return 0;
}

/* Arrays by block are sized for the worst case; the system backs only the pages that get used. */
static int tier_create(const struct br_kv_config *c, uint64_t bytes, struct kv_tier_books *tier)
{
    struct pool *pool = &tier->pool;
    uint64_t places = c->slab_bytes / BR_KV_TOKENS;
    size_t slabs;
    if (places > POOL_SLAB_BLOCKS)
        places = POOL_SLAB_BLOCKS;
    pool->n_slabs = (uint32_t)(bytes / c->slab_bytes);
    pool->leaf_words = (uint32_t)((places + 63) / 64);
    pool->mid_words = (pool->leaf_words + 63) / 64;
    slabs = pool->n_slabs ? pool->n_slabs : 1;
    pool->slabs = calloc(slabs, sizeof *pool->slabs);
    pool->shapes = calloc(c->max_shapes, sizeof *pool->shapes);
    pool->leaf = calloc(slabs * pool->leaf_words, sizeof *pool->leaf);
    pool->mid = calloc(slabs * pool->mid_words, sizeof *pool->mid);
    tier->seen = calloc(slabs * pool->leaf_words, sizeof *tier->seen);
    tier->blocks = calloc((size_t)c->max_seqs * c->max_blocks_per_seq, sizeof *tier->blocks);
    if (!pool->slabs || !pool->shapes || !pool->leaf || !pool->mid || !tier->seen || !tier->blocks)
        return BR_ENOMEM;
    pool_init(pool, c->max_shapes);
    return 0;
}

static void tier_destroy(struct kv_tier_books *tier)
{
    free(tier->pool.slabs);
    free(tier->pool.shapes);
    free(tier->pool.leaf);
    free(tier->pool.mid);
    free(tier->seen);
    free(tier->blocks);
}

static int books_create(const struct br_kv_config *config, struct br_kv *kv)
{
    kv->config = *config;
    kv->block_bytes = calloc(config->max_shapes, sizeof *kv->block_bytes);
    kv->seqs = calloc(config->max_seqs, sizeof *kv->seqs);
    kv->copies = calloc((size_t)config->max_seqs * config->max_blocks_per_seq, sizeof *kv->copies);
    if (!kv->block_bytes || !kv->seqs || !kv->copies ||
        tier_create(config, config->device_bytes, &kv->tiers[KV_DEVICE]) ||
        tier_create(config, config->host_bytes, &kv->tiers[KV_HOST]))
        return BR_ENOMEM;
    for (uint32_t i = 0; i < config->max_seqs; i++)
        kv->seqs[i].next = i + 1 < config->max_seqs ? (int32_t)i + 1 : BR_KV_NONE;
    return 0;
}

int br_kv_create(const struct br_kv_config *config, struct br_kv **out, struct br_err *err)
{
    int rc = config_check(config, err);
    struct br_kv *kv;
    if (rc)
        return rc;
    kv = calloc(1, sizeof *kv);
    if (!kv || books_create(config, kv)) {
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
    tier_destroy(&kv->tiers[KV_DEVICE]);
    tier_destroy(&kv->tiers[KV_HOST]);
    free(kv->block_bytes);
    free(kv->seqs);
    free(kv->copies);
    free(kv);
}
