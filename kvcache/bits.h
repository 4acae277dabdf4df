/* A set of numbers 0..n-1 as a tree of 64-bit words: each level says which words of the level below are not 0. Insert,
 * remove and the searches are O(levels), at most six. Internal to kvcache. */
#ifndef BRIAREUS_KVCACHE_BITS_H
#define BRIAREUS_KVCACHE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BITS_LEVELS = 6, BITS_NONE = -1 };

struct bits {
    uint32_t n, levels;
    uint64_t *words[BITS_LEVELS]; /* [0] has the members */
};

/* Words of storage that a set of n numbers needs. */
size_t bits_words(uint32_t n);
/* The storage, all 0, is the caller's. n at most INT32_MAX. */
void bits_init(struct bits *bits, uint64_t *storage, uint32_t n);
void bits_add(struct bits *bits, uint32_t i);
void bits_remove(struct bits *bits, uint32_t i);
bool bits_has(const struct bits *bits, uint32_t i);
/* BITS_NONE when there is none. */
int32_t bits_lowest(const struct bits *bits);
int32_t bits_below(const struct bits *bits, uint32_t i); /* the highest member < i; i at most n */
/* 0, or what is wrong as a constant sentence. */
const char *bits_broken(const struct bits *bits);

#endif
