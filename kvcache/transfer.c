#include "kvcache/transfer.h"

/* Blocks that lie side by side in both regions make one copy. */
static void copy_append(struct br_kv *kv, int32_t entry, enum kv_tier from, enum kv_tier to, struct br_kv_swap *out)
{
    struct br_kv_copy *last = out->n_copies ? &kv->copies[kv_entry(kv, out->ticket, out->n_copies - 1)] : NULL;
    uint32_t shape = kv->seqs[out->ticket].shape;
    struct br_kv_copy next = {.bytes = kv->block_bytes[shape]};
    next.at[from] = kv_offset(kv, from, shape, kv->tiers[from].table[entry]);
    next.at[to] = kv_offset(kv, to, shape, kv->tiers[to].table[entry]);
    if (last && last->at[from] + last->bytes == next.at[from] && last->at[to] + last->bytes == next.at[to])
        last->bytes += next.bytes;
    else
        kv->copies[kv_entry(kv, out->ticket, out->n_copies++)] = next;
}

static int no_room(const struct br_kv *kv, int32_t seq, enum kv_tier to, uint32_t want, struct br_err *err)
{
    static const char *const names[] = {"device", "host", "disk"};
    uint32_t shape = kv->seqs[seq].shape;
    return br_err_set(err, BR_ENOMEM, "kvcache: %u blocks of %llu bytes wanted on the %s, %llu free", want,
                      (unsigned long long)kv->block_bytes[shape], names[to],
                      (unsigned long long)kv_available(kv, to, shape));
}

int kv_transfer(struct br_kv *kv, int32_t seq, enum kv_tier from, enum kv_tier to, struct br_kv_swap *out,
                struct br_err *err)
{
    const struct kv_seq *s = &kv->seqs[seq];
    const uint32_t *table = kv_table(kv, to, seq);
    uint32_t want = 0;
    *out = (struct br_kv_swap){.copies = kv->copies + kv_entry(kv, seq, 0), .ticket = seq};
    for (uint32_t i = 0; i < s->n_blocks; i++)
        want += table[i] == KV_NO_BLOCK;
    if (want > kv_available(kv, to, s->shape)) {
        int rc = no_room(kv, seq, to, want, err);
        kv_give(kv, to, seq);
        return rc;
    }
    for (uint32_t i = 0; i < s->n_blocks; i++)
        if (table[i] == KV_NO_BLOCK) {
            kv_take(kv, to, seq, i, i + 1);
            copy_append(kv, kv_entry(kv, seq, i), from, to, out);
        }
    kv_fly(kv, from, seq, true);
    kv_fly(kv, to, seq, true);
    return 0;
}

void kv_transfer_end(struct br_kv *kv, int32_t seq, enum kv_tier from, enum kv_tier to)
{
    const uint32_t *source = kv_table(kv, from, seq), *target = kv_table(kv, to, seq);
    kv_fly(kv, from, seq, false);
    kv_fly(kv, to, seq, false);
    for (uint32_t i = 0; i < kv->seqs[seq].n_blocks; i++) {
        int32_t node = source[i] == KV_NO_BLOCK ? BR_KV_NONE : kv_block_node(&kv->tiers[from].blocks[source[i]]);
        struct br_kv_key key;
        if (node == BR_KV_NONE)
            continue;
        key = kv->nodes[node].key;
        kv_index_add(kv, to, target[i], &key);
    }
    kv_give(kv, from, seq);
}

void kv_transfer_undo(struct br_kv *kv, int32_t seq, enum kv_tier from, enum kv_tier to)
{
    kv_fly(kv, from, seq, false);
    kv_fly(kv, to, seq, false);
    kv_give(kv, to, seq);
}
