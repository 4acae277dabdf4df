/* The books of KV blocks: who owns which block in which tier, and which copies have to be done. Pure: it does no copy,
 * knows no clock and allocates nothing after br_kv_create. The worker carries the copy lists out and reports them done.
 *
 * A region (device, host, disk) is cut into equal slabs; a slab is bound to one shape (block size) while it holds any
 * block of it (Aegaeon 5.2, "unified KV cache"). Every block is free, owned by sequences, or in flight; a block in
 * flight is never handed out.
 *
 * The device region is one memory that KV shares with weights: these grow from offset 0, KV slabs are taken from the
 * far end, the free one nearest to it first, within a limit that may change at any time (br_kv_device_limit). */
#ifndef BRIAREUS_KVCACHE_KVCACHE_H
#define BRIAREUS_KVCACHE_KVCACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { BR_KV_TOKENS = 16, BR_KV_NONE = -1 };

struct br_kv;

struct br_kv_config {
    uint64_t device_bytes, host_bytes, disk_bytes; /* of the regions; rounded down to whole slabs */
    uint64_t slab_bytes;
    uint32_t max_shapes, max_seqs;
    uint32_t max_blocks_per_seq;
    uint32_t max_moves;       /* blocks in device-to-device copies at a time; 0: 1024 */
    uint64_t min_block_bytes; /* of any shape; the larger, the smaller the books. 0: 16 */
    uint32_t max_cached;      /* blocks the index of prefixes knows, of all tiers (prefix.h); 0: no sharing */
};

/* Where a sequence's blocks are; all of them move together. Between device and disk the way goes through the host. */
enum br_kv_where {
    BR_KV_EMPTY,
    BR_KV_DEVICE,
    BR_KV_GOING_OUT,
    BR_KV_HOST,
    BR_KV_COMING_IN,
    BR_KV_GOING_TO_DISK,
    BR_KV_DISK,
    BR_KV_COMING_FROM_DISK,
};

struct br_kv_copy {
    union {
        struct {
            uint64_t device, host, disk; /* byte offsets in the regions, of the two that the swap is between */
        };
        uint64_t at[3];
    };
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
/* The same in the host region; the sequence must be HOST. */
uint64_t br_kv_block_host_offset(const struct br_kv *kv, int32_t seq, uint32_t i);

/* DEVICE -> GOING_OUT: takes host blocks. BR_ENOMEM when the host region is full: then dropping the sequence's blocks
 * (br_kv_drop) and recomputing is the way on. BR_EBUSY: one of its blocks is in a device-to-device copy under way. */
int br_kv_swap_out(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err);
/* HOST -> COMING_IN: takes device blocks. */
int br_kv_swap_in(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err);
/* HOST -> GOING_TO_DISK: takes disk blocks; DISK -> COMING_FROM_DISK: takes host blocks. */
int br_kv_to_disk(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err);
int br_kv_from_disk(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err);
/* The copies of a swap are done: GOING_OUT -> HOST (its device blocks are free), COMING_IN -> DEVICE, GOING_TO_DISK ->
 * DISK, COMING_FROM_DISK -> HOST. A swap may have nothing to copy: what the other tier knows by its key is used. */
void br_kv_swap_done(struct br_kv *kv, int32_t ticket);
/* The copies of a swap failed: the sequence is where it came from. */
void br_kv_swap_failed(struct br_kv *kv, int32_t ticket);
/* DEVICE, HOST or DISK -> EMPTY: the KV is lost and has to be recomputed. */
void br_kv_drop(struct br_kv *kv, int32_t seq);
/* The same, and nobody finds these blocks by their keys any more: their bytes are not what they should be. */
void br_kv_forget(struct br_kv *kv, int32_t seq);

struct br_kv_stats {
    uint64_t device_slabs, device_slabs_free, host_slabs, host_slabs_free;
    uint64_t device_bytes_owned, device_bytes_in_flight, host_bytes_owned, host_bytes_in_flight;
    uint64_t disk_slabs, disk_slabs_free, disk_bytes_owned, disk_bytes_in_flight;
    uint64_t device_bytes_cached, host_bytes_cached, disk_bytes_cached; /* only the index of prefixes knows them */
    uint64_t index_blocks, index_hits, index_evicted;                   /* now; blocks adopted and evicted so far */
};
void br_kv_stats(const struct br_kv *kv, struct br_kv_stats *out);
/* Device blocks of this shape that could be handed out now: free ones in its slabs, those of free slabs under the
 * limit, and what evicting cached blocks would give. */
uint64_t br_kv_device_blocks_free(const struct br_kv *kv, uint32_t shape);

/* The device region's far end as an offset: device_bytes rounded down to whole slabs. */
uint64_t br_kv_device_end(const struct br_kv *kv);
/* Bytes from the far end to the lowest slab that holds a block (in flight ones too): weights have to stay below
 * br_kv_device_end - this. */
uint64_t br_kv_device_used_bytes(const struct br_kv *kv);
/* The least limit that br_kv_device_limit takes now: the bytes used, but for slabs at the edge that hold nothing but
 * cached blocks. O(such slabs). */
uint64_t br_kv_device_floor_bytes(const struct br_kv *kv);
/* KV may use no more than this many bytes from the far end from now on; rounded down to whole slabs, and to all of the
 * region. Slabs beyond that hold only cached blocks are evicted. BR_EINVAL when other blocks are beyond: compaction,
 * swaps or closing bring that down. At first: all. */
int br_kv_device_limit(struct br_kv *kv, uint64_t bytes, struct br_err *err);
uint64_t br_kv_device_limit_bytes(const struct br_kv *kv);

/* A pinned sequence is in a running step, which has the addresses of its blocks: compaction leaves them where they
 * are. Pins count. */
void br_kv_pin(struct br_kv *kv, int32_t seq);
void br_kv_unpin(struct br_kv *kv, int32_t seq);

struct br_kv_move {
    uint64_t from, to; /* device byte offsets */
    uint64_t bytes;
};

/* Copies from device to device, in any order: no source is another's destination. The list is valid until the next
 * call that makes one. */
struct br_kv_moves {
    const struct br_kv_move *moves;
    uint32_t n_moves;
    int32_t ticket; /* for br_kv_moves_done; BR_KV_NONE when there is nothing to copy */
};

/* Copies of at most max_copies blocks (and of what max_moves leaves) that empty the slabs nearest the weights into
 * holes and free slabs nearer to the far end, then merge half-empty slabs of one shape. Block tables change at once:
 * the caller enqueues the copies on the stream of the steps, before the next step that uses a moved sequence, and asks
 * for block offsets again. Until the ticket is done, sources stay in flight (their slabs count as used), and sequences
 * with a destination cannot be swapped out. Call again after done to go on: each call with copies makes progress. */
void br_kv_compact(struct br_kv *kv, uint32_t max_copies, struct br_kv_moves *out);
/* Merging alone, evicting cached blocks for it too: makes free slabs anywhere, for a request of another shape. */
void br_kv_merge(struct br_kv *kv, uint32_t max_copies, struct br_kv_moves *out);
void br_kv_moves_done(struct br_kv *kv, int32_t ticket);

/* Checks every invariant; 0, or BR_ECORRUPT and what is broken. For tests and simulation: O(everything). */
int br_kv_check(const struct br_kv *kv, struct br_err *err);
/* Everything as text, for people. */
void br_kv_dump(const struct br_kv *kv, struct br_buf *out);

#endif
