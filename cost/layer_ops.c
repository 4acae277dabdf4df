#include "cost/layer_ops.h"

#include <math.h>

bool br_layer_op_is_product(enum br_layer_op op)
{
    return op == BR_OP_QKV || op == BR_OP_ATTENTION_OUT || op == BR_OP_GATE_UP || op == BR_OP_DOWN;
}

/* tokens x k by k x m, all in 16 bits. */
static double product_s(const struct br_gpu *gpu, double tokens, double k, double m, const double *coef)
{
    double efficiency = fmin(coef[BR_OP_COEF_MEMORY], BR_COEF_MAX_EFFICIENCY);
    double memory = 2 * (k * m + tokens * (k + m)) / (gpu->memory_bytes_per_s * efficiency);
    double rate = br_sustained_flops(gpu->peak_bf16, gpu->peak_bf16, gpu->power_watts, coef[BR_OP_COEF_COMPUTE]);
    return br_overlap_s(memory, 2 * br_tile_rows(tokens, BR_TILE_ROWS) * k * m / rate);
}

void br_layer_ops_s(const struct br_model_size *s, const struct br_gpu *gpu, uint32_t tp, double n,
                    const double coef[BR_OP_COEF_N], double out[BR_OP_N])
{
    double hidden = s->hidden, ffn = (double)s->ffn / tp, q = (double)s->heads * s->head_dim / tp;
    double kv = (double)((s->kv_heads + tp - 1) / tp) * s->head_dim;
    double rate = gpu->memory_bytes_per_s * coef[BR_OP_COEF_ELEMENTWISE];
    out[BR_OP_QKV] = product_s(gpu, n, hidden, q + 2 * kv, coef);
    out[BR_OP_ATTENTION_OUT] = product_s(gpu, n, q, hidden, coef);
    out[BR_OP_GATE_UP] = product_s(gpu, n, hidden, 2 * ffn, coef);
    out[BR_OP_DOWN] = product_s(gpu, n, ffn, hidden, coef);
    out[BR_OP_ACTIVATION] = n * 3 * ffn * 2 / rate;
    out[BR_OP_NORM_IN] = out[BR_OP_NORM_POST] = n * 2 * hidden * 2 / rate;
    out[BR_OP_ROPE] = n * 2 * (q + kv) * 2 / rate;
    out[BR_OP_ADD] = n * 3 * hidden * 2 / rate;
    for (int i = 0; i < BR_OP_N; i++)
        out[i] += coef[BR_OP_COEF_LAUNCH];
}
