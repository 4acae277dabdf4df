/* A sequence between two tiers: what of it has to be copied, and the list of copies. Internal to kvcache. */
#ifndef BRIAREUS_KVCACHE_TRANSFER_H
#define BRIAREUS_KVCACHE_TRANSFER_H

#include "kvcache/books.h"

/* The sequence's table in `to` has KV_NO_BLOCK where a block has to be copied from its entry in `from`. Takes the
 * blocks, or undoes the references of the table and says BR_ENOMEM. Without anything to copy the ticket is BR_KV_NONE,
 * else all of the sequence's blocks are in flight. */
int kv_transfer(struct br_kv *kv, int32_t seq, enum kv_tier from, enum kv_tier to, struct br_kv_swap *out,
                struct br_err *err);
/* Ends the flight and lets go of `from`; what is known by a key there is known by it in `to` too. */
void kv_transfer_end(struct br_kv *kv, int32_t seq, enum kv_tier from, enum kv_tier to);
/* Ends the flight and lets go of `to`. Of an adoption `from` has only what was to be copied: not for these. */
void kv_transfer_undo(struct br_kv *kv, int32_t seq, enum kv_tier from, enum kv_tier to);

#endif
