#include "worker/weights/panel.h"

#include <string.h>

#include "worker/weights/convert.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* A panel in either format is a transpose of 32-bit cells (an F32, or two neighbouring BF16 inputs): [64 rows][cells]
 * becomes [cells][64]. A tile of 64 x 64 cells is converted into the L1 cache row by row, then written out column by
 * column; the odd stride keeps a column's cells in different cache sets. */
enum { TILE_CELLS = 64, TILE_STRIDE = TILE_CELLS + 1 };

static uint16_t load16(const unsigned char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint32_t load32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void f32_cells(const unsigned char *from, enum br_tensor_dtype dtype, uint64_t n, uint32_t *out)
{
    if (dtype == BR_TENSOR_F32)
        memcpy(out, from, n * 4);
    else if (dtype == BR_TENSOR_BF16)
        for (uint64_t i = 0; i < n; i++)
            out[i] = br_bf16_to_f32_bits(load16(from + 2 * i));
    else
        for (uint64_t i = 0; i < n; i++)
            out[i] = br_f16_to_f32_bits(load16(from + 2 * i));
}

static void bf16_values(const unsigned char *from, enum br_tensor_dtype dtype, uint64_t n, uint16_t *out)
{
    if (dtype == BR_TENSOR_BF16)
        memcpy(out, from, n * 2);
    else if (dtype == BR_TENSOR_F32)
        for (uint64_t i = 0; i < n; i++)
            out[i] = br_f32_bits_to_bf16(load32(from + 4 * i));
    else
        for (uint64_t i = 0; i < n; i++)
            out[i] = br_f32_bits_to_bf16(br_f16_to_f32_bits(load16(from + 2 * i)));
}

void br_values_to_f32(const unsigned char *from, enum br_tensor_dtype dtype, uint64_t n, unsigned char *out)
{
    f32_cells(from, dtype, n, (uint32_t *)(void *)out);
}

void br_values_convert(const unsigned char *from, enum br_tensor_dtype dtype, uint64_t n, enum br_numeric numeric,
                       unsigned char *out)
{
    if (numeric == BR_NUMERIC_BF16)
        bf16_values(from, dtype, n, (uint16_t *)(void *)out);
    else
        br_values_to_f32(from, dtype, n, out);
}

/* Fills cells [first, first + n) of one row; inputs past k are zero. */
static void tile_row(const struct br_panel_row *row, uint64_t k, enum br_numeric numeric, uint64_t first, uint64_t n,
                     uint32_t *tile)
{
    uint64_t per_cell = numeric == BR_NUMERIC_BF16 ? 2 : 1, begin = first * per_cell, want = n * per_cell;
    uint64_t have = !row->at || begin >= k ? 0 : k - begin < want ? k - begin : want;
    const unsigned char *from = have ? row->at + begin * br_tensor_element_bytes(row->dtype) : NULL;
    if (have < want)
        memset(tile, 0, n * sizeof *tile);
    if (!have)
        return;
    if (numeric == BR_NUMERIC_BF16 && row->dtype == BR_TENSOR_BF16) {
        memcpy(tile, from, have * 2);
    } else if (numeric == BR_NUMERIC_BF16) {
        uint16_t values[2 * TILE_CELLS];
        bf16_values(from, row->dtype, have, values);
        memcpy(tile, values, have * 2);
    } else {
        f32_cells(from, row->dtype, have, tile);
    }
}

typedef uint32_t tile_cells[BR_PANEL][TILE_STRIDE];

/* n cells of the tile's rows, column by column. */
static void tile_write(const tile_cells tile, uint64_t n, uint32_t *to)
{
    for (uint64_t c = 0; c < n; c++, to += BR_PANEL)
        for (int r = 0; r < BR_PANEL; r++)
            to[r] = tile[r][c];
}

#ifdef __x86_64__
/* Eight cells of each of eight rows, transposed: pairs of rows are interleaved, then pairs of pairs, then halves
 * swapped. */
__attribute__((target("avx2"), always_inline)) static inline void block_write(const unsigned char *const from[8],
                                                                              uint64_t at, uint32_t *to)
{
    __m256i r[8], s[8];
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_si256((const __m256i *)(const void *)(from[i] + at));
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_unpacklo_epi64(s[i], s[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(s[i], s[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(s[i + 1], s[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(s[i + 1], s[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_si256((__m256i *)(void *)(to + i * BR_PANEL), _mm256_permute2x128_si256(r[i], r[i + 4], 0x20));
        _mm256_storeu_si256((__m256i *)(void *)(to + (i + 4) * BR_PANEL),
                            _mm256_permute2x128_si256(r[i], r[i + 4], 0x31));
    }
}

/* Cells [0, n) of 64 rows that need no conversion; n: a multiple of 8. */
__attribute__((target("avx2"))) static void rows_write(const unsigned char *const rows[BR_PANEL], uint64_t n,
                                                       uint32_t *to)
{
    for (uint64_t c = 0; c < n; c += 8, to += 8 * BR_PANEL)
        for (int r = 0; r < BR_PANEL; r += 8)
            block_write(rows + r, 4 * c, to + r);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
static void rows_write(const unsigned char *const rows[BR_PANEL], uint64_t n, uint32_t *to)
{
    (void)rows, (void)n, (void)to;
}

static bool has_avx2(void)
{
    return false;
}
#endif

/* Writes as many cells of full panels in the right format as can be written without conversion; returns how many. */
static uint64_t plain_cells(const struct br_panel_row rows[BR_PANEL], uint64_t k, enum br_numeric numeric, uint32_t *to)
{
    enum br_tensor_dtype plain = numeric == BR_NUMERIC_BF16 ? BR_TENSOR_BF16 : BR_TENSOR_F32;
    const unsigned char *at[BR_PANEL];
    uint64_t n = (numeric == BR_NUMERIC_BF16 ? k / 2 : k) / 8 * 8;
    for (int r = 0; r < BR_PANEL; r++) {
        if (!rows[r].at || rows[r].dtype != plain)
            return 0;
        at[r] = rows[r].at;
    }
    if (!has_avx2())
        return 0;
    rows_write(at, n, to);
    return n;
}

unsigned char *br_panel_pack(const struct br_panel_row rows[BR_PANEL], uint64_t k, uint64_t k_padded,
                             enum br_numeric numeric, unsigned char *out)
{
    tile_cells tile;
    uint32_t *to = (uint32_t *)(void *)out;
    uint64_t cells = numeric == BR_NUMERIC_BF16 ? (k_padded + 1) / 2 : k_padded;
    uint64_t first = plain_cells(rows, k, numeric, to);
    to += first * BR_PANEL;
    for (; first < cells; first += TILE_CELLS) {
        uint64_t n = cells - first < TILE_CELLS ? cells - first : TILE_CELLS;
        for (int r = 0; r < BR_PANEL; r++)
            tile_row(&rows[r], k, numeric, first, n, tile[r]);
        tile_write(tile, n, to);
        to += n * BR_PANEL;
    }
    return (unsigned char *)to;
}
