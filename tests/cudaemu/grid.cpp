/* Blocks of fibers: who runs next, barriers, warps that meet, shared memory. */
#include "tests/cudaemu/grid.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <memory>

#include "tests/cudaemu/fiber.h"

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#define UNPOISON(at, bytes) ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#else
#define POISON(at, bytes) ((void)(at), (void)(bytes))
#define UNPOISON(at, bytes) ((void)(at), (void)(bytes))
#endif
#ifdef FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#define RELEASE(at) __tsan_release(at)
#define ACQUIRE(at) __tsan_acquire(at)
#else
#define RELEASE(at) ((void)(at))
#define ACQUIRE(at) ((void)(at))
#endif

static constexpr uint32_t WARPS = CUDAEMU_MAX_THREADS / CUDAEMU_WARP, MAX_SHARED = 32, RED_ZONE = 64,
                          STATIC_SHARED_BYTES = 48 << 10;
static constexpr size_t ARENA_BYTES = CUDAEMU_SHARED_BYTES + (MAX_SHARED + 2) * 2 * RED_ZONE;
enum lane_state { LANE_READY, LANE_AT_BARRIER, LANE_IN_WARP, LANE_DONE };

struct lane {
    struct fiber fiber;
    bool exists;
    enum lane_state state;
    dim3 thread;
};

/* Where lanes of a warp meet. */
struct warp {
    uint32_t members, expected, arrived;
    const char *name;
    void *mine[CUDAEMU_WARP];
    uint32_t meeting;
    char sync[2]; /* what TSan knows this meeting and the next one by: some are at the next before all have left this */
};

struct shared_area {
    const void *key;
    char *at;
    size_t bytes;
};

/* One CPU thread's block. */
struct runner {
    struct fiber scheduler;
    struct lane lane[CUDAEMU_MAX_THREADS];
    struct warp warp[WARPS];
    const struct cudaemu_grid *grid = NULL;
    dim3 block;
    uint32_t threads = 0, current = 0;
    uint64_t random = 0;
    uint32_t barriers = 0;
    char barrier[2], start; /* for TSan, as in struct warp */
    struct shared_area area[MAX_SHARED];
    uint32_t n_areas = 0;
    char *arena = NULL, *dyn = NULL;
    size_t used = 0, static_bytes = 0;
    runner();
    ~runner();
};

constinit thread_local struct cudaemu_lane cudaemu_here;
static thread_local std::unique_ptr<struct runner> runner_here;
static thread_local struct runner *running;

runner::runner()
{
    memset((void *)lane, 0, sizeof lane);
    memset((void *)warp, 0, sizeof warp);
    arena = (char *)aligned_alloc(256, ARENA_BYTES / 256 * 256 + 256);
    memset(arena, 0xff, ARENA_BYTES);
    fiber_of_thread(&scheduler);
}

runner::~runner()
{
    for (struct lane &l : lane)
        if (l.exists)
            fiber_destroy(&l.fiber);
    UNPOISON(arena, ARENA_BYTES);
    free(arena);
}

void cudaemu_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fflush(stdout);
    fprintf(stderr, "cudaemu: ");
    vfprintf(stderr, fmt, args);
    va_end(args);
    if (running)
        fprintf(stderr, " (block %u,%u,%u of %u,%u,%u, thread %u of %u)", running->block.x, running->block.y,
                running->block.z, running->grid->grid.x, running->grid->grid.y, running->grid->grid.z, running->current,
                running->threads);
    fprintf(stderr, "\n");
    abort();
}

/* ---- Fibers ---- */

/* Back to the scheduler, until the lane is run again. */
static FIBER_NO_TSAN void lane_stop(struct runner *r, enum lane_state state)
{
    struct lane *l = &r->lane[r->current];
    l->state = state;
    fiber_switch(&l->fiber, &r->scheduler);
}

static FIBER_NO_TSAN void lane_main(void *arg)
{
    struct runner *r = (struct runner *)arg;
    for (;;) {
        ACQUIRE(&r->start);
        (*r->grid->body)();
        RELEASE(&r->start);
        lane_stop(r, LANE_DONE);
    }
}

