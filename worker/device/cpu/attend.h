/* Causal attention straight from KV blocks for the query heads of one KV head over some rows of one item. Per element
 * type.
 *
 * Segments of BR_ATTENTION_SEGMENT absolute positions are computed on their own (maximum, sum, weighted values) and
 * folded into the running result in order, so a row's bits do not depend on how rows are grouped or prompts chunked.
 * Rows at different positions share a pass: weights of positions beyond a row's own are zero. */
#ifndef BRIAREUS_WORKER_DEVICE_CPU_ATTEND_H
#define BRIAREUS_WORKER_DEVICE_CPU_ATTEND_H
enum { SEGMENT_BLOCKS = BR_ATTENTION_SEGMENT / BR_KV_BLOCK_TOKENS, ATTEND_MAX_ROWS = 64 };

struct attend {
    const struct br_attention_op *op;
    const br_devptr *table;
    uint64_t offset;                                    /* of this head's K in a block */
    uint64_t half_bytes;                                /* of K, and of V */
    uint32_t head_dim, group;                           /* group: query heads */
    uint32_t first_pos, rows;                           /* row r is position first_pos + r / group */
    uint32_t width;                                     /* head_dim rounded up to 16 */
    char *q;                                            /* [rows][head_dim] elements */
    float *score;                                       /* [rows][segment] */
    char *weight;                                       /* [rows][segment] elements: softmax numerators */
    float *sum, *part;                                  /* [rows][width]: running and this segment's weighted values */
    char *tail;                                         /* V of the last block, with nothing beyond the end */
    float max[ATTEND_MAX_ROWS], total[ATTEND_MAX_ROWS]; /* running */
    float part_max[ATTEND_MAX_ROWS], part_total[ATTEND_MAX_ROWS]; /* this segment */
};

/* Positions of the segment from `start` that row r sees. */
static inline uint32_t attend_seen(const struct attend *u, uint32_t r, uint32_t start)
{
    uint32_t end = u->first_pos + r / u->group + 1, seen = end > start ? end - start : 0;
    return seen < BR_ATTENTION_SEGMENT ? seen : BR_ATTENTION_SEGMENT;
}

static inline const char *attend_block(const struct attend *u, uint32_t start, uint32_t b)
{
    return (const char *)cpu_at(u->table[start / BR_KV_BLOCK_TOKENS + b]) + u->offset;
}

static void *attend_take(char **scratch, size_t bytes)
{
    void *at = *scratch;
    *scratch += (bytes + 63) / 64 * 64;
    return at;
}

/* Folds this segment into the running result. */
static void attend_fold(struct attend *u, uint32_t r)
{
    float *sum = u->sum + (size_t)r * u->width, *part = u->part + (size_t)r * u->width;
    float max = u->max[r] > u->part_max[r] ? u->max[r] : u->part_max[r];
    VF keep = v_exp(v_set(u->max[r] - max)), add = v_exp(v_set(u->part_max[r] - max));
    float scale[16], add_scale[16];
    v_store(scale, keep);
    v_store(add_scale, add);
    u->total[r] = u->total[r] * scale[0] + u->part_total[r] * add_scale[0];
    u->max[r] = max;
    for (uint32_t d = 0; d < u->width; d += 16)
        v_store(sum + d, v_fma(v_load(part + d), add, v_mul(v_load(sum + d), keep)));
}

static void attend_first(struct attend *u)
{
    memcpy(u->sum, u->part, (size_t)u->rows * u->width * sizeof *u->sum);
    memcpy(u->max, u->part_max, sizeof u->max);
    memcpy(u->total, u->part_total, sizeof u->total);
}
#endif

