/* Sequences that share blocks: by key, and by fork. */
#include "kvcache/prefix.h"

#include <assert.h>

#include "kvcache/moves.h"
#include "kvcache/transfer.h"

void br_kv_lookup(const struct br_kv *kv, uint32_t shape, const struct br_kv_key *keys, uint32_t n,
                  struct br_kv_match *out)
{
    bool near = true;
    *out = (struct br_kv_match){0};
    assert(shape < kv->n_shapes);
    for (uint32_t i = 0; i < n; i++) {
        bool device = kv_find(kv, KV_DEVICE, shape, &keys[i]) != BR_KV_NONE;
        near = near && (device || kv_find(kv, KV_HOST, shape, &keys[i]) != BR_KV_NONE);
        if (!near && !device && kv_find(kv, KV_HOST, shape, &keys[i]) == BR_KV_NONE &&
            kv_find(kv, KV_DISK, shape, &keys[i]) == BR_KV_NONE)
            return;
        out->blocks += near;
        out->on_device += near && device;
        out->anywhere++;
    }
}

/* Fills both tables of the sequence from the index: an entry has a block in `to`, or else one in `from`. The number of
 * the latter, or -1: one of the keys is unknown. */
static int64_t entries_find(struct br_kv *kv, int32_t seq, const struct br_kv_key *keys, uint32_t n, enum kv_tier from,
                            enum kv_tier to)
{
    struct kv_seq *s = &kv->seqs[seq];
    int64_t far = 0;
    for (s->n_blocks = 0; s->n_blocks < n; s->n_blocks++) {
        enum kv_tier tier = to, other = from;
        int32_t entry = kv_entry(kv, seq, s->n_blocks), node = kv_find(kv, to, s->shape, &keys[s->n_blocks]);
        if (node == BR_KV_NONE) {
            node = kv_find(kv, from, s->shape, &keys[s->n_blocks]);
            tier = from;
            other = to;
            far++;
        }
        if (node == BR_KV_NONE)
            return -1;
        kv->tiers[other].table[entry] = KV_NO_BLOCK;
        kv_ref(kv, tier, entry, kv->nodes[node].block);
    }
    return far;
}

static int adopt_undo(struct br_kv *kv, int32_t seq, enum kv_tier from, enum kv_tier to, int rc)
{
    kv_give(kv, from, seq);
    if (rc == BR_ENOENT)
        kv_give(kv, to, seq);
    kv->seqs[seq].n_blocks = 0;
    return rc;
}

static int adopt(struct br_kv *kv, int32_t seq, const struct br_kv_key *keys, uint32_t n, enum kv_tier from,
                 enum kv_tier to, struct br_kv_swap *out, struct br_err *err)
{
    struct kv_seq *s = &kv->seqs[seq];
    int64_t far;
    int rc;
    assert(kv_open_seq(kv, seq)->where == BR_KV_EMPTY);
    *out = (struct br_kv_swap){.ticket = BR_KV_NONE};
    if (n > kv->config.max_blocks_per_seq)
        return br_err_set(err, BR_EINVAL, "kvcache: a prefix of %u blocks, a sequence has at most %u", n,
                          kv->config.max_blocks_per_seq);
    far = entries_find(kv, seq, keys, n, from, to);
    if (far < 0) {
        br_err_set(err, BR_ENOENT, "kvcache: block %u of %u of the prefix is not cached any more", s->n_blocks, n);
        return adopt_undo(kv, seq, from, to, BR_ENOENT);
    }
    if (far && (rc = kv_transfer(kv, seq, from, to, out, err)))
        return adopt_undo(kv, seq, from, to, rc);
    kv->n_hits += n;
    if (n && far)
        s->where = to == KV_DEVICE ? BR_KV_COMING_IN : BR_KV_COMING_FROM_DISK;
    else if (n)
        s->where = to == KV_DEVICE ? BR_KV_DEVICE : BR_KV_HOST;
    return 0;
}

