/* Quantised matrices of a checkpoint into the panels of quant_panel.h. */
#ifndef BRIAREUS_WORKER_WEIGHTS_QUANT_PACK_H
#define BRIAREUS_WORKER_WEIGHTS_QUANT_PACK_H

#include "worker/weights/layout.h"
#include "worker/weights/quant.h"

/* A linear of a checkpoint: quantised, or dense if quant.kind is NONE. */
struct br_linear {
    const struct br_tensor *tensor; /* [n][k]; of a quantised one its codes */
    struct br_quant_source quant;
    uint64_t n;
};

/* A matrix of a layer as linears: qkv and gate_up have several. */
struct br_linear_set {
    const struct br_linear *part[3];
    uint32_t parts;
    uint64_t k, k_padded;
    uint64_t half; /* gate_up: padded outputs of each of the two, 32 of which alternate in a panel; 0: one behind the
                      other */
};

/* The format that holds every linear of the set exactly with the fewest bits; code NONE: numeric has to do. */
struct br_matrix_format br_quant_format_of(const struct br_linear_set *set);
/* The same for two formats. */
struct br_matrix_format br_quant_format_join(const struct br_matrix_format *a, const struct br_matrix_format *b);

/* Writes panels [first, first + n) of the set to out. Format code NONE: in numeric, dequantised. */
void br_quant_pack(const struct br_linear_set *set, const struct br_matrix_format *format, enum br_numeric numeric,
                   uint64_t first, uint64_t n, unsigned char *out);
/* The index of an indexed format; bytes: br_quant_index_bytes. */
void br_quant_pack_index(const struct br_linear_set *set, unsigned char *out, uint64_t bytes);
uint64_t br_quant_panels(const struct br_linear_set *set);
/* The tensors of a linear; returns how many. */
int br_linear_tensors(const struct br_linear *linear, const struct br_tensor *out[BR_QUANT_TENSORS]);

#endif
