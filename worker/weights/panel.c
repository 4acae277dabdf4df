#include "worker/weights/panel.h"

#include <string.h>

#include "worker/weights/convert.h"

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
    if (numeric == BR_NUMERIC_BF16) {
        uint16_t values[2 * TILE_CELLS];
        bf16_values(from, row->dtype, have, values);
        memcpy(tile, values, have * 2);
    } else {
        f32_cells(from, row->dtype, have, tile);
    }
}

unsigned char *br_panel_pack(const struct br_panel_row rows[BR_PANEL], uint64_t k, uint64_t k_padded,
                             enum br_numeric numeric, unsigned char *out)
{
    uint32_t tile[BR_PANEL][TILE_STRIDE], *to = (uint32_t *)(void *)out;
    uint64_t cells = numeric == BR_NUMERIC_BF16 ? (k_padded + 1) / 2 : k_padded;
    for (uint64_t first = 0; first < cells; first += TILE_CELLS) {
        uint64_t n = cells - first < TILE_CELLS ? cells - first : TILE_CELLS;
        for (int r = 0; r < BR_PANEL; r++)
            tile_row(&rows[r], k, numeric, first, n, tile[r]);
        for (uint64_t c = 0; c < n; c++, to += BR_PANEL)
            for (int r = 0; r < BR_PANEL; r++)
                to[r] = tile[r][c];
    }
    return (unsigned char *)to;
}
