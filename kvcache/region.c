/* The device's memory is shared with weights: KV has the slabs from the far end, up to a limit that may change. */
#include <assert.h>

#include "kvcache/books.h"

uint64_t br_kv_device_end(const struct br_kv *kv)
{
    return kv->tiers[KV_DEVICE].pool.n_slabs * kv->config.slab_bytes;
}

uint64_t br_kv_device_used_bytes(const struct br_kv *kv)
{
    return pool_reach(&kv->tiers[KV_DEVICE].pool) * kv->config.slab_bytes;
}

uint64_t br_kv_device_limit_bytes(const struct br_kv *kv)
{
    return kv->tiers[KV_DEVICE].pool.limit * kv->config.slab_bytes;
}

/* Slabs that hold only cached blocks make way. */
static uint32_t reach_needed(const struct kv_tier_books *books)
{
    int32_t slab = bits_below(&books->pool.bound, books->pool.n_slabs);
    while (slab >= 0 && books->slabs[slab].idle)
        slab = bits_below(&books->pool.bound, (uint32_t)slab);
    return (uint32_t)(slab + 1);
}

uint64_t br_kv_device_floor_bytes(const struct br_kv *kv)
{
    return reach_needed(&kv->tiers[KV_DEVICE]) * kv->config.slab_bytes;
}

int br_kv_device_limit(struct br_kv *kv, uint64_t bytes, struct br_err *err)
{
    struct pool *pool = &kv->tiers[KV_DEVICE].pool;
    uint64_t slabs = bytes / kv->config.slab_bytes;
    if (slabs < reach_needed(&kv->tiers[KV_DEVICE]))
        return br_err_set(err, BR_EINVAL,
                          "kvcache: a limit of %llu bytes (%llu slabs of %llu) is below the %llu bytes from the "
                          "device's end that hold blocks: compact first",
                          (unsigned long long)bytes, (unsigned long long)slabs,
                          (unsigned long long)kv->config.slab_bytes, (unsigned long long)br_kv_device_floor_bytes(kv));
    while (pool_reach(pool) > slabs)
        kv_slab_evict(kv, KV_DEVICE, pool_reach(pool) - 1);
    pool->limit = slabs < pool->n_slabs ? (uint32_t)slabs : pool->n_slabs;
    return 0;
}

uint64_t br_kv_device_blocks_free(const struct br_kv *kv, uint32_t shape)
{
    assert(shape < kv->n_shapes);
    return kv_available(kv, KV_DEVICE, shape);
}

void br_kv_pin(struct br_kv *kv, int32_t seq)
{
    (void)kv_open_seq(kv, seq);
    kv->seqs[seq].pins++;
}

void br_kv_unpin(struct br_kv *kv, int32_t seq)
{
    assert(kv_open_seq(kv, seq)->pins > 0);
    kv->seqs[seq].pins--;
}
