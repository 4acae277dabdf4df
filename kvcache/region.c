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

int br_kv_device_limit(struct br_kv *kv, uint64_t bytes, struct br_err *err)
{
    struct pool *pool = &kv->tiers[KV_DEVICE].pool;
    uint64_t slabs = bytes / kv->config.slab_bytes;
    if (slabs < pool_reach(pool))
        return br_err_set(err, BR_EINVAL,
                          "kvcache: a limit of %llu bytes (%llu slabs of %llu) is below the %llu bytes from the "
                          "device's end that hold blocks: compact first",
                          (unsigned long long)bytes, (unsigned long long)slabs,
                          (unsigned long long)kv->config.slab_bytes, (unsigned long long)br_kv_device_used_bytes(kv));
    pool->limit = slabs < pool->n_slabs ? (uint32_t)slabs : pool->n_slabs;
    return 0;
}

uint64_t br_kv_device_blocks_free(const struct br_kv *kv, uint32_t shape)
{
    assert(shape < kv->n_shapes);
    return pool_available(&kv->tiers[KV_DEVICE].pool, shape);
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
