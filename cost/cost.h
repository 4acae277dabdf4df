/* How long things take: steps, loads and swaps of one model on one device (a GPU or a tensor-parallel group of them),
 * from the model's footprint, the GPU's data sheet and a calibration. Pure arithmetic; seconds and bytes. */
#ifndef BRIAREUS_COST_COST_H
#define BRIAREUS_COST_COST_H

#include "cost/calibration.h"
#include "cost/catalogue.h"

struct br_cost {
    struct br_footprint model;
    struct br_gpu gpu;
    struct br_calibration calibration;
    uint32_t tp;
    double peak;               /* of one GPU for this model's weight format */
    double kv_bytes_per_token; /* on one GPU: heads are split, and repeated where tp exceeds them */
};

/* One forward pass. All counts may be 0; kv_tokens are those read by the decodes, their own new ones included. */
struct br_cost_step {
    double decodes, kv_tokens;
    double chunks, chunk_tokens; /* chunks of prompts and their tokens together */
    double chunk_pairs;          /* (token, earlier token) pairs that attention over the chunks computes */
    double chunk_kv_tokens;      /* tokens already in KV before the chunks, together */
};

/* tp is 1, 2, 4 or 8 and divides the attention heads (BR_EINVAL else). FP8 and INT8 compute at the GPU's rate for them
 * if it has one, INT4 at the 16-bit rate (weights are widened). Whether the model fits is not checked here. */
int br_cost_init(struct br_cost *out, const struct br_footprint *model, const struct br_gpu *gpu, uint32_t tp,
                 const struct br_calibration *calibration, struct br_err *err);

double br_cost_step_s(const struct br_cost *cost, const struct br_cost_step *step);
/* The same in words: batch sequences that together read kv_tokens; chunks of `tokens` prompt tokens each behind
 * `context` tokens in KV. */
double br_cost_decode_s(const struct br_cost *cost, double batch, double kv_tokens);
double br_cost_prefill_s(const struct br_cost *cost, double chunks, double tokens, double context);
double br_cost_fused_s(const struct br_cost *cost, double batch, double kv_tokens, double tokens, double context);
/* Adds chunks to a step. */
void br_cost_add_chunks(struct br_cost_step *step, double chunks, double tokens, double context);

/* Weights and KV on one GPU of the device; links of a group work in parallel, one a GPU. */
double br_cost_device_weight_bytes(const struct br_cost *cost);
double br_cost_link_bytes_per_s(const struct br_cost *cost); /* of one GPU, after the calibration's efficiency */
/* Host to device: `bytes` of the model's weights (all of the device's GPUs together), without and with the switch. */
double br_cost_load_s(const struct br_cost *cost, double bytes);
double br_cost_switch_s(const struct br_cost *cost);          /* a whole load and the change of model */
double br_cost_resident_switch_s(const struct br_cost *cost); /* the change alone */
double br_cost_swap_s(const struct br_cost *cost, double kv_tokens);

#endif
