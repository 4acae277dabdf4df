/* The places of one slab: which are taken. The lowest place returned comes first, then the next one never taken, so
 * nothing has to be cleared when a slab is bound. Three levels of 64. Internal to kvcache. */
#ifndef BRIAREUS_KVCACHE_PLACES_H
#define BRIAREUS_KVCACHE_PLACES_H

#include <stdbool.h>
#include <stdint.h>

enum { PLACES_MAX = 64 * 64 * 64 };

struct places {
    uint32_t high;        /* places from here on have not been taken since the slab was bound */
    uint64_t top;         /* returned places: bit i = mid word i is not 0 */
    uint64_t *leaf, *mid; /* bit i of leaf: place i was returned; a summary of leaf */
};

uint32_t places_take(struct places *p);
void places_return(struct places *p, uint32_t place);
bool places_taken(const struct places *p, uint32_t place);
/* The first taken place from `from` on, or UINT32_MAX. */
uint32_t places_next_taken(const struct places *p, uint32_t from);
/* All free. Costs a word for every 64 places taken since the last reset. */
void places_reset(struct places *p);
/* 0, or what is wrong as a constant sentence; the arrays have leaf_words and mid_words words. */
const char *places_broken(const struct places *p, uint32_t leaf_words, uint32_t used);

#endif
