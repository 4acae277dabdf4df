/* quantization_config of a Hugging Face config.json: which quantised weights a model folder holds. What each tensor is
 * in detail (a scale a tensor, a channel or a block; which modules were left in 16 bits) its tensors say. */
#ifndef BRIAREUS_COST_QUANT_H
#define BRIAREUS_COST_QUANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct br_config; /* cost/config_field.h */

enum br_quant_method { BR_QUANT_NONE, BR_QUANT_AWQ, BR_QUANT_GPTQ, BR_QUANT_FP8, BR_QUANT_METHODS };

struct br_quant_config {
    enum br_quant_method method;
    uint32_t bits;             /* a weight: 4 or 8 */
    uint32_t group;            /* AWQ, GPTQ: inputs that share a scale and a zero point */
    uint32_t block_n, block_k; /* FP8 in blocks: outputs and inputs that share a scale; 0: no blocks */
    bool zero_plus_one;        /* GPTQ: the zero point is what is stored + 1 (its first format) */
};

/* The key absent or null: method NONE. BR_ENOTSUP names the key, its value and what is supported; BR_EINVAL a value of
 * the wrong type. */
int br_quant_config_read(const struct br_config *config, struct br_quant_config *out, struct br_err *err);

/* "none", "awq", "gptq", "fp8" */
const char *br_quant_method_name(enum br_quant_method method);

#endif
