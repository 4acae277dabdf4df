#include <stdlib.h>

#include "base/buf.h"
#include "worker/engine/model.h"

/* One step under way: what every part of the forward pass needs. */
struct pass {
    const struct br_engine_model *model;
    const struct br_model_shape *shape;
    const struct br_device_ops *ops;
    const struct br_kernels *kernels;
    struct br_stream *stream;
    struct engine_step step;
};

/* The unit's address, readable by what is enqueued from here on. */
static br_devptr unit(const struct pass *p, uint32_t index)
{
    const struct engine_unit *u = &p->model->unit[index];
    if (u->ready)
        p->ops->event_wait(p->stream, u->ready);
    return u->at;
}

static br_devptr maybe(br_devptr base, uint64_t offset)
{
    return offset == UINT64_MAX ? 0 : base + offset;
}

static void embed(const struct pass *p)
{
    struct br_embed_op op = {.batch = p->step.batch, .numeric = p->model->layout.numeric, .panels = p->shape->tied};
    op.hidden = p->shape->hidden;
    op.weights = unit(p, 0);
    op.out = p->model->areas.x;
    p->kernels->embed(p->stream, &op);
}

/* out = end(rmsnorm(x) weights) */
static void norm_linear(const struct pass *p, enum br_linear_end end, br_devptr norm, enum br_matrix matrix,
                        br_devptr weights, br_devptr bias, uint32_t n, br_devptr out)
{
    struct br_linear_op op = {.numeric = p->model->layout.numeric, .end = end, .rows = p->step.batch.rows};
    op.k = p->shape->hidden, op.n = n;
    op.in = p->model->areas.x, op.norm = norm, op.eps = p->shape->rms_eps, op.act = p->model->areas.act;
    op.format = p->model->layout.format[matrix], op.weights = weights, op.bias = bias, op.out = out;
    p->kernels->linear(p->stream, &op);
}

/* x += in weights */
static void linear_add(const struct pass *p, br_devptr in, uint32_t k, enum br_matrix matrix, br_devptr weights)
{
    struct br_linear_op op = {.numeric = p->model->layout.numeric, .end = BR_LINEAR_ADD, .rows = p->step.batch.rows};
    op.k = k, op.n = p->shape->hidden;
    op.in = in, op.format = p->model->layout.format[matrix], op.weights = weights, op.out = p->model->areas.x;
    p->kernels->linear(p->stream, &op);
}

static void rope(const struct pass *p, uint32_t layer, br_devptr q_norm, br_devptr k_norm)
{
    struct br_rope_op op = {.batch = p->step.batch, .numeric = p->model->layout.numeric, .layer = layer};
    op.heads = p->shape->heads, op.kv_heads = p->shape->kv_heads, op.head_dim = p->shape->head_dim;
    op.q_norm = q_norm, op.k_norm = k_norm, op.eps = p->shape->rms_eps;
    op.qkv = p->model->areas.qkv, op.cos_sin = p->model->cos_sin, op.q = p->model->areas.q;
    p->kernels->rope(p->stream, &op);
}

static void attention(const struct pass *p, uint32_t layer)
{
    struct br_attention_op op = {.batch = p->step.batch, .numeric = p->model->layout.numeric, .layer = layer};
    op.heads = p->shape->heads, op.kv_heads = p->shape->kv_heads, op.head_dim = p->shape->head_dim;
    op.q = p->model->areas.q, op.out = p->model->areas.mix;
    p->kernels->attention(p->stream, &op);
}

static void layer(const struct pass *p, uint32_t index)
{
    const struct br_model_shape *s = p->shape;
    const struct br_layer_offsets *at = &p->model->layout.layer;
    const struct engine_areas *areas = &p->model->areas;
    uint32_t ffn = p->model->layout.ffn_padded;
    br_devptr w = unit(p, 1 + index);

    norm_linear(p, BR_LINEAR_STORE, w + at->attn_norm, BR_MATRIX_QKV, w + at->qkv, maybe(w, at->qkv_bias),
                (s->heads + 2 * s->kv_heads) * s->head_dim, areas->qkv);
    rope(p, index, maybe(w, at->q_norm), maybe(w, at->k_norm));
    attention(p, index);
    linear_add(p, areas->mix, s->heads * s->head_dim, BR_MATRIX_O, w + at->o);

    norm_linear(p, BR_LINEAR_SWIGLU, w + at->mlp_norm, BR_MATRIX_GATE_UP, w + at->gate_up, 0, 2 * ffn, areas->gated);
    linear_add(p, areas->gated, ffn, BR_MATRIX_DOWN, w + at->down);
}

