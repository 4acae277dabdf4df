/* Numbers and the check of every invariant. */
#include <string.h>

#include "kvcache/books.h"

void br_kv_stats(const struct br_kv *kv, struct br_kv_stats *out)
{
    const struct kv_tier_books *device = &kv->tiers[KV_DEVICE], *host = &kv->tiers[KV_HOST];
    *out = (struct br_kv_stats){
        .device_slabs = device->pool.n_slabs,
        .device_slabs_free = device->pool.n_free,
        .host_slabs = host->pool.n_slabs,
        .host_slabs_free = host->pool.n_free,
        .device_bytes_owned = device->bytes_owned,
        .device_bytes_in_flight = device->bytes_in_flight,
        .host_bytes_owned = host->bytes_owned,
        .host_bytes_in_flight = host->bytes_in_flight,
    };
}

static bool in_tier(const struct kv_seq *s, enum kv_tier tier)
{
    enum br_kv_where home = tier == KV_DEVICE ? BR_KV_DEVICE : BR_KV_HOST;
    return s->life != KV_FREE && (s->where == home || s->where == BR_KV_GOING_OUT || s->where == BR_KV_COMING_IN);
}

static bool in_flight(const struct kv_seq *s)
{
    return s->where == BR_KV_GOING_OUT || s->where == BR_KV_COMING_IN;
}

/* Marks the sequence's blocks as seen. */
static const char *seq_broken(const struct br_kv *kv, enum kv_tier tier, int32_t seq)
{
    const struct kv_tier_books *books = &kv->tiers[tier];
    const struct kv_seq *s = &kv->seqs[seq];
    uint32_t per_slab = books->pool.shapes[s->shape].per_slab;
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        uint32_t block = kv_table(kv, tier, seq)[i], slab = block / per_slab, place = block % per_slab;
        uint64_t *word, bit = 1ull << (place & 63);
        if (slab >= books->pool.n_slabs || books->pool.slabs[slab].shape != (int32_t)s->shape)
            return "a sequence's block lies in a slab of another shape";
        word = &books->seen[(size_t)slab * books->pool.leaf_words + (place >> 6)];
        if (*word & bit)
            return "a block has two owners";
        if (!pool_taken(&books->pool, slab, place))
            return "a sequence owns a free block";
        *word |= bit;
    }
    return NULL;
}

static const char *tier_broken(const struct br_kv *kv, enum kv_tier tier)
{
    const struct kv_tier_books *books = &kv->tiers[tier];
    uint64_t blocks = 0, taken = 0, owned = 0, flight = 0;
    const char *broken = pool_broken(&books->pool, kv->n_shapes);
    memset(books->seen, 0, (size_t)books->pool.n_slabs * books->pool.leaf_words * sizeof *books->seen);
    for (uint32_t i = 0; i < kv->config.max_seqs && !broken; i++) {
        const struct kv_seq *s = &kv->seqs[i];
        if (!in_tier(s, tier))
            continue;
        blocks += s->n_blocks;
        *(in_flight(s) ? &flight : &owned) += kv_seq_bytes(kv, s);
        broken = seq_broken(kv, tier, (int32_t)i);
    }
    for (uint32_t i = 0; i < books->pool.n_slabs; i++)
        taken += books->pool.slabs[i].used;
    if (!broken && blocks != taken)
        broken = "a taken block has no owner";
    if (!broken && (owned != books->bytes_owned || flight != books->bytes_in_flight))
        broken = "the counts of bytes owned or in flight are wrong";
    return broken;
}

static const char *seqs_broken(const struct br_kv *kv)
{
    uint32_t open = 0, free = 0;
    for (uint32_t i = 0; i < kv->config.max_seqs; i++) {
        const struct kv_seq *s = &kv->seqs[i];
        open += s->life != KV_FREE;
        if (s->life == KV_CLOSING && !in_flight(s))
            return "a closed sequence is still there";
        if (s->life != KV_FREE && (s->where == BR_KV_EMPTY) != (s->n_blocks == 0))
            return "an empty sequence owns blocks, or none is empty";
    }
    for (int32_t i = kv->free_seq; i != BR_KV_NONE && free <= kv->config.max_seqs; i = kv->seqs[i].next)
        free++;
    return open == kv->n_open && open + free == kv->config.max_seqs ? NULL : "the count of sequences is wrong";
}

int br_kv_check(const struct br_kv *kv, struct br_err *err)
{
    static const char *const names[] = {"sequences", "device", "host"};
    const char *broken[] = {seqs_broken(kv), tier_broken(kv, KV_DEVICE), tier_broken(kv, KV_HOST)};
    for (int i = 0; i < 3; i++)
        if (broken[i])
            return br_err_set(err, BR_ECORRUPT, "kvcache: %s: %s", names[i], broken[i]);
    return 0;
}
