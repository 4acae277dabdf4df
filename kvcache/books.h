/* The inside of struct br_kv, shared by the files of kvcache. */
#ifndef BRIAREUS_KVCACHE_BOOKS_H
#define BRIAREUS_KVCACHE_BOOKS_H

#include "kvcache/kvcache.h"
#include "kvcache/pool.h"

enum kv_life { KV_FREE, KV_OPEN, KV_CLOSING /* closed, but its blocks are in flight */ };

enum kv_tier { KV_DEVICE, KV_HOST, KV_TIERS };

struct kv_seq {
    enum kv_life life;
    enum br_kv_where where;
    uint32_t shape, n_blocks;
    int32_t next; /* free list */
};

struct kv_tier_books {
    struct pool pool;
    uint32_t *blocks; /* [max_seqs][max_blocks_per_seq]: block numbers of a sequence in this tier */
    uint64_t bytes_owned, bytes_in_flight;
    uint64_t *seen; /* [n_slabs][leaf_words]: scratch of br_kv_check */
};

struct br_kv {
    struct br_kv_config config;
    uint32_t n_shapes;
    uint64_t *block_bytes; /* [max_shapes] */
    struct kv_seq *seqs;   /* [max_seqs] */
    int32_t free_seq;
    uint32_t n_open; /* closing ones included */
    struct kv_tier_books tiers[KV_TIERS];
    struct br_kv_copy *copies; /* [max_seqs][max_blocks_per_seq]: of the swap a sequence is in */
};

static inline uint32_t *kv_table(const struct br_kv *kv, enum kv_tier tier, int32_t seq)
{
    return kv->tiers[tier].blocks + (size_t)seq * kv->config.max_blocks_per_seq;
}

static inline uint64_t kv_offset(const struct br_kv *kv, enum kv_tier tier, uint32_t shape, uint32_t block)
{
    uint32_t per_slab = kv->tiers[tier].pool.shapes[shape].per_slab;
    return block / per_slab * kv->config.slab_bytes + block % per_slab * kv->block_bytes[shape];
}

static inline uint64_t kv_seq_bytes(const struct br_kv *kv, const struct kv_seq *s)
{
    return s->n_blocks * kv->block_bytes[s->shape];
}

/* Take or give back all blocks of the sequence's table from place `from` on. */
void kv_take(struct br_kv *kv, enum kv_tier tier, int32_t seq, uint32_t from, uint32_t to);
void kv_give(struct br_kv *kv, enum kv_tier tier, int32_t seq);
void kv_seq_release(struct br_kv *kv, int32_t seq);

#endif
