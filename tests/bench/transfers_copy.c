/* Loads and swaps on an uncapped link beside plain copies of as many bytes, in turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"
#include "kvcache/kvcache.h"
#include "tests/bench/transfers.h"
#include "worker/turn/residency.h"

enum { ROUNDS_MAX = 99, SEQS = 100 };

static void die(const struct br_err *err)
{
    fprintf(stderr, "bench_transfers: %s\n", err->msg);
    exit(1);
}

/* ---- weights ---- */

static int32_t no_victim(void *ctx, uint32_t target)
{
    (void)ctx, (void)target;
    return -1;
}

static void unheard(void *ctx, uint32_t slot, uint64_t bytes, uint64_t bytes_all)
{
    (void)ctx, (void)slot, (void)bytes, (void)bytes_all;
}

struct loader {
    struct br_device *dev;
    struct br_engine *engine;
    struct br_engine_model *model;
    struct br_residency *residency;
};

static void loader_open(struct loader *l, const struct transfers *t, uint64_t bytes)
{
    struct br_device_config device = {.memory_bytes = bytes, .threads = 1};
    struct br_engine_limits limits = {1, 1, 64};
    struct br_residency_cb cb = {.victim = no_victim, .changed = unheard};
    struct br_residency_config config = {.bytes = bytes, .max_slots = 1, .max_units = t->image->layout.units};
    struct br_err err;
    if (br_device_cpu_create(&device, &l->dev, &err) || br_engine_create(l->dev, &limits, &l->engine, &err) ||
        br_engine_model_create(l->engine, &t->image->layout, &l->model, &err))
        die(&err);
    config.memory = l->dev->memory;
    if (br_residency_create(l->dev, &config, &cb, &l->residency, &err) ||
        br_residency_add(l->residency, 0, l->model, t->image, &err))
        die(&err);
}

static void loader_close(struct loader *l)
{
    br_residency_destroy(l->residency);
    br_engine_model_destroy(l->model);
    br_engine_destroy(l->engine);
    l->dev->ops->destroy(l->dev);
}

static double load_s(struct loader *l)
{
    double start;
    br_residency_evict(l->residency, 0, UINT64_MAX);
    start = br_now_s();
    br_residency_load(l->residency, 0, UINT64_MAX, false);
    br_residency_sync(l->residency);
    return br_now_s() - start;
}

int transfers_weights(const struct transfers *t)
{
    uint64_t bytes = br_layout_total_bytes(&t->image->layout);
    double ratio[ROUNDS_MAX], rate[ROUNDS_MAX];
    void *from = memory_touched(bytes), *to = memory_touched(bytes);
    struct loader l;
    loader_open(&l, t, bytes + (1 << 20));
    load_s(&l); /* touches the memory */
    for (int i = 0; i < t->rounds; i++) {
        double plain = plain_copy_s(to, from, bytes, t->threads), load = load_s(&l);
        ratio[i] = plain / load;
        rate[i] = (double)bytes / load / 1e9;
    }
    loader_close(&l);
    munmap(from, bytes);
    munmap(to, bytes);
    printf("weights: %.0f MB, %.2f GB/s\n", (double)bytes / 1e6, median(rate, t->rounds));
    return bar("load / plain copy, rate", median(ratio, t->rounds), .95, true);
}

/* ---- KV ---- */

struct swapper {
    struct br_device *dev;
    struct br_stream *stream;
    struct br_event *done;
    struct br_kv *kv;
    char *host;
    int32_t seqs[SEQS];
    uint32_t tokens[SEQS];
    uint64_t bytes; /* of all sequences */
};

static void swapper_open(struct swapper *s, const struct transfers *t, uint64_t bytes)
{
    uint64_t block = br_kv_block_bytes(&t->image->layout.shape, t->image->layout.numeric);
    struct br_device_config device = {.memory_bytes = bytes, .threads = 1};
    struct br_kv_config config = {.device_bytes = bytes,
                                  .host_bytes = bytes,
                                  .slab_bytes = 4 * block,
                                  .max_shapes = 1,
                                  .max_seqs = SEQS,
                                  .max_blocks_per_seq = 3000 / BR_KV_TOKENS + 1};
    struct br_err err;
    uint32_t shape;
    if (br_device_cpu_create(&device, &s->dev, &err) || s->dev->ops->stream_create(s->dev, &s->stream, &err) ||
        s->dev->ops->event_create(s->dev, &s->done, &err) || br_kv_create(&config, &s->kv, &err) ||
        br_kv_shape_add(s->kv, block, &shape, &err))
        die(&err);
    s->host = memory_touched(bytes);
    memset((void *)(uintptr_t)s->dev->memory, 1, bytes);
    for (uint32_t i = 0; i < SEQS; i++)
        if (br_kv_open(s->kv, shape, &s->seqs[i], &err))
            die(&err);
}

