#include "scheduler/seqtab.h"

#include <stdlib.h>
#include <string.h>

struct seqtab {
    uint32_t max, count;
    struct sched_seq *seqs; /* [max] */
    uint32_t *free_list, n_free;
    uint32_t *hash; /* [mask + 1], index + 1; linear probing */
    uint32_t mask;
};

struct seqtab *seqtab_create(uint32_t max)
{
    struct seqtab *tab = br_calloc(1, sizeof *tab);
    tab->max = max;
    tab->seqs = br_calloc(max, sizeof *tab->seqs);
    tab->free_list = br_calloc(max, sizeof *tab->free_list);
    for (uint32_t i = 0; i < max; i++)
        tab->free_list[i] = max - 1 - i;
    tab->n_free = max;
    tab->mask = 1;
    while (tab->mask < 2 * max)
        tab->mask <<= 1;
    tab->hash = br_calloc(tab->mask, sizeof *tab->hash);
    tab->mask--;
    return tab;
}

void seqtab_destroy(struct seqtab *tab)
{
    if (!tab)
        return;
    for (uint32_t i = 0; i < tab->max; i++) {
        br_seq_spec_free(&tab->seqs[i].spec);
        free(tab->seqs[i].tokens);
    }
    free(tab->seqs);
    free(tab->free_list);
    free(tab->hash);
    free(tab);
}

static uint32_t id_hash(uint64_t id)
{
    return (uint32_t)((id * 0x9E3779B97F4A7C15ull) >> 32);
}

static uint32_t *hash_slot(struct seqtab *tab, uint64_t id)
{
    uint32_t h = id_hash(id) & tab->mask;
    while (tab->hash[h] && tab->seqs[tab->hash[h] - 1].spec.id != id)
        h = (h + 1) & tab->mask;
    return &tab->hash[h];
}

struct sched_seq *seqtab_add(struct seqtab *tab, struct br_seq_spec *spec)
{
    struct sched_seq *seq;
    uint32_t *slot, index;
    if (tab->n_free == 0 || *(slot = hash_slot(tab, spec->id)))
        return NULL;
    index = tab->free_list[--tab->n_free];
    *slot = index + 1;
    seq = &tab->seqs[index];
    *seq = (struct sched_seq){.index = index, .spec = *spec, .device = -1};
    memset(spec, 0, sizeof *spec);
    tab->count++;
    return seq;
}

/* Deletion from a linear-probing table: the run behind the hole is put in again. */
static void hash_remove(struct seqtab *tab, uint64_t id)
{
    uint32_t h = (uint32_t)(hash_slot(tab, id) - tab->hash);
    tab->hash[h] = 0;
    for (h = (h + 1) & tab->mask; tab->hash[h]; h = (h + 1) & tab->mask) {
        uint32_t entry = tab->hash[h];
        tab->hash[h] = 0;
        *hash_slot(tab, tab->seqs[entry - 1].spec.id) = entry;
    }
}

void seqtab_remove(struct seqtab *tab, struct sched_seq *seq)
{
    uint32_t index = seq->index;
    hash_remove(tab, seq->spec.id);
    br_seq_spec_free(&seq->spec);
    free(seq->tokens);
    memset(seq, 0, sizeof *seq);
    tab->free_list[tab->n_free++] = index;
    tab->count--;
}

struct sched_seq *seqtab_find(struct seqtab *tab, uint64_t id)
{
    uint32_t entry = *hash_slot(tab, id);
    return entry ? &tab->seqs[entry - 1] : NULL;
}

struct sched_seq *seqtab_at(struct seqtab *tab, uint32_t index)
{
    return index < tab->max && tab->seqs[index].state != SCHED_FREE ? &tab->seqs[index] : NULL;
}

uint32_t seqtab_count(const struct seqtab *tab)
{
    return tab->count;
}

uint32_t seqtab_max(const struct seqtab *tab)
{
    return tab->max;
}

int64_t seqtab_take_tokens(struct sched_seq *seq, uint32_t first, const struct br_token *tokens, uint32_t n)
{
    uint32_t known, fresh;
    if (first > seq->n_tokens)
        return -1;
    known = seq->n_tokens - first;
    if (known >= n)
        return 0;
    fresh = n - known;
    if (seq->n_tokens + fresh > seq->cap_tokens) {
        seq->cap_tokens = (seq->n_tokens + fresh) * 2 + 16;
        seq->tokens = br_realloc(seq->tokens, seq->cap_tokens * sizeof *seq->tokens);
    }
    memcpy(seq->tokens + seq->n_tokens, tokens + known, fresh * sizeof *tokens);
    seq->n_tokens += fresh;
    return fresh;
}
