#include "cost/cost.h"

#include <math.h>

/* All-reduces of a tensor-parallel group: two a layer, each moving 2 (tp - 1)/tp of the activations over NVLink or
 * PCIe. Not fitted: the profiles hold single GPUs. Latencies and fractions are what NCCL's own tests commonly show. */
#define REDUCE_NVLINK_S 10e-6
#define REDUCE_PCIE_S 20e-6
#define REDUCE_NVLINK_FRACTION 0.7
#define REDUCE_PCIE_FRACTION 0.5
/* Attention's matrix products over a chunk reach this share of what the layers' products do. */
#define ATTENTION_FRACTION 0.4

static double format_peak(const struct br_gpu *gpu, enum br_weight_format format)
{
    double peak = format == BR_WEIGHTS_FP8 ? gpu->peak_fp8 : format == BR_WEIGHTS_INT8 ? gpu->peak_int8 : 0;
    return peak > 0 ? peak : gpu->peak_bf16;
}

int br_cost_init(struct br_cost *out, const struct br_footprint *model, const struct br_gpu *gpu, uint32_t tp,
                 const struct br_calibration *calibration, struct br_err *err)
{
    const struct br_model_size *size = &model->size;
    uint32_t kv_heads = size->kv_heads;
    if ((tp != 1 && tp != 2 && tp != 4 && tp != 8) || size->heads % tp)
        return br_err_set(err, BR_EINVAL, "tensor parallelism %u: must be 1, 2, 4 or 8 and divide the %u heads of %s",
                          tp, size->heads, size->name);
    *out = (struct br_cost){.model = *model, .gpu = *gpu, .calibration = *calibration, .tp = tp};
    out->peak = format_peak(gpu, model->weights);
    out->kv_bytes_per_token = model->kv_bytes_per_token * ((kv_heads + tp - 1) / tp) / kv_heads;
    return 0;
}

static double reduce_s(const struct br_cost *c, double tokens)
{
    const struct br_gpu *gpu = &c->gpu;
    bool nvlink = gpu->nvlink_bytes_per_s > 0;
    double rate = nvlink ? REDUCE_NVLINK_FRACTION * gpu->nvlink_bytes_per_s
                         : REDUCE_PCIE_FRACTION * gpu->link_effective_bytes_per_s;
    double bytes = 2.0 * (c->tp - 1) / c->tp * tokens * c->model.size.hidden * 2;
    if (c->tp == 1)
        return 0;
    return 2.0 * c->model.size.layers * ((nvlink ? REDUCE_NVLINK_S : REDUCE_PCIE_S) + bytes / rate);
}

/* The idealised formulas: br_calibration_policy says them in words. */
static double ideal_step_s(const struct br_cost *c, const struct br_cost_step *s)
{
    const struct br_footprint *m = &c->model;
    double read = br_footprint_read_bytes(m, s->decodes + s->chunk_tokens) + 2 * m->embedding_params;
    double memory = (read / c->tp + s->kv_tokens * c->kv_bytes_per_token) / (0.8 * c->gpu.memory_bytes_per_s);
    double decode = 2 * m->active_params * s->decodes / c->tp / (0.6 * c->peak);
    double prefill = 2 * m->active_params * s->chunk_tokens / c->tp / (0.55 * c->peak);
    double reduce = reduce_s(c, s->decodes + s->chunk_tokens);
    if (s->chunk_tokens <= 0)
        return fmax(memory, decode) + 1.5e-3 + reduce;
    if (s->decodes <= 0)
        return prefill + 5e-3 + reduce;
    return 1.1 * fmax(memory, decode + prefill) + 5e-3 + reduce;
}

/* The layers' products over every token of the step (in whole tiles) overlap with reading the weights; attention over
 * chunks, reading KV and the overheads follow. */
