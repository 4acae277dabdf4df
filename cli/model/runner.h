/* One model on a CPU device, and one sequence of it at a time. */
#ifndef BRIAREUS_CLI_MODEL_RUNNER_H
#define BRIAREUS_CLI_MODEL_RUNNER_H

#include "worker/engine/engine.h"

struct br_model_runner {
    struct br_model_layout layout;
    struct br_device *dev;
    struct br_engine *engine;
    struct br_engine_model *model;
    struct br_stream *stream;
    struct br_event *done;
    br_devptr kv; /* behind the weights */
    uint64_t kv_bytes;
    br_devptr *blocks; /* owned: the sequence's block table, for context positions */
    uint32_t max_rows, context, pos;
};

struct br_model_runner_options {
    enum br_numeric numeric;
    uint32_t threads, max_rows, max_items, context;
    uint64_t kv_bytes; /* 0: what one sequence of `context` positions needs */
};

/* Packs the folder's weights onto a device of their own. */
int br_model_runner_open(struct br_model_runner *runner, const char *dir, const struct br_model_runner_options *options,
                         struct br_err *err);
void br_model_runner_close(struct br_model_runner *runner);

/* Forgets the sequence. */
static inline void br_model_runner_restart(struct br_model_runner *runner)
{
    runner->pos = 0;
}
/* Runs n more tokens of the sequence; logits ([vocab]) of the last. */
int br_model_runner_push(struct br_model_runner *runner, const int32_t *ids, uint32_t n, float *logits,
                         struct br_err *err);

#endif