/* As they grow in a server: prompts one after another, then a block now and then for any of them. */
static void swapper_fill(struct swapper *s, uint64_t block)
{
    struct br_rng rng = {.seed = 1};
    struct br_err err;
    uint32_t now[SEQS], left = SEQS;
    for (uint32_t i = 0; i < SEQS; i++) {
        s->tokens[i] = 300 + (uint32_t)(2701 * br_rng_next(&rng));
        now[i] = s->tokens[i] * 2 / 3;
        s->bytes += (s->tokens[i] + BR_KV_TOKENS - 1) / BR_KV_TOKENS * block;
        if (br_kv_extend(s->kv, s->seqs[i], now[i], &err))
            die(&err);
    }
    while (left) {
        uint32_t i = (uint32_t)(SEQS * br_rng_next(&rng));
        if (now[i] == s->tokens[i])
            continue;
        now[i] = now[i] + BR_KV_TOKENS < s->tokens[i] ? now[i] + BR_KV_TOKENS : s->tokens[i];
        left -= now[i] == s->tokens[i];
        if (br_kv_extend(s->kv, s->seqs[i], now[i], &err))
            die(&err);
    }
}

/* All sequences, in an order that is another each time. */
static double swap_s(struct swapper *s, bool out, uint32_t round)
{
    const struct br_device_ops *ops = s->dev->ops;
    struct br_kv_swap swap[SEQS];
    struct br_err err;
    double start = br_now_s(), took;
    for (uint32_t k = 0; k < SEQS; k++) {
        int32_t seq = s->seqs[(k * 37 + round * 11) % SEQS];
        if (out ? br_kv_swap_out(s->kv, seq, &swap[k], &err) : br_kv_swap_in(s->kv, seq, &swap[k], &err))
            die(&err);
        for (uint32_t i = 0; i < swap[k].n_copies; i++) {
            const struct br_kv_copy *c = &swap[k].copies[i];
            void *device = (void *)(uintptr_t)(s->dev->memory + c->device), *host = s->host + c->host;
            ops->copy(s->stream, out ? BR_COPY_D2H : BR_COPY_H2D, out ? host : device, out ? device : host, c->bytes);
        }
        ops->event_record(s->done, s->stream);
    }
    ops->event_sync(s->done);
    took = br_now_s() - start;
    for (uint32_t k = 0; k < SEQS; k++)
        br_kv_swap_done(s->kv, swap[k].ticket);
    return took;
}

static void swapper_close(struct swapper *s, uint64_t bytes)
{
    s->dev->ops->stream_destroy(s->stream);
    s->dev->ops->event_destroy(s->done);
    s->dev->ops->destroy(s->dev);
    br_kv_destroy(s->kv);
    munmap(s->host, bytes);
}

int transfers_kv(const struct transfers *t)
{
    uint64_t block = br_kv_block_bytes(&t->image->layout.shape, t->image->layout.numeric);
    uint64_t most = (uint64_t)SEQS * (3000 / BR_KV_TOKENS + 1) * block * 2 / 3;
    double out[ROUNDS_MAX], in[ROUNDS_MAX], rate[ROUNDS_MAX];
    struct swapper s = {0};
    void *from, *to;
    int missed;
    swapper_open(&s, t, most);
    swapper_fill(&s, block);
    from = memory_touched(s.bytes);
    to = memory_touched(s.bytes);
    for (int i = 0; i < t->rounds; i++) {
        double plain = plain_copy_s(to, from, s.bytes, t->threads), took = swap_s(&s, true, (uint32_t)i);
        out[i] = plain / took;
        rate[i] = (double)s.bytes / took / 1e9;
        plain = plain_copy_s(to, from, s.bytes, t->threads);
        in[i] = plain / swap_s(&s, false, (uint32_t)i);
    }
    munmap(from, s.bytes);
    munmap(to, s.bytes);
    swapper_close(&s, most);
    printf("KV: %d sequences, %.0f MB, %.2f GB/s out\n", SEQS, (double)s.bytes / 1e6, median(rate, t->rounds));
    missed = bar("swap out / plain copy, rate", median(out, t->rounds), .90, true);
    return missed + bar("swap in / plain copy, rate", median(in, t->rounds), .90, true);
}
