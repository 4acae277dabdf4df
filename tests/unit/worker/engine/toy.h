/* Random tiny models for tests: weights as plain matrices, a packer of its own into the device-ready layout, and a
 * forward pass in double precision that shares nothing with the engine. */
#ifndef BRIAREUS_TESTS_TOY_H
#define BRIAREUS_TESTS_TOY_H

#include "base/rng.h"
#include "worker/engine/engine.h"

struct toy_layer {
    float *attn_norm, *q, *k, *v, *bias, *q_norm, *k_norm, *o, *mlp_norm, *gate, *up, *down; /* matrices [out][in] */
};

struct toy {
    struct br_model_layout layout;
    float *embed, *head, *final_norm;
    struct toy_layer *layer;
    void **unit; /* packed, [layout.units] */
};

struct toy_shape {
    const char *name;
    struct br_model_shape shape;
};
/* Llama with head_dim 8; Qwen2 with bias; Qwen3 with odd hidden size, qk-norm, own head_dim, tied; head_dim 128, tied.
 */
enum { TOY_SHAPES = 4 };
extern const struct toy_shape toy_shapes[TOY_SHAPES];

/* All weights are exact in BF16, whatever the numeric. */
struct toy *toy_create(const struct br_model_shape *shape, enum br_numeric numeric, uint64_t seed);
void toy_destroy(struct toy *toy);
/* logits: double [n][vocab], of every position. */
void toy_reference(const struct toy *toy, const int32_t *ids, uint32_t n, double *logits);

/* A K x N matrix into panels; value(ctx, k, n). Padding is zero. */
typedef float toy_value_fn(const void *ctx, uint32_t k, uint32_t n);
void toy_pack(void *out, uint32_t k, uint32_t n, enum br_numeric numeric, toy_value_fn *value, const void *ctx);
uint16_t toy_to_bf16(float x);
float toy_from_bf16(uint16_t x);

#endif
