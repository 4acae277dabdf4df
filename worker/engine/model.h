/* Private to the engine: its parts. */
#ifndef BRIAREUS_WORKER_ENGINE_MODEL_H
#define BRIAREUS_WORKER_ENGINE_MODEL_H

#include "worker/device/kernels.h"
#include "worker/engine/engine.h"

enum { ENGINE_STAGES = 2, ENGINE_MAX_SCRATCH = 64 };

/* Where a step's rows are laid out on the host; used again when its upload is done. */
struct engine_stage {
    char *host; /* owned */
    struct br_event *uploaded;
};

/* Scratch shared by all models, since one step runs at a time. Outgrown areas live on: a step may still use them. */
struct engine_scratch {
    br_devptr at;
    uint64_t bytes;
};

struct br_engine {
    struct br_device *dev;
    struct br_engine_limits limits;
    struct engine_stage stage[ENGINE_STAGES];
    uint32_t next_stage;
    uint64_t stage_bytes;
    br_devptr batch; /* the stage's twin on the device */
    struct engine_scratch scratch[ENGINE_MAX_SCRATCH];
    uint32_t n_scratch;
    const struct br_engine_model *last_outline; /* whose step was the last one; NULL: none yet */
};

struct engine_unit {
    br_devptr at;
    struct br_event *ready;
};

/* Areas of the scratch, all rows of a step each. */
struct engine_areas {
    br_devptr x;      /* F32 [rows][hidden]: the residual stream */
    br_devptr act;    /* activations [rows][hidden]: what a norm made of it */
    br_devptr qkv;    /* F32 [rows][qkv width] */
    br_devptr q;      /* activations [rows][heads * head_dim] */
    br_devptr mix;    /* the same: what attention read */
    br_devptr gated;  /* activations [rows][padded ffn] */
    br_devptr logits; /* F32 [items][vocab] */
};

struct br_engine_model {
    struct br_engine *engine;
    struct br_model_layout layout;
    struct engine_unit *unit; /* [layout.units], owned */
    struct engine_areas areas;
    uint32_t context; /* positions it can run: limits.max_context and what its rotary embedding reaches */
    br_devptr cos_sin;
    uint64_t cos_sin_bytes;
    struct br_cost cost; /* of a model without weights */
};

/* A step as the forward pass needs it. */
struct engine_step {
    struct br_batch batch;
    uint32_t n_logits;
    br_devptr logit_row; /* uint32 [n_logits] */
};

/* step.c */
uint64_t engine_stage_bytes(const struct br_engine_limits *limits);
int engine_step_check(const struct br_engine_model *model, const struct br_step_item *items, uint32_t n_items,
                      struct br_err *err);
/* Lays the rows out and enqueues their upload. */
void engine_step_stage(struct br_engine *engine, struct br_stream *stream, const struct br_step_item *items,
                       uint32_t n_items, struct engine_step *out);

/* outline.c: models without weights, on a device that does not compute. */
int engine_outline_create(struct br_engine *engine, const struct br_model_layout *layout, struct br_engine_model **out,
                          struct br_err *err);
/* Takes a step's time behind the weights it needs; fills logits in at once. */
void engine_outline_step(struct br_engine *engine, const struct br_engine_model *model, struct br_stream *stream,
                         const struct br_step_item *items, uint32_t n_items);

/* rope.c: positions the embedding is defined for, and [positions][2][head_dim/2] cosines and sines. */
uint64_t engine_rope_positions(const struct br_model_shape *shape);
void engine_rope_table(const struct br_model_shape *shape, uint32_t positions, float *out);

#endif
