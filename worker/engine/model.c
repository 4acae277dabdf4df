#include "worker/engine/model.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"

static br_devptr area(br_devptr *end, uint64_t rows, uint64_t stride)
{
    br_devptr at = *end;
    *end += (rows * stride + 63) / 64 * 64;
    return at;
}

/* Deals out the areas from `base`; returns where they end. */
static br_devptr areas_at(struct engine_areas *areas, br_devptr base, const struct br_model_layout *m,
                          const struct br_engine_limits *limits)
{
    const struct br_model_shape *s = &m->shape;
    uint64_t rows = limits->max_rows;
    uint32_t q_width = s->heads * s->head_dim, qkv_width = q_width + 2 * s->kv_heads * s->head_dim;
    areas->x = area(&base, rows, br_f32_stride(s->hidden));
    areas->act = area(&base, rows, br_act_stride(s->hidden, m->numeric));
    areas->qkv = area(&base, rows, br_f32_stride(qkv_width));
    areas->q = area(&base, rows, br_act_stride(q_width, m->numeric));
    areas->mix = area(&base, rows, br_act_stride(q_width, m->numeric));
    areas->gated = area(&base, rows, br_act_stride(m->ffn_padded, m->numeric));
    areas->logits = area(&base, limits->max_items, br_f32_stride(s->vocab));
    return base;
}

static int scratch_for(struct br_engine *engine, uint64_t bytes, br_devptr *out, struct br_err *err)
{
    struct engine_scratch *last = engine->n_scratch ? &engine->scratch[engine->n_scratch - 1] : NULL;
    if (last && last->bytes >= bytes) {
        *out = last->at;
        return 0;
    }
    uint64_t doubled = last ? 2 * last->bytes : 0; /* so that few areas are ever outgrown */
    struct engine_scratch grown = {.bytes = bytes > doubled ? bytes : doubled};
    assert(engine->n_scratch < ENGINE_MAX_SCRATCH);
    if (engine->dev->kernels->scratch_alloc(engine->dev, grown.bytes, &grown.at, err))
        return br_err_wrap(err, "activations of %u rows", engine->limits.max_rows);
    engine->scratch[engine->n_scratch++] = grown;
    *out = grown.at;
    return 0;
}

static int shape_check(const struct br_model_layout *m, struct br_err *err)
{
    const struct br_model_shape *s = &m->shape;
    if (m->numeric != BR_NUMERIC_BF16 && m->numeric != BR_NUMERIC_F32)
        return br_err_set(err, BR_EINVAL, "engine: numeric must be BF16 or F32");
    if (!s->hidden || !s->ffn || !s->vocab || !s->kv_heads || s->heads % s->kv_heads || !s->max_positions)
        return br_err_set(err, BR_EINVAL, "engine: a size of zero, or %u heads over %u KV heads", s->heads,
                          s->kv_heads);
    if (!s->head_dim || s->head_dim % 2 || s->head_dim > BR_MAX_HEAD_DIM)
        return br_err_set(err, BR_ENOTSUP, "engine: head_dim %u must be even and at most %u", s->head_dim,
                          BR_MAX_HEAD_DIM);
    if (s->heads / s->kv_heads > BR_MAX_GROUP)
        return br_err_set(err, BR_ENOTSUP, "engine: %u query heads a KV head, at most %u", s->heads / s->kv_heads,
                          BR_MAX_GROUP);
    return 0;
}

/* The table is made on the host and uploaded: set-up time, so it may block. */
static int rope_upload(struct br_engine_model *model, struct br_err *err)
{
    struct br_device *dev = model->engine->dev;
    struct br_stream *stream;
    model->cos_sin_bytes = (uint64_t)model->context * model->layout.shape.head_dim * sizeof(float);
    if (dev->kernels->scratch_alloc(dev, model->cos_sin_bytes, &model->cos_sin, err))
        return br_err_wrap(err, "rotary table of %u positions", model->context);
    if (dev->ops->stream_create(dev, &stream, err)) {
        dev->kernels->scratch_free(dev, model->cos_sin, model->cos_sin_bytes);
        return err->code;
    }
    float *table = br_malloc(model->cos_sin_bytes);
    engine_rope_table(&model->layout.shape, model->context, table);
    dev->kernels->upload(stream, model->cos_sin, table, model->cos_sin_bytes);
    dev->ops->stream_destroy(stream); /* waits */
    free(table);
    return 0;
}

static int model_init(struct br_engine_model *model, struct br_err *err)
{
    struct br_engine *engine = model->engine;
    uint64_t reach = engine_rope_positions(&model->layout.shape);
    struct engine_areas sizes;
    br_devptr base = 0;
    model->context = reach < engine->limits.max_context ? (uint32_t)reach : engine->limits.max_context;
    if (scratch_for(engine, areas_at(&sizes, 0, &model->layout, &engine->limits), &base, err))
        return err->code;
    areas_at(&model->areas, base, &model->layout, &engine->limits);
    return rope_upload(model, err);
}

int br_engine_model_create(struct br_engine *engine, const struct br_model_layout *layout, struct br_engine_model **out,
                           struct br_err *err)
{
    if (layout->outline)
        return engine_outline_create(engine, layout, out, err);
    if (engine->dev->ops->timed)
        return br_err_set(err, BR_ENOTSUP, "a %s device takes models by their shape only", engine->dev->ops->kind);
    if (shape_check(layout, err))
        return err->code;
    struct br_engine_model *model = br_calloc(1, sizeof *model);
    model->engine = engine;
    model->layout = *layout;
    model->unit = br_calloc(layout->units, sizeof *model->unit);
    if (model_init(model, err)) {
        free(model->unit);
        free(model);
        return err->code;
    }
    *out = model;
    return 0;
}

void br_engine_model_destroy(struct br_engine_model *model)
{
    struct br_device *dev = model->engine->dev;
    if (model->cos_sin_bytes)
        dev->kernels->scratch_free(dev, model->cos_sin, model->cos_sin_bytes);
    if (model->engine->last_outline == model)
        model->engine->last_outline = NULL;
    free(model->unit);
    free(model);
}

void br_engine_model_place(struct br_engine_model *model, uint32_t unit, br_devptr at, struct br_event *ready)
{
    assert(unit < model->layout.units && at % 64 == 0);
    model->unit[unit] = (struct engine_unit){at, ready};
}
