/* One panel of a BF16 matrix product with AMX tiles: 16 rows x 64 columns in four accumulators, 32 inputs at a time.
 *
 * A tile instruction sums even and odd inputs of its 32 apart, adds both, then adds that to the accumulator: another
 * order than VDPBF16PS, hence another numeric profile. Rows of a tile do not meet, and one row takes the same
 * instructions as sixteen, so exact mode holds. A last part of fewer than 32 inputs is padded with zeros. */

enum { AMX_ROWS = 16, AMX_CELLS = 16, AMX_VECTOR_BYTES = 64, AMX_PREFETCH_BYTES = 4096 };

/* Intel SDM vol. 1, 18.3: tile configuration, palette 1. */
struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Tiles 0-3 sums, 4 activations, 5-7 weights. */
static void amx_configure(uint32_t rows)
{
    struct amx_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = AMX_VECTOR_BYTES;
        config.rows[i] = (uint8_t)(i <= 4 ? rows : AMX_CELLS);
    }
    _tile_loadconfig(&config);
}

/* Four column groups of one stretch of 32 inputs; w: its panel rows, 256 bytes apart. */
static inline void amx_step(const void *a, size_t a_stride, const char *w)
{
    _tile_loadd(4, a, a_stride);
    _tile_loadd(5, w, 4 * BR_PANEL);
    _tile_loadd(6, w + 64, 4 * BR_PANEL);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(7, w + 128, 4 * BR_PANEL);
    _tile_dpbf16ps(1, 4, 6);
    _tile_loadd(5, w + 192, 4 * BR_PANEL);
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 4, 5);
}

static inline void amx_prefetch(const char *w)
{
    for (int i = 0; i < AMX_CELLS * 4; i++)
        v_prefetch(w + AMX_PREFETCH_BYTES + (ptrdiff_t)i * 64);
}

static void amx_store(float *y)
{
    _tile_stored(0, y, 4 * BR_PANEL);
    _tile_stored(1, y + 16, 4 * BR_PANEL);
    _tile_stored(2, y + 32, 4 * BR_PANEL);
    _tile_stored(3, y + 48, 4 * BR_PANEL);
}

/* What is left of the inputs after the whole stretches, zero-padded to one. */
struct amx_tail {
    _Alignas(64) char a[AMX_ROWS * AMX_VECTOR_BYTES], w[AMX_CELLS * 4 * BR_PANEL];
    uint32_t cells;
};

static void amx_tail_rows(struct amx_tail *tail, const char *a, size_t stride, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++)
        memcpy(tail->a + (size_t)i * AMX_VECTOR_BYTES, a + i * stride, (size_t)tail->cells * 4);
}

/* The sums so far; NULL: none. */
static void amx_begin(const float *y)
{
    if (y) {
        _tile_loadd(0, y, 4 * BR_PANEL);
        _tile_loadd(1, y + 16, 4 * BR_PANEL);
        _tile_loadd(2, y + 32, 4 * BR_PANEL);
        _tile_loadd(3, y + 48, 4 * BR_PANEL);
        return;
    }
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

static void amx_rows(const char *a, size_t stride, const char *w, uint32_t stretches, struct amx_tail *tail,
                     uint32_t rows, bool streaming)
{
    for (uint32_t s = 0; s < stretches; s++) {
        if (streaming)
            amx_prefetch(w);
        amx_step(a, stride, w);
        a += AMX_VECTOR_BYTES;
        w += AMX_CELLS * 4 * BR_PANEL;
    }
    if (tail->cells) {
        amx_tail_rows(tail, a, stride, rows);
        amx_step(tail->a, AMX_VECTOR_BYTES, tail->w);
    }
}

static void amx_tail_weights(struct amx_tail *tail, const char *w, uint32_t cells)
{
    tail->cells = cells % AMX_CELLS;
    if (!tail->cells)
        return;
    memset(&tail->a, 0, sizeof tail->a + sizeof tail->w);
    memcpy(tail->w, w + (size_t)(cells - tail->cells) * 4 * BR_PANEL, (size_t)tail->cells * 4 * BR_PANEL);
}

static void FN(linear_tile)(const struct br_linear_op *op, const void *act, uint32_t panel, uint32_t row, uint32_t rows)
{
    uint32_t cells = (op->k + CELL_ELTS - 1) / CELL_ELTS, configured = 0;
    size_t stride = br_act_stride(op->k, op->numeric);
    const char *w = (const char *)cpu_at(op->weights) + (size_t)panel * cells * 4 * BR_PANEL;
    _Alignas(64) float y[AMX_ROWS * BR_PANEL];
    struct amx_tail tail;
    amx_tail_weights(&tail, w, cells);
    for (uint32_t last = row + rows; row < last;) {
        uint32_t height = last - row < AMX_ROWS ? last - row : AMX_ROWS;
        if (height != configured)
            amx_configure(height);
        configured = height;
        amx_begin(NULL);
        amx_rows((const char *)act + row * stride, stride, w, cells / AMX_CELLS, &tail, height, rows <= AMX_ROWS);
        amx_store(y);
        FN(linear_end)(op, panel, row, height, y);
        row += height;
    }
    _tile_release();
}

/* y [rows][64] = (or, going on, +=) the product of rows of activations with `cells` cells of 64 columns. configured: 0
 * at first, kept from call to call; quant_product_end behind the last one. */
static void FN(quant_product)(const char *act, size_t stride, const char *cells, uint32_t n_cells, uint32_t rows,
                              bool go_on, float *y, uint32_t *configured)
{
    struct amx_tail tail;
    amx_tail_weights(&tail, cells, n_cells);
    for (uint32_t row = 0; row < rows;) {
        uint32_t height = rows - row < AMX_ROWS ? rows - row : AMX_ROWS;
        if (height != *configured)
            amx_configure(height);
        *configured = height;
        amx_begin(go_on ? y + (size_t)row * BR_PANEL : NULL);
        amx_rows(act + row * stride, stride, cells, n_cells / AMX_CELLS, &tail, height, false);
        amx_store(y + (size_t)row * BR_PANEL);
        row += height;
    }
}

static void FN(quant_product_end)(void)
{
    _tile_release();
}
