#include "worker/turn/extents.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void br_extents_init(struct br_extents *x, uint64_t bytes, uint32_t cap)
{
    *x = (struct br_extents){.bytes = bytes, .cap = cap, .list = br_calloc(cap, sizeof(struct br_extent))};
}

void br_extents_free(struct br_extents *x)
{
    free(x->list);
    *x = (struct br_extents){0};
}

static uint64_t extent_end(const struct br_extents *x, uint32_t i)
{
    return x->list[i].at + x->list[i].bytes;
}

/* Begin of the part of gap [from, to) that holds bytes outside the window to avoid. */
static uint64_t gap_fit(uint64_t from, uint64_t to, uint64_t bytes, uint64_t avoid, uint64_t avoid_end)
{
    if (from + bytes > to)
        return BR_EXTENT_NONE;
    if (from + bytes <= avoid || from >= avoid_end)
        return from;
    return avoid_end + bytes <= to ? avoid_end : BR_EXTENT_NONE;
}

uint64_t br_extents_fit(const struct br_extents *x, uint64_t bytes, uint64_t avoid, uint64_t avoid_bytes)
{
    uint64_t from = 0, at;
    for (uint32_t i = 0; i <= x->n; i++) {
        uint64_t to = i < x->n ? x->list[i].at : x->bytes;
        at = gap_fit(from, to, bytes, avoid, avoid + avoid_bytes);
        if (at != BR_EXTENT_NONE)
            return at;
        if (i < x->n)
            from = extent_end(x, i);
    }
    return BR_EXTENT_NONE;
}

/* Index of the first extent that begins at or behind `at`. */
static uint32_t extent_lower(const struct br_extents *x, uint64_t at)
{
    uint32_t low = 0, high = x->n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (x->list[mid].at < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void br_extents_take(struct br_extents *x, uint64_t at, uint64_t bytes, uint32_t slot, uint32_t unit)
{
    uint32_t i = extent_lower(x, at);
    assert(x->n < x->cap && at + bytes <= x->bytes && (i == 0 || extent_end(x, i - 1) <= at) &&
           (i == x->n || at + bytes <= x->list[i].at));
    memmove(x->list + i + 1, x->list + i, (x->n - i) * sizeof *x->list);
    x->list[i] = (struct br_extent){at, bytes, slot, unit};
    x->n++;
    x->used += bytes;
    if (x->high < at + bytes)
        x->high = at + bytes;
}

void br_extents_give(struct br_extents *x, uint64_t at)
{
    uint32_t i = extent_lower(x, at);
    assert(i < x->n && x->list[i].at == at);
    x->used -= x->list[i].bytes;
    memmove(x->list + i, x->list + i + 1, (x->n - i - 1) * sizeof *x->list);
    x->n--;
}

/* Bytes of the extents from index `first` on that touch [.., end); UINT64_MAX when a fixed one does. */
static uint64_t window_cost(const struct br_extents *x, uint32_t first, uint64_t end, uint32_t fixed, uint32_t *n)
{
    uint64_t cost = 0;
    for (*n = 0; first + *n < x->n && x->list[first + *n].at < end; ++*n) {
        if (x->list[first + *n].slot == fixed)
            return UINT64_MAX;
        cost += x->list[first + *n].bytes;
    }
    return cost;
}

uint64_t br_extents_window(const struct br_extents *x, uint64_t bytes, uint32_t fixed, uint32_t *first, uint32_t *n)
{
    uint64_t best = UINT64_MAX, at = BR_EXTENT_NONE;
    for (uint32_t i = 0; i <= x->n; i++) {
        uint64_t from = i ? extent_end(x, i - 1) : 0, cost;
        uint32_t in_way;
        if (from + bytes > x->bytes)
            break;
        cost = window_cost(x, i, from + bytes, fixed, &in_way);
        if (cost < best) {
            best = cost;
            at = from;
            *first = i;
            *n = in_way;
        }
    }
    return at;
}
