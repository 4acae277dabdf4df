/* Sharing of prefixes: keys, adoption from device and host, eviction, copy on write. And the disk tier. */
#include <string.h>
#include <xxhash.h>

#include "kvcache/prefix.h"
#include "tests/cmocka.h"
#include "tests/unit/kvcache/kv_open.h"

enum { SLAB = 1000, SLABS = 4, BLOCK = 100, TOKENS = BR_KV_TOKENS };

static struct br_kv *create(uint32_t max_cached)
{
    struct br_kv_config config = {.device_bytes = SLABS * SLAB,
                                  .host_bytes = SLABS * SLAB,
                                  .disk_bytes = SLABS * SLAB,
                                  .slab_bytes = SLAB,
                                  .max_shapes = 4,
                                  .max_seqs = 16,
                                  .max_blocks_per_seq = 64,
                                  .max_cached = max_cached};
    return kv_created(&config);
}

static void extend(struct br_kv *kv, int32_t seq, uint32_t blocks)
{
    struct br_err err;
    assert_int_equal(br_kv_extend(kv, seq, blocks * TOKENS, &err), 0);
}

static void check(const struct br_kv *kv)
{
    struct br_err err = {0};
    if (br_kv_check(kv, &err))
        fail_msg("%s", err.msg);
}

/* Keys of n blocks of a text that a number stands for. */
static const struct br_kv_key *text(int32_t number, uint32_t n)
{
    static struct br_kv_key keys[64];
    int32_t ids[64 * TOKENS];
    for (uint32_t i = 0; i < n * TOKENS; i++)
        ids[i] = number * 1000 + (int32_t)i;
    assert_int_equal(br_kv_keys(br_kv_key_root("model", 5, "salt", 4), ids, n * TOKENS + 15, keys), n);
    return keys;
}

/* A sequence of the text's n blocks that came and went: its blocks are cached. */
static void leave_behind(struct br_kv *kv, uint32_t s, int32_t number, uint32_t n)
{
    int32_t seq = kv_opened(kv, s);
    extend(kv, seq, n);
    br_kv_publish(kv, seq, 0, text(number, n), n);
    br_kv_close(kv, seq);
    check(kv);
}

static uint32_t found(const struct br_kv *kv, uint32_t s, int32_t number, uint32_t n)
{
    struct br_kv_match match;
    br_kv_lookup(kv, s, text(number, n), n, &match);
    return match.blocks;
}

static void keys_by_definition(void **state)
{
    struct br_kv_key a = br_kv_key_root("ab", 2, "c", 1), b = br_kv_key_root("a", 1, "bc", 2), next;
    int32_t ids[TOKENS];
    uint8_t bytes[16 + 4 * TOKENS];
    XXH128_hash_t want;
    (void)state;
    assert_true(a.lo != b.lo && a.hi != b.hi);
    for (int i = 0; i < TOKENS; i++)
        ids[i] = 7 * i - 3;
    memcpy(bytes, &a.lo, 8);
    memcpy(bytes + 8, &a.hi, 8);
    memcpy(bytes + 16, ids, sizeof ids);
    want = XXH3_128bits(bytes, sizeof bytes);
    next = br_kv_key_next(a, ids);
    assert_true(next.lo == want.low64 && next.hi == want.high64);
    ids[15]++;
    assert_true(br_kv_key_next(a, ids).lo != next.lo);
}