int br_kv_adopt(struct br_kv *kv, int32_t seq, const struct br_kv_key *keys, uint32_t n, struct br_kv_swap *out,
                struct br_err *err)
{
    return adopt(kv, seq, keys, n, KV_HOST, KV_DEVICE, out, err);
}

int br_kv_adopt_host(struct br_kv *kv, int32_t seq, const struct br_kv_key *keys, uint32_t n, struct br_kv_swap *out,
                     struct br_err *err)
{
    return adopt(kv, seq, keys, n, KV_DISK, KV_HOST, out, err);
}

void br_kv_publish(struct br_kv *kv, int32_t seq, uint32_t first, const struct br_kv_key *keys, uint32_t n)
{
    const struct kv_seq *s = kv_open_seq(kv, seq);
    assert(n == 0 || (s->where == BR_KV_DEVICE && (uint64_t)first + n <= s->n_blocks));
    for (uint32_t i = 0; i < n; i++)
        kv_index_add(kv, KV_DEVICE, kv_table(kv, KV_DEVICE, seq)[first + i], &keys[i]);
}

int br_kv_fork(struct br_kv *kv, int32_t parent, int32_t *child, struct br_err *err)
{
    const struct kv_seq *p = kv_open_seq(kv, parent);
    int rc = br_kv_open(kv, p->shape, child, err);
    if (rc)
        return rc;
    assert(p->where == BR_KV_EMPTY || p->where == BR_KV_DEVICE);
    for (uint32_t i = 0; i < p->n_blocks; i++)
        kv_ref(kv, KV_DEVICE, kv_entry(kv, *child, i), kv_table(kv, KV_DEVICE, parent)[i]);
    kv->seqs[*child].n_blocks = p->n_blocks;
    kv->seqs[*child].where = p->where;
    return 0;
}

static bool shared(const struct br_kv *kv, int32_t seq, uint32_t i)
{
    const struct kv_block *b = &kv->tiers[KV_DEVICE].blocks[kv_table(kv, KV_DEVICE, seq)[i]];
    return b->refs > 1 || b->known;
}

static void block_replace(struct br_kv *kv, int32_t seq, uint32_t i, bool copy, struct br_kv_moves *moves)
{
    int32_t entry = kv_entry(kv, seq, i);
    uint32_t block = kv_block_new(kv, KV_DEVICE, kv->seqs[seq].shape);
    if (copy)
        kv_move_add(kv, kv->tiers[KV_DEVICE].table[entry], block, moves);
    kv_unref(kv, KV_DEVICE, entry);
    kv_ref(kv, KV_DEVICE, entry, block);
}

int br_kv_make_writable(struct br_kv *kv, int32_t seq, uint32_t first_token, struct br_kv_moves *moves,
                        struct br_err *err)
{
    const struct kv_seq *s = kv_open_seq(kv, seq);
    uint32_t first = first_token / BR_KV_TOKENS, want = 0;
    bool part = first_token % BR_KV_TOKENS && first < s->n_blocks && shared(kv, seq, first);
    assert(s->where == BR_KV_EMPTY || s->where == BR_KV_DEVICE);
    for (uint32_t i = first; i < s->n_blocks; i++)
        want += shared(kv, seq, i);
    if (want > kv_available(kv, KV_DEVICE, s->shape) || (part && !kv_moves_left(kv)))
        return br_err_set(err, BR_ENOMEM,
                          "kvcache: %u blocks of %llu bytes wanted on the device for writing, %llu free; %u of %u "
                          "device copies (max_moves) under way",
                          want, (unsigned long long)kv->block_bytes[s->shape],
                          (unsigned long long)kv_available(kv, KV_DEVICE, s->shape), kv->n_flights,
                          kv->config.max_moves);
    for (uint32_t i = first; i < s->n_blocks; i++)
        if (shared(kv, seq, i))
            block_replace(kv, seq, i, part && i == first, moves);
    return 0;
}
