/* Swaps: both tiers' blocks are in flight from the start of a swap until it is reported done. A sequence is in one
 * swap at most, so its handle is the ticket. */
#include <assert.h>

#include "kvcache/transfer.h"

static const enum br_kv_where HOME[KV_TIERS] = {BR_KV_DEVICE, BR_KV_HOST, BR_KV_DISK};

struct route {
    enum kv_tier from, to;
};

static struct route route_of(enum br_kv_where where)
{
    switch (where) {
    case BR_KV_GOING_OUT:
        return (struct route){KV_DEVICE, KV_HOST};
    case BR_KV_COMING_IN:
        return (struct route){KV_HOST, KV_DEVICE};
    case BR_KV_GOING_TO_DISK:
        return (struct route){KV_HOST, KV_DISK};
    case BR_KV_COMING_FROM_DISK:
        return (struct route){KV_DISK, KV_HOST};
    case BR_KV_EMPTY:
    case BR_KV_DEVICE:
    case BR_KV_HOST:
    case BR_KV_DISK:
        break;
    }
    return (struct route){KV_TIERS, KV_TIERS};
}

bool kv_in_tier(enum br_kv_where where, enum kv_tier tier)
{
    struct route r = route_of(where);
    return where == HOME[tier] || r.from == tier || r.to == tier;
}

/* A device-to-device copy may still have to write what the swap would read. */
static bool held(const struct br_kv *kv, int32_t seq)
{
    const uint32_t *table = kv_table(kv, KV_DEVICE, seq);
    for (uint32_t i = 0; i < kv->seqs[seq].n_blocks; i++)
        if (kv->tiers[KV_DEVICE].blocks[table[i]].holds)
            return true;
    return false;
}

/* Blocks that the other tier has under the same key need no copy. */
static void known_ref(struct br_kv *kv, int32_t seq, enum kv_tier from, enum kv_tier to)
{
    const struct kv_seq *s = &kv->seqs[seq];
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        int32_t node = kv_block_node(&kv->tiers[from].blocks[kv_table(kv, from, seq)[i]]);
        if (node != BR_KV_NONE)
            node = kv_find(kv, to, s->shape, &kv->nodes[node].key);
        if (node != BR_KV_NONE)
            kv_ref(kv, to, kv_entry(kv, seq, i), kv->nodes[node].block);
        else
            kv_table(kv, to, seq)[i] = KV_NO_BLOCK;
    }
}

static int swap_start(struct br_kv *kv, int32_t seq, enum br_kv_where where, struct br_kv_swap *out, struct br_err *err)
{
    struct kv_seq *s = &kv->seqs[seq];
    struct route r = route_of(where);
    int rc;
    assert(s->life == KV_OPEN && s->where == HOME[r.from]);
    if (r.from == KV_DEVICE && held(kv, seq))
        return br_err_set(err, BR_EBUSY, "kvcache: a block of the sequence is in a copy on the device");
    known_ref(kv, seq, r.from, r.to);
    rc = kv_transfer(kv, seq, r.from, r.to, out, err);
    if (rc == 0)
        s->where = where;
    return rc;
}

int br_kv_swap_out(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err)
{
    return swap_start(kv, seq, BR_KV_GOING_OUT, out, err);
}

int br_kv_swap_in(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err)
{
    return swap_start(kv, seq, BR_KV_COMING_IN, out, err);
}

int br_kv_to_disk(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err)
{
    return swap_start(kv, seq, BR_KV_GOING_TO_DISK, out, err);
}

int br_kv_from_disk(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err)
{
    return swap_start(kv, seq, BR_KV_COMING_FROM_DISK, out, err);
}

static void arrive(struct br_kv *kv, int32_t seq, enum kv_tier tier)
{
    struct kv_seq *s = &kv->seqs[seq];
    s->where = HOME[tier];
    if (s->life == KV_CLOSING) {
        s->life = KV_OPEN;
        br_kv_close(kv, seq);
    }
}

void br_kv_swap_done(struct br_kv *kv, int32_t ticket)
{
    const struct kv_seq *s = &kv->seqs[ticket];
    struct route r = route_of(s->where);
    assert(s->life != KV_FREE && kv_moving(s));
    kv_transfer_end(kv, ticket, r.from, r.to);
    arrive(kv, ticket, r.to);
}

void br_kv_swap_failed(struct br_kv *kv, int32_t ticket)
{
    const struct kv_seq *s = &kv->seqs[ticket];
    struct route r = route_of(s->where);
    assert(s->life != KV_FREE && kv_moving(s));
    kv_transfer_undo(kv, ticket, r.from, r.to);
    arrive(kv, ticket, r.from);
}
