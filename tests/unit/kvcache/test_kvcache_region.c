/* The device region shared with weights: far end first, the limit, compaction. */
#include <string.h>

#include "base/rng.h"
#include "kvcache/bits.h"
#include "kvcache/kvcache.h"
#include "tests/cmocka.h"
#include "tests/unit/kvcache/kv_open.h"

enum { SLAB = 1000, SLABS = 10, SEQS = 64 };

static struct br_kv *create(void)
{
    struct br_kv_config config = {.device_bytes = SLABS * SLAB + 999,
                                  .host_bytes = SLABS * SLAB,
                                  .slab_bytes = SLAB,
                                  .max_shapes = 4,
                                  .max_seqs = SEQS,
                                  .max_blocks_per_seq = 128};
    return kv_created(&config);
}

static int32_t seq_of(struct br_kv *kv, uint32_t s, uint32_t blocks)
{
    struct br_err err;
    int32_t seq = -1;
    assert_int_equal(br_kv_open(kv, s, &seq, &err), 0);
    assert_int_equal(br_kv_extend(kv, seq, blocks * BR_KV_TOKENS, &err), 0);
    return seq;
}

static void check(const struct br_kv *kv)
{
    struct br_err err = {0};
    if (br_kv_check(kv, &err))
        fail_msg("%s", err.msg);
}

/* Against an array of bools, at sizes around the powers of 64. */
static void bits_as_an_array(void **state)
{
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 5000};
    static bool naive[5000];
    static uint64_t storage[200];
    struct br_rng rng = {.seed = 3};
    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        struct bits bits;
        memset(naive, 0, sizeof naive);
        memset(storage, 0, sizeof storage);
        assert_true(bits_words(sizes[k]) <= 200);
        bits_init(&bits, storage, sizes[k]);
        for (int op = 0; op < 3000; op++) {
            uint32_t i = (uint32_t)(br_rng_next(&rng) * sizes[k]),
                     from = (uint32_t)(br_rng_next(&rng) * (sizes[k] + 1));
            int32_t lowest = BITS_NONE, below = BITS_NONE;
            naive[i] = br_rng_next(&rng) < (op < 1500 ? 0.5 : 0.02);
            (naive[i] ? bits_add : bits_remove)(&bits, i);
            for (uint32_t j = sizes[k]; j-- > 0;)
                lowest = naive[j] ? (int32_t)j : lowest;
            for (uint32_t j = 0; j < from; j++)
                below = naive[j] ? (int32_t)j : below;
            assert_int_equal(bits_has(&bits, i), naive[i]);
            assert_int_equal(bits_lowest(&bits), lowest);
            assert_int_equal(bits_below(&bits, from), below);
            assert_null(bits_broken(&bits));
        }
    }
}

static void far_end_first(void **state)
{
    struct br_kv *kv = create();
    uint32_t a = kv_shape(kv, 100), b = kv_shape(kv, 300);
    int32_t x = seq_of(kv, a, 1), y = seq_of(kv, b, 1);
    struct br_err err;
    (void)state;
    assert_int_equal(br_kv_device_end(kv), 10000);
    assert_int_equal(br_kv_block_offset(kv, x, 0), 9000);
    assert_int_equal(br_kv_block_offset(kv, y, 0), 8000);
    assert_int_equal(br_kv_device_used_bytes(kv), 2000);
    br_kv_close(kv, x);
    assert_int_equal(br_kv_device_used_bytes(kv), 2000);
    assert_int_equal(br_kv_extend(kv, y, 4 * BR_KV_TOKENS, &err),
                     0); /* three fit a slab; the free one nearest the end */
    assert_int_equal(br_kv_block_offset(kv, y, 3), 9000);
    br_kv_close(kv, y);
    assert_int_equal(br_kv_device_used_bytes(kv), 0);
    check(kv);
    br_kv_destroy(kv);
}

static void limit_up_and_down(void **state)
{
    struct br_kv *kv = create();
    uint32_t a = kv_shape(kv, 100);
    struct br_err err;
    int32_t x;
    (void)state;
    assert_int_equal(br_kv_device_limit_bytes(kv), 10000);
    assert_int_equal(br_kv_device_limit(kv, 3999, &err), 0);
    assert_int_equal(br_kv_device_limit_bytes(kv), 3000);
    assert_int_equal(br_kv_device_blocks_free(kv, a), 30);
    x = seq_of(kv, a, 21);
    assert_int_equal(br_kv_extend(kv, x, 31 * BR_KV_TOKENS, &err), BR_ENOMEM);
    assert_int_equal(br_kv_device_limit(kv, 2999, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "2999"));
    assert_non_null(strstr(err.msg, "3000"));
    assert_int_equal(br_kv_device_limit_bytes(kv), 3000);
    assert_int_equal(br_kv_device_limit(kv, UINT64_MAX, &err), 0);
    assert_int_equal(br_kv_device_blocks_free(kv, a), 79);
    assert_int_equal(br_kv_extend(kv, x, 100 * BR_KV_TOKENS, &err), 0);
    br_kv_close(kv, x);
    assert_int_equal(br_kv_device_limit(kv, 0, &err), 0);
    assert_int_equal(br_kv_device_blocks_free(kv, a), 0);
    check(kv);
    br_kv_destroy(kv);
}