static FIBER_NO_TSAN void lane_run(struct runner *r, uint32_t index)
{
    struct lane *l = &r->lane[index];
    r->current = index;
    cudaemu_here = {l->thread, r->block, r->grid->block, r->grid->grid};
    fiber_switch(&r->scheduler, &l->fiber);
}

/* Runs the lanes of a warp until none of them can go on. */
static FIBER_NO_TSAN void warp_run(struct runner *r, uint32_t warp)
{
    uint32_t first = warp * CUDAEMU_WARP, n = r->threads - first, reverse = cudaemu_random(&r->random) & 1;
    n = n < CUDAEMU_WARP ? n : CUDAEMU_WARP;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t index = first + (reverse ? n - 1 - i : i);
            if (r->lane[index].state != LANE_READY)
                continue;
            lane_run(r, index);
            any = true;
        }
    }
}

static FIBER_NO_TSAN void shuffle(uint32_t *order, uint32_t n, uint64_t *random)
{
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)(cudaemu_random(random) % i), t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}

/* Everybody stands still. Opens the barrier if all who live are at it; false: all are done. */
static FIBER_NO_TSAN bool barrier_open(struct runner *r)
{
    uint32_t waiting = 0, done = 0;
    for (uint32_t i = 0; i < r->threads; i++) {
        waiting += r->lane[i].state == LANE_AT_BARRIER;
        done += r->lane[i].state == LANE_DONE;
    }
    for (uint32_t i = 0; waiting + done < r->threads; i++)
        if (r->lane[i].state == LANE_IN_WARP) {
            r->current = i;
            cudaemu_die("waits in %s for lanes that do not come: lanes %08x are there, %08x are wanted; %u threads are "
                        "at __syncthreads, %u have ended",
                        r->warp[i / CUDAEMU_WARP].name, r->warp[i / CUDAEMU_WARP].arrived,
                        r->warp[i / CUDAEMU_WARP].expected, waiting, done);
        }
    for (uint32_t i = 0; i < r->threads; i++)
        if (r->lane[i].state == LANE_AT_BARRIER)
            r->lane[i].state = LANE_READY;
    r->barriers++;
    return waiting > 0;
}

/* ---- Shared memory ---- */

static FIBER_NO_TSAN char *area_take(struct runner *r, size_t bytes, size_t align)
{
    size_t at = (r->used + RED_ZONE + align - 1) / align * align;
    if (at + bytes > ARENA_BYTES)
        cudaemu_die("%zu bytes of shared memory are too many", bytes);
    r->used = at + bytes;
    UNPOISON(r->arena + at, bytes);
    return r->arena + at;
}

FIBER_NO_TSAN void *cudaemu_shared(const void *key, size_t bytes, size_t align)
{
    struct runner *r = running;
    for (uint32_t i = 0; i < r->n_areas; i++)
        if (r->area[i].key == key)
            return r->area[i].at;
    r->static_bytes += bytes;
    if (r->n_areas == MAX_SHARED || r->static_bytes > STATIC_SHARED_BYTES ||
        r->static_bytes + r->grid->dyn_shared > CUDAEMU_SHARED_BYTES)
        cudaemu_die("shared memory of %zu static and %zu dynamic bytes is more than there is", r->static_bytes,
                    r->grid->dyn_shared);
    r->area[r->n_areas] = {key, area_take(r, bytes, align < 16 ? 16 : align), bytes};
    return r->area[r->n_areas++].at;
}

void *cudaemu_dyn_shared(size_t align)
{
    if ((uintptr_t)running->dyn % align)
        cudaemu_die("dynamic shared memory is not aligned to %zu", align);
    return running->dyn;
}

static void shared_begin(struct runner *r)
{
    UNPOISON(r->arena, ARENA_BYTES);
    memset(r->arena, 0xff, r->used);
    r->n_areas = 0;
    r->used = 0;
    r->static_bytes = 0;
    POISON(r->arena, ARENA_BYTES);
    r->dyn = area_take(r, r->grid->dyn_shared, 128);
}

/* ---- Blocks ---- */

