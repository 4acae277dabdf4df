/* One panel of a matrix product with what follows it. Per element type. */

static void FN(end_store)(const struct br_linear_op *op, uint32_t panel, uint32_t row, const float *y)
{
    float *out = (float *)((char *)cpu_at(op->out) + row * br_f32_stride(op->n)) + (size_t)panel * BR_PANEL;
    const float *bias = op->bias ? (const float *)cpu_at(op->bias) + (size_t)panel * BR_PANEL : NULL;
    for (int j = 0; j < BR_PANEL; j += 16)
        v_store(out + j, bias ? v_add(v_load(y + j), v_load(bias + j)) : v_load(y + j));
}

static void FN(end_add)(const struct br_linear_op *op, uint32_t panel, uint32_t row, const float *y)
{
    float *out = (float *)((char *)cpu_at(op->out) + row * br_f32_stride(op->n)) + (size_t)panel * BR_PANEL;
    for (int j = 0; j < BR_PANEL; j += 16)
        v_store(out + j, v_add(v_load(out + j), v_load(y + j)));
}

/* 32 gates, then their 32 ups. */
static void FN(end_swiglu)(const struct br_linear_op *op, uint32_t panel, uint32_t row, const float *y)
{
    ELT *out = (ELT *)((char *)cpu_at(op->out) + row * br_act_stride(op->n / 2, op->numeric)) + (size_t)panel * 32;
    for (int j = 0; j < 32; j += 16) {
        VF gate = v_load(y + j), up = v_load(y + 32 + j);
        VF below = v_add(v_exp(v_sub(v_set(0), gate)), v_set(1));
        FN(elt_store)(out + j, v_div(v_mul(gate, up), below));
    }
}

static void FN(linear_tile)(const struct br_linear_op *op, const void *act, uint32_t panel, uint32_t row, uint32_t rows)
{
    static void (*const end[])(const struct br_linear_op *, uint32_t, uint32_t, const float *) = {
        [BR_LINEAR_STORE] = FN(end_store), [BR_LINEAR_ADD] = FN(end_add), [BR_LINEAR_SWIGLU] = FN(end_swiglu)};
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
        for (uint32_t i = 0; i < height; i++)
            end[op->end](op, panel, row++, y + i * BR_PANEL);
    }
}