/* Logits of the last row of those items that want them. */
static void head(const struct pass *p)
{
    const struct br_model_layout *m = &p->model->layout;
    br_devptr last = unit(p, m->units - 1);
    struct br_linear_op op = {.numeric = m->numeric, .end = BR_LINEAR_STORE, .rows = p->step.n_logits};
    op.k = p->shape->hidden, op.n = p->shape->vocab;
    op.in = p->model->areas.x, op.row = p->step.logit_row;
    op.norm = last + m->final_norm, op.eps = p->shape->rms_eps, op.act = p->model->areas.act;
    op.weights = m->head == UINT64_MAX ? unit(p, 0) : last + m->head;
    op.out = p->model->areas.logits;
    p->kernels->linear(p->stream, &op);
}

static void logits_out(const struct pass *p, const struct br_step_item *items, uint32_t n_items)
{
    uint64_t stride = br_f32_stride(p->shape->vocab);
    br_devptr from = p->model->areas.logits;
    for (uint32_t i = 0; i < n_items; i++) {
        if (!items[i].want_logits)
            continue;
        p->ops->copy(p->stream, BR_COPY_D2H, items[i].logits, (const void *)(uintptr_t)from, 4ull * p->shape->vocab);
        from += stride;
    }
}

static void forward(const struct pass *p)
{
    embed(p);
    for (uint32_t i = 0; i < p->shape->layers; i++)
        layer(p, i);
    if (p->step.n_logits)
        head(p);
}

int br_engine_step(struct br_engine *engine, struct br_engine_model *model, struct br_stream *stream,
                   const struct br_step_item *items, uint32_t n_items, struct br_err *err)
{
    if (engine_step_check(model, items, n_items, err))
        return err->code;
    if (model->layout.outline) {
        engine_outline_step(engine, model, stream, items, n_items);
        return 0;
    }
    struct pass p = {.model = model, .shape = &model->layout.shape, .stream = stream};
    p.ops = engine->dev->ops;
    p.kernels = engine->dev->kernels;
    engine_step_stage(engine, stream, items, n_items, &p.step);
    forward(&p);
    logits_out(&p, items, n_items);
    return 0;
}

static int stages_create(struct br_engine *engine, struct br_err *err)
{
    engine->stage_bytes = engine_stage_bytes(&engine->limits);
    for (int i = 0; i < ENGINE_STAGES; i++) {
        engine->stage[i].host = br_malloc(engine->stage_bytes);
        if (engine->dev->ops->event_create(engine->dev, &engine->stage[i].uploaded, err))
            return err->code;
    }
    return engine->dev->kernels->scratch_alloc(engine->dev, engine->stage_bytes, &engine->batch, err);
}

int br_engine_create(struct br_device *dev, const struct br_engine_limits *limits, struct br_engine **out,
                     struct br_err *err)
{
    if (!limits->max_rows || !limits->max_items || !limits->max_context)
        return br_err_set(err, BR_EINVAL, "engine: max_rows, max_items and max_context must not be 0");
    struct br_engine *engine = br_calloc(1, sizeof *engine);
    engine->dev = dev;
    engine->limits = *limits;
    if (stages_create(engine, err)) {
        br_engine_destroy(engine);
        return br_err_wrap(err, "engine");
    }
    *out = engine;
    return 0;
}

void br_engine_destroy(struct br_engine *engine)
{
    struct br_device *dev = engine->dev;
    for (uint32_t i = 0; i < engine->n_scratch; i++)
        dev->kernels->scratch_free(dev, engine->scratch[i].at, engine->scratch[i].bytes);
    if (engine->batch)
        dev->kernels->scratch_free(dev, engine->batch, engine->stage_bytes);
    for (int i = 0; i < ENGINE_STAGES; i++) {
        if (engine->stage[i].uploaded)
            dev->ops->event_destroy(engine->stage[i].uploaded);
        free(engine->stage[i].host);
    }
    free(engine);
}
