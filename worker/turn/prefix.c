/* Prefixes that are shared: full blocks of a prompt whose KV is known are taken over instead of computed, and what a
 * step has filled is made known. Nobody waits for it and it takes no room from anyone: a sequence takes over at its
 * first rows, and what no sequence refers to any more makes way for whatever needs the room, the longest unused first.
 *
 * A sequence whose prompt is known to its end computes its last token again, for the logits, and writes that into a
 * copy of its own of the block. */
#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "worker/turn/internal.h"

enum { MOST_FETCHES = 4 /* at once, of prefixes that come in from the host */ };

/* Of the model's chains for one tenant: who has another salt shares nothing with it. The index lives as long as this
 * process, so a number that no other model has had in it stands for weights and layout. */
static struct br_kv_key root(const struct br_turn *t, const struct turn_seq *s)
{
    return br_kv_key_root(&t->models[s->slot].number, sizeof t->models[s->slot].number, &s->spec.salt,
                          sizeof s->spec.salt);
}

/* Keys of the first n blocks of the sequence. */
static const struct br_kv_key *keys(const struct br_turn *t, struct turn_seq *s, uint32_t n)
{
    if (!s->keys)
        s->keys = br_malloc((s->cap / BR_KV_TOKENS + 1) * sizeof *s->keys);
    for (; s->n_keys < n; s->n_keys++) {
        struct br_kv_key parent = s->n_keys ? s->keys[s->n_keys - 1] : root(t, s);
        s->keys[s->n_keys] = br_kv_key_next(parent, s->ids + (size_t)s->n_keys * BR_KV_TOKENS);
    }
    return s->keys;
}

/* It has KV of its first `tokens` ids, of so many blocks. */
static void found(struct br_turn *t, uint32_t index, uint32_t blocks, uint32_t tokens)
{
    struct turn_seq *s = &t->seqs[index];
    s->n_kv = tokens;
    s->n_known = blocks;
    s->n_blocks = 0;
    if (!s->began) {
        t->stats.cached_tokens -= s->n_cached; /* of a first try that was given up */
        t->stats.cached_tokens += tokens;
        s->n_cached = tokens;
    }
    turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_SEQ_FOUND, .slot = s->slot, .seq = index, .tokens = tokens});
}

static bool adopt(struct br_turn *t, struct turn_seq *s, uint32_t n, struct br_kv_swap *swap)
{
    struct br_err err;
    return n && br_kv_adopt(t->kv, s->kv, keys(t, s, n), n, swap, &err) == 0;
}

/* All of it is known: its last block becomes its own. */
static bool adopt_all(struct br_turn *t, uint32_t index, uint32_t n)
{
    struct turn_seq *s = &t->seqs[index];
    struct br_kv_moves moves = {.ticket = BR_KV_NONE};
    struct br_kv_swap swap;
    struct br_err err;
    if (t->moving || !adopt(t, s, n, &swap))
        return false;
    assert(swap.ticket == BR_KV_NONE);
    if (br_kv_make_writable(t->kv, s->kv, s->n_ids - 1, &moves, &err)) {
        br_kv_drop(t->kv, s->kv);
        return false;
    }
    turn_room_copy(t, &moves);
    found(t, index, n - 1, s->n_ids - 1);
    return true;
}

static bool may_look(const struct br_turn *t, const struct turn_seq *s)
{
    return t->config.prefix_cache && s->id && s->n_kv == 0 && s->n_ids > BR_KV_TOKENS &&
           br_kv_where(t->kv, s->kv) == BR_KV_EMPTY;
}

static struct br_kv_match look(struct br_turn *t, struct turn_seq *s)
{
    uint32_t n = s->n_ids / BR_KV_TOKENS;
    struct br_kv_match match;
    turn_room_meet(t); /* what has given its place to weights is known no more */
    br_kv_lookup(t->kv, t->models[s->slot].kv_shape, keys(t, s, n), n, &match);
    return match;
}

/* The longest part of a match that lies on the device as a whole. */
static uint32_t on_device(struct br_turn *t, struct turn_seq *s, const struct br_kv_match *match)
{
    struct br_kv_match part = *match;
    uint32_t n = match->blocks;
    while (n && part.on_device < n) {
        n = part.on_device < n ? part.on_device : n;
        br_kv_lookup(t->kv, t->models[s->slot].kv_shape, s->keys, n, &part);
    }
    return n;
}

void turn_prefix_adopt(struct br_turn *t, uint32_t index)
{
    struct turn_seq *s = &t->seqs[index];
    struct br_kv_match match;
    struct br_kv_swap swap;
    uint32_t n;
    if (!may_look(t, s))
        return;
    match = look(t, s);
    n = on_device(t, s, &match);
    if (n * BR_KV_TOKENS == s->n_ids && !adopt_all(t, index, n))
        n--;
    if (s->n_kv == 0 && adopt(t, s, n, &swap))
        found(t, index, n, n * BR_KV_TOKENS);
}

uint32_t turn_prefix_known(struct br_turn *t, uint32_t index)
{
    struct turn_seq *s = &t->seqs[index];
    uint32_t tokens;
    if (!may_look(t, s))
        return 0;
    tokens = look(t, s).blocks * BR_KV_TOKENS;
    return tokens < s->n_ids ? tokens : s->n_ids - 1;
}

/* Into free room only: the sequence has no claim on any yet. */
void turn_prefix_fetch(struct br_turn *t, uint32_t index)
{
    struct turn_seq *s = &t->seqs[index];
    struct br_kv_match match;
    struct br_kv_swap swap;
    uint32_t n;
    if (!may_look(t, s) || t->n_swaps == TURN_MAX_SWAPS || t->n_swaps_in >= MOST_FETCHES)
        return;
    match = look(t, s);
    n = match.blocks * BR_KV_TOKENS == s->n_ids ? match.blocks - 1 : match.blocks;
    if (n <= on_device(t, s, &match) ||
        br_kv_device_blocks_free(t->kv, t->models[s->slot].kv_shape) < 2ull * n + 2ull * t->step.n)
        return;
    if (adopt(t, s, n, &swap) && swap.ticket != BR_KV_NONE)
        turn_swap_fetch(t, index, &swap);
}

void turn_prefix_fetched(struct br_turn *t, uint32_t index)
{
    uint32_t n = br_kv_blocks(t->kv, t->seqs[index].kv);
    found(t, index, n, n * BR_KV_TOKENS);
}

void turn_prefix_publish(struct br_turn *t, uint32_t index)
{
    struct turn_seq *s = &t->seqs[index];
    uint32_t n = s->n_kv / BR_KV_TOKENS;
    s->began = true;
    if (!t->config.prefix_cache || n <= s->n_known)
        return;
    br_kv_publish(t->kv, s->kv, s->n_known, keys(t, s, n) + s->n_known, n - s->n_known);
    s->n_known = n;
}
