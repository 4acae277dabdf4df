#include <string.h>

#include "base/rng.h"
#include "kvcache/kvcache.h"
#include "tests/cmocka.h"
#include "tests/unit/kvcache/kv_open.h"

static struct br_kv *create(uint64_t device, uint64_t host, uint64_t slab)
{
    struct br_kv_config config = {.device_bytes = device,
                                  .host_bytes = host,
                                  .slab_bytes = slab,
                                  .max_shapes = 8,
                                  .max_seqs = 64,
                                  .max_blocks_per_seq = 64};
    return kv_created(&config);
}

static void check(const struct br_kv *kv)
{
    struct br_err err = {0};
    if (br_kv_check(kv, &err))
        fail_msg("%s", err.msg);
}

/* Capacity in blocks = slabs * floor(slab / block), for any block size; the bytes behind the last slab are unused. */
static void capacity_formula(void **state)
{
    static const uint64_t blocks[] = {16, 17, 100, 333, 500, 501, 999, 1000};
    struct br_err err;
    (void)state;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        struct br_kv *kv = create(7999, 0, 1000);
        uint32_t s = kv_shape(kv, blocks[i]);
        uint64_t want = 7 * (1000 / blocks[i]), got = 0;
        int32_t seq = kv_opened(kv, s);
        assert_int_equal(br_kv_device_blocks_free(kv, s), want);
        while (got < want) {
            uint32_t n = want - got < 64 ? (uint32_t)(want - got) : 64;
            assert_true(br_kv_can_extend(kv, seq, n * BR_KV_TOKENS));
            assert_int_equal(br_kv_extend(kv, seq, n * BR_KV_TOKENS, &err), 0);
            got += n;
            if (got < want)
                seq = kv_opened(kv, s);
        }
        assert_int_equal(br_kv_device_blocks_free(kv, s), 0);
        seq = kv_opened(kv, s);
        assert_false(br_kv_can_extend(kv, seq, 1));
        assert_int_equal(br_kv_extend(kv, seq, 1, &err), BR_ENOMEM);
        check(kv);
        br_kv_destroy(kv);
    }
}

static void blocks_by_tokens(void **state)
{
    struct br_kv *kv = create(10000, 0, 1000);
    int32_t seq = kv_opened(kv, kv_shape(kv, 100));
    struct br_err err;
    (void)state;
    assert_int_equal(br_kv_extend(kv, seq, 0, &err), 0);
    assert_int_equal(br_kv_where(kv, seq), BR_KV_EMPTY);
    for (uint32_t tokens = 1; tokens <= 100; tokens++) {
        assert_int_equal(br_kv_extend(kv, seq, tokens, &err), 0);
        assert_int_equal(br_kv_blocks(kv, seq), (tokens + 15) / 16);
    }
    assert_int_equal(br_kv_extend(kv, seq, 5, &err), 0);
    assert_int_equal(br_kv_blocks(kv, seq), 7);
    assert_int_equal(br_kv_extend(kv, seq, 64 * 16 + 1, &err), BR_EINVAL);
    assert_false(br_kv_can_extend(kv, seq, UINT32_MAX));
    br_kv_close(kv, seq);
    check(kv);
    br_kv_destroy(kv);
}

