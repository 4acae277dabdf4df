#include "sim/books.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "kvcache/kvcache.h"

enum { MAX_SEQS = 1024, MAX_MOVES = 1024 }; /* of a device: with blocks on it; in a device-to-device copy */
static const uint64_t SLAB_MIN_BYTES = 1 << 20;

struct book_seq {
    int32_t device, handle; /* -1: no blocks */
    uint32_t tokens;        /* that its blocks hold */
};

struct book_device {
    struct br_kv *kv;
    uint64_t weights, end; /* bytes from the one end; the far end */
};

struct sim_books {
    uint32_t n_devices, n_models, n_shapes;
    uint64_t slab_bytes;
    uint64_t *block_bytes; /* [n_models] */
    uint32_t *shape;       /* [n_models] */
    struct book_device *devices;
    struct book_seq *seqs; /* [max_seqs] */
    uint32_t max_seqs;
};

/* As turn_slab_choose: small ones waste little, large ones make long copies. */
static uint64_t slab_choose(uint64_t memory, uint64_t largest_block)
{
    uint64_t most = memory / 2, slab = most / 64;
    slab = slab < SLAB_MIN_BYTES ? SLAB_MIN_BYTES : slab;
    slab = slab > 4 * largest_block ? 4 * largest_block : slab;
    slab = slab < largest_block ? largest_block : slab;
    slab = slab > most ? most : slab;
    return slab & ~63ull;
}

/* Every device registers them in the same order, so a model's shape is the same on all. */
static void shapes_number(struct sim_books *b, const struct br_pl_config *pool)
{
    b->block_bytes = br_calloc(b->n_models, sizeof *b->block_bytes);
    b->shape = br_calloc(b->n_models, sizeof *b->shape);
    for (uint32_t m = 0; m < b->n_models; m++) {
        uint32_t same = 0;
        b->block_bytes[m] = (uint64_t)pool->models[m].kv_token_bytes * BR_KV_TOKENS;
        while (same < m && b->block_bytes[same] != b->block_bytes[m])
            same++;
        b->shape[m] = same < m ? b->shape[same] : b->n_shapes++;
    }
}

static uint64_t block_extreme(const struct sim_books *b, bool largest)
{
    uint64_t best = b->block_bytes[0];
    for (uint32_t m = 1; m < b->n_models; m++)
        if ((b->block_bytes[m] > best) == largest)
            best = b->block_bytes[m];
    return best;
}

static int device_create(struct sim_books *b, struct book_device *d, uint64_t memory, uint32_t max_tokens,
                         struct br_err *err)
{
    struct br_kv_config c = {.device_bytes = memory,
                             .slab_bytes = b->slab_bytes,
                             .max_shapes = b->n_shapes,
                             .max_seqs = b->max_seqs < MAX_SEQS ? b->max_seqs : MAX_SEQS,
                             .max_blocks_per_seq = max_tokens / BR_KV_TOKENS + 2,
                             .max_moves = MAX_MOVES,
                             .min_block_bytes = block_extreme(b, false)};
    int rc = br_kv_create(&c, &d->kv, err);
    for (uint32_t m = 0, shape; rc == 0 && m < b->n_models; m++)
        rc = br_kv_shape_add(d->kv, b->block_bytes[m], &shape, err);
    if (rc == 0)
        d->end = br_kv_device_end(d->kv);
    return rc;
}

int sim_books_create(const struct br_pl_config *pool, uint32_t max_tokens, struct sim_books **out, struct br_err *err)
{
    struct sim_books *b = br_calloc(1, sizeof *b);
    uint64_t least = UINT64_MAX;
    int rc = 0;
    b->n_models = pool->n_models;
    b->n_devices = pool->n_devices;
    b->max_seqs = pool->max_seqs;
    b->devices = br_calloc(b->n_devices, sizeof *b->devices);
    b->seqs = br_calloc(b->max_seqs, sizeof *b->seqs);
    for (uint32_t i = 0; i < b->max_seqs; i++)
        b->seqs[i] = (struct book_seq){-1, -1, 0};
    shapes_number(b, pool);
    for (uint32_t i = 0; i < b->n_devices; i++)
        least = (uint64_t)pool->hardware[i].memory_bytes < least ? (uint64_t)pool->hardware[i].memory_bytes : least;
    b->slab_bytes = slab_choose(least, block_extreme(b, true));
    for (uint32_t i = 0; rc == 0 && i < b->n_devices; i++)
        rc = device_create(b, &b->devices[i], (uint64_t)pool->hardware[i].memory_bytes, max_tokens, err);
    if (rc < 0)
        sim_books_destroy(b);
    else
        *out = b;
    return rc;
}

