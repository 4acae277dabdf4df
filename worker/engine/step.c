/* A step's rows: checked, then laid out back to back and sent to the device. */
#include <string.h>

#include "worker/engine/model.h"

static uint64_t blocks_of(uint64_t positions)
{
    return (positions + BR_KV_BLOCK_TOKENS - 1) / BR_KV_BLOCK_TOKENS;
}

static int check_item(const struct br_engine_model *model, const struct br_step_item *item, uint32_t index,
                      struct br_err *err)
{
    uint32_t vocab = model->layout.shape.vocab;
    if (item->n_ids == 0)
        return br_err_set(err, BR_EINVAL, "step: item %u has no tokens", index);
    if ((uint64_t)item->pos + item->n_ids > model->context)
        return br_err_set(err, BR_EINVAL, "step: item %u runs to position %llu, the context is %u", index,
                          (unsigned long long)item->pos + item->n_ids, model->context);
    for (uint32_t i = 0; i < item->n_ids; i++)
        if (item->ids[i] < 0 || (uint32_t)item->ids[i] >= vocab)
            return br_err_set(err, BR_EINVAL, "step: item %u has token id %d, the vocabulary is %u", index,
                              item->ids[i], vocab);
    for (uint64_t i = 0; i < blocks_of(item->pos + item->n_ids); i++)
        if (!item->blocks[i])
            return br_err_set(err, BR_EINVAL, "step: item %u has no KV block %llu", index, (unsigned long long)i);
    return 0;
}

int engine_step_check(const struct br_engine_model *model, const struct br_step_item *items, uint32_t n_items,
                      struct br_err *err)
{
    const struct br_engine_limits *limits = &model->engine->limits;
    uint64_t rows = 0;
    for (uint32_t u = 0; u < model->layout.units; u++)
        if (!model->unit[u].at)
            return br_err_set(err, BR_EINVAL, "step: unit %u of %u is not on the device", u, model->layout.units);
    if (n_items == 0 || n_items > limits->max_items)
        return br_err_set(err, BR_EINVAL, "step: %u items, 1 to %u can run", n_items, limits->max_items);
    for (uint32_t i = 0; i < n_items; i++) {
        if (check_item(model, &items[i], i, err))
            return err->code;
        rows += items[i].n_ids;
    }
    if (rows > limits->max_rows)
        return br_err_set(err, BR_EINVAL, "step: %llu rows, at most %u can run", (unsigned long long)rows,
                          limits->max_rows);
    return 0;
}

/* Arrays in a stage, each 8-byte aligned: tables and items first, since they are the widest. */
struct arrays {
    br_devptr *table;
    struct br_batch_item *item;
    int32_t *ids;
    uint32_t *pos, *row_item, *logit_row;
    char *end;
};

static void *take(char **at, uint64_t bytes)
{
    void *here = *at;
    *at += (bytes + 7) / 8 * 8;
    return here;
}

static struct arrays arrays_at(char *at, uint64_t tables, uint64_t items, uint64_t rows)
{
    struct arrays a = {0};
    a.table = take(&at, tables * sizeof *a.table);
    a.item = take(&at, items * sizeof *a.item);
    a.ids = take(&at, rows * sizeof *a.ids);
    a.pos = take(&at, rows * sizeof *a.pos);
    a.row_item = take(&at, rows * sizeof *a.row_item);
    a.logit_row = take(&at, items * sizeof *a.logit_row);
    a.end = at;
    return a;
}

uint64_t engine_stage_bytes(const struct br_engine_limits *limits)
{
    uint64_t tables = limits->max_items * blocks_of(limits->max_context);
    struct br_batch_item item;
    return tables * sizeof(br_devptr) + limits->max_items * (sizeof item + 4) + limits->max_rows * 12ull + 6 * 8;
}

static void count(const struct br_step_item *items, uint32_t n_items, uint64_t *tables, uint32_t *rows)
{
    *tables = 0, *rows = 0;
    for (uint32_t i = 0; i < n_items; i++) {
        *rows += items[i].n_ids;
        *tables += blocks_of(items[i].pos + items[i].n_ids);
    }
}

/* Returns how many items want logits. */
static uint32_t fill(const struct arrays *a, const struct br_step_item *items, uint32_t n_items)
{
    uint32_t row = 0, table = 0, n_logits = 0;
    for (uint32_t i = 0; i < n_items; i++) {
        const struct br_step_item *item = &items[i];
        uint32_t blocks = (uint32_t)blocks_of(item->pos + item->n_ids);
        a->item[i] = (struct br_batch_item){row, item->n_ids, item->pos, table};
        memcpy(a->ids + row, item->ids, item->n_ids * sizeof *a->ids);
        memcpy(a->table + table, item->blocks, blocks * sizeof *a->table);
        for (uint32_t k = 0; k < item->n_ids; k++, row++) {
            a->pos[row] = item->pos + k;
            a->row_item[row] = i;
        }
        if (item->want_logits)
            a->logit_row[n_logits++] = row - 1;
        table += blocks;
    }
    return n_logits;
}

void engine_step_stage(struct br_engine *engine, struct br_stream *stream, const struct br_step_item *items,
                       uint32_t n_items, struct engine_step *out)
{
    struct engine_stage *stage = &engine->stage[engine->next_stage];
    const struct br_device_ops *ops = engine->dev->ops;
    uint64_t tables;
    uint32_t rows;
    engine->next_stage = (engine->next_stage + 1) % ENGINE_STAGES;
    ops->event_sync(stage->uploaded);
    count(items, n_items, &tables, &rows);
    struct arrays a = arrays_at(stage->host, tables, n_items, rows);
    out->n_logits = fill(&a, items, n_items);
    engine->dev->kernels->upload(stream, engine->batch, stage->host, (uint64_t)(a.end - stage->host));
    ops->event_record(stage->uploaded, stream);

    br_devptr base = engine->batch;
    const char *host = stage->host;
    out->batch = (struct br_batch){.rows = rows, .items = n_items};
    out->batch.ids = base + (uint64_t)((char *)a.ids - host);
    out->batch.pos = base + (uint64_t)((char *)a.pos - host);
    out->batch.row_item = base + (uint64_t)((char *)a.row_item - host);
    out->batch.item = base + (uint64_t)((char *)a.item - host);
    out->batch.table = base;
    out->logit_row = base + (uint64_t)((char *)a.logit_row - host);
}