/* Gathers the queries so that rows are evenly spaced, and deals out the scratch. */
static void FN(attend_begin)(struct attend *u, uint32_t row, uint32_t kv_head, char *scratch)
{
    size_t head = u->head_dim * sizeof(ELT), stride = br_act_stride(u->op->heads * u->head_dim, u->op->numeric);
    u->q = attend_take(&scratch, u->rows * head);
    u->score = attend_take(&scratch, u->rows * sizeof(float) * BR_ATTENTION_SEGMENT);
    u->weight = attend_take(&scratch, u->rows * sizeof(ELT) * BR_ATTENTION_SEGMENT);
    u->sum = attend_take(&scratch, u->rows * sizeof(float) * u->width);
    u->part = attend_take(&scratch, u->rows * sizeof(float) * u->width);
    u->tail = attend_take(&scratch, u->half_bytes);
    const char *q = (const char *)cpu_at(u->op->q) + kv_head * u->group * head;
    for (uint32_t r = 0; r < u->rows; r += u->group)
        memcpy(u->q + r * head, q + (row + r / u->group) * stride, u->group * head);
}

static void FN(attend_scores)(struct attend *u, uint32_t start, uint32_t blocks)
{
    const char *run;
    ptrdiff_t group[TILE_GROUPS];
    struct tile t = {.a = u->q, .a_stride = u->head_dim * sizeof(ELT), .run = &run, .runs = 1};
    t.run_cells = u->head_dim / CELL_ELTS;
    t.step = 4 * BR_KV_BLOCK_TOKENS;
    t.group = group;
    t.lanes = BR_KV_BLOCK_TOKENS;
    t.c_stride = BR_ATTENTION_SEGMENT;
    for (uint32_t b = 0; b < blocks;) {
        bool many = blocks - b >= TILE_GROUPS;
        run = attend_block(u, start, b);
        t.c = u->score + (size_t)b * BR_KV_BLOCK_TOKENS;
        for (uint32_t j = 0; many && j < TILE_GROUPS; j++)
            group[j] = attend_block(u, start, b + j) - run;
        FN(tile_all_rows)(many ? FN(gather) : FN(edge), t, u->rows);
        b += many ? TILE_GROUPS : 1;
    }
}

/* Softmax numerators of one row, zeros up to the end of the blocks. */
static void FN(attend_weights)(struct attend *u, uint32_t r, uint32_t start, uint32_t blocks)
{
    const float *score = u->score + (size_t)r * BR_ATTENTION_SEGMENT;
    ELT *weight = (ELT *)u->weight + (size_t)r * BR_ATTENTION_SEGMENT;
    uint32_t seen = attend_seen(u, r, start), width = blocks * BR_KV_BLOCK_TOKENS, j;
    VF most = v_set(-INFINITY), total = v_set(0);
    for (j = 0; j < seen; j += 16)
        most = v_max(most, v_select_n(v_load(score + j), most, at_most_16(seen - j)));
    u->part_max[r] = v_hmax(most);
    most = v_set(u->part_max[r]);
    for (j = 0; j < seen; j += 16) {
        VF e = v_select_n(v_exp(v_sub(v_load(score + j), most)), v_set(0), at_most_16(seen - j));
        total = v_add(total, e);
        FN(elt_store)(weight + j, e);
    }
    memset(weight + j, 0, (width - j) * sizeof(ELT));
    u->part_total[r] = v_sum(total);
}

/* V of a block of which only the first n positions are anything: the others would meet weights of zero, but zero times
 * not-a-number is not zero. */
static const char *FN(attend_tail)(struct attend *u, const char *v, uint32_t n)
{
    size_t row = (size_t)u->head_dim * 4, whole = n / CELL_ELTS * row;
    memcpy(u->tail, v, whole);
    memset(u->tail + whole, 0, u->half_bytes - whole);
    ELT *out = (ELT *)(u->tail + whole);
    const ELT *in = (const ELT *)(v + whole);
    for (uint32_t d = 0; n % CELL_ELTS && d < u->head_dim; d++)
        out[(size_t)d * CELL_ELTS] = in[(size_t)d * CELL_ELTS];
    return u->tail;
}

