/* The microkernel: up to TILE_ROWS rows of activations times columns, 16 at a time, everything in registers. It serves
 * weight panels, K and V alike, since all are rows of 4-byte cells. Per element type.
 *
 * The sum of a column runs over the cells in order, one multiply-accumulate after another, whatever the number of rows:
 * that is what makes a row's result independent of its neighbours.
 *
 * Accumulators are named c<row><group> by macros because gcc keeps arrays of them in memory. */
#ifndef BRIAREUS_WORKER_DEVICE_CPU_TILE_H
#define BRIAREUS_WORKER_DEVICE_CPU_TILE_H

struct tile {
    const char *a; /* activations, rows a_stride bytes apart, cells side by side */
    size_t a_stride;
    const char *const *run; /* `runs` stretches of run_cells cells, whose vectors are `step` bytes apart */
    uint32_t runs, run_cells;
    size_t step;
    const ptrdiff_t *group; /* gather: byte offsets of the groups of 16 columns; else they are neighbours */
    uint32_t lanes;         /* edge: columns there are */
    float *c;               /* out, rows c_stride floats apart */
    size_t c_stride;
    bool go_on; /* the sums go on from what c holds */
};
typedef void tile_fn(const struct tile *);

enum { TILE_PREFETCH_BYTES = 2048 };

#define TILE_EACH_ROW_1(X) X(0)
#define TILE_EACH_ROW_2(X) TILE_EACH_ROW_1(X) X(1)
#define TILE_EACH_ROW_3(X) TILE_EACH_ROW_2(X) X(2)
#define TILE_EACH_ROW_4(X) TILE_EACH_ROW_3(X) X(3)
#define TILE_EACH_ROW_5(X) TILE_EACH_ROW_4(X) X(4)
#define TILE_EACH_ROW_6(X) TILE_EACH_ROW_5(X) X(5)

#define TILE_EACH_GROUP_1(X, i) X(i, 0)
#define TILE_EACH_GROUP_2(X, i) X(i, 0) X(i, 1)
#define TILE_EACH_GROUP_4(X, i) X(i, 0) X(i, 1) X(i, 2) X(i, 3)
#define TILE_PASTE(a, b) a##b
#define TILE_EACH_GROUP_(n) TILE_PASTE(TILE_EACH_GROUP_, n)
#define TILE_EACH_GROUP TILE_EACH_GROUP_(TILE_GROUPS)

#define TILE_ZERO(i, j) VF c##i##j = t->go_on ? v_load(t->c + i * t->c_stride + 16 * j) : v_set(0);
#define TILE_MAC(i, j) c##i##j = MAC(c##i##j, b##j, x);
#define TILE_STORE(i, j) v_store(t->c + i * t->c_stride + 16 * j, c##i##j);
#define TILE_PANEL_LOAD(i, j) VB b##j = vb_load(b + 64 * j);
#define TILE_GATHER_LOAD(i, j) VB b##j = vb_load(b + group[j]);
#define TILE_EDGE_LOAD(i, j) VB b##j = vb_load_n(b, t->lanes);
#define TILE_PREFETCH(i, j) v_prefetch(b + TILE_PREFETCH_BYTES + 64 * j);
#define TILE_NO_PREFETCH(i, j)

#define TILE_ROW_BEGIN(i)                                                                                              \
    const char *a##i = t->a + i * t->a_stride;                                                                         \
    TILE_GROUPS_OF(TILE_ZERO, i)
