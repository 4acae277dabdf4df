#include "kvcache/places.h"

#include <string.h>

uint32_t places_take(struct places *p)
{
    uint32_t a, b, place;
    if (!p->top)
        return p->high++;
    a = (uint32_t)__builtin_ctzll(p->top);
    b = a << 6 | (uint32_t)__builtin_ctzll(p->mid[a]);
    place = b << 6 | (uint32_t)__builtin_ctzll(p->leaf[b]);
    p->leaf[b] &= p->leaf[b] - 1;
    if (!p->leaf[b])
        p->mid[a] &= p->mid[a] - 1;
    if (!p->mid[a])
        p->top &= p->top - 1;
    return place;
}

void places_return(struct places *p, uint32_t place)
{
    p->leaf[place >> 6] |= 1ull << (place & 63);
    p->mid[place >> 12] |= 1ull << (place >> 6 & 63);
    p->top |= 1ull << (place >> 12);
}

bool places_taken(const struct places *p, uint32_t place)
{
    return place < p->high && !(p->leaf[place >> 6] >> (place & 63) & 1);
}

uint32_t places_next_taken(const struct places *p, uint32_t from)
{
    while (from < p->high) {
        uint64_t taken = ~p->leaf[from >> 6] >> (from & 63);
        if (taken) {
            from += (uint32_t)__builtin_ctzll(taken);
            return from < p->high ? from : UINT32_MAX;
        }
        from = (from | 63) + 1;
    }
    return UINT32_MAX;
}

void places_reset(struct places *p)
{
    memset(p->leaf, 0, (p->high + 63) / 64 * sizeof *p->leaf);
    memset(p->mid, 0, (p->high + 4095) / 4096 * sizeof *p->mid);
    p->top = 0;
    p->high = 0;
}

const char *places_broken(const struct places *p, uint32_t leaf_words, uint32_t used)
{
    uint32_t returned = 0;
    for (uint32_t i = 0; i < leaf_words; i++) {
        returned += (uint32_t)__builtin_popcountll(p->leaf[i]);
        if ((p->leaf[i] != 0) != (p->mid[i >> 6] >> (i & 63) & 1))
            return "a summary word disagrees with its places";
    }
    for (uint32_t i = 0; i < (leaf_words + 63) / 64; i++)
        if ((p->mid[i] != 0) != (p->top >> i & 1))
            return "a top word disagrees with its summary";
    return p->high - returned == used ? 0 : "a slab's count of taken blocks is wrong";
}