static void bad_shapes_and_configs(void **state)
{
    struct br_kv *kv = create(10000, 0, 1000), *none = NULL;
    struct br_kv_config no_slab = {.device_bytes = 999,
                                   .host_bytes = 0,
                                   .slab_bytes = 1000,
                                   .max_shapes = 1,
                                   .max_seqs = 1,
                                   .max_blocks_per_seq = 1},
                        no_seqs = {.device_bytes = 1000,
                                   .host_bytes = 0,
                                   .slab_bytes = 1000,
                                   .max_shapes = 1,
                                   .max_seqs = 0,
                                   .max_blocks_per_seq = 1};
    struct br_err err;
    uint32_t a = kv_shape(kv, 100), b;
    (void)state;
    assert_int_equal(br_kv_shape_add(kv, 1001, &b, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "1001"));
    assert_non_null(strstr(err.msg, "1000"));
    assert_int_equal(br_kv_shape_add(kv, 0, &b, &err), BR_EINVAL);
    assert_int_equal(kv_shape(kv, 100), a);
    for (uint64_t i = 1; i < 8; i++)
        kv_shape(kv, 100 + i);
    assert_int_equal(br_kv_shape_add(kv, 200, &b, &err), BR_ENOMEM);
    assert_int_equal(br_kv_create(&no_slab, &none, &err), BR_EINVAL);
    assert_int_equal(br_kv_create(&no_seqs, &none, &err), BR_EINVAL);
    br_kv_destroy(kv);
    br_kv_destroy(NULL);
}

/* 3-level limit: 64^3 blocks in a slab work, more are refused. */
static void many_blocks_in_a_slab(void **state)
{
    struct br_kv_config config = {.device_bytes = 64ull << 20,
                                  .host_bytes = 0,
                                  .slab_bytes = 64ull << 20,
                                  .max_shapes = 2,
                                  .max_seqs = 1,
                                  .max_blocks_per_seq = 300000};
    struct br_kv *kv;
    struct br_err err;
    uint32_t s;
    int32_t seq;
    (void)state;
    assert_int_equal(br_kv_create(&config, &kv, &err), 0);
    assert_int_equal(br_kv_shape_add(kv, 255, &s, &err), BR_ENOTSUP);
    s = kv_shape(kv, 256);
    for (int round = 0; round < 2; round++) {
        seq = kv_opened(kv, s);
        assert_int_equal(br_kv_extend(kv, seq, (64 * 64 * 64 + 1) * 16, &err), BR_ENOMEM);
        assert_int_equal(br_kv_extend(kv, seq, 64 * 64 * 64 * 16, &err), 0);
        assert_int_equal(br_kv_block_offset(kv, seq, 64 * 64 * 64 - 1), (64ull << 20) - 256);
        check(kv);
        br_kv_close(kv, seq);
        check(kv);
    }
    br_kv_destroy(kv);
}

/* A slab that is partly used by the shape comes before a free one; an empty slab serves any shape. */
static void slabs_bind_and_unbind(void **state)
{
    struct br_kv *kv = create(2000, 0, 1000);
    uint32_t a = kv_shape(kv, 100), b = kv_shape(kv, 450);
    int32_t x = kv_opened(kv, a), y = kv_opened(kv, b), z = kv_opened(kv, a);
    struct br_err err;
    (void)state;
    assert_int_equal(br_kv_extend(kv, x, 16, &err), 0);
    assert_int_equal(br_kv_device_blocks_free(kv, a), 19);
    assert_int_equal(br_kv_device_blocks_free(kv, b), 2);
    assert_int_equal(br_kv_extend(kv, z, 9 * 16, &err), 0);
    assert_int_equal(br_kv_device_blocks_free(kv, b), 2);
    assert_int_equal(br_kv_extend(kv, y, 32, &err), 0);
    assert_int_equal(br_kv_device_blocks_free(kv, a), 0);
    br_kv_close(kv, y);
    assert_int_equal(br_kv_device_blocks_free(kv, a), 10);
    check(kv);
    br_kv_destroy(kv);
}

/* The fullest slab is filled first: after a few holes in a full slab and one block in another, new blocks go to the
 * holes, and the other slab runs empty. */
