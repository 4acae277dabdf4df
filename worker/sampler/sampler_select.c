#include "worker/sampler/sampler_select.h"

#include <stdbool.h>

enum { SMALL = 16 };

static inline bool before(const struct br_candidate *a, const struct br_candidate *b)
{
    return a->value > b->value || (a->value == b->value && a->id < b->id);
}

static inline void swap(struct br_candidate *a, struct br_candidate *b)
{
    struct br_candidate t = *a;
    *a = *b;
    *b = t;
}

static void sort_small(struct br_candidate *c, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && before(&c[j], &c[j - 1]); j--)
            swap(&c[j], &c[j - 1]);
}

/* Splits n > 2 around the median of first, middle and last; returns where it ends up. All keys differ (ids do). */
static size_t partition(struct br_candidate *c, size_t n)
{
    size_t middle = n / 2, end = 0;
    if (before(&c[middle], &c[0]))
        swap(&c[middle], &c[0]);
    if (before(&c[n - 1], &c[0]))
        swap(&c[n - 1], &c[0]);
    if (before(&c[n - 1], &c[middle]))
        swap(&c[n - 1], &c[middle]);
    swap(&c[middle], &c[n - 1]);
    for (size_t i = 0; i < n - 1; i++)
        if (before(&c[i], &c[n - 1]))
            swap(&c[i], &c[end++]);
    swap(&c[end], &c[n - 1]);
    return end;
}

void br_select_count(struct br_candidate *c, size_t n, size_t k)
{
    while (n > SMALL) {
        size_t at = partition(c, n);
        if (at + 1 == k || at == k)
            return;
        if (at > k) {
            n = at;
        } else {
            c += at + 1;
            n -= at + 1;
            k -= at + 1;
        }
    }
    sort_small(c, n);
}

size_t br_select_mass(struct br_candidate *c, size_t n, double mass)
{
    size_t lo = 0, hi = n;
    double sum = 0; /* of what stands before lo */
    while (hi - lo > SMALL) {
        size_t at = lo + partition(c + lo, hi - lo);
        double left = sum;
        for (size_t i = lo; i < at; i++)
            left += c[i].weight;
        if (left >= mass) {
            hi = at > lo ? at : lo + 1;
        } else {
            sum = left + c[at].weight;
            lo = at + 1;
            if (sum >= mass)
                return lo;
        }
    }
    sort_small(c + lo, hi - lo);
    for (; lo < hi; lo++) {
        sum += c[lo].weight;
        if (sum >= mass)
            return lo + 1;
    }
    return hi;
}
