/* The merge list of a BPE model as a hash from a pair of ids to its rank and the id that it becomes; and the merging
 * of one word. Immutable after br_merges_build. */
#ifndef BRIAREUS_TEXT_MERGES_H
#define BRIAREUS_TEXT_MERGES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/vocab.h"

struct br_merge {
    int32_t left, right; /* ids; left -1: free slot */
    uint32_t rank;       /* lower merges first */
    int32_t id;
};

struct br_merges {
    struct br_merge *slots;
    size_t mask;
};

/* list: merges as "a b" or ["a", "b"], or NULL. Errors: BR_ECORRUPT when a part or the result is not in the
 * vocabulary. */
int br_merges_build(struct br_merges *merges, json_t *list, const struct br_vocab *vocab, struct br_err *err);
void br_merges_free(struct br_merges *merges);

/* NULL when the pair does not merge. */
const struct br_merge *br_merges_find(const struct br_merges *merges, int32_t left, int32_t right);

/* Room that br_bpe_merge reuses between words; zero-initialised, not shared between threads. */
struct br_bpe_scratch {
    struct bpe_node *nodes;
    struct bpe_candidate *heap;
    size_t node_cap, heap_len, heap_cap;
};
void br_bpe_scratch_free(struct br_bpe_scratch *scratch);

/* Merges the n (< 2^31) symbols of a word in place, always the pair of lowest rank, leftmost first; returns how many
 * are left. O(n log n). */
size_t br_bpe_merge(const struct br_merges *merges, int32_t *ids, size_t n, struct br_bpe_scratch *scratch);

#endif
