/* The device-ready layout of a model's weights: the packer (image.h) writes it, the engine reads it.
 *
 * A model is a row of units, each one contiguous extent that is loaded and evicted on its own:
 *   unit 0          token embedding
 *   unit 1 + l      layer l
 *   unit layers+1   final norm and output head
 * Offsets are relative to the unit's start and 64-byte aligned; vectors (norms, biases) are F32 always.
 *
 * A matrix with K inputs and N outputs is stored in panels of 64 output columns, zero-padded:
 *   BF16: [ceil(N/64)][Kp/2][64][2], Kp = K rounded up to even: two neighbouring inputs of a column side by side, as
 *         VDPBF16PS wants them
 *   F32:  [ceil(N/64)][K][64]
 *   quantised: quant_panel.h
 * qkv: columns are all query heads, then all key heads, then all value heads (N = (heads + 2 kv_heads) head_dim).
 * gate_up: each panel holds 32 gate columns, then the 32 up columns of the same outputs; the FFN width is padded to a
 * multiple of 32 with zeros, and down's K is that padded width.
 * embedding: row-major [vocab][hidden] when the head is its own; when tied it is stored once, in panels (K = hidden,
 * N = vocab), and the lookup gathers a column. */
#ifndef BRIAREUS_WORKER_WEIGHTS_LAYOUT_H
#define BRIAREUS_WORKER_WEIGHTS_LAYOUT_H

#include "cost/catalogue.h"
#include "worker/weights/quant_panel.h"

enum { BR_LAYOUT_VERSION = 2 };

/* The matrices of a layer. */
enum br_matrix { BR_MATRIX_QKV, BR_MATRIX_O, BR_MATRIX_GATE_UP, BR_MATRIX_DOWN, BR_MATRICES };

struct br_layer_offsets {
    uint64_t attn_norm, qkv, qkv_bias, q_norm, k_norm, o, mlp_norm, gate_up, down; /* absent ones: UINT64_MAX */
    uint64_t bytes;
};

/* What stands in the place of weights where there are none: a device that does not compute needs no more. */
struct br_model_outline {
    struct br_footprint footprint;
    uint64_t key; /* the tokens are a function of it */
    int32_t first_id;
    uint32_t n_ids; /* its answers are made of the ids from first_id on, so many of them */
};

struct br_model_layout {
    struct br_model_shape shape;
    enum br_numeric numeric; /* BF16 or F32, never AUTO */
    uint32_t units;          /* layers + 2 */
    uint32_t ffn_padded;
    struct br_matrix_format format[BR_MATRICES]; /* the same for every layer; all 0: in numeric */
    uint64_t embed_bytes;
    struct br_layer_offsets layer; /* the same for every layer */
    uint64_t final_norm, head;     /* in the last unit; head is UINT64_MAX when tied */
    uint64_t last_bytes;
    uint64_t kv_block_bytes;                /* BR_KV_BLOCK_TOKENS tokens, all layers */
    const struct br_model_outline *outline; /* a model without weights (image.h's owns it); NULL: it has them */
};

/* formats: [BR_MATRICES], or NULL: every matrix in numeric. */
void br_model_layout_init(struct br_model_layout *layout, const struct br_model_shape *shape, enum br_numeric numeric,
                          const struct br_matrix_format *formats);
/* A matrix of a layer: its inputs and outputs as stored. */
void br_layout_matrix_size(const struct br_model_layout *layout, enum br_matrix matrix, uint64_t *k, uint64_t *n);
uint64_t br_layout_unit_bytes(const struct br_model_layout *layout, uint32_t unit);
/* Sum over units, each rounded up to 64 bytes. */
uint64_t br_layout_total_bytes(const struct br_model_layout *layout);
/* Bytes of a K x N matrix in panels, and of one with a format. */
uint64_t br_panel_bytes(uint64_t k, uint64_t n, enum br_numeric numeric);
uint64_t br_matrix_bytes(uint64_t k, uint64_t n, enum br_numeric numeric, const struct br_matrix_format *format);

#endif
