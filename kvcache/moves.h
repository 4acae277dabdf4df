/* Copies from device block to device block: blocks change places at once in the books, and both places stay in flight
 * until the ticket is reported done. Internal to kvcache. */
#ifndef BRIAREUS_KVCACHE_MOVES_H
#define BRIAREUS_KVCACHE_MOVES_H

#include "kvcache/books.h"

/* Copies that could be started now. */
uint32_t kv_moves_left(const struct br_kv *kv);
/* Adds the copy of one block to the list being built, *last being the ticket (BR_KV_NONE before the first). */
void kv_move_add(struct br_kv *kv, uint32_t from, uint32_t to, struct br_kv_moves *out);

#endif
