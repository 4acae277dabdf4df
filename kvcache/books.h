/* The inside of struct br_kv, shared by the files of kvcache. */
#ifndef BRIAREUS_KVCACHE_BOOKS_H
#define BRIAREUS_KVCACHE_BOOKS_H

#include "kvcache/kvcache.h"
#include "kvcache/pool.h"
#include "kvcache/prefix.h"

enum kv_life { KV_FREE, KV_OPEN, KV_CLOSING /* closed, but its blocks are in flight */ };

enum kv_tier { KV_DEVICE, KV_HOST, KV_DISK, KV_TIERS };

/* What a taken block is; KV_UNUSED: nothing keeps it, it goes back to the pool. KV_CACHED: only the index knows it. */
enum kv_use { KV_UNUSED, KV_OWNED, KV_IN_FLIGHT, KV_CACHED, KV_USES };

#define KV_NO_BLOCK UINT32_MAX

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
    uint32_t known;  /* its node in the index + 1; 0: none */
};

static inline int32_t kv_block_node(const struct kv_block *b)
{
    return (int32_t)b->known - 1;
}

/* One block of one tier in the index of prefixes. */
struct kv_node {
    struct br_kv_key key;
    int32_t chain;      /* the next one in its bucket, or in the free list */
    int32_t prev, next; /* in the list of cached blocks of its tier and shape */
    uint32_t block;
    uint32_t shape;
    enum kv_tier tier;
    uint64_t stamp; /* when it became unreferenced */
};

/* Blocks of one shape in one tier that only the index knows, and slabs that hold nothing else. */
struct kv_cached {
    int32_t head, tail; /* nodes, first to be evicted first */
    uint64_t n;
    int32_t idle_head, idle_tail; /* slabs, longest idle first */
    uint32_t n_idle;
};

struct kv_slab {
    uint32_t cached;    /* its blocks that only the index knows */
    int32_t prev, next; /* in the list of idle slabs of its shape */
    bool idle;          /* all of its blocks are cached */
    uint64_t stamp;     /* since when */
};

struct kv_tier_books {
    struct pool pool;
    struct kv_block *blocks;  /* [n_slabs << place_bits] */
    uint32_t *table;          /* [max_seqs][max_blocks_per_seq]: blocks of a sequence in this tier */
    struct kv_link *links;    /* the same */
    struct kv_cached *cached; /* [max_shapes] */
    struct kv_slab *slabs;    /* [n_slabs] */
    uint32_t n_idle;          /* of all shapes */
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
    uint32_t n_flights;    /* in use */
    struct kv_node *nodes; /* [max_cached] */
    int32_t *buckets;      /* [bucket_mask + 1] */
    uint32_t bucket_mask, n_nodes;
    int32_t free_node;
    uint64_t stamp; /* counts what became unreferenced */
    uint64_t n_evicted, n_hits;
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

/* A sequence between tiers is in both. */
static inline bool kv_moving(const struct kv_seq *s)
{
    return s->where == BR_KV_GOING_OUT || s->where == BR_KV_COMING_IN || s->where == BR_KV_GOING_TO_DISK ||
           s->where == BR_KV_COMING_FROM_DISK;
}

bool kv_in_tier(enum br_kv_where where, enum kv_tier tier);
void kv_seq_release(struct br_kv *kv, int32_t seq);
const struct kv_seq *kv_open_seq(const struct br_kv *kv, int32_t seq);

/* blocks.c. Every change of a block's owners goes through these; they keep the bytes by use, and give a block back to
 * the pool when nothing keeps it any more. */
enum kv_use kv_block_use(const struct kv_block *b);
/* After a change of the block's owners. */
void kv_settle(struct br_kv *kv, enum kv_tier tier, uint32_t block, enum kv_use was);
/* The entry comes to refer to the block. */
void kv_ref(struct br_kv *kv, enum kv_tier tier, int32_t entry, uint32_t block);
void kv_unref(struct br_kv *kv, enum kv_tier tier, int32_t entry);
void kv_hold(struct br_kv *kv, enum kv_tier tier, uint32_t block);
void kv_release(struct br_kv *kv, enum kv_tier tier, uint32_t block);
/* The sequence's blocks in the tier start or end their flight. */
void kv_fly(struct br_kv *kv, enum kv_tier tier, int32_t seq, bool start);
/* Takes new blocks for entries from..to-1 of the sequence; there has to be room. */
void kv_take(struct br_kv *kv, enum kv_tier tier, int32_t seq, uint32_t from, uint32_t to);
/* All entries of the sequence let go of their blocks; those that have none here are passed over. */
void kv_give(struct br_kv *kv, enum kv_tier tier, int32_t seq);

/* room.c. Cached blocks count as free: they make way, oldest first, when a new block finds no other room. */
uint64_t kv_available(const struct br_kv *kv, enum kv_tier tier, uint32_t shape);
/* There has to be room: kv_available() > 0. The block has no owner yet. */
uint32_t kv_block_new(struct br_kv *kv, enum kv_tier tier, uint32_t shape);
void kv_cached_add(struct br_kv *kv, enum kv_tier tier, uint32_t block);
void kv_cached_remove(struct br_kv *kv, enum kv_tier tier, uint32_t block);
/* After any change of the number of blocks taken or cached in a slab that is or was the shape's. */
void kv_slab_update(struct br_kv *kv, enum kv_tier tier, uint32_t slab, uint32_t shape);
/* Evicts all blocks of an idle slab. */
void kv_slab_evict(struct br_kv *kv, enum kv_tier tier, uint32_t slab);

/* index.c */
int32_t kv_find(const struct br_kv *kv, enum kv_tier tier, uint32_t shape, const struct br_kv_key *key);
/* Makes the block known by the key, unless another one is or there is no room in the index. The block must be owned. */
void kv_index_add(struct br_kv *kv, enum kv_tier tier, uint32_t block, const struct br_kv_key *key);
/* Forgets the node; a block that nothing else keeps is free. */
void kv_index_drop(struct br_kv *kv, int32_t node);
/* The device block `to` has the content of `from` and is known instead of it. */
void kv_index_move(struct br_kv *kv, uint32_t from, uint32_t to);
const char *kv_index_broken(const struct br_kv *kv);
void kv_index_dump(const struct br_kv *kv, struct br_buf *out);

/* blocks_check.c */
const char *kv_tier_broken(const struct br_kv *kv, enum kv_tier tier);
const char *kv_flights_broken(const struct br_kv *kv);

#endif