#define TILE_ROW_MAC(i)                                                                                                \
    {                                                                                                                  \
        VA x = va_load(a##i + at);                                                                                     \
        TILE_GROUPS_OF(TILE_MAC, i)                                                                                    \
    }
#define TILE_ROW_STORE(i) TILE_GROUPS_OF(TILE_STORE, i)

#define TILE_DEFINE(name, m, LOAD, PREFETCH)                                                                           \
    static void name(const struct tile *t)                                                                             \
    {                                                                                                                  \
        TILE_EACH_ROW_##m(TILE_ROW_BEGIN) size_t at = 0, step = t->step;                                               \
        const ptrdiff_t *group = t->group;                                                                             \
        (void)group;                                                                                                   \
        for (uint32_t r = 0; r < t->runs; r++) {                                                                       \
            const char *b = t->run[r];                                                                                 \
            size_t end = at + 4 * (size_t)t->run_cells;                                                                \
            for (; at < end; at += 4, b += step) {                                                                     \
                TILE_GROUPS_OF(PREFETCH, 0) TILE_GROUPS_OF(LOAD, 0) TILE_EACH_ROW_##m(TILE_ROW_MAC)                    \
            }                                                                                                          \
        }                                                                                                              \
        TILE_EACH_ROW_##m(TILE_ROW_STORE)                                                                              \
    }
#endif

#define TILE_GROUPS_OF TILE_EACH_GROUP
TILE_DEFINE(FN(panel_1), 1, TILE_PANEL_LOAD, TILE_PREFETCH)
TILE_DEFINE(FN(panel_2), 2, TILE_PANEL_LOAD, TILE_PREFETCH)
TILE_DEFINE(FN(gather_1), 1, TILE_GATHER_LOAD, TILE_NO_PREFETCH)
TILE_DEFINE(FN(gather_2), 2, TILE_GATHER_LOAD, TILE_NO_PREFETCH)
#if TILE_HEIGHT > 2
TILE_DEFINE(FN(panel_3), 3, TILE_PANEL_LOAD, TILE_PREFETCH)
TILE_DEFINE(FN(panel_4), 4, TILE_PANEL_LOAD, TILE_PREFETCH)
TILE_DEFINE(FN(panel_5), 5, TILE_PANEL_LOAD, TILE_PREFETCH)
TILE_DEFINE(FN(panel_6), 6, TILE_PANEL_LOAD, TILE_PREFETCH)
TILE_DEFINE(FN(gather_3), 3, TILE_GATHER_LOAD, TILE_NO_PREFETCH)
TILE_DEFINE(FN(gather_4), 4, TILE_GATHER_LOAD, TILE_NO_PREFETCH)
TILE_DEFINE(FN(gather_5), 5, TILE_GATHER_LOAD, TILE_NO_PREFETCH)
TILE_DEFINE(FN(gather_6), 6, TILE_GATHER_LOAD, TILE_NO_PREFETCH)
#endif
#undef TILE_GROUPS_OF
#define TILE_GROUPS_OF TILE_EACH_GROUP_1
TILE_DEFINE(FN(edge_1), 1, TILE_EDGE_LOAD, TILE_NO_PREFETCH)
TILE_DEFINE(FN(edge_2), 2, TILE_EDGE_LOAD, TILE_NO_PREFETCH)
#if TILE_HEIGHT > 2
TILE_DEFINE(FN(edge_3), 3, TILE_EDGE_LOAD, TILE_NO_PREFETCH)
TILE_DEFINE(FN(edge_4), 4, TILE_EDGE_LOAD, TILE_NO_PREFETCH)
TILE_DEFINE(FN(edge_5), 5, TILE_EDGE_LOAD, TILE_NO_PREFETCH)
TILE_DEFINE(FN(edge_6), 6, TILE_EDGE_LOAD, TILE_NO_PREFETCH)
#endif
#undef TILE_GROUPS_OF

/* By rows - 1. */
#if TILE_HEIGHT > 2
#define TILE_TABLE(name)                                                                                               \
    {                                                                                                                  \
        FN(name##_1), FN(name##_2), FN(name##_3), FN(name##_4), FN(name##_5), FN(name##_6)                             \
    }
#else
#define TILE_TABLE(name)                                                                                               \
    {                                                                                                                  \
        FN(name##_1), FN(name##_2)                                                                                     \
    }
#endif
static tile_fn *const FN(panel)[TILE_HEIGHT] = TILE_TABLE(panel);
static tile_fn *const FN(gather)[TILE_HEIGHT] = TILE_TABLE(gather);
static tile_fn *const FN(edge)[TILE_HEIGHT] = TILE_TABLE(edge);
#undef TILE_TABLE

/* How many of the `left` rows to take next so that tiles come out equally high. */
static inline uint32_t FN(tile_height)(uint32_t left)
{
    uint32_t tiles = (left + TILE_ROWS - 1) / TILE_ROWS;
    return (left + tiles - 1) / tiles;
}

static void FN(tile_all_rows)(tile_fn *const kernel[], struct tile t, uint32_t rows)
{
    for (uint32_t row = 0; row < rows;) {
        uint32_t height = FN(tile_height)(rows - row);
        kernel[height - 1](&t);
        t.a += height * t.a_stride;
        t.c += height * t.c_stride;
        row += height;
    }
}
