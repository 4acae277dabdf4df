/* Merging one word: a plain scan while it is short, a linked list and a heap of candidates when it is long. */
#include "base/buf.h"
#include "text/merges.h"

#include <stdlib.h>
#include <string.h>

enum { BPE_SHORT = 32 }; /* symbols up to which scanning all pairs beats the heap */

struct bpe_node {
    int32_t id, prev, next; /* positions; -1 at the ends; id -1: merged away */
};

struct bpe_candidate {
    uint64_t key; /* rank << 32 | position: the order of merging */
    int32_t left, right, id;
};

static void short_look(const struct br_merges *merges, const int32_t *ids, size_t n, size_t at,
                       const struct br_merge **found)
{
    found[at] = at + 1 < n ? br_merges_find(merges, ids[at], ids[at + 1]) : NULL;
}

static size_t merge_short(const struct br_merges *merges, int32_t *ids, size_t n)
{
    const struct br_merge *found[BPE_SHORT];
    for (size_t i = 0; i < n; i++)
        short_look(merges, ids, n, i, found);
    for (;;) {
        size_t best = n;
        for (size_t i = 0; i + 1 < n; i++)
            if (found[i] && (best == n || found[i]->rank < found[best]->rank))
                best = i;
        if (best == n)
            return n;
        ids[best] = found[best]->id;
        n--;
        memmove(ids + best + 1, ids + best + 2, (n - best - 1) * sizeof *ids);
        memmove(found + best + 1, found + best + 2, (n - best - 1) * sizeof(found[0]));
        short_look(merges, ids, n, best, found);
        if (best > 0)
            short_look(merges, ids, n, best - 1, found);
    }
}

static void heap_push(struct br_bpe_scratch *s, const struct bpe_candidate *candidate)
{
    size_t at = s->heap_len++;
    if (at == s->heap_cap) {
        s->heap_cap = s->heap_cap ? 2 * s->heap_cap : 256;
        s->heap = br_realloc(s->heap, s->heap_cap * sizeof *s->heap);
    }
    for (; at > 0 && candidate->key < s->heap[(at - 1) / 2].key; at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = *candidate;
}

static struct bpe_candidate heap_pop(struct br_bpe_scratch *s)
{
    struct bpe_candidate top = s->heap[0], last = s->heap[--s->heap_len];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < s->heap_len) {
        if (child + 1 < s->heap_len && s->heap[child + 1].key < s->heap[child].key)
            child++;
        if (last.key <= s->heap[child].key)
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return top;
}

static void long_look(const struct br_merges *merges, struct br_bpe_scratch *s, int32_t at)
{
    struct bpe_candidate candidate;
    const struct br_merge *merge;
    int32_t next = at < 0 ? -1 : s->nodes[at].next;
    if (next < 0 || !(merge = br_merges_find(merges, s->nodes[at].id, s->nodes[next].id)))
        return;
    candidate =
        (struct bpe_candidate){(uint64_t)merge->rank << 32 | (uint32_t)at, merge->left, merge->right, merge->id};
    heap_push(s, &candidate);
}

/* Whether the pair that a candidate was made for still stands there. */
static int candidate_holds(const struct br_bpe_scratch *s, const struct bpe_candidate *candidate, int32_t at)
{
    int32_t next = s->nodes[at].next;
    return s->nodes[at].id == candidate->left && next >= 0 && s->nodes[next].id == candidate->right;
}

static void long_merge_at(struct br_bpe_scratch *s, int32_t at, int32_t id)
{
    struct bpe_node *node = &s->nodes[at], *gone = &s->nodes[node->next];
    node->id = id;
    node->next = gone->next;
    if (gone->next >= 0)
        s->nodes[gone->next].prev = at;
    gone->id = -1;
}

static size_t merge_long(const struct br_merges *merges, int32_t *ids, size_t n, struct br_bpe_scratch *s)
{
    size_t out = 0;
    if (n > s->node_cap) {
        free(s->nodes);
        s->nodes = br_malloc(n * sizeof *s->nodes);
        s->node_cap = n;
    }
    for (size_t i = 0; i < n; i++)
        s->nodes[i] = (struct bpe_node){ids[i], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1};
    s->heap_len = 0;
    for (size_t i = 0; i < n; i++)
        long_look(merges, s, (int32_t)i);
    while (s->heap_len > 0) {
        struct bpe_candidate top = heap_pop(s);
        int32_t at = (int32_t)(uint32_t)top.key;
        if (!candidate_holds(s, &top, at))
            continue;
        long_merge_at(s, at, top.id);
        long_look(merges, s, s->nodes[at].prev);
        long_look(merges, s, at);
    }
    for (int32_t at = 0; at >= 0; at = s->nodes[at].next)
        ids[out++] = s->nodes[at].id;
    return out;
}

size_t br_bpe_merge(const struct br_merges *merges, int32_t *ids, size_t n, struct br_bpe_scratch *scratch)
{
    if (n < 2)
        return n;
    return n <= BPE_SHORT ? merge_short(merges, ids, n) : merge_long(merges, ids, n, scratch);
}

void br_bpe_scratch_free(struct br_bpe_scratch *scratch)
{
    free(scratch->nodes);
    free(scratch->heap);
    *scratch = (struct br_bpe_scratch){0};
}