void sim_books_destroy(struct sim_books *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; i < b->n_devices; i++)
        br_kv_destroy(b->devices[i].kv);
    free(b->devices);
    free(b->block_bytes);
    free(b->shape);
    free(b->seqs);
    free(b);
}

int64_t sim_books_planned(const struct sim_books *b, uint32_t device)
{
    uint64_t end = b->devices[device].end, parts = b->n_shapes * b->slab_bytes;
    return (int64_t)(end - (parts < end / 16 ? parts : end / 16));
}

int64_t sim_books_token_bytes(const struct sim_books *b, uint32_t model)
{
    uint64_t tokens = b->slab_bytes / b->block_bytes[model] * BR_KV_TOKENS;
    return (int64_t)((b->slab_bytes + tokens - 1) / tokens);
}

/* Moves KV together as far as that goes: towards the far end, or (merge) so that slabs run empty. False: nothing was
 * left to move. */
static bool moved(struct br_kv *kv, bool merge)
{
    struct br_kv_moves moves;
    merge ? br_kv_merge(kv, MAX_MOVES, &moves) : br_kv_compact(kv, MAX_MOVES, &moves);
    if (moves.ticket == BR_KV_NONE)
        return false;
    br_kv_moves_done(kv, moves.ticket);
    return true;
}

/* KV's limit is lowered when weights need it and raised when KV does: both are rare beside loads and evictions. */
static void limit_set(struct book_device *d)
{
    struct br_err ignored;
    if (br_kv_device_limit(d->kv, d->end - d->weights, &ignored))
        assert(!"KV lies where weights are to go");
}

int64_t sim_books_load(struct sim_books *b, uint32_t device, int64_t bytes)
{
    struct book_device *d = &b->devices[device];
    uint64_t wanted = d->weights + (uint64_t)bytes, before = d->weights;
    if (wanted <= d->end && br_kv_device_limit_bytes(d->kv) <= d->end - wanted) {
        d->weights = wanted;
        return bytes;
    }
    while (br_kv_device_floor_bytes(d->kv) + wanted > d->end && moved(d->kv, false))
        ;
    uint64_t most = d->end - br_kv_device_floor_bytes(d->kv);
    d->weights = wanted < most ? wanted : most;
    limit_set(d);
    return (int64_t)(d->weights - before);
}

void sim_books_evict(struct sim_books *b, uint32_t device, int64_t bytes)
{
    struct book_device *d = &b->devices[device];
    assert(bytes >= 0 && (uint64_t)bytes <= d->weights);
    d->weights -= (uint64_t)bytes;
}

static bool extend(struct book_device *d, int32_t handle, uint32_t tokens)
{
    struct br_err ignored;
    bool can = br_kv_can_extend(d->kv, handle, tokens);
    if (!can)
        limit_set(d);
    while (!can && !(can = br_kv_can_extend(d->kv, handle, tokens)))
        if (!moved(d->kv, true))
            return false;
    return br_kv_extend(d->kv, handle, tokens, &ignored) == 0;
}

bool sim_books_extend(struct sim_books *b, uint32_t device, uint32_t model, uint32_t seq, uint32_t tokens)
{
    struct book_device *d = &b->devices[device];
    struct book_seq *s = &b->seqs[seq];
    struct br_err ignored;
    bool opened = s->device < 0;
    assert(opened || s->device == (int32_t)device);
    if (tokens <= s->tokens)
        return true;
    if (opened && br_kv_open(d->kv, b->shape[model], &s->handle, &ignored))
        return false;
    if (!extend(d, s->handle, tokens)) {
        if (opened)
            br_kv_close(d->kv, s->handle);
        return false;
    }
    s->device = (int32_t)device;
    s->tokens = br_kv_blocks(d->kv, s->handle) * BR_KV_TOKENS;
    return true;
}

