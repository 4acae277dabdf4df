#include "base/hist.h"

#include <string.h>

/* Values below 64 have a bucket each; above, each power of two is cut into 64 equal buckets. */
static unsigned hist_index(uint64_t v)
{
    unsigned shift;
    if (v < BR_HIST_SUB)
        return (unsigned)v;
    shift = 63u - (unsigned)__builtin_clzll(v) - 6u;
    return (shift + 1u) * BR_HIST_SUB + (unsigned)((v >> shift) & (BR_HIST_SUB - 1));
}

static uint64_t hist_upper(unsigned index)
{
    unsigned shift = index / BR_HIST_SUB;
    uint64_t sub = index % BR_HIST_SUB;
    if (shift == 0)
        return sub;
    return ((BR_HIST_SUB + sub + 1) << (shift - 1)) - 1;
}

void br_hist_init(struct br_hist *hist)
{
    memset(hist, 0, sizeof *hist);
    hist->min = UINT64_MAX;
}

void br_hist_add(struct br_hist *hist, uint64_t value)
{
    hist->count[hist_index(value)]++;
    hist->total++;
    hist->sum += value;
    if (value < hist->min)
        hist->min = value;
    if (value > hist->max)
        hist->max = value;
}

void br_hist_merge(struct br_hist *into, const struct br_hist *from)
{
    for (unsigned i = 0; i < BR_HIST_BUCKETS; i++)
        into->count[i] += from->count[i];
    into->total += from->total;
    into->sum += from->sum;
    if (from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
}

uint64_t br_hist_quantile(const struct br_hist *hist, double p)
{
    uint64_t rank = (uint64_t)(p * (double)hist->total + 0.5), seen = 0;
    if (hist->total == 0)
        return 0;
    if (rank < 1)
        rank = 1;
    for (unsigned i = 0; i < BR_HIST_BUCKETS; i++) {
        seen += hist->count[i];
        if (seen >= rank)
            return hist_upper(i) < hist->max ? hist_upper(i) : hist->max;
    }
    return hist->max;
}
