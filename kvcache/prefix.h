/* Sharing of prefixes: full blocks of 16 tokens are known by a chain of hashes, so a new sequence takes over the
 * longest prefix that is still on the device or on the host instead of computing it.
 *
 * A key is the 128-bit XXH3 of (parent's key, 16 token ids); the root is one of (model and layout, tenant's salt). Two
 * prefixes are taken for the same when their keys are: with 2^40 different blocks (a million a second for 12 days) the
 * odds that any two collide by chance are about 2^80 / 2^129 = 2^-49, far below those of an undetected memory error.
 * XXH3 is no cryptographic hash: who knows a root can construct collisions. The root has the tenant's salt, so tenants
 * that do not trust each other get secret salts (16 random bytes), and can then only confuse themselves.
 *
 * Full blocks never change once published; sequences that share a partial last block (br_kv_fork) get their own copy
 * before they write (br_kv_make_writable). A published block that no sequence refers to any more stays, and counts as
 * free: it is evicted when a new block finds no other room, by default the longest unused one first. In exact mode a
 * reused block has the very bytes that computing it again would give. */
#ifndef BRIAREUS_KVCACHE_PREFIX_H
#define BRIAREUS_KVCACHE_PREFIX_H

#include <stddef.h>

#include "kvcache/kvcache.h"

struct br_kv_key {
    uint64_t lo, hi;
};

/* The root of all chains of one model in one layout (content hash, format, TP rank, layout version: whatever makes the
 * bytes of a block differ) for one tenant. */
struct br_kv_key br_kv_key_root(const void *layout, size_t layout_len, const void *salt, size_t salt_len);
/* The key of the block after the parent's with these BR_KV_TOKENS ids. */
struct br_kv_key br_kv_key_next(struct br_kv_key parent, const int32_t *ids);
/* Keys of all full blocks of n ids, n / 16 of them, to keys. */
uint32_t br_kv_keys(struct br_kv_key root, const int32_t *ids, uint32_t n, struct br_kv_key *keys);

struct br_kv_match {
    uint32_t blocks;    /* longest prefix whose blocks are on the device or on the host, each */
    uint32_t on_device; /* those of them on the device: the others would be copied */
    uint32_t anywhere;  /* longest prefix with disk counted too */
};
void br_kv_lookup(const struct br_kv *kv, uint32_t shape, const struct br_kv_key *keys, uint32_t n,
                  struct br_kv_match *out);

/* The EMPTY sequence gets the blocks of these keys. A caller that wants logits of the last token leaves out the block
 * that holds it. With copies: COMING_IN until br_kv_swap_done; without (ticket BR_KV_NONE): DEVICE at once. BR_ENOENT:
 * one of them is neither on the device nor on the host; BR_ENOMEM, BR_EINVAL as br_kv_extend. */
int br_kv_adopt(struct br_kv *kv, int32_t seq, const struct br_kv_key *keys, uint32_t n, struct br_kv_swap *out,
                struct br_err *err);
/* The same to the host, from host and disk: HOST, or COMING_FROM_DISK until done. */
int br_kv_adopt_host(struct br_kv *kv, int32_t seq, const struct br_kv_key *keys, uint32_t n, struct br_kv_swap *out,
                     struct br_err *err);

/* Blocks first..first+n-1 of the DEVICE sequence are full, written (or their writes are ahead on the stream of whoever
 * reads them), and have these keys. Those that another block is known by already stay private. */
void br_kv_publish(struct br_kv *kv, int32_t seq, uint32_t first, const struct br_kv_key *keys, uint32_t n);

/* A new sequence that shares all blocks of the parent, which is DEVICE or EMPTY. */
int br_kv_fork(struct br_kv *kv, int32_t parent, int32_t *child, struct br_err *err);

/* Before the DEVICE sequence writes tokens from first_token on: blocks from there that others refer to or that are
 * published are replaced by its own. Only a block written in part has to be copied; its copy is added to *moves, which
 * starts as {.ticket = BR_KV_NONE} and may collect for several sequences. All or nothing; BR_ENOMEM: no room, or
 * max_moves copies under way. As for br_kv_compact: tables change at once, copies go to the stream of the steps. */
int br_kv_make_writable(struct br_kv *kv, int32_t seq, uint32_t first_token, struct br_kv_moves *moves,
                        struct br_err *err);

/* The order of eviction from outside: of the shape's unreferenced blocks these go first, in this order, in every tier.
 * Keys that are unknown or in use are passed over. */
void br_kv_evict_first(struct br_kv *kv, uint32_t shape, const struct br_kv_key *keys, uint32_t n);
/* All unreferenced blocks on the device, of every shape; how many there were. */
uint64_t br_kv_evict_device(struct br_kv *kv);
/* All unreferenced blocks of the shape, in every tier. */
void br_kv_evict_all(struct br_kv *kv, uint32_t shape);

#endif
