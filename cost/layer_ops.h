/* The operators of one decoder layer on one GPU of a tensor-parallel group, attention itself left out, and what each
 * takes as a kernel of its own. For comparison with per-operator measurements; whole steps are cost.h's. */
#ifndef BRIAREUS_COST_LAYER_OPS_H
#define BRIAREUS_COST_LAYER_OPS_H

#include "cost/calibration.h"
#include "cost/catalogue.h"

enum br_layer_op {
    BR_OP_QKV,
    BR_OP_ATTENTION_OUT,
    BR_OP_GATE_UP,
    BR_OP_ACTIVATION,
    BR_OP_DOWN,
    BR_OP_NORM_IN,
    BR_OP_NORM_POST,
    BR_OP_ROPE,
    BR_OP_ADD,
    BR_OP_N
};

enum br_op_coef {
    BR_OP_COEF_MEMORY,      /* fraction of the memory bandwidth that matrix products reach */
    BR_OP_COEF_COMPUTE,     /* as BR_COEF_COMPUTE */
    BR_OP_COEF_LAUNCH,      /* s an operator */
    BR_OP_COEF_ELEMENTWISE, /* fraction of the memory bandwidth that the other operators reach */
    BR_OP_COEF_N,
};

/* A matrix product? (The others move activations only.) */
bool br_layer_op_is_product(enum br_layer_op op);

/* Seconds of each operator over `tokens` tokens, 16-bit weights, dense ffn. Pure. */
void br_layer_ops_s(const struct br_model_size *size, const struct br_gpu *gpu, uint32_t tp, double tokens,
                    const double coef[BR_OP_COEF_N], double out[BR_OP_N]);

#endif
