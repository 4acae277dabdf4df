#include "kvcache/bits.h"

#include <assert.h>

static uint32_t words_for(uint32_t n)
{
    return n / 64 + (n % 64 != 0);
}

/* There is room for the number n too, so that bits_below(n) needs no case of its own. */
size_t bits_words(uint32_t n)
{
    size_t words = 0;
    n++;
    do {
        n = words_for(n);
        words += n;
    } while (n > 1);
    return words;
}

void bits_init(struct bits *bits, uint64_t *storage, uint32_t n)
{
    uint32_t words = n + 1;
    *bits = (struct bits){.n = n};
    do {
        words = words_for(words);
        bits->words[bits->levels++] = storage;
        storage += words;
    } while (words > 1);
}

void bits_add(struct bits *bits, uint32_t i)
{
    assert(i < bits->n);
    for (uint32_t l = 0; l < bits->levels; l++, i >>= 6)
        bits->words[l][i >> 6] |= 1ull << (i & 63);
}

void bits_remove(struct bits *bits, uint32_t i)
{
    assert(i < bits->n);
    for (uint32_t l = 0; l < bits->levels; l++, i >>= 6)
        if (bits->words[l][i >> 6] &= ~(1ull << (i & 63)))
            return;
}

bool bits_has(const struct bits *bits, uint32_t i)
{
    return i < bits->n && (bits->words[0][i >> 6] >> (i & 63) & 1);
}

int32_t bits_lowest(const struct bits *bits)
{
    uint32_t at = 0;
    if (!bits->words[bits->levels - 1][0])
        return BITS_NONE;
    for (uint32_t l = bits->levels; l-- > 0;)
        at = at << 6 | (uint32_t)__builtin_ctzll(bits->words[l][at]);
    return (int32_t)at;
}

static uint32_t highest_under(const struct bits *bits, uint32_t level, uint32_t at)
{
    while (level-- > 0)
        at = at << 6 | (63 - (uint32_t)__builtin_clzll(bits->words[level][at]));
    return at;
}

int32_t bits_below(const struct bits *bits, uint32_t i)
{
    assert(i <= bits->n);
    for (uint32_t l = 0; l < bits->levels; l++, i >>= 6) {
        uint64_t mask = (1ull << (i & 63)) - 1;
        uint64_t word = mask ? bits->words[l][i >> 6] & mask : 0;
        if (word)
            return (int32_t)highest_under(bits, l, (i & ~63u) | (63 - (uint32_t)__builtin_clzll(word)));
    }
    return BITS_NONE;
}

const char *bits_broken(const struct bits *bits)
{
    uint32_t words = words_for(bits->n + 1);
    for (uint32_t l = 1; l < bits->levels; l++) {
        for (uint32_t i = 0; i < words; i++)
            if ((bits->words[l - 1][i] != 0) != (bits->words[l][i >> 6] >> (i & 63) & 1))
                return "a word of a set disagrees with the level below";
        words = words_for(words);
    }
    return 0;
}