/* Ten sequences of one slab each; the first five end. The other five move to the far end: 50 blocks, five runs. */
static void compaction_slides_to_the_end(void **state)
{
    struct br_kv *kv = create();
    uint32_t a = kv_shape(kv, 100);
    int32_t seqs[10];
    struct br_kv_moves moves;
    struct br_err err;
    (void)state;
    for (int i = 0; i < 10; i++)
        seqs[i] = seq_of(kv, a, 10);
    br_kv_compact(kv, 1000, &moves);
    assert_int_equal(moves.n_moves, 0);
    assert_int_equal(moves.ticket, BR_KV_NONE);
    for (int i = 0; i < 5; i++)
        br_kv_close(kv, seqs[i]);
    assert_int_equal(br_kv_device_used_bytes(kv), 10000);
    br_kv_compact(kv, 1000, &moves);
    assert_int_equal(moves.n_moves, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(moves.moves[i].from, i * 1000);
        assert_int_equal(moves.moves[i].to, 9000 - i * 1000);
        assert_int_equal(moves.moves[i].bytes, 1000);
        assert_true(br_kv_block_offset(kv, seqs[5 + i], 9) >= 5000);
    }
    assert_int_equal(br_kv_device_blocks_free(kv, a), 0); /* sources are in flight */
    assert_int_equal(br_kv_device_limit(kv, 5000, &err), BR_EINVAL);
    check(kv);
    br_kv_moves_done(kv, moves.ticket);
    assert_int_equal(br_kv_device_used_bytes(kv), 5000);
    assert_int_equal(br_kv_device_limit(kv, 5000, &err), 0);
    assert_int_equal(br_kv_device_blocks_free(kv, a), 0);
    check(kv);
    br_kv_destroy(kv);
}

/* Ten slabs with one block each merge into one, and nine are free for another shape. */
static void compaction_merges(void **state)
{
    struct br_kv *kv = create();
    uint32_t a = kv_shape(kv, 100), b = kv_shape(kv, 1000);
    int32_t keep[10], gone[10];
    struct br_kv_moves moves;
    (void)state;
    for (int i = 0; i < 10; i++) {
        keep[i] = seq_of(kv, a, 1);
        gone[i] = seq_of(kv, a, 9);
    }
    for (int i = 0; i < 10; i++)
        br_kv_close(kv, gone[i]);
    assert_int_equal(br_kv_device_blocks_free(kv, b), 0);
    br_kv_merge(kv, 1000, &moves);
    br_kv_moves_done(kv, moves.ticket);
    assert_int_equal(br_kv_device_blocks_free(kv, b), 9);
    br_kv_compact(kv, 1000, &moves);
    br_kv_moves_done(kv, moves.ticket);
    assert_int_equal(br_kv_device_used_bytes(kv), 1000);
    for (int i = 0; i < 10; i++)
        assert_true(br_kv_block_offset(kv, keep[i], 0) >= 9000);
    check(kv);
    br_kv_destroy(kv);
}

static void pinned_stay(void **state)
{
    struct br_kv *kv = create();
    uint32_t a = kv_shape(kv, 100);
    int32_t first = seq_of(kv, a, 10), x = seq_of(kv, a, 10);
    struct br_kv_moves moves;
    (void)state;
    br_kv_close(kv, first);
    br_kv_pin(kv, x);
    br_kv_pin(kv, x);
    br_kv_unpin(kv, x);
    br_kv_compact(kv, 1000, &moves);
    assert_int_equal(moves.n_moves, 0);
    br_kv_unpin(kv, x);
    br_kv_compact(kv, 1000, &moves);
    assert_int_equal(moves.n_moves, 1);
    assert_int_equal(moves.moves[0].to, 9000);
    br_kv_destroy(kv);
}

static void in_flight_until_done(void **state)
{
    struct br_kv *kv = create();
    uint32_t a = kv_shape(kv, 100);
    int32_t first = seq_of(kv, a, 10), x = seq_of(kv, a, 10);
    struct br_kv_moves moves, second;
    struct br_kv_swap swap;
    struct br_kv_stats stats;
    struct br_err err;
    (void)state;
    br_kv_close(kv, first);
    br_kv_compact(kv, 4, &moves); /* a budget below a slab: four now, the others later */
    assert_int_equal(moves.n_moves, 1);
    assert_int_equal(moves.moves[0].bytes, 400);
    assert_int_equal(br_kv_swap_out(kv, x, &swap, &err), BR_EBUSY);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.device_bytes_in_flight, 800);
    assert_int_equal(stats.device_bytes_owned, 600);
    br_kv_compact(kv, 1000, &second);
    assert_int_equal(second.ticket, BR_KV_NONE);
    br_kv_moves_done(kv, moves.ticket);
    br_kv_compact(kv, 1000, &moves);
    br_kv_close(kv, x); /* both places stay taken until the copy is done */
    assert_int_equal(br_kv_device_used_bytes(kv), 2000);
    check(kv);
    br_kv_moves_done(kv, moves.ticket);
    assert_int_equal(br_kv_device_used_bytes(kv), 0);
    check(kv);
    br_kv_destroy(kv);
}

