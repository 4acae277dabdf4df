#include "kvcache/moves.h"

#include <assert.h>

uint32_t kv_moves_left(const struct br_kv *kv)
{
    return kv->config.max_moves - kv->n_flights;
}

/* Blocks that lie side by side at both ends make one copy. */
static void list_append(struct br_kv *kv, struct br_kv_move next, struct br_kv_moves *out)
{
    struct br_kv_move *last = out->n_moves ? &kv->moves[out->n_moves - 1] : NULL;
    if (last && last->from + last->bytes == next.from && last->to + last->bytes == next.to)
        last->bytes += next.bytes;
    else
        kv->moves[out->n_moves++] = next;
    out->moves = kv->moves;
}

void kv_move_add(struct br_kv *kv, uint32_t from, uint32_t to, struct br_kv_moves *out)
{
    uint32_t shape = pool_shape_of(&kv->tiers[KV_DEVICE].pool, from);
    int32_t flight = kv->free_flight;
    assert(flight != BR_KV_NONE);
    kv->free_flight = kv->flights[flight].next;
    kv->flights[flight] = (struct kv_flight){.from = from, .to = to, .next = out->ticket};
    out->ticket = flight;
    kv->n_flights++;
    kv_hold(kv, KV_DEVICE, from);
    kv_hold(kv, KV_DEVICE, to);
    list_append(kv,
                (struct br_kv_move){kv_offset(kv, KV_DEVICE, shape, from), kv_offset(kv, KV_DEVICE, shape, to),
                                    kv->block_bytes[shape]},
                out);
}

/* A slab that compaction could not empty becomes one like any other. */
static void flight_end(struct br_kv *kv, const struct kv_flight *f)
{
    struct pool *pool = &kv->tiers[KV_DEVICE].pool;
    uint32_t slab = pool_slab_of(pool, f->from);
    kv_release(kv, KV_DEVICE, f->from);
    kv_release(kv, KV_DEVICE, f->to);
    if (pool->slabs[slab].shape != POOL_NONE)
        pool_slab_leaving(pool, slab, false);
}

void br_kv_moves_done(struct br_kv *kv, int32_t ticket)
{
    while (ticket != BR_KV_NONE) {
        struct kv_flight *f = &kv->flights[ticket];
        int32_t next = f->next;
        assert(f->from != f->to);
        flight_end(kv, f);
        *f = (struct kv_flight){.next = kv->free_flight};
        kv->free_flight = ticket;
        kv->n_flights--;
        ticket = next;
    }
}
