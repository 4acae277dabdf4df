/* The books of KV blocks: who owns which block in which tier, and which copies have to be done. Pure: it does no copy,
 * knows no clock and allocates nothing after br_kv_create. The worker carries the copy lists out and reports them done.
 *
 * A region (device, host) is cut into equal slabs; a slab is bound to one shape (block size) while it holds any block
 * of it (Aegaeon 5.2, "unified KV cache"). Every block is free, owned by one sequence, or in flight; a block in flight
 * is never handed out. */
#ifndef BRIAREUS_KVCACHE_KVCACHE_H
#define BRIAREUS_KVCACHE_KVCACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { BR_KV_TOKENS = 16, BR_KV_NONE = -1 };

struct br_kv;

struct br_kv_config {
    uint64_t device_bytes, host_bytes; /* of the two regions; rounded down to whole slabs */
    uint64_t slab_bytes;
    uint32_t max_shapes, max_seqs;
    uint32_t max_blocks_per_seq;
};

/* Where a sequence's blocks are; all of them move together. */
enum br_kv_where { BR_KV_EMPTY, BR_KV_DEVICE, BR_KV_GOING_OUT, BR_KV_HOST, BR_KV_COMING_IN };

struct br_kv_copy {
    uint64_t device, host; /* byte offsets in the regions */
    uint64_t bytes;
};

/* One swap: the copies to do (owned by the books, valid until done) and the ticket to report them done with. */
struct br_kv_swap {
    const struct br_kv_copy *copies;
    uint32_t n_copies;
    int32_t ticket;
};

int br_kv_create(const struct br_kv_config *config, struct br_kv **out, struct br_err *err);
void br_kv_destroy(struct br_kv *kv);

/* Registers a block size; refused with the numbers when a slab cannot hold one block. The same size gives the same
 * shape. */
int br_kv_shape_add(struct br_kv *kv, uint64_t block_bytes, uint32_t *shape, struct br_err *err);

/* A new sequence without blocks; handle in *seq. BR_ENOMEM when max_seqs are open. */
int br_kv_open(struct br_kv *kv, uint32_t shape, int32_t *seq, struct br_err *err);
/* Gives everything back; blocks in flight follow when their swap is reported done. */
void br_kv_close(struct br_kv *kv, int32_t seq);

/* Device blocks for `tokens` tokens in all (never fewer than before): all of them or none. The sequence must be EMPTY
 * or DEVICE. BR_ENOMEM: no room now; the message has the numbers. */
int br_kv_extend(struct br_kv *kv, int32_t seq, uint32_t tokens, struct br_err *err);
/* Blocks that extend would have to take now, and whether it would succeed. */
bool br_kv_can_extend(const struct br_kv *kv, int32_t seq, uint32_t tokens);

enum br_kv_where br_kv_where(const struct br_kv *kv, int32_t seq);
uint32_t br_kv_blocks(const struct br_kv *kv, int32_t seq);
/* Device offset of block i; the sequence must be DEVICE (or COMING_IN: where it will be). */
uint64_t br_kv_block_offset(const struct br_kv *kv, int32_t seq, uint32_t i);

/* DEVICE -> GOING_OUT: takes host blocks. BR_ENOMEM when the host region is full: then dropping the sequence's blocks
 * (br_kv_drop) and recomputing is the way on. */
int br_kv_swap_out(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err);
/* HOST -> COMING_IN: takes device blocks. */
int br_kv_swap_in(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err);
/* The copies of a swap are done: GOING_OUT -> HOST (its device blocks are free), COMING_IN -> DEVICE. */
void br_kv_swap_done(struct br_kv *kv, int32_t ticket);
/* DEVICE or HOST -> EMPTY: the KV is lost and has to be recomputed. */
void br_kv_drop(struct br_kv *kv, int32_t seq);

struct br_kv_stats {
    uint64_t device_slabs, device_slabs_free, host_slabs, host_slabs_free;
    uint64_t device_bytes_owned, device_bytes_in_flight, host_bytes_owned, host_bytes_in_flight;
};
void br_kv_stats(const struct br_kv *kv, struct br_kv_stats *out);
/* Device blocks of this shape that could be handed out now: free ones in its slabs and those of free slabs. */
uint64_t br_kv_device_blocks_free(const struct br_kv *kv, uint32_t shape);

/* Checks every invariant; 0, or BR_ECORRUPT and what is broken. For tests and simulation: O(everything). */
int br_kv_check(const struct br_kv *kv, struct br_err *err);

#endif
