/* One panel of a matrix product. Per element type. */

static void FN(linear_tile)(const struct br_linear_op *op, const void *act, uint32_t panel, uint32_t row, uint32_t rows)
{
    uint32_t cells = (op->k + CELL_ELTS - 1) / CELL_ELTS;
    size_t stride = br_act_stride(op->k, op->numeric);
    const char *columns = (const char *)cpu_at(op->weights) + (size_t)panel * cells * 4 * BR_PANEL, *run;
    float y[TILE_HEIGHT * BR_PANEL];
    struct tile t = {.a_stride = stride, .run = &run, .runs = 1, .run_cells = cells, .step = 4 * BR_PANEL};
    t.c_stride = BR_PANEL;
    for (uint32_t last = row + rows; row < last;) {
        uint32_t height = FN(tile_height)(last - row);
        t.a = (const char *)act + row * stride;
        for (int j = 0; j < BR_PANEL; j += 16 * TILE_GROUPS) {
            run = columns + 4 * j;
            t.c = y + j;
            FN(panel)[height - 1](&t);
        }
        FN(linear_end)(op, panel, row, height, y);
        row += height;
    }
}

/* y [rows][64] = (or, going on, +=) the product of rows of activations with `cells` cells of 64 columns. configured: 0
 * at first, kept from call to call; quant_product_end behind the last one. */
static void FN(quant_product)(const char *act, size_t stride, const char *cells, uint32_t n_cells, uint32_t rows,
                              bool go_on, float *y, uint32_t *configured)
{
    const char *run;
    struct tile t = {.a_stride = stride, .run = &run, .runs = 1, .run_cells = n_cells, .step = 4 * BR_PANEL};
    t.c_stride = BR_PANEL;
    t.go_on = go_on;
    (void)configured;
    for (uint32_t row = 0; row < rows;) {
        uint32_t height = FN(tile_height)(rows - row);
        t.a = act + row * stride;
        for (int j = 0; j < BR_PANEL; j += 16 * TILE_GROUPS) {
            run = cells + 4 * j;
            t.c = y + (size_t)row * BR_PANEL + j;
            FN(panel)[height - 1](&t);
        }
        row += height;
    }
}

static void FN(quant_product_end)(void)
{
}
