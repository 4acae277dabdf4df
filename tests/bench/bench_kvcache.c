/* Nanoseconds of the books' operations, beside the same done by scanning arrays: an extension that looks for free
 * blocks one by one, a lookup that compares all keys. One device of 64 Ki blocks, 200 sequences of about 200 blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/rng.h"
#include "kvcache/prefix.h"

enum { SLABS = 256, PER_SLAB = 256, TOTAL = SLABS * PER_SLAB, SEQS = 200, MOST = 400, ROUNDS = 20000, KEYS = 16384 };

struct seq {
    int32_t handle;
    uint32_t n;
    uint32_t *blocks; /* of the scan */
};

static uint8_t taken[TOTAL];
static struct br_kv_key key_array[KEYS];
static volatile uint32_t sink;

static void fail(const char *what, const struct br_err *err)
{
    fprintf(stderr, "bench_kvcache: %s: %s\n", what, err->msg);
    exit(1);
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static struct br_kv *create(uint32_t *shape)
{
    struct br_kv_config c = {.device_bytes = (uint64_t)TOTAL * 1024,
                             .slab_bytes = PER_SLAB * 1024,
                             .max_shapes = 1,
                             .max_seqs = SEQS + 1,
                             .max_blocks_per_seq = KEYS,
                             .min_block_bytes = 1024,
                             .max_cached = TOTAL};
    struct br_kv *kv;
    struct br_err err;
    if (br_kv_create(&c, &kv, &err) || br_kv_shape_add(kv, 1024, shape, &err))
        fail("create", &err);
    return kv;
}

/* The lowest free block, found from the start of the array. */
static uint32_t scan_take(void)
{
    uint32_t i = 0;
    while (taken[i])
        i++;
    taken[i] = 1;
    return i;
}

struct times {
    int64_t extend_ns, close_ns;
    uint64_t blocks;
};

static void books_round(struct br_kv *kv, uint32_t shape, struct seq *s, uint32_t n, struct times *t)
{
    struct br_err err;
    int64_t a = cpu_ns(), b;
    br_kv_close(kv, s->handle);
    b = cpu_ns();
    if (br_kv_open(kv, shape, &s->handle, &err) || br_kv_extend(kv, s->handle, n * BR_KV_TOKENS, &err))
        fail("extend", &err);
    t->close_ns += b - a;
    t->extend_ns += cpu_ns() - b;
    t->blocks += n;
}

static void scan_round(struct seq *s, uint32_t n, struct times *t)
{
    int64_t a = cpu_ns(), b;
    for (uint32_t i = 0; i < s->n; i++)
        taken[s->blocks[i]] = 0;
    b = cpu_ns();
    for (s->n = 0; s->n < n; s->n++)
        s->blocks[s->n] = scan_take();
    t->close_ns += b - a;
    t->extend_ns += cpu_ns() - b;
    t->blocks += n;
}

static void extend_and_close(struct br_kv *kv, uint32_t shape)
{
    static struct seq seqs[SEQS];
    struct br_rng rng = {.seed = 5};
    struct times books = {0}, scan = {0};
    struct br_err err;
    for (int i = 0; i < SEQS; i++) {
        seqs[i].blocks = malloc(MOST * sizeof *seqs[i].blocks);
        if (!seqs[i].blocks || br_kv_open(kv, shape, &seqs[i].handle, &err))
            fail("open", &err);
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct seq *s = &seqs[i % SEQS];
        uint32_t n = 1 + (uint32_t)(br_rng_next(&rng) * (MOST - 1));
        if (i == ROUNDS / 10)
            books = scan = (struct times){0}; /* so much was warming up */
        books_round(kv, shape, s, n, &books);
        if (i < ROUNDS / 5)
            scan_round(s, n, &scan);
    }
    printf("extend  %8.1f ns a block   scan %10.1f   ratio %8.1f\n", (double)books.extend_ns / (double)books.blocks,
           (double)scan.extend_ns / (double)scan.blocks,
           (double)scan.extend_ns / (double)scan.blocks * (double)books.blocks / (double)books.extend_ns);
    printf("close   %8.1f ns a block   scan %10.1f   ratio %8.1f\n", (double)books.close_ns / (double)books.blocks,
           (double)scan.close_ns / (double)scan.blocks,
           (double)scan.close_ns / (double)scan.blocks * (double)books.blocks / (double)books.close_ns);
    for (int i = 0; i < SEQS; i++) {
        br_kv_close(kv, seqs[i].handle);
        free(seqs[i].blocks);
    }
}

static uint32_t scan_find(struct br_kv_key key)
{
    uint32_t i = 0;
    while (key_array[i].lo != key.lo || key_array[i].hi != key.hi)
        i++;
    return i;
}

static void lookup(struct br_kv *kv, uint32_t shape)
{
    static int32_t ids[KEYS * BR_KV_TOKENS];
    struct br_kv_match match = {0};
    struct br_err err;
    int64_t at, hash, books, scan;
    int32_t seq;
    for (int i = 0; i < KEYS * BR_KV_TOKENS; i++)
        ids[i] = i * 7 % 32000;
    br_kv_keys(br_kv_key_root("warm", 4, "", 0), ids, KEYS * BR_KV_TOKENS, key_array);
    at = cpu_ns();
    br_kv_keys(br_kv_key_root("bench", 5, "", 0), ids, KEYS * BR_KV_TOKENS, key_array);
    hash = cpu_ns() - at;
    if (br_kv_open(kv, shape, &seq, &err) || br_kv_extend(kv, seq, KEYS * BR_KV_TOKENS, &err))
        fail("extend", &err);
    br_kv_publish(kv, seq, 0, key_array, KEYS);
    at = cpu_ns();
    for (int i = 0; i < 20; i++)
        br_kv_lookup(kv, shape, key_array, KEYS, &match);
    books = (cpu_ns() - at) / 20;
    if (match.blocks != KEYS)
        fail("lookup", &(struct br_err){.msg = "not all blocks were found"});
    at = cpu_ns();
    for (uint32_t i = 0; i < KEYS; i += 16)
        sink += scan_find(key_array[i]);
    scan = (cpu_ns() - at) * 16;
    printf("keys    %8.1f ns a block\n", (double)hash / KEYS);
    printf("lookup  %8.1f ns a block   scan %10.1f   ratio %8.1f\n", (double)books / KEYS, (double)scan / KEYS,
           (double)scan / (double)books);
}

int main(void)
{
    uint32_t shape;
    struct br_kv *kv = create(&shape);
    extend_and_close(kv, shape);
    lookup(kv, shape);
    br_kv_destroy(kv);
    return 0;
}
