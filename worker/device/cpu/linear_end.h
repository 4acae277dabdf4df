/* What follows a matrix product: rows of 64 sums go where they belong. Per element type. */

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

/* y: [rows][64], the sums of a panel for rows [row, row + rows). */
static void FN(linear_end)(const struct br_linear_op *op, uint32_t panel, uint32_t row, uint32_t rows, const float *y)
{
    static void (*const end[])(const struct br_linear_op *, uint32_t, uint32_t, const float *) = {
        [BR_LINEAR_STORE] = FN(end_store), [BR_LINEAR_ADD] = FN(end_add), [BR_LINEAR_SWIGLU] = FN(end_swiglu)};
    for (uint32_t i = 0; i < rows; i++)
        end[op->end](op, panel, row + i, y + (size_t)i * BR_PANEL);
}