struct shadow {
    int32_t seq;
    uint32_t shape, n;
    uint8_t stamp;
};

static const uint64_t BLOCK_BYTES[3] = {40, 110, 333};

static void shadow_verify(const struct br_kv *kv, const struct shadow *s, const uint8_t *memory)
{
    for (uint32_t b = 0; b < s->n; b++) {
        uint64_t at = br_kv_block_offset(kv, s->seq, b);
        assert_true(at >= br_kv_device_end(kv) - br_kv_device_used_bytes(kv));
        for (uint64_t i = 0; i < BLOCK_BYTES[s->shape]; i++)
            assert_int_equal(memory[at + i], (uint8_t)(s->stamp + b));
    }
}

static void copies_run(const struct br_kv_moves *moves, uint8_t *memory)
{
    for (uint32_t i = moves->n_moves; i-- > 0;) /* any order will do */
        memcpy(memory + moves->moves[i].to, memory + moves->moves[i].from, moves->moves[i].bytes);
}

/* Sequences come, grow and go while compaction runs: every block keeps its bytes, and in the end full compaction leaves
 * at most one slab a shape with room. */
static void contents_survive_compaction(void **state)
{
    static uint8_t memory[SLABS * SLAB];
    struct br_rng rng = {.seed = 7};
    struct br_kv *kv = create();
    struct shadow seqs[SEQS] = {0};
    uint32_t shapes[3], n = 0;
    uint8_t stamp = 0;
    struct br_kv_moves moves = {.ticket = BR_KV_NONE};
    struct br_err err;
    (void)state;
    for (int i = 0; i < 3; i++)
        shapes[i] = kv_shape(kv, BLOCK_BYTES[i]);
    for (int op = 0; op < 20000; op++) {
        double what = br_rng_next(&rng);
        uint32_t i = (uint32_t)(br_rng_next(&rng) * n), more = 1 + (uint32_t)(br_rng_next(&rng) * 9);
        if (what < 0.4 && n < SEQS) {
            uint32_t s = (uint32_t)(br_rng_next(&rng) * 3);
            seqs[n++] = (struct shadow){seq_of(kv, shapes[s], 0), s, 0, stamp = (uint8_t)(stamp + 31)};
        } else if (what < 0.7 && n && !br_kv_extend(kv, seqs[i].seq, (seqs[i].n + more) * BR_KV_TOKENS, &err)) {
            for (; more-- > 0; seqs[i].n++)
                memset(memory + br_kv_block_offset(kv, seqs[i].seq, seqs[i].n), (uint8_t)(seqs[i].stamp + seqs[i].n),
                       BLOCK_BYTES[seqs[i].shape]);
        } else if (what < 0.9 && n) {
            shadow_verify(kv, &seqs[i], memory);
            br_kv_close(kv, seqs[i].seq);
            seqs[i] = seqs[--n];
        } else if (moves.ticket != BR_KV_NONE) {
            br_kv_moves_done(kv, moves.ticket);
            moves.ticket = BR_KV_NONE;
        } else {
            br_kv_compact(kv, (uint32_t)(br_rng_next(&rng) * 60), &moves);
            copies_run(&moves, memory);
        }
        check(kv);
    }
    br_kv_moves_done(kv, moves.ticket);
    do {
        br_kv_compact(kv, 1000, &moves);
        copies_run(&moves, memory);
        br_kv_moves_done(kv, moves.ticket);
        check(kv);
    } while (moves.n_moves);
    {
        uint64_t blocks[3] = {0}, least = 0;
        for (uint32_t i = 0; i < n; i++) {
            shadow_verify(kv, &seqs[i], memory);
            blocks[seqs[i].shape] += seqs[i].n;
        }
        for (int i = 0; i < 3; i++)
            least += (blocks[i] + SLAB / BLOCK_BYTES[i] - 1) / (SLAB / BLOCK_BYTES[i]);
        assert_int_equal(br_kv_device_used_bytes(kv), least * SLAB);
    }
    br_kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_as_an_array),     cmocka_unit_test(far_end_first),
        cmocka_unit_test(limit_up_and_down),    cmocka_unit_test(compaction_slides_to_the_end),
        cmocka_unit_test(compaction_merges),    cmocka_unit_test(pinned_stay),
        cmocka_unit_test(in_flight_until_done), cmocka_unit_test(contents_survive_compaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
