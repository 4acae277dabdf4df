/* Compaction: extents of weights are moved within the device, so that what is free lies in one piece. The copies run in
 * the order they are decided in, on the load stream; an extent that was left is given back only when all moves are
 * decided, so that no move writes where another still reads. */
#include <assert.h>

#include "worker/turn/residency_books.h"

enum { MOST_MOVES = 64 }; /* to clear one window */

static uint32_t fixed_slot(const struct br_residency *r)
{
    return r->running < 0 ? UINT32_MAX : (uint32_t)r->running;
}

static void *place(const struct br_residency *r, uint64_t at)
{
    return (void *)(uintptr_t)(r->config.memory + at);
}

static struct br_extent extent_at(const struct br_residency *r, uint64_t at)
{
    uint32_t i = 0;
    while (r->extents.list[i].at != at)
        i++;
    return r->extents.list[i];
}

/* Copies the extent to a place that was taken for it; its old one is the caller's to give back. */
static void unit_move(struct br_residency *r, const struct br_extent *e, uint64_t to)
{
    r->dev->ops->copy(r->load, BR_COPY_D2D, place(r, to), place(r, e->at), e->bytes);
    residency_place(r, &r->models[e->slot], e->unit, to);
    r->stats.moved_bytes += e->bytes;
}

/* Moves what lies in the window, extents [first, first + n) of the list, to gaps outside; false: not all of it. */
static bool window_clear(struct br_residency *r, uint64_t at, uint64_t bytes, uint32_t first, uint32_t n)
{
    uint64_t old[MOST_MOVES];
    uint32_t moved = 0;
    for (uint32_t k = 0; k < n; k++)
        old[k] = r->extents.list[first + k].at;
    for (; moved < n; moved++) {
        struct br_extent e = extent_at(r, old[moved]);
        uint64_t to = e.slot == fixed_slot(r) ? BR_EXTENT_NONE : br_extents_fit(&r->extents, e.bytes, at, bytes);
        if (to == BR_EXTENT_NONE)
            break;
        br_extents_take(&r->extents, to, e.bytes, e.slot, e.unit);
        unit_move(r, &e, to);
    }
    for (uint32_t k = 0; k < moved; k++) {
        residency_cool(r, old[k] + extent_at(r, old[k]).bytes);
        br_extents_give(&r->extents, old[k]);
    }
    r->stats.compactions += moved > 0;
    return moved == n;
}

/* Extents [first, first + n) of the list that slide down, to the one in front of them, each behind the other. */
struct run {
    uint32_t first, n;
    uint64_t bytes; /* to be moved */
};

static uint64_t extent_end(const struct br_residency *r, uint32_t i)
{
    return r->extents.list[i].at + r->extents.list[i].bytes;
}

/* The gap in front of extent i; i = n: the one behind all. */
static uint64_t gap(const struct br_residency *r, uint32_t i)
{
    uint64_t from = i ? extent_end(r, i - 1) : 0;
    return (i < r->extents.n ? r->extents.list[i].at : r->extents.bytes) - from;
}

/* The run with the fewest bytes whose sliding leaves a gap of so many bytes behind it. */
static bool run_find(const struct br_residency *r, uint64_t bytes, struct run *best)
{
    struct run run = {0};
    uint64_t gaps = gap(r, 0);
    best->bytes = UINT64_MAX;
    for (uint32_t i = 0; i < r->extents.n; i++) {
        if (r->extents.list[i].slot == fixed_slot(r)) {
            run = (struct run){.first = i + 1};
            gaps = gap(r, i + 1);
            continue;
        }
        run.n++;
        run.bytes += r->extents.list[i].bytes;
        gaps += gap(r, i + 1);
        while (run.n > 1 && gaps - gap(r, run.first) >= bytes) {
            gaps -= gap(r, run.first);
            run.bytes -= r->extents.list[run.first++].bytes;
            run.n--;
        }
        if (gaps >= bytes && run.bytes < best->bytes)
            *best = run;
    }
    return best->bytes < UINT64_MAX;
}

/* Returns where the gap behind it begins then. */
static uint64_t run_slide(struct br_residency *r, const struct run *run)
{
    uint64_t to = run->first ? extent_end(r, run->first - 1) : 0;
    uint64_t end = extent_end(r, run->first + run->n - 1);
    for (uint32_t i = run->first; i < run->first + run->n; i++) {
        struct br_extent *e = &r->extents.list[i], old = *e;
        if (e->at != to) {
            e->at = to;
            unit_move(r, &old, to);
        }
        to += e->bytes;
    }
    r->stats.slides++;
    residency_cool(r, end);
    return to;
}

static uint64_t bytes_of(const struct br_residency *r, uint32_t first, uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t i = first; i < first + n; i++)
        bytes += r->extents.list[i].bytes;
    return bytes;
}

uint64_t residency_gather(struct br_residency *r, uint64_t bytes)
{
    uint32_t n = 0, first = 0;
    struct run run;
    uint64_t at;
    if (r->extents.bytes - r->extents.used < bytes)
        return BR_EXTENT_NONE;
    at = br_extents_window(&r->extents, bytes, fixed_slot(r), &first, &n);
    if (at != BR_EXTENT_NONE && n <= MOST_MOVES && (!run_find(r, bytes, &run) || bytes_of(r, first, n) < run.bytes) &&
        window_clear(r, at, bytes, first, n))
        return at;
    return run_find(r, bytes, &run) ? run_slide(r, &run) : BR_EXTENT_NONE;
}

uint64_t br_residency_top(const struct br_residency *r)
{
    const struct br_extent *last = r->extents.n ? &r->extents.list[r->extents.n - 1] : NULL;
    return last ? last->at + last->bytes : 0;
}

void br_residency_end(struct br_residency *r, uint64_t end)
{
    if (end > r->config.bytes)
        end = r->config.bytes;
    r->extents.bytes = end & ~63ull;
    assert(br_residency_top(r) <= r->extents.bytes);
    r->extents.high = br_residency_top(r);
}

uint64_t br_residency_high(const struct br_residency *r)
{
    return r->extents.high;
}

/* The last extents, as few as possible, that slide down far enough. */
static bool tail_find(const struct br_residency *r, uint64_t end, struct run *run)
{
    uint64_t top = br_residency_top(r), gaps = 0;
    *run = (struct run){.first = r->extents.n};
    while (run->first > 0 && top - gaps > end) {
        if (r->extents.list[--run->first].slot == fixed_slot(r))
            return false;
        gaps += gap(r, run->first);
        run->n++;
    }
    return top - gaps <= end;
}

bool br_residency_lower(struct br_residency *r, uint64_t end)
{
    uint32_t first = 0, n;
    struct run run;
    if (br_residency_top(r) <= end)
        return true;
    if (r->extents.used > end)
        return false;
    while (extent_end(r, first) <= end)
        first++;
    n = r->extents.n - first;
    if (n <= MOST_MOVES && (!tail_find(r, end, &run) || bytes_of(r, first, n) < bytes_of(r, run.first, run.n)) &&
        window_clear(r, end, r->extents.bytes - end, first, n))
        return true;
    if (!tail_find(r, end, &run))
        return false;
    run_slide(r, &run);
    return true;
}
