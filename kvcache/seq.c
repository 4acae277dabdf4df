/* Shapes and sequences: open, extend, drop, close. */
#include <assert.h>

#include "kvcache/books.h"

static int shape_check(const struct br_kv *kv, uint64_t block_bytes, struct br_err *err)
{
    uint64_t per_slab = block_bytes ? kv->config.slab_bytes / block_bytes : 0;
    if (block_bytes < kv->config.min_block_bytes || per_slab == 0)
        return br_err_set(err, BR_EINVAL,
                          "kvcache: a block of %llu bytes (%d tokens) does not fit a slab of %llu bytes, or is smaller "
                          "than min_block_bytes (%llu)",
                          (unsigned long long)block_bytes, BR_KV_TOKENS, (unsigned long long)kv->config.slab_bytes,
                          (unsigned long long)kv->config.min_block_bytes);
    if (per_slab > PLACES_MAX)
        return br_err_set(err, BR_ENOTSUP,
                          "kvcache: blocks of %llu bytes make %llu in a slab (most %d): use smaller slabs",
                          (unsigned long long)block_bytes, (unsigned long long)per_slab, PLACES_MAX);
    return 0;
}

int br_kv_shape_add(struct br_kv *kv, uint64_t block_bytes, uint32_t *shape, struct br_err *err)
{
    int rc = shape_check(kv, block_bytes, err);
    if (rc)
        return rc;
    for (*shape = 0; *shape < kv->n_shapes; ++*shape)
        if (kv->block_bytes[*shape] == block_bytes)
            return 0;
    if (kv->n_shapes == kv->config.max_shapes)
        return br_err_set(err, BR_ENOMEM, "kvcache: all %u shapes are taken; raise max_shapes", kv->config.max_shapes);
    kv->block_bytes[kv->n_shapes] = block_bytes;
    for (int tier = 0; tier < KV_TIERS; tier++)
        pool_shape_init(&kv->tiers[tier].pool, kv->n_shapes, (uint32_t)(kv->config.slab_bytes / block_bytes));
    kv->n_shapes++;
    return 0;
}

int br_kv_open(struct br_kv *kv, uint32_t shape, int32_t *seq, struct br_err *err)
{
    assert(shape < kv->n_shapes);
    if (kv->free_seq == BR_KV_NONE)
        return br_err_set(err, BR_ENOMEM, "kvcache: all %u sequences are open (those closed in flight count)",
                          kv->config.max_seqs);
    *seq = kv->free_seq;
    kv->free_seq = kv->seqs[*seq].next;
    kv->seqs[*seq] = (struct kv_seq){.life = KV_OPEN, .where = BR_KV_EMPTY, .shape = shape, .next = BR_KV_NONE};
    kv->n_open++;
    return 0;
}

void kv_seq_release(struct br_kv *kv, int32_t seq)
{
    kv->seqs[seq] = (struct kv_seq){.life = KV_FREE, .next = kv->free_seq};
    kv->free_seq = seq;
    kv->n_open--;
}

const struct kv_seq *kv_open_seq(const struct br_kv *kv, int32_t seq)
{
    assert(seq >= 0 && (uint32_t)seq < kv->config.max_seqs && kv->seqs[seq].life == KV_OPEN);
    return &kv->seqs[seq];
}

static enum kv_tier tier_of(const struct kv_seq *s)
{
    return s->where == BR_KV_HOST ? KV_HOST : s->where == BR_KV_DISK ? KV_DISK : KV_DEVICE;
}

void br_kv_drop(struct br_kv *kv, int32_t seq)
{
    struct kv_seq *s = &kv->seqs[seq];
    (void)kv_open_seq(kv, seq);
    assert(!kv_moving(s));
    kv_give(kv, tier_of(s), seq);
    s->n_blocks = 0;
    s->where = BR_KV_EMPTY;
}

void br_kv_forget(struct br_kv *kv, int32_t seq)
{
    const struct kv_seq *s = kv_open_seq(kv, seq);
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        int32_t node = kv_block_node(&kv->tiers[tier_of(s)].blocks[kv_table(kv, tier_of(s), seq)[i]]);
        if (node != BR_KV_NONE)
            kv_index_drop(kv, node);
    }
    br_kv_drop(kv, seq);
}

void br_kv_close(struct br_kv *kv, int32_t seq)
{
    struct kv_seq *s = &kv->seqs[seq];
    (void)kv_open_seq(kv, seq);
    if (kv_moving(s)) {
        s->life = KV_CLOSING;
        return;
    }
    br_kv_drop(kv, seq);
    kv_seq_release(kv, seq);
}

static uint64_t blocks_for(uint32_t tokens)
{
    return ((uint64_t)tokens + BR_KV_TOKENS - 1) / BR_KV_TOKENS;
}

int br_kv_extend(struct br_kv *kv, int32_t seq, uint32_t tokens, struct br_err *err)
{
    struct kv_seq *s = &kv->seqs[seq];
    uint64_t want = blocks_for(tokens), free = kv_available(kv, KV_DEVICE, s->shape);
    (void)kv_open_seq(kv, seq);
    assert(s->where == BR_KV_EMPTY || s->where == BR_KV_DEVICE);
    if (want <= s->n_blocks)
        return 0;
    if (want > kv->config.max_blocks_per_seq)
        return br_err_set(err, BR_EINVAL, "kvcache: %u tokens need %llu blocks, a sequence has at most %u", tokens,
                          (unsigned long long)want, kv->config.max_blocks_per_seq);
    if (want - s->n_blocks > free)
        return br_err_set(err, BR_ENOMEM, "kvcache: %llu more blocks of %llu bytes wanted on the device, %llu free",
                          (unsigned long long)(want - s->n_blocks), (unsigned long long)kv->block_bytes[s->shape],
                          (unsigned long long)free);
    kv_take(kv, KV_DEVICE, seq, s->n_blocks, (uint32_t)want);
    s->n_blocks = (uint32_t)want;
    s->where = BR_KV_DEVICE;
    return 0;
}

bool br_kv_can_extend(const struct br_kv *kv, int32_t seq, uint32_t tokens)
{
    const struct kv_seq *s = kv_open_seq(kv, seq);
    uint64_t want = blocks_for(tokens);
    if (s->where != BR_KV_EMPTY && s->where != BR_KV_DEVICE)
        return false;
    return want <= s->n_blocks ||
           (want <= kv->config.max_blocks_per_seq && want - s->n_blocks <= kv_available(kv, KV_DEVICE, s->shape));
}

enum br_kv_where br_kv_where(const struct br_kv *kv, int32_t seq)
{
    return kv_open_seq(kv, seq)->where;
}

uint32_t br_kv_blocks(const struct br_kv *kv, int32_t seq)
{
    return kv_open_seq(kv, seq)->n_blocks;
}

uint64_t br_kv_block_offset(const struct br_kv *kv, int32_t seq, uint32_t i)
{
    const struct kv_seq *s = kv_open_seq(kv, seq);
    assert(i < s->n_blocks && (s->where == BR_KV_DEVICE || s->where == BR_KV_COMING_IN));
    return kv_offset(kv, KV_DEVICE, s->shape, kv_table(kv, KV_DEVICE, seq)[i]);
}

uint64_t br_kv_block_host_offset(const struct br_kv *kv, int32_t seq, uint32_t i)
{
    const struct kv_seq *s = kv_open_seq(kv, seq);
    assert(i < s->n_blocks && s->where == BR_KV_HOST);
    return kv_offset(kv, KV_HOST, s->shape, kv_table(kv, KV_HOST, seq)[i]);
}
