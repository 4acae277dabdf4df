/* The inside of struct br_kv, shared by the files of kvcache. */
#ifndef BRIAREUS_KVCACHE_BOOKS_H
#define BRIAREUS_KVCACHE_BOOKS_H

#include "kvcache/kvcache.h"
#include "kvcache/pool.h"

enum kv_life { KV_FREE, KV_OPEN, KV_CLOSING /* closed, but its blocks are in flight */ };

enum kv_tier { KV_DEVICE, KV_HOST, KV_TIERS };

/* What a taken block is; KV_UNUSED: nothing keeps it, it goes back to the pool. */
enum kv_use { KV_UNUSED, KV_OWNED, KV_IN_FLIGHT, KV_USES };

struct kv_seq {
    enum kv_life life;
    enum br_kv_where where;
    uint32_t shape, n_blocks;
    uint32_t pins;
    int32_t next; /* free list */
};

/* An entry is a place in a sequence's block table: seq * max_blocks_per_seq + i. The entries that refer to one block
 * form a list, so that whoever moves the block finds all of them. */
struct kv_link {
    int32_t prev, next; /* entries, or BR_KV_NONE */
};

struct kv_block {
    int32_t head;    /* first entry that refers to it */
    uint32_t refs;   /* entries that refer to it */
    uint32_t flying; /* those of sequences in a swap */
    uint32_t holds;  /* device-to-device copies under way that read or write it */
};

struct kv_tier_books {
    struct pool pool;
    struct kv_block *blocks; /* [n_slabs << place_bits] */
    uint32_t *table;         /* [max_seqs][max_blocks_per_seq]: blocks of a sequence in this tier */
    struct kv_link *links;   /* the same */
    uint64_t bytes[KV_USES];
    uint64_t *storage; /* of the pool's sets and places */
    uint64_t *seen;    /* [n_slabs][leaf_words]: scratch of br_kv_check */
};

/* A block's copy on the device that is under way; those of one ticket form a list, others are in the free list. */
struct kv_flight {
    uint32_t from, to;
    int32_t next;
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
    struct br_kv_move *moves;  /* [max_moves]: of the latest compaction */
    struct kv_flight *flights; /* [max_moves] */
    int32_t free_flight;
    uint32_t n_flights; /* in use */
};

static inline int32_t kv_entry(const struct br_kv *kv, int32_t seq, uint32_t i)
{
    return (int32_t)((uint32_t)seq * kv->config.max_blocks_per_seq + i);
}

static inline int32_t kv_entry_seq(const struct br_kv *kv, int32_t entry)
{
    return (int32_t)((uint32_t)entry / kv->config.max_blocks_per_seq);
}

static inline uint32_t *kv_table(const struct br_kv *kv, enum kv_tier tier, int32_t seq)
{
    return kv->tiers[tier].table + kv_entry(kv, seq, 0);
}

/* Slab 0 of the device is the one at its end. */
static inline uint64_t kv_offset(const struct br_kv *kv, enum kv_tier tier, uint32_t shape, uint32_t block)
{
    const struct pool *pool = &kv->tiers[tier].pool;
    uint64_t slab = pool_slab_of(pool, block);
    if (tier == KV_DEVICE)
        slab = pool->n_slabs - 1 - slab;
    return slab * kv->config.slab_bytes + pool_place_of(pool, block) * kv->block_bytes[shape];
}

static inline bool kv_moving(const struct kv_seq *s)
{
    return s->where == BR_KV_GOING_OUT || s->where == BR_KV_COMING_IN;
}

void kv_seq_release(struct br_kv *kv, int32_t seq);
const struct kv_seq *kv_open_seq(const struct br_kv *kv, int32_t seq);

/* blocks.c. Every change of a block's owners goes through these; they keep the bytes by use, and give a block back to
 * the pool when nothing keeps it any more. */
enum kv_use kv_block_use(const struct kv_block *b);
/* The entry comes to refer to the block. */
void kv_ref(struct br_kv *kv, enum kv_tier tier, int32_t entry, uint32_t block);
void kv_unref(struct br_kv *kv, enum kv_tier tier, int32_t entry);
void kv_hold(struct br_kv *kv, enum kv_tier tier, uint32_t block);
void kv_release(struct br_kv *kv, enum kv_tier tier, uint32_t block);
/* The sequence's blocks in the tier start or end their flight. */
void kv_fly(struct br_kv *kv, enum kv_tier tier, int32_t seq, bool start);
/* Takes new blocks for entries from..to-1 of the sequence; there has to be room. */
void kv_take(struct br_kv *kv, enum kv_tier tier, int32_t seq, uint32_t from, uint32_t to);
/* All entries of the sequence let go of their blocks. */
void kv_give(struct br_kv *kv, enum kv_tier tier, int32_t seq);

/* check.c's parts */
const char *kv_tier_broken(const struct br_kv *kv, enum kv_tier tier);

#endif
