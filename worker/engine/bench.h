/* How fast a loaded model runs: tokens per second of prefill and decode by batch and context. Used by `briareus model
 * bench` and by tests/bench. */
#ifndef BRIAREUS_WORKER_ENGINE_BENCH_H
#define BRIAREUS_WORKER_ENGINE_BENCH_H

#include "worker/engine/engine.h"

struct br_engine_bench; /* sequences with blocks of their own, and room for their logits */

/* The model's units must be placed; engine and model stay the caller's. kv: device memory for blocks, batch sequences
 * of up to `context` positions each. Errors: BR_ENOMEM kv_bytes are too few, with the number needed. */
int br_engine_bench_create(struct br_device *dev, struct br_engine *engine, struct br_engine_model *model,
                           const struct br_model_layout *layout, br_devptr kv, uint64_t kv_bytes, uint32_t batch,
                           uint32_t context, struct br_engine_bench **out, struct br_err *err);
void br_engine_bench_destroy(struct br_engine_bench *bench);
uint64_t br_engine_bench_kv_bytes(const struct br_model_layout *layout, uint32_t batch, uint32_t context);

/* Runs a prompt of `tokens` in one step from position 0 (logits of the last row); tokens per second. */
int br_engine_bench_prefill(struct br_engine_bench *bench, uint32_t tokens, double *tokens_per_s, struct br_err *err);
/* Runs `steps` steps of one token each for `batch` sequences from position `context` on, waiting for each step's
 * logits; tokens per second of all sequences together. What is in the blocks does not matter to the time. */
int br_engine_bench_decode(struct br_engine_bench *bench, uint32_t batch, uint32_t context, uint32_t steps,
                           double *tokens_per_s, struct br_err *err);

#endif