int64_t sim_books_lacking(const struct sim_books *b, uint32_t device, uint32_t model, uint32_t seq, uint32_t tokens)
{
    const struct book_device *d = &b->devices[device];
    const struct book_seq *s = &b->seqs[seq];
    uint64_t blocks = (tokens + BR_KV_TOKENS - 1) / BR_KV_TOKENS - s->tokens / BR_KV_TOKENS;
    uint64_t free = br_kv_device_blocks_free(d->kv, b->shape[model]), per_slab = b->slab_bytes / b->block_bytes[model];
    if (blocks <= free)
        return 0;
    uint64_t limit = br_kv_device_limit_bytes(d->kv) + (blocks - free + per_slab - 1) / per_slab * b->slab_bytes;
    return limit <= d->end && d->end - limit < d->weights ? (int64_t)(d->weights - (d->end - limit)) : 0;
}

void sim_books_drop(struct sim_books *b, uint32_t seq)
{
    struct book_seq *s = &b->seqs[seq];
    if (s->device < 0)
        return;
    br_kv_close(b->devices[s->device].kv, s->handle);
    *s = (struct book_seq){-1, -1, 0};
}

int32_t sim_books_device(const struct sim_books *b, uint32_t seq)
{
    return b->seqs[seq].device;
}

int64_t sim_books_free(const struct sim_books *b, uint32_t device)
{
    const struct book_device *d = &b->devices[device];
    struct br_kv_stats stats;
    br_kv_stats(d->kv, &stats);
    return (int64_t)(d->end - d->weights - stats.device_bytes_owned);
}

static int seq_check(const struct sim_books *b, const struct br_pool *pool, uint32_t seq, struct br_err *err)
{
    const struct br_pl_seq *q = &pool->seqs[seq];
    const struct book_seq *s = &b->seqs[seq];
    bool placed = q->state == BR_PL_WAITING || q->state == BR_PL_RUNNING;
    bool here = q->state == BR_PL_RUNNING && q->kv > 0 && q->where == BR_PL_HERE;
    uint32_t device = placed ? pool->slots[q->slot].device : 0;
    if (here && !q->stepping && (s->device != (int32_t)device || s->tokens < q->kv))
        return br_err_set(err, BR_ECORRUPT,
                          "sim: sequence %u has %u tokens of KV on device %u, and blocks for %u on %d", seq,
                          (uint32_t)q->kv, device, s->tokens, s->device);
    if (s->device >= 0 && (!placed || s->device != (int32_t)device))
        return br_err_set(err, BR_ECORRUPT, "sim: sequence %u has blocks on device %d, where it is not", seq,
                          s->device);
    return 0;
}

int sim_books_check(const struct sim_books *b, const struct br_pool *pool, int32_t deep, struct br_err *err)
{
    int rc = deep >= 0 ? br_kv_check(b->devices[deep].kv, err) : 0;
    for (uint32_t i = 0; rc == 0 && i < b->n_devices; i++) {
        const struct book_device *d = &b->devices[i];
        uint64_t weights = 0;
        for (uint32_t h = 0; h < pool->devices[i].n_held; h++)
            weights += (uint64_t)pool->slots[pool->devices[i].held[h]].weights;
        if (d->weights < weights)
            return br_err_set(err, BR_ECORRUPT, "sim: device %u has %.0f bytes of weights, %.0f in its books", i,
                              (double)weights, (double)d->weights);
        if (d->weights + br_kv_device_used_bytes(d->kv) > d->end)
            return br_err_set(err, BR_ECORRUPT, "sim: device %u: weights and KV overlap", i);
    }
    for (uint32_t i = 0; rc == 0 && i < b->max_seqs; i++)
        rc = seq_check(b, pool, i, err);
    return rc;
}
