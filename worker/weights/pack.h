/* From the tensors of a folder to the units of layout.h. */
#ifndef BRIAREUS_WORKER_WEIGHTS_PACK_H
#define BRIAREUS_WORKER_WEIGHTS_PACK_H

#include <stdbool.h>
#include <xxhash.h>

#include "worker/weights/layout.h"
#include "worker/weights/quant_pack.h"
#include "worker/weights/safetensors.h"

/* One layer's tensors; absent ones NULL. */
struct br_layer_tensors {
    const struct br_tensor *attn_norm, *q, *k, *v, *q_bias, *k_bias, *v_bias, *q_norm, *k_norm, *o, *mlp_norm, *gate,
        *up, *down;
};

/* The linears of a layer in a fixed order. */
enum { BR_LINEAR_Q, BR_LINEAR_K, BR_LINEAR_V, BR_LINEAR_O, BR_LINEAR_GATE, BR_LINEAR_UP, BR_LINEAR_DOWN, BR_LINEARS };

struct br_packer {
    struct br_model_layout layout; /* its shape: as the tensors are; a padded ffn is larger than config.json's */
    const struct br_tensor *embed, *final_norm, *head; /* head NULL when tied */
    struct br_layer_tensors *layers;                   /* owned: [layout.shape.layers] */
    struct br_linear *linears;                         /* owned: [layers][BR_LINEARS]; NULL: none is quantised */
};

/* Finds every tensor that shape asks for and checks its dtype and shape. numeric AUTO becomes BF16 when every matrix
 * is BF16 or quantised, else F32. Tensors that are not needed: those that would change the result (biases other than
 * zero, norms, quantisation scales) are refused, others get a log line. Borrows st, which must stay open. */
int br_packer_init(struct br_packer *packer, const struct br_safetensors *st, const struct br_model_shape *shape,
                   enum br_numeric numeric, struct br_err *err);
void br_packer_free(struct br_packer *packer);

/* A matrix of a layer as the linears it is made of; only where some are quantised. */
struct br_linear_set br_packer_linears(const struct br_packer *packer, uint32_t layer, enum br_matrix matrix);

/* Writes unit `unit`, br_layout_unit_bytes() long, padding zeroed. out: 64-byte aligned. */
void br_pack_unit(const struct br_packer *packer, uint32_t unit, void *out);

/* Adds name, dtype, shape and bytes of the unit's tensors to a content hash. */
void br_packer_hash_unit(const struct br_packer *packer, uint32_t unit, XXH3_state_t *state);

/* Every value of every tensor used is finite; BR_ECORRUPT names tensor and index. Reads all bytes: for `model verify`
 * only. */
int br_packer_check_finite(const struct br_packer *packer, struct br_err *err);

#endif
