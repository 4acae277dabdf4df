/* A loaded model and its forward pass. The engine knows no scheduling and no KV books: each step names its rows and the
 * device address of every KV block. One forward function that reads like the model.
 *
 * Exact mode, always on here: the logits at a position are bitwise a function of weights, ids up to it and the device's
 * numeric profile; never of batch mates, chunking, block placement or threads.
 *
 * A model without weights (layout.outline) runs on a device that does not compute: its steps take the time that cost/
 * says, layer i behind the event of layer i, and its logits are a function of model, position and the token there. */
#ifndef BRIAREUS_WORKER_ENGINE_ENGINE_H
#define BRIAREUS_WORKER_ENGINE_ENGINE_H

#include "worker/device/device.h"

struct br_engine;
struct br_engine_model;

struct br_engine_limits {
    uint32_t max_rows;    /* tokens in one step, all items together */
    uint32_t max_items;   /* sequences in one step */
    uint32_t max_context; /* positions of one sequence */
};

/* One engine a device. Scratch is taken from host memory (cpu) at creation and as models are added, never in a step. */
int br_engine_create(struct br_device *dev, const struct br_engine_limits *limits, struct br_engine **out,
                     struct br_err *err);
void br_engine_destroy(struct br_engine *engine);

/* layout is copied. The model has no weights until every unit is placed. Its context is max_context or what its rotary
 * embedding is defined for, whichever is less. Blocks the caller for a moment; scratch may grow, steps in flight go on.
 * Errors: BR_EINVAL, BR_ENOTSUP (head_dim odd or over 512, more than 64 query heads a KV head), BR_ENOMEM. */
int br_engine_model_create(struct br_engine *engine, const struct br_model_layout *layout, struct br_engine_model **out,
                           struct br_err *err);
void br_engine_model_destroy(struct br_engine_model *model);

/* Says where unit `unit` lies (64-byte aligned; 0: not on the device) and which event makes it readable (NULL: it is).
 * The compute stream waits for the event in front of the first kernel that reads the unit, so a step may be started
 * while later layers are still on their way. Not to be called for a unit that a step in flight reads. */
void br_engine_model_place(struct br_engine_model *model, uint32_t unit, br_devptr at, struct br_event *ready);

/* What a model without weights costs here; NULL for others. */
const struct br_cost *br_engine_model_cost(const struct br_engine_model *model);

struct br_step_item {
    const int32_t *ids; /* [n_ids] tokens to run: a chunk of prompt, or one token */
    uint32_t n_ids;
    uint32_t pos;            /* position of ids[0] = tokens whose KV is already in the blocks */
    const br_devptr *blocks; /* block table: [ceil((pos + n_ids) / 16)] */
    bool want_logits;        /* of the last row */
    float *logits;           /* out, host: [vocab]; valid once the step's event is done */
};

/* Enqueues one forward pass on stream. items and what they point to must stay valid until the step is done; record an
 * event behind it to know. Errors (nothing enqueued): a unit not placed, more rows or items than the limits, ids out of
 * range, positions beyond the context. Steps of one engine go to one stream; the call waits when two are queued. */
int br_engine_step(struct br_engine *engine, struct br_engine_model *model, struct br_stream *stream,
                   const struct br_step_item *items, uint32_t n_items, struct br_err *err);

#endif