static void fullest_slab_first(void **state)
{
    struct br_kv *kv = create(3000, 0, 1000);
    uint32_t a = kv_shape(kv, 100);
    int32_t seqs[11], late;
    struct br_kv_stats stats;
    struct br_err err;
    (void)state;
    for (int i = 0; i < 11; i++) {
        seqs[i] = kv_opened(kv, a);
        assert_int_equal(br_kv_extend(kv, seqs[i], 16, &err), 0);
    }
    br_kv_close(kv, seqs[2]);
    br_kv_close(kv, seqs[7]);
    late = kv_opened(kv, a);
    assert_int_equal(br_kv_extend(kv, late, 32, &err), 0);
    assert_int_equal(br_kv_block_offset(kv, late, 0) / 1000, br_kv_block_offset(kv, seqs[0], 0) / 1000);
    assert_int_equal(br_kv_block_offset(kv, late, 1) / 1000, br_kv_block_offset(kv, seqs[0], 0) / 1000);
    br_kv_close(kv, seqs[10]);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.device_slabs_free, 2);
    check(kv);
    br_kv_destroy(kv);
}

static void in_flight_is_never_handed_out(void **state)
{
    struct br_kv *kv = create(1000, 2000, 1000);
    uint32_t a = kv_shape(kv, 100);
    int32_t x = kv_opened(kv, a), y = kv_opened(kv, a);
    struct br_kv_swap out, in;
    struct br_kv_stats stats;
    struct br_err err;
    (void)state;
    assert_int_equal(br_kv_extend(kv, x, 160, &err), 0);
    assert_int_equal(br_kv_swap_out(kv, x, &out, &err), 0);
    assert_int_equal(out.n_copies, 1); /* ten neighbours in both regions */
    assert_int_equal(out.copies[0].bytes, 1000);
    assert_int_equal(br_kv_where(kv, x), BR_KV_GOING_OUT);
    assert_int_equal(br_kv_extend(kv, y, 16, &err), BR_ENOMEM);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.device_bytes_in_flight, 1000);
    assert_int_equal(stats.host_bytes_in_flight, 1000);
    br_kv_swap_done(kv, out.ticket);
    assert_int_equal(br_kv_where(kv, x), BR_KV_HOST);
    assert_int_equal(br_kv_extend(kv, y, 16, &err), 0);
    assert_int_equal(br_kv_swap_in(kv, x, &in, &err), BR_ENOMEM);
    br_kv_close(kv, y);
    assert_int_equal(br_kv_swap_in(kv, x, &in, &err), 0);
    br_kv_close(kv, x); /* in flight: nothing comes back yet */
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.device_slabs_free, 0);
    assert_int_equal(stats.host_slabs_free, 1);
    check(kv);
    br_kv_swap_done(kv, in.ticket);
    br_kv_stats(kv, &stats);
    assert_int_equal(stats.device_slabs_free, 1);
    assert_int_equal(stats.host_slabs_free, 2);
    check(kv);
    br_kv_destroy(kv);
}

static void full_host_refuses_and_drop_goes_on(void **state)
{
    struct br_kv *kv = create(3000, 1000, 1000);
    uint32_t a = kv_shape(kv, 100);
    int32_t x = kv_opened(kv, a), y = kv_opened(kv, a);
    struct br_kv_swap swap;
    struct br_err err;
    (void)state;
    assert_int_equal(br_kv_extend(kv, x, 96, &err), 0);
    assert_int_equal(br_kv_extend(kv, y, 96, &err), 0);
    assert_int_equal(br_kv_swap_out(kv, x, &swap, &err), 0);
    assert_int_equal(br_kv_swap_out(kv, y, &swap, &err), BR_ENOMEM);
    assert_non_null(strstr(err.msg, "host"));
    assert_int_equal(br_kv_where(kv, y), BR_KV_DEVICE);
    br_kv_drop(kv, y);
    assert_int_equal(br_kv_where(kv, y), BR_KV_EMPTY);
    assert_int_equal(br_kv_blocks(kv, y), 0);
    br_kv_swap_done(kv, x);
    br_kv_drop(kv, x);
    check(kv);
    br_kv_destroy(kv);
}

