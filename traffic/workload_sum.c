/* Totals, and how much of the prefix blocks an unbounded cache would have had. */
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "traffic/workload.h"

/* Open addressing; models share nothing, so the key is both. */
struct block_set {
    struct block_key {
        uint64_t id;
        uint32_t model;
        bool used;
    } * slots;
    size_t mask;
};

static size_t key_hash(uint64_t id, uint32_t model)
{
    uint64_t h = (id ^ (uint64_t)model << 40) * 0x9E3779B97F4A7C15ull; /* Fibonacci hashing */
    return (size_t)(h ^ h >> 29);
}

static struct block_key *set_find(const struct block_set *set, uint64_t id, uint32_t model)
{
    for (size_t i = key_hash(id, model) & set->mask;; i = (i + 1) & set->mask) {
        struct block_key *key = &set->slots[i];
        if (!key->used || (key->id == id && key->model == model))
            return key;
    }
}

static void blocks_count(const struct br_workload *w, struct block_set *set, struct br_workload_sums *out)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct br_request *r = &w->requests[i];
        uint32_t hits = 0;
        while (hits < r->n_blocks && set_find(set, w->blocks[r->first_block + hits], r->model)->used)
            hits++;
        for (uint32_t b = hits; b < r->n_blocks; b++) {
            uint64_t id = w->blocks[r->first_block + b];
            *set_find(set, id, r->model) = (struct block_key){id, r->model, true};
        }
        out->blocks += r->n_blocks;
        out->block_hits += hits;
    }
}

void br_workload_sum(const struct br_workload *w, struct br_workload_sums *out)
{
    struct block_set set = {.mask = 1};
    *out = (struct br_workload_sums){0};
    for (size_t i = 0; i < w->n; i++) {
        out->prompt += w->requests[i].prompt;
        out->output += w->requests[i].output;
    }
    if (!w->n_blocks)
        return;
    while (set.mask < 2 * w->n_blocks)
        set.mask = 2 * set.mask + 1;
    set.slots = br_calloc(set.mask + 1, sizeof *set.slots);
    blocks_count(w, &set, out);
    free(set.slots);
}