static void prefix_is_taken_over(void **state)
{
    struct br_kv *kv = create(100);
    uint32_t s = kv_shape(kv, BLOCK), other = kv_shape(kv, 2 * BLOCK);
    int32_t x = kv_opened(kv, s), y = kv_opened(kv, s), z = kv_opened(kv, s);
    struct br_kv_match match;
    struct br_kv_swap swap;
    struct br_kv_stats stats;
    struct br_kv_key keys[12];
    struct br_err err;
    (void)state;
    extend(kv, x, 10);
    memcpy(keys, text(1, 10), 10 * sizeof keys[0]);
    br_kv_publish(kv, x, 0, keys, 10);
    keys[10] = text(2, 1)[0];
    br_kv_lookup(kv, s, keys, 11, &match);
    assert_int_equal(match.blocks, 10);
    assert_int_equal(match.on_device, 10);
    assert_int_equal(match.anywhere, 10);
    br_kv_lookup(kv, other, keys, 10, &match);
    assert_int_equal(match.blocks, 0); /* a shape of its own */
    assert_int_equal(br_kv_adopt(kv, z, keys, 11, &swap, &err), BR_ENOENT);
    assert_int_equal(br_kv_where(kv, z), BR_KV_EMPTY);
    assert_int_equal(br_kv_adopt(kv, y, keys, 8, &swap, &err), 0);
    assert_int_equal(swap.ticket, BR_KV_NONE);
    assert_int_equal(br_kv_where(kv, y), BR_KV_DEVICE);
    extend(kv, y, 9);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(br_kv_block_offset(kv, y, i), br_kv_block_offset(kv, x, i));
    assert_int_not_equal(br_kv_block_offset(kv, y, 8), br_kv_block_offset(kv, x, 8));
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.device_bytes_owned, 11 * BLOCK); /* shared ones count once */
    assert_int_equal(stats.index_hits, 8);
    br_kv_close(kv, x);
    check(kv);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.device_bytes_owned, 9 * BLOCK);
    assert_int_equal(stats.device_bytes_cached, 2 * BLOCK);
    assert_int_equal(found(kv, s, 1, 10), 10);
    br_kv_destroy(kv);
}

/* 40 blocks in all. Cached ones count as free, and go in the order in which they became unused. */
static void cached_blocks_make_way(void **state)
{
    struct br_kv *kv = create(100);
    uint32_t s = kv_shape(kv, BLOCK), other = kv_shape(kv, SLAB);
    struct br_kv_stats stats;
    int32_t x;
    (void)state;
    for (int i = 1; i <= 4; i++)
        leave_behind(kv, s, i, 10);
    assert_int_equal(br_kv_device_blocks_free(kv, s), 40);
    assert_int_equal(br_kv_device_blocks_free(kv, other), 4);
    x = kv_opened(kv, s);
    extend(kv, x, 13);
    check(kv);
    /* A closed sequence lets go of its last block first, so what is left of a text is a prefix of it. */
    assert_int_equal(found(kv, s, 1, 10), 0);
    assert_int_equal(found(kv, s, 2, 10), 7);
    assert_int_equal(found(kv, s, 3, 10), 10);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.index_evicted, 13);
    assert_int_equal(br_kv_device_blocks_free(kv, s), 27);
    assert_int_equal(br_kv_device_blocks_free(kv, other), 2); /* text 2 is in a slab that x is in */
    br_kv_close(kv, x);
    br_kv_evict_all(kv, s);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.device_slabs_free, SLABS);
    check(kv);
    br_kv_destroy(kv);
}

static void order_from_outside(void **state)
{
    struct br_kv *kv = create(100);
    uint32_t s = kv_shape(kv, BLOCK);
    (void)state;
    for (int i = 1; i <= 4; i++)
        leave_behind(kv, s, i, 10);
    br_kv_evict_first(kv, s, text(3, 10), 10);
    br_kv_evict_first(kv, s, text(4, 2) + 1, 1);
    extend(kv, kv_opened(kv, s), 11);
    assert_int_equal(found(kv, s, 1, 10), 10);
    assert_int_equal(found(kv, s, 2, 10), 10);
    assert_int_equal(found(kv, s, 3, 10), 0);
    assert_int_equal(found(kv, s, 4, 10), 1);
    check(kv);
    br_kv_destroy(kv);
}

