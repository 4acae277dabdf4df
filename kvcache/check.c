/* Numbers, the check of every invariant, and the dump. */
#include <inttypes.h>

#include "kvcache/books.h"

static void tier_stats(const struct br_kv *kv, struct br_kv_stats *out)
{
    const struct kv_tier_books *device = &kv->tiers[KV_DEVICE], *host = &kv->tiers[KV_HOST],
                               *disk = &kv->tiers[KV_DISK];
    *out = (struct br_kv_stats){
        .device_slabs = device->pool.n_slabs,
        .device_slabs_free = pool_free_slabs(&device->pool),
        .host_slabs = host->pool.n_slabs,
        .host_slabs_free = pool_free_slabs(&host->pool),
        .device_bytes_owned = device->bytes[KV_OWNED],
        .device_bytes_in_flight = device->bytes[KV_IN_FLIGHT],
        .host_bytes_owned = host->bytes[KV_OWNED],
        .host_bytes_in_flight = host->bytes[KV_IN_FLIGHT],
        .disk_slabs = disk->pool.n_slabs,
        .disk_slabs_free = pool_free_slabs(&disk->pool),
        .disk_bytes_owned = disk->bytes[KV_OWNED],
        .disk_bytes_in_flight = disk->bytes[KV_IN_FLIGHT],
        .device_bytes_cached = device->bytes[KV_CACHED],
        .host_bytes_cached = host->bytes[KV_CACHED],
        .disk_bytes_cached = disk->bytes[KV_CACHED],
    };
}

void br_kv_stats(const struct br_kv *kv, struct br_kv_stats *out)
{
    tier_stats(kv, out);
    out->index_blocks = kv->n_nodes;
    out->index_hits = kv->n_hits;
    out->index_evicted = kv->n_evicted;
}

static const char *seqs_broken(const struct br_kv *kv)
{
    uint32_t open = 0, free = 0;
    for (uint32_t i = 0; i < kv->config.max_seqs; i++) {
        const struct kv_seq *s = &kv->seqs[i];
        open += s->life != KV_FREE;
        if (s->life == KV_CLOSING && !kv_moving(s))
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
    static const char *const names[] = {"sequences", "device", "host", "disk", "copies on the device", "index"};
    const char *broken[] = {seqs_broken(kv),
                            kv_tier_broken(kv, KV_DEVICE),
                            kv_tier_broken(kv, KV_HOST),
                            kv_tier_broken(kv, KV_DISK),
                            kv_flights_broken(kv),
                            kv_index_broken(kv)};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        if (broken[i])
            return br_err_set(err, BR_ECORRUPT, "kvcache: %s: %s", names[i], broken[i]);
    return 0;
}

static void seq_dump(const struct br_kv *kv, int32_t seq, struct br_buf *out)
{
    static const char *const where[] = {"empty",     "device",        "going out", "host",
                                        "coming in", "going to disk", "disk",      "coming from disk"};
    static const char *const tiers[] = {"device", "host", "disk"};
    const struct kv_seq *s = &kv->seqs[seq];
    br_buf_printf(out, "seq %" PRId32 ": %s%s, shape %" PRIu32 ", pins %" PRIu32 "\n", seq, where[s->where],
                  s->life == KV_CLOSING ? ", closing" : "", s->shape, s->pins);
    for (enum kv_tier tier = 0; tier < KV_TIERS; tier++) {
        if (!kv_in_tier(s->where, tier))
            continue;
        br_buf_printf(out, "  %s:", tiers[tier]);
        for (uint32_t i = 0; i < s->n_blocks; i++) {
            uint32_t block = kv_table(kv, tier, seq)[i];
            if (block == KV_NO_BLOCK)
                br_buf_puts(out, " -");
            else
                br_buf_printf(out, " %" PRIu32 ".%" PRIu32, pool_slab_of(&kv->tiers[tier].pool, block),
                              pool_place_of(&kv->tiers[tier].pool, block));
        }
        br_buf_puts(out, "\n");
    }
}

void br_kv_dump(const struct br_kv *kv, struct br_buf *out)
{
    static const char *const names[] = {"device", "host", "disk"};
    for (int tier = 0; tier < KV_TIERS; tier++) {
        const uint64_t *bytes = kv->tiers[tier].bytes;
        br_buf_printf(out, "%s: bytes owned %" PRIu64 ", in flight %" PRIu64 ", cached %" PRIu64 "\n", names[tier],
                      bytes[KV_OWNED], bytes[KV_IN_FLIGHT], bytes[KV_CACHED]);
        pool_dump(&kv->tiers[tier].pool, kv->n_shapes, out);
    }
    for (uint32_t i = 0; i < kv->config.max_seqs; i++)
        if (kv->seqs[i].life != KV_FREE)
            seq_dump(kv, (int32_t)i, out);
    for (uint32_t i = 0; i < kv->config.max_moves; i++)
        if (kv->flights[i].from != kv->flights[i].to)
            br_buf_printf(out, "copy %" PRIu32 ": block %" PRIu32 " to %" PRIu32 "\n", i, kv->flights[i].from,
                          kv->flights[i].to);
    kv_index_dump(kv, out);
}
