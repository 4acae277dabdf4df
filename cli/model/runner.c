#include "cli/model/runner.h"

#include <stdlib.h>

#include "base/buf.h"
#include "worker/weights/pack.h"

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* Unit by unit through one host buffer. */
static int load_weights(struct br_model_runner *r, const struct br_packer *packer, struct br_err *err)
{
    const struct br_device_ops *ops = r->dev->ops;
    uint64_t most = 64;
    br_devptr at = r->dev->memory;
    unsigned char *unit;
    for (uint32_t u = 0; u < r->layout.units; u++)
        if (br_layout_unit_bytes(&r->layout, u) > most)
            most = round_up(br_layout_unit_bytes(&r->layout, u), 64);
    unit = aligned_alloc(64, most);
    if (!unit)
        return br_err_set(err, BR_ENOMEM, "no memory for a unit of %llu bytes", (unsigned long long)most);
    for (uint32_t u = 0; u < r->layout.units; u++) {
        uint64_t bytes = br_layout_unit_bytes(&r->layout, u);
        br_pack_unit(packer, u, unit);
        ops->copy(r->stream, BR_COPY_H2D, (void *)(uintptr_t)at, unit, bytes);
        ops->event_record(r->done, r->stream);
        ops->event_sync(r->done);
        br_engine_model_place(r->model, u, at, NULL);
        at += round_up(bytes, 64);
    }
    free(unit);
    r->kv = round_up(at, 4096);
    return 0;
}

static void block_table(struct br_model_runner *r)
{
    uint64_t bytes = br_kv_block_bytes(&r->layout.shape, r->layout.numeric);
    uint32_t n = (r->context + BR_KV_BLOCK_TOKENS - 1) / BR_KV_BLOCK_TOKENS;
    r->blocks = br_calloc(n, sizeof *r->blocks);
    for (uint32_t i = 0; i < n; i++)
        r->blocks[i] = r->kv + i * bytes;
}

static int device_open(struct br_model_runner *r, const struct br_model_runner_options *o, struct br_err *err)
{
    struct br_device_config config = {.threads = o->threads};
    struct br_engine_limits limits = {o->max_rows, o->max_items, r->context};
    int rc;
    config.memory_bytes = round_up(br_layout_total_bytes(&r->layout), 4096) + r->kv_bytes + (2u << 20);
    if ((rc = br_device_cpu_create(&config, &r->dev, err)) ||
        (rc = r->dev->ops->stream_create(r->dev, &r->stream, err)) ||
        (rc = r->dev->ops->event_create(r->dev, &r->done, err)) ||
        (rc = br_engine_create(r->dev, &limits, &r->engine, err)))
        return rc;
    return br_engine_model_create(r->engine, &r->layout, &r->model, err);
}

static int runner_fill(struct br_model_runner *r, const struct br_safetensors *st, const struct br_model_shape *shape,
                       const struct br_model_runner_options *o, struct br_err *err)
{
    struct br_packer packer;
    int rc = br_packer_init(&packer, st, shape, o->numeric, err);
    if (rc)
        return rc;
    r->layout = packer.layout;
    r->max_rows = o->max_rows;
    r->context = o->context < shape->max_positions ? o->context : shape->max_positions;
    r->kv_bytes = o->kv_bytes ? o->kv_bytes
                              : round_up(r->context, BR_KV_BLOCK_TOKENS) / BR_KV_BLOCK_TOKENS *
                                    br_kv_block_bytes(shape, r->layout.numeric);
    rc = device_open(r, o, err);
    if (!rc)
        rc = load_weights(r, &packer, err);
    if (!rc)
        block_table(r);
    br_packer_free(&packer);
    return rc;
}

int br_model_runner_open(struct br_model_runner *r, const char *dir, const struct br_model_runner_options *options,
                         struct br_err *err)
{
    struct br_model_shape shape;
    struct br_safetensors *st;
    int rc;
    *r = (struct br_model_runner){0};
    if ((rc = br_model_shape_load(dir, &shape, err)) || (rc = br_safetensors_open(dir, &st, err)))
        return rc;
    rc = runner_fill(r, st, &shape, options, err);
    br_safetensors_close(st);
    if (rc)
        br_model_runner_close(r);
    return rc;
}

void br_model_runner_close(struct br_model_runner *r)
{
    free(r->blocks);
    if (r->model)
        br_engine_model_destroy(r->model);
    if (r->engine)
        br_engine_destroy(r->engine);
    if (r->done)
        r->dev->ops->event_destroy(r->done);
    if (r->stream)
        r->dev->ops->stream_destroy(r->stream);
    if (r->dev)
        r->dev->ops->destroy(r->dev);
    *r = (struct br_model_runner){0};
}

int br_model_runner_push(struct br_model_runner *r, const int32_t *ids, uint32_t n, float *logits, struct br_err *err)
{
    while (n) {
        uint32_t rows = n < r->max_rows ? n : r->max_rows;
        struct br_step_item item = {.ids = ids, .n_ids = rows, .pos = r->pos, .blocks = r->blocks};
        int rc;
        item.want_logits = rows == n;
        item.logits = logits;
        if (rows > r->context - r->pos)
            return br_err_set(err, BR_EINVAL, "position %u is beyond the context of %u", r->pos + rows, r->context);
        rc = br_engine_step(r->engine, r->model, r->stream, &item, 1, err);
        if (rc)
            return rc;
        r->dev->ops->event_record(r->done, r->stream);
        r->dev->ops->event_sync(r->done);
        r->pos += rows;
        ids += rows;
        n -= rows;
    }
    return 0;
}