static void reuse_keeps_alive(void **state)
{
    struct br_kv *kv = create(100);
    uint32_t s = kv_shape(kv, BLOCK);
    struct br_kv_swap swap;
    struct br_err err;
    int32_t x = kv_opened(kv, s);
    (void)state;
    for (int i = 1; i <= 4; i++)
        leave_behind(kv, s, i, 10);
    assert_int_equal(br_kv_adopt(kv, x, text(1, 10), 10, &swap, &err), 0);
    assert_int_equal(br_kv_device_blocks_free(kv, s), 30);
    br_kv_close(kv, x); /* text 1 is the last used now */
    extend(kv, kv_opened(kv, s), 10);
    assert_int_equal(found(kv, s, 1, 10), 10);
    assert_int_equal(found(kv, s, 2, 10), 0);
    check(kv);
    br_kv_destroy(kv);
}

/* Swapped out and closed: cached on the host. When the device's copy is gone, it comes from there. */
static void host_copies_serve(void **state)
{
    struct br_kv *kv = create(100);
    uint32_t s = kv_shape(kv, BLOCK);
    struct br_kv_swap swap;
    struct br_kv_match match;
    struct br_err err;
    int32_t x = kv_opened(kv, s), full;
    (void)state;
    extend(kv, x, 6);
    br_kv_publish(kv, x, 0, text(1, 5), 5);
    assert_int_equal(br_kv_swap_out(kv, x, &swap, &err), 0);
    br_kv_lookup(kv, s, text(1, 5), 5, &match);
    assert_int_equal(match.on_device, 5);
    br_kv_swap_done(kv, swap.ticket);
    check(kv);
    assert_int_equal(br_kv_swap_in(kv, x, &swap, &err), 0); /* five are still there: one copy */
    assert_int_equal(swap.n_copies, 1);
    assert_int_equal(swap.copies[0].bytes, BLOCK);
    br_kv_swap_done(kv, swap.ticket);
    assert_int_equal(br_kv_swap_out(kv, x, &swap, &err), 0);
    assert_int_equal(swap.n_copies, 1);
    br_kv_close(kv, x);
    br_kv_swap_done(kv, swap.ticket);
    check(kv);
    full = kv_opened(kv, s);
    extend(kv, full, 40);
    br_kv_lookup(kv, s, text(1, 5), 5, &match);
    assert_int_equal(match.blocks, 5);
    assert_int_equal(match.on_device, 0);
    x = kv_opened(kv, s);
    assert_int_equal(br_kv_adopt(kv, x, text(1, 5), 5, &swap, &err), BR_ENOMEM);
    assert_int_equal(br_kv_where(kv, x), BR_KV_EMPTY);
    check(kv);
    br_kv_close(kv, full);
    assert_int_equal(br_kv_adopt(kv, x, text(1, 5), 5, &swap, &err), 0);
    assert_int_equal(swap.ticket, x);
    assert_int_equal(br_kv_where(kv, x), BR_KV_COMING_IN);
    br_kv_lookup(kv, s, text(1, 5), 5, &match);
    assert_int_equal(match.on_device, 0); /* not before the copy is done */
    br_kv_swap_done(kv, swap.ticket);
    br_kv_lookup(kv, s, text(1, 5), 5, &match);
    assert_int_equal(match.on_device, 5);
    check(kv);
    br_kv_destroy(kv);
}

