/* Swaps: both tiers' blocks are in flight from the start of a swap until it is reported done. A sequence is in one
 * swap at most, so its handle is the ticket. */
#include <assert.h>

#include "kvcache/books.h"

/* Blocks that lie side by side in both regions make one copy. */
static void copies_fill(struct br_kv *kv, int32_t seq, struct br_kv_swap *out)
{
    const struct kv_seq *s = &kv->seqs[seq];
    const uint32_t *device = kv_table(kv, KV_DEVICE, seq), *host = kv_table(kv, KV_HOST, seq);
    struct br_kv_copy *copies = kv->copies + (size_t)seq * kv->config.max_blocks_per_seq;
    uint64_t bytes = kv->block_bytes[s->shape];
    *out = (struct br_kv_swap){.copies = copies, .ticket = seq};
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        struct br_kv_copy next = {kv_offset(kv, KV_DEVICE, s->shape, device[i]),
                                  kv_offset(kv, KV_HOST, s->shape, host[i]), bytes};
        struct br_kv_copy *last = out->n_copies ? &copies[out->n_copies - 1] : NULL;
        if (last && last->device + last->bytes == next.device && last->host + last->bytes == next.host)
            last->bytes += bytes;
        else
            copies[out->n_copies++] = next;
    }
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

static int swap_start(struct br_kv *kv, int32_t seq, enum kv_tier from, enum kv_tier to, struct br_kv_swap *out,
                      struct br_err *err)
{
    struct kv_seq *s = &kv->seqs[seq];
    uint64_t free = pool_available(&kv->tiers[to].pool, s->shape);
    assert(s->life == KV_OPEN && s->where == (from == KV_DEVICE ? BR_KV_DEVICE : BR_KV_HOST));
    if (from == KV_DEVICE && held(kv, seq))
        return br_err_set(err, BR_EBUSY, "kvcache: a block of the sequence is in a copy on the device");
    if (s->n_blocks > free)
        return br_err_set(err, BR_ENOMEM, "kvcache: %u blocks of %llu bytes wanted on the %s, %llu free", s->n_blocks,
                          (unsigned long long)kv->block_bytes[s->shape], to == KV_HOST ? "host" : "device",
                          (unsigned long long)free);
    kv_take(kv, to, seq, 0, s->n_blocks);
    kv_fly(kv, from, seq, true);
    kv_fly(kv, to, seq, true);
    s->where = to == KV_HOST ? BR_KV_GOING_OUT : BR_KV_COMING_IN;
    copies_fill(kv, seq, out);
    return 0;
}

int br_kv_swap_out(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err)
{
    return swap_start(kv, seq, KV_DEVICE, KV_HOST, out, err);
}

int br_kv_swap_in(struct br_kv *kv, int32_t seq, struct br_kv_swap *out, struct br_err *err)
{
    return swap_start(kv, seq, KV_HOST, KV_DEVICE, out, err);
}

void br_kv_swap_done(struct br_kv *kv, int32_t ticket)
{
    struct kv_seq *s = &kv->seqs[ticket];
    enum kv_tier to = s->where == BR_KV_GOING_OUT ? KV_HOST : KV_DEVICE, from = to == KV_HOST ? KV_DEVICE : KV_HOST;
    assert(s->life != KV_FREE && kv_moving(s));
    kv_fly(kv, from, ticket, false);
    kv_fly(kv, to, ticket, false);
    kv_give(kv, from, ticket);
    s->where = to == KV_HOST ? BR_KV_HOST : BR_KV_DEVICE;
    if (s->life == KV_CLOSING) {
        s->life = KV_OPEN;
        br_kv_close(kv, ticket);
    }
}