static void FN(attend_values)(struct attend *u, uint32_t start, uint32_t positions)
{
    const char *base[SEGMENT_BLOCKS], *run[SEGMENT_BLOCKS];
    uint32_t blocks = (positions + BR_KV_BLOCK_TOKENS - 1) / BR_KV_BLOCK_TOKENS;
    for (uint32_t b = 0; b < blocks; b++)
        base[b] = attend_block(u, start, b) + u->half_bytes;
    if (positions % BR_KV_BLOCK_TOKENS)
        base[blocks - 1] = FN(attend_tail)(u, base[blocks - 1], positions % BR_KV_BLOCK_TOKENS);
    struct tile t = {.a = u->weight, .a_stride = BR_ATTENTION_SEGMENT * sizeof(ELT), .run = run, .runs = blocks};
    t.run_cells = BR_KV_BLOCK_TOKENS / CELL_ELTS;
    t.step = (size_t)u->head_dim * 4;
    t.c_stride = u->width;
    for (uint32_t d = 0; d < u->head_dim;) {
        bool many = u->head_dim - d >= 16 * TILE_GROUPS;
        for (uint32_t b = 0; b < blocks; b++)
            run[b] = base[b] + 4 * (size_t)d;
        t.c = u->part + d;
        t.lanes = at_most_16(u->head_dim - d);
        FN(tile_all_rows)(many ? FN(panel) : FN(edge), t, u->rows);
        d += many ? 16 * TILE_GROUPS : 16;
    }
}

static void FN(attend_segment)(struct attend *u, uint32_t start)
{
    uint32_t positions = attend_seen(u, u->rows - 1, start);
    uint32_t blocks = (positions + BR_KV_BLOCK_TOKENS - 1) / BR_KV_BLOCK_TOKENS;
    FN(attend_scores)(u, start, blocks);
    for (uint32_t r = 0; r < u->rows; r++)
        FN(attend_weights)(u, r, start, blocks);
    FN(attend_values)(u, start, positions);
    if (start == 0)
        attend_first(u);
    for (uint32_t r = 0; start > 0 && r < u->rows; r++)
        if (attend_seen(u, r, start))
            attend_fold(u, r);
}

static void FN(attend_end)(const struct attend *u, uint32_t row, uint32_t kv_head)
{
    size_t stride = br_act_stride(u->op->heads * u->head_dim, u->op->numeric);
    for (uint32_t r = 0; r < u->rows; r++) {
        char *at = (char *)cpu_at(u->op->out) + (row + r / u->group) * stride;
        ELT *out = (ELT *)at + (size_t)(kv_head * u->group + r % u->group) * u->head_dim;
        const float *sum = u->sum + (size_t)r * u->width;
        VF scale = v_set(1.0f / u->total[r]);
        for (uint32_t d = 0; d < u->head_dim; d += 16)
            FN(elt_store_n)(out + d, v_mul(v_load(sum + d), scale), at_most_16(u->head_dim - d));
    }
}

static void FN(attend)(const struct br_attention_op *op, uint32_t item, uint32_t kv_head, uint32_t row, uint32_t rows,
                       void *scratch)
{
    const struct br_batch_item *it = (const struct br_batch_item *)cpu_at(op->batch.item) + item;
    struct attend u = {.op = op, .head_dim = op->head_dim, .group = op->heads / op->kv_heads};
    u.table = (const br_devptr *)cpu_at(op->batch.table) + it->table;
    u.offset = br_kv_offset(op->layer, kv_head, op->kv_heads, op->head_dim, op->numeric);
    u.half_bytes = (uint64_t)BR_KV_BLOCK_TOKENS * op->head_dim * sizeof(ELT);
    u.first_pos = it->pos + row;
    u.rows = rows * u.group;
    u.width = (op->head_dim + 15) / 16 * 16;
    FN(attend_begin)(&u, it->first_row + row, kv_head, scratch);
    for (uint32_t start = 0; start < it->pos + row + rows; start += BR_ATTENTION_SEGMENT)
        FN(attend_segment)(&u, start);
    FN(attend_end)(&u, it->first_row + row, kv_head);
}