static void copy_on_write(void **state)
{
    struct br_kv *kv = create(100);
    uint32_t s = kv_shape(kv, BLOCK);
    int32_t x = kv_opened(kv, s), y, z;
    struct br_kv_moves moves = {.ticket = BR_KV_NONE};
    struct br_kv_swap swap;
    struct br_err err;
    uint64_t old;
    (void)state;
    extend(kv, x, 3);
    br_kv_publish(kv, x, 0, text(1, 2), 2);
    assert_int_equal(br_kv_fork(kv, x, &y, &err), 0);
    assert_int_equal(br_kv_fork(kv, x, &z, &err), 0);
    check(kv);
    old = br_kv_block_offset(kv, x, 2);
    assert_int_equal(br_kv_make_writable(kv, y, 40, &moves, &err), 0);
    assert_int_equal(br_kv_make_writable(kv, z, 40, &moves, &err), 0);
    assert_int_equal(moves.n_moves, 2);
    assert_int_equal(moves.moves[0].from, old);
    assert_int_equal(moves.moves[0].to, br_kv_block_offset(kv, y, 2));
    assert_int_equal(moves.moves[1].from, old);
    assert_int_equal(moves.moves[1].to, br_kv_block_offset(kv, z, 2));
    assert_int_equal(br_kv_block_offset(kv, y, 1), br_kv_block_offset(kv, x, 1));
    assert_int_equal(br_kv_swap_out(kv, y, &swap, &err), BR_EBUSY);
    check(kv);
    br_kv_close(kv, x);
    br_kv_close(kv, z);
    assert_int_equal(br_kv_device_blocks_free(kv, s), 40 - 5); /* two shared, three in flight */
    br_kv_moves_done(kv, moves.ticket);
    assert_int_equal(br_kv_device_blocks_free(kv, s), 40 - 3);
    moves = (struct br_kv_moves){.ticket = BR_KV_NONE};
    assert_int_equal(br_kv_make_writable(kv, y, 41, &moves, &err), 0); /* its own by now */
    assert_int_equal(moves.n_moves, 0);
    /* Published blocks do not change, even for their only owner; one written from its start is not copied. */
    old = br_kv_block_offset(kv, y, 1);
    assert_int_equal(br_kv_make_writable(kv, y, 16, &moves, &err), 0);
    assert_int_equal(moves.n_moves, 0);
    assert_int_not_equal(br_kv_block_offset(kv, y, 1), old);
    assert_int_equal(found(kv, s, 1, 2), 2);
    check(kv);
    br_kv_destroy(kv);
}

static void limit_evicts_what_is_only_cached(void **state)
{
    struct br_kv *kv = create(100);
    uint32_t s = kv_shape(kv, BLOCK);
    struct br_kv_moves moves;
    struct br_err err;
    int32_t x;
    (void)state;
    for (int i = 1; i <= 3; i++)
        leave_behind(kv, s, i, 10);
    x = kv_opened(kv, s);
    extend(kv, x, 5);
    leave_behind(kv, s, 4, 5);
    assert_int_equal(br_kv_device_used_bytes(kv), 4000);
    assert_int_equal(br_kv_device_floor_bytes(kv), 4000);
    assert_int_equal(br_kv_device_limit(kv, 1000, &err), BR_EINVAL);
    br_kv_compact(kv, 1000, &moves); /* x has to move, and the oldest text makes way for it */
    br_kv_moves_done(kv, moves.ticket);
    check(kv);
    assert_true(br_kv_device_floor_bytes(kv) <= 3000);
    while (br_kv_device_floor_bytes(kv) > 1000) {
        br_kv_compact(kv, 1000, &moves);
        assert_int_not_equal(moves.ticket, BR_KV_NONE);
        br_kv_moves_done(kv, moves.ticket);
        check(kv);
    }
    assert_int_equal(br_kv_device_limit(kv, 1000, &err), 0);
    assert_int_equal(br_kv_device_used_bytes(kv), 1000);
    assert_int_equal(br_kv_device_blocks_free(kv, s), 5);
    check(kv);
    br_kv_destroy(kv);
}

static void full_index(void **state)
{
    struct br_kv *kv = create(3), *none = create(0);
    uint32_t s = kv_shape(kv, BLOCK), n = kv_shape(none, BLOCK);
    struct br_kv_stats stats;
    int32_t x = kv_opened(kv, s);
    (void)state;
    extend(kv, x, 5);
    br_kv_publish(kv, x, 0, text(1, 5), 5);
    assert_int_equal(found(kv, s, 1, 5), 3);
    br_kv_close(kv, x);
    x = kv_opened(kv, s);
    extend(kv, x, 1);
    br_kv_publish(kv, x, 0, text(2, 1), 1); /* the oldest unused one makes way: the last of text 1 */
    assert_int_equal(found(kv, s, 2, 1), 1);
    assert_int_equal(found(kv, s, 1, 5), 2);
    check(kv);
    leave_behind(none, n, 1, 5);
    assert_int_equal(found(none, n, 1, 5), 0);
    br_kv_stats(none, &stats);
    assert_int_equal(stats.device_slabs_free, SLABS);
    br_kv_destroy(kv);
    br_kv_destroy(none);
}