static double fitted_step_s(const struct br_cost *c, const struct br_cost_step *s)
{
    const struct br_footprint *m = &c->model;
    const struct br_model_size *size = &m->size;
    const double *k = c->calibration.coef;
    double tokens = s->decodes + s->chunk_tokens, sequences = s->decodes + s->chunks;
    double bandwidth = c->gpu.memory_bytes_per_s, efficiency = fmin(k[BR_COEF_MEMORY], BR_COEF_MAX_EFFICIENCY);
    double flops = br_sustained_flops(c->peak, c->gpu.peak_bf16, c->gpu.power_watts, k[BR_COEF_COMPUTE]);
    double smallest = m->weights == BR_WEIGHTS_INT4 ? BR_TILE_ROWS_INT4 : BR_TILE_ROWS;
    double memory = br_footprint_read_bytes(m, tokens) / c->tp / (bandwidth * efficiency);
    double compute = 2 * br_footprint_matrix_params(m) * br_tile_rows(tokens, smallest) / c->tp / flops;
    double attention = 4.0 * s->chunk_pairs * size->heads * size->head_dim * size->layers / c->tp /
                       (ATTENTION_FRACTION * flops * c->gpu.peak_bf16 / c->peak);
    double kv = (s->kv_tokens + s->chunk_kv_tokens) * c->kv_bytes_per_token / (bandwidth * k[BR_COEF_KV]);
    double overhead = k[BR_COEF_STEP] + k[BR_COEF_LAYER] * size->layers + k[BR_COEF_DECODE_SEQ] * s->decodes +
                      k[BR_COEF_PREFILL_SEQ] * s->chunks + k[BR_COEF_KV_SEQ] * s->decodes * c->kv_bytes_per_token / 1e6;
    if (sequences <= 0)
        return 0;
    return br_overlap_s(memory, compute) + attention + kv + overhead + reduce_s(c, tokens);
}

double br_cost_step_s(const struct br_cost *c, const struct br_cost_step *step)
{
    return c->calibration.form == BR_COST_IDEAL ? ideal_step_s(c, step) : fitted_step_s(c, step);
}

void br_cost_add_chunks(struct br_cost_step *step, double chunks, double tokens, double context)
{
    step->chunks += chunks;
    step->chunk_tokens += chunks * tokens;
    step->chunk_pairs += chunks * tokens * (context + tokens / 2);
    step->chunk_kv_tokens += chunks * context;
}

double br_cost_decode_s(const struct br_cost *c, double batch, double kv_tokens)
{
    return br_cost_step_s(c, &(struct br_cost_step){.decodes = batch, .kv_tokens = kv_tokens});
}

double br_cost_prefill_s(const struct br_cost *c, double chunks, double tokens, double context)
{
    struct br_cost_step step = {0};
    br_cost_add_chunks(&step, chunks, tokens, context);
    return br_cost_step_s(c, &step);
}

double br_cost_fused_s(const struct br_cost *c, double batch, double kv_tokens, double tokens, double context)
{
    struct br_cost_step step = {.decodes = batch, .kv_tokens = kv_tokens};
    br_cost_add_chunks(&step, 1, tokens, context);
    return br_cost_step_s(c, &step);
}

double br_cost_device_weight_bytes(const struct br_cost *c)
{
    return c->model.weight_bytes / c->tp;
}

double br_cost_link_bytes_per_s(const struct br_cost *c)
{
    const struct br_gpu *gpu = &c->gpu;
    double efficiency = c->calibration.load_efficiency;
    return efficiency > 0 ? efficiency * gpu->link_bytes_per_s : gpu->link_effective_bytes_per_s;
}

double br_cost_load_s(const struct br_cost *c, double bytes)
{
    return bytes / c->tp / br_cost_link_bytes_per_s(c);
}

double br_cost_switch_s(const struct br_cost *c)
{
    return br_cost_load_s(c, c->model.weight_bytes) + c->calibration.switch_s;
}

double br_cost_resident_switch_s(const struct br_cost *c)
{
    return c->calibration.resident_switch_s;
}

double br_cost_swap_s(const struct br_cost *c, double kv_tokens)
{
    return kv_tokens * c->kv_bytes_per_token / br_cost_link_bytes_per_s(c);
}