static void closed_in_flight_counts_as_open(void **state)
{
    struct br_kv_config config = {.device_bytes = 1000,
                                  .host_bytes = 1000,
                                  .slab_bytes = 1000,
                                  .max_shapes = 1,
                                  .max_seqs = 1,
                                  .max_blocks_per_seq = 10};
    struct br_kv *kv;
    struct br_err err;
    struct br_kv_swap swap;
    uint32_t a;
    int32_t x, y;
    (void)state;
    assert_int_equal(br_kv_create(&config, &kv, &err), 0);
    a = kv_shape(kv, 100);
    x = kv_opened(kv, a);
    assert_int_equal(br_kv_extend(kv, x, 16, &err), 0);
    assert_int_equal(br_kv_swap_out(kv, x, &swap, &err), 0);
    br_kv_close(kv, x);
    assert_int_equal(br_kv_open(kv, a, &y, &err), BR_ENOMEM);
    br_kv_swap_done(kv, swap.ticket);
    assert_int_equal(br_kv_open(kv, a, &y, &err), 0);
    br_kv_destroy(kv);
}

/* Aegaeon, Fig. 16: unused share of the slabs in use under 20 % overall, with six shapes. Sequences of 16..1600 tokens
 * come and go at random on a region that is nearly full; blocks per token as of six real models, scaled down by 1024.
 */
static void fragmentation_report(void **state)
{
    static const uint64_t block_bytes[] = {16 * 56, 16 * 96, 16 * 128, 16 * 320, 16 * 512, 16 * 800};
    struct br_kv_config config = {.device_bytes = 256ull << 18,
                                  .slab_bytes = 1 << 18,
                                  .max_shapes = 6,
                                  .max_seqs = 512,
                                  .max_blocks_per_seq = 128};
    struct br_rng rng = {.seed = 16};
    int32_t seqs[512];
    uint32_t shapes[6], n = 0;
    double worst = 0, sum = 0;
    const int rounds = 40000;
    struct br_kv *kv;
    struct br_err err;
    (void)state;
    assert_int_equal(br_kv_create(&config, &kv, &err), 0);
    for (int i = 0; i < 6; i++)
        shapes[i] = kv_shape(kv, block_bytes[i]);
    for (int i = 0; i < rounds; i++) {
        struct br_kv_stats stats;
        double unused;
        int32_t seq = n < 512 ? kv_opened(kv, shapes[(int)(br_rng_next(&rng) * 6)]) : -1;
        while (n > 0 && (seq < 0 || br_kv_extend(kv, seq, 16 + (uint32_t)(br_rng_next(&rng) * 1600), &err))) {
            uint32_t gone = (uint32_t)(br_rng_next(&rng) * n);
            br_kv_close(kv, seqs[gone]);
            seqs[gone] = seqs[--n];
            if (seq < 0)
                seq = kv_opened(kv, shapes[(int)(br_rng_next(&rng) * 6)]);
        }
        if (br_kv_where(kv, seq) == BR_KV_EMPTY)
            assert_int_equal(br_kv_extend(kv, seq, 16, &err), 0);
        seqs[n++] = seq;
        br_kv_stats(kv, &stats);
        unused = 1 - (double)stats.device_bytes_owned /
                         ((double)(stats.device_slabs - stats.device_slabs_free) * (double)config.slab_bytes);
        if (i >= rounds / 10) {
            worst = unused > worst ? unused : worst;
            sum += unused;
        }
    }
    print_message("six shapes, 256 slabs: unused share of slabs in use: mean %.1f %%, worst %.1f %%\n",
                  100 * sum / (rounds - rounds / 10), 100 * worst);
    assert_true(sum / (rounds - rounds / 10) < 0.2);
    check(kv);
    br_kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacity_formula),
        cmocka_unit_test(blocks_by_tokens),
        cmocka_unit_test(bad_shapes_and_configs),
        cmocka_unit_test(many_blocks_in_a_slab),
        cmocka_unit_test(slabs_bind_and_unbind),
        cmocka_unit_test(fullest_slab_first),
        cmocka_unit_test(in_flight_is_never_handed_out),
        cmocka_unit_test(full_host_refuses_and_drop_goes_on),
        cmocka_unit_test(closed_in_flight_counts_as_open),
        cmocka_unit_test(fragmentation_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