static void disk_and_back(void **state)
{
    struct br_kv *kv = create(100);
    uint32_t s = kv_shape(kv, BLOCK);
    struct br_kv_swap swap;
    struct br_kv_match match;
    struct br_kv_stats stats;
    struct br_err err;
    int32_t x = kv_opened(kv, s), y;
    (void)state;
    extend(kv, x, 10);
    br_kv_publish(kv, x, 0, text(1, 9), 9);
    assert_int_equal(br_kv_swap_out(kv, x, &swap, &err), 0);
    br_kv_swap_done(kv, swap.ticket);
    br_kv_evict_all(kv, s);
    assert_int_equal(br_kv_to_disk(kv, x, &swap, &err), 0);
    assert_int_equal(swap.n_copies, 1);
    assert_int_equal(swap.copies[0].host, 0);
    assert_int_equal(swap.copies[0].disk, 0);
    assert_int_equal(swap.copies[0].bytes, 10 * BLOCK);
    assert_int_equal(br_kv_where(kv, x), BR_KV_GOING_TO_DISK);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.host_bytes_in_flight, 1000);
    assert_int_equal(stats.disk_bytes_in_flight, 1000);
    check(kv);
    br_kv_swap_done(kv, swap.ticket);
    assert_int_equal(br_kv_where(kv, x), BR_KV_DISK);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.disk_bytes_owned, 1000);
    assert_int_equal(stats.host_bytes_owned, 0);
    assert_int_equal(stats.host_bytes_cached, 900);
    br_kv_evict_all(kv, s);
    br_kv_lookup(kv, s, text(1, 9), 9, &match);
    assert_int_equal(match.blocks, 0);
    assert_int_equal(match.anywhere, 9);
    y = kv_opened(kv, s);
    assert_int_equal(br_kv_adopt(kv, y, text(1, 9), 9, &swap, &err), BR_ENOENT);
    assert_int_equal(br_kv_adopt_host(kv, y, text(1, 9), 9, &swap, &err), 0);
    assert_int_equal(br_kv_where(kv, y), BR_KV_COMING_FROM_DISK);
    check(kv);
    br_kv_swap_done(kv, swap.ticket);
    assert_int_equal(br_kv_where(kv, y), BR_KV_HOST);
    assert_int_equal(br_kv_from_disk(kv, x, &swap, &err), 0);
    assert_int_equal(swap.n_copies, 1); /* the host has the others from y */
    assert_int_equal(swap.copies[0].bytes, BLOCK);
    br_kv_close(kv, x);
    br_kv_swap_done(kv, swap.ticket);
    br_kv_drop(kv, y);
    br_kv_evict_all(kv, s);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.host_slabs_free, SLABS);
    assert_int_equal(stats.disk_slabs_free, SLABS);
    check(kv);
    br_kv_destroy(kv);
}

/* A write to disk that fails leaves the sequence on the host; a read that fails leaves it on disk, and when its blocks
 * there are forgotten, nobody finds them. */
