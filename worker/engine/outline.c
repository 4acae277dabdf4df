/* Models without weights: steps that take their time, and tokens that are a fixed function of the sequence. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/rng.h"
#include "worker/engine/model.h"

/* Logits of the ids that answers are made of are spread over this much, so that temperature and top-p mean something;
 * all others are out of reach. */
static const float SPREAD = 4, OUT_OF_REACH = -100;

int engine_outline_create(struct br_engine *engine, const struct br_model_layout *layout, struct br_engine_model **out,
                          struct br_err *err)
{
    struct br_device *dev = engine->dev;
    struct br_engine_model *model;
    struct br_cost cost;
    if (!dev->ops->timed)
        return br_err_set(err, BR_ENOTSUP, "a model without weights cannot run on a %s device", dev->ops->kind);
    if (dev->kernels->cost(dev, &layout->outline->footprint, &cost, err))
        return err->code;
    model = br_calloc(1, sizeof *model);
    model->engine = engine;
    model->layout = *layout;
    model->unit = br_calloc(layout->units, sizeof *model->unit);
    model->context = layout->shape.max_positions < engine->limits.max_context ? layout->shape.max_positions
                                                                              : engine->limits.max_context;
    model->cost = cost;
    *out = model;
    return 0;
}

const struct br_cost *br_engine_model_cost(const struct br_engine_model *model)
{
    return model->layout.outline ? &model->cost : NULL;
}

/* One row that wants logits, behind others, is a decode; all else are chunks of prompts. */
static double step_s(const struct br_engine_model *model, const struct br_step_item *items, uint32_t n_items)
{
    struct br_cost_step step = {0};
    for (uint32_t i = 0; i < n_items; i++) {
        const struct br_step_item *item = &items[i];
        if (item->n_ids == 1 && item->pos > 0) {
            step.decodes++;
            step.kv_tokens += item->pos + 1;
        } else
            br_cost_add_chunks(&step, 1, item->n_ids, item->pos);
    }
    return br_cost_step_s(&model->cost, &step);
}

static bool all_there(const struct br_engine *engine, const struct br_engine_model *model)
{
    for (uint32_t u = 0; u < model->layout.units; u++)
        if (model->unit[u].ready && !engine->dev->ops->event_done(model->unit[u].ready))
            return false;
    return true;
}

/* Layer by layer where weights are still on their way: each unit gets its share of the time. */
static void delay(const struct br_engine *engine, const struct br_engine_model *model, struct br_stream *stream,
                  double seconds)
{
    uint32_t units = model->layout.units;
    if (all_there(engine, model)) {
        engine->dev->kernels->delay(stream, seconds);
        return;
    }
    for (uint32_t u = 0; u < units; u++) {
        if (model->unit[u].ready)
            engine->dev->ops->event_wait(stream, model->unit[u].ready);
        engine->dev->kernels->delay(stream, seconds / units);
    }
}

static void logits_fill(const struct br_engine_model *model, const struct br_step_item *item)
{
    const struct br_model_outline *outline = model->layout.outline;
    uint32_t last = item->n_ids - 1;
    for (uint32_t i = 0; i < model->layout.shape.vocab; i++)
        item->logits[i] = OUT_OF_REACH;
    for (uint32_t i = 0; i < outline->n_ids; i++)
        item->logits[(uint32_t)outline->first_id + i] =
            SPREAD * (float)br_rng_unit(outline->key, i, (uint64_t)item->pos + last, (uint32_t)item->ids[last]);
}

void engine_outline_step(struct br_engine *engine, const struct br_engine_model *model, struct br_stream *stream,
                         const struct br_step_item *items, uint32_t n_items)
{
    double seconds = step_s(model, items, n_items);
    if (engine->last_outline && engine->last_outline != model)
        seconds += br_cost_resident_switch_s(&model->cost);
    engine->last_outline = model;
    delay(engine, model, stream, seconds);
    for (uint32_t i = 0; i < n_items; i++)
        if (items[i].want_logits)
            logits_fill(model, &items[i]);
}