static void lanes_begin(struct runner *r)
{
    const dim3 *b = &r->grid->block;
    r->threads = b->x * b->y * b->z;
    for (uint32_t i = 0; i < r->threads; i++) {
        struct lane *l = &r->lane[i];
        if (!l->exists)
            fiber_create(&l->fiber, lane_main, r);
        l->exists = true;
        l->state = LANE_READY;
        l->thread = dim3(i % b->x, i / b->x % b->y, i / b->x / b->y);
    }
    for (uint32_t w = 0; w * CUDAEMU_WARP < r->threads; w++) {
        uint32_t left = r->threads - w * CUDAEMU_WARP;
        r->warp[w].members = left >= CUDAEMU_WARP ? 0xffffffffu : (1u << left) - 1;
        r->warp[w].arrived = 0;
    }
}

static FIBER_NO_TSAN void block_run(struct runner *r, uint32_t index)
{
    const dim3 *g = &r->grid->grid;
    uint32_t order[WARPS];
    r->block = dim3(index % g->x, index / g->x % g->y, index / g->x / g->y);
    lanes_begin(r);
    shared_begin(r);
    RELEASE(&r->start);
    do {
        uint32_t warps = (r->threads + CUDAEMU_WARP - 1) / CUDAEMU_WARP;
        shuffle(order, warps, &r->random);
        for (uint32_t w = 0; w < warps; w++)
            warp_run(r, order[w]);
    } while (barrier_open(r));
    ACQUIRE(&r->start);
}

void cudaemu_grid_run(const struct cudaemu_grid *grid)
{
    if (!runner_here)
        runner_here = std::make_unique<struct runner>();
    struct runner *r = runner_here.get();
    uint32_t blocks = grid->grid.x * grid->grid.y * grid->grid.z;
    std::unique_ptr<uint32_t[]> order(new uint32_t[blocks]);
    r->grid = grid;
    r->random = grid->seed;
    running = r;
    shuffle(order.get(), blocks, &r->random);
    for (uint32_t i = 0; i < blocks; i++)
        block_run(r, order[i]);
    running = NULL;
}

/* ---- Inside kernels ---- */

FIBER_NO_TSAN void __syncthreads(void)
{
    struct runner *r = running;
    char *barrier = &r->barrier[r->barriers % 2];
    RELEASE(barrier);
    lane_stop(r, LANE_AT_BARRIER);
    ACQUIRE(barrier);
}

uint32_t cudaemu_lane_id(void)
{
    return running->current % CUDAEMU_WARP;
}

static FIBER_NO_TSAN void warp_meet(struct runner *r, struct warp *w, void (*fn)(void *const lanes[CUDAEMU_WARP]))
{
    uint32_t first = r->current / CUDAEMU_WARP * CUDAEMU_WARP;
    char *sync = &w->sync[w->meeting++ % 2];
    ACQUIRE(sync);
    if (fn)
        fn(w->mine);
    RELEASE(sync);
    for (uint32_t i = 0; i < CUDAEMU_WARP; i++)
        if (w->expected >> i & 1)
            r->lane[first + i].state = LANE_READY;
    w->arrived = 0;
}

FIBER_NO_TSAN void cudaemu_warp(uint32_t mask, const char *name, void *mine,
                                void (*fn)(void *const lanes[CUDAEMU_WARP]))
{
    struct runner *r = running;
    struct warp *w = &r->warp[r->current / CUDAEMU_WARP];
    uint32_t bit = 1u << r->current % CUDAEMU_WARP;
    if (!(mask & bit))
        cudaemu_die("%s: its own lane is not in the mask %08x", name, mask);
    if (!w->arrived) {
        w->expected = mask & w->members;
        w->name = name;
        memset(w->mine, 0, sizeof w->mine);
    }
    if ((mask & w->members) != w->expected || strcmp(w->name, name))
        cudaemu_die("%s with mask %08x meets lanes in %s with %08x", name, mask, w->name, w->expected);
    w->mine[r->current % CUDAEMU_WARP] = mine;
    w->arrived |= bit;
    char *sync = &w->sync[w->meeting % 2];
    RELEASE(sync);
    if (w->arrived == w->expected) {
        warp_meet(r, w, fn);
        return;
    }
    lane_stop(r, LANE_IN_WARP);
    ACQUIRE(sync);
}