static void failed_moves_go_back(void **state)
{
    struct br_kv *kv = create(100);
    uint32_t s = kv_shape(kv, BLOCK);
    struct br_kv_swap swap;
    struct br_kv_match match;
    struct br_kv_stats stats;
    struct br_err err;
    int32_t x = kv_opened(kv, s);
    (void)state;
    extend(kv, x, 10);
    br_kv_publish(kv, x, 0, text(1, 9), 9);
    assert_int_equal(br_kv_swap_out(kv, x, &swap, &err), 0);
    br_kv_swap_done(kv, swap.ticket);
    br_kv_evict_device(kv);
    assert_int_equal(br_kv_to_disk(kv, x, &swap, &err), 0);
    br_kv_swap_failed(kv, swap.ticket);
    check(kv);
    assert_int_equal(br_kv_where(kv, x), BR_KV_HOST);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.host_bytes_owned, 1000);
    assert_int_equal(stats.disk_slabs_free, SLABS);
    assert_int_equal(br_kv_to_disk(kv, x, &swap, &err), 0);
    br_kv_swap_done(kv, swap.ticket);
    br_kv_evict_all(kv, s);
    assert_int_equal(br_kv_from_disk(kv, x, &swap, &err), 0);
    br_kv_swap_failed(kv, swap.ticket);
    check(kv);
    assert_int_equal(br_kv_where(kv, x), BR_KV_DISK);
    br_kv_lookup(kv, s, text(1, 9), 9, &match);
    assert_int_equal(match.anywhere, 9);
    br_kv_forget(kv, x);
    check(kv);
    assert_int_equal(br_kv_where(kv, x), BR_KV_EMPTY);
    br_kv_lookup(kv, s, text(1, 9), 9, &match);
    assert_int_equal(match.anywhere, 0);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.disk_slabs_free, SLABS);
    extend(kv, x, 3); /* one that is closed in a move that fails is gone when it has */
    assert_int_equal(br_kv_swap_out(kv, x, &swap, &err), 0);
    br_kv_close(kv, x);
    br_kv_swap_failed(kv, swap.ticket);
    check(kv);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.device_slabs_free, SLABS);
    assert_int_equal(stats.host_slabs_free, SLABS);
    br_kv_destroy(kv);
}

static void no_disk_refuses(void **state)
{
    struct br_kv_config config = {.device_bytes = SLAB,
                                  .host_bytes = SLAB,
                                  .slab_bytes = SLAB,
                                  .max_shapes = 1,
                                  .max_seqs = 1,
                                  .max_blocks_per_seq = 10};
    struct br_kv *kv;
    struct br_kv_swap swap;
    struct br_err err;
    int32_t x;
    (void)state;
    assert_int_equal(br_kv_create(&config, &kv, &err), 0);
    x = kv_opened(kv, kv_shape(kv, BLOCK));
    extend(kv, x, 2);
    assert_int_equal(br_kv_swap_out(kv, x, &swap, &err), 0);
    br_kv_swap_done(kv, swap.ticket);
    assert_int_equal(br_kv_to_disk(kv, x, &swap, &err), BR_ENOMEM);
    assert_non_null(strstr(err.msg, "disk"));
    assert_int_equal(br_kv_where(kv, x), BR_KV_HOST);
    check(kv);
    br_kv_destroy(kv);
}

static void dump_tells(void **state)
{
    struct br_kv *kv = create(100);
    uint32_t s = kv_shape(kv, BLOCK);
    struct br_buf text_out = {0};
    int32_t x = kv_opened(kv, s);
    (void)state;
    extend(kv, x, 2);
    br_kv_publish(kv, x, 0, text(1, 1), 1);
    br_kv_dump(kv, &text_out);
    assert_non_null(strstr(text_out.data, "device: bytes owned 200, in flight 0, cached 0\n"));
    assert_non_null(strstr(text_out.data, "slab 0: shape 0 used 2\n"));
    assert_non_null(strstr(text_out.data, "seq 0: device, shape 0, pins 0\n  device: 0.0 0.1\n"));
    assert_non_null(strstr(text_out.data, "index: 1 of 100 nodes"));
    br_buf_free(&text_out);
    br_kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_by_definition),
        cmocka_unit_test(prefix_is_taken_over),
        cmocka_unit_test(cached_blocks_make_way),
        cmocka_unit_test(order_from_outside),
        cmocka_unit_test(reuse_keeps_alive),
        cmocka_unit_test(host_copies_serve),
        cmocka_unit_test(copy_on_write),
        cmocka_unit_test(limit_evicts_what_is_only_cached),
        cmocka_unit_test(full_index),
        cmocka_unit_test(disk_and_back),
        cmocka_unit_test(failed_moves_go_back),
        cmocka_unit_test(no_disk_refuses),
        cmocka_unit_test(dump_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
