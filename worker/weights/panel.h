/* Rows of checkpoint tensors into panels of 64 output columns (layout.h), one panel at a time. */
#ifndef BRIAREUS_WORKER_WEIGHTS_PANEL_H
#define BRIAREUS_WORKER_WEIGHTS_PANEL_H

#include "worker/weights/layout.h"
#include "worker/weights/safetensors.h"

/* One output column of a panel: the row of a [N][K] tensor; at NULL: zeros. */
struct br_panel_row {
    const unsigned char *at;
    enum br_tensor_dtype dtype;
};

static inline uint32_t br_tensor_element_bytes(enum br_tensor_dtype dtype)
{
    return dtype == BR_TENSOR_F32 ? 4 : 2;
}

/* k values of each row, then zeros up to k_padded. Returns the end of what was written. */
unsigned char *br_panel_pack(const struct br_panel_row rows[BR_PANEL], uint64_t k, uint64_t k_padded,
                             enum br_numeric numeric, unsigned char *out);

/* n values from a tensor's data to F32, or to numeric's format. */
void br_values_to_f32(const unsigned char *from, enum br_tensor_dtype dtype, uint64_t n, unsigned char *out);
void br_values_convert(const unsigned char *from, enum br_tensor_dtype dtype, uint64_t n, enum br_numeric numeric,
                       unsigned char *out);

#endif
