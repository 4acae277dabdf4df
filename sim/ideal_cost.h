/* The idealised costs of policy.md ("Costs: ..."), for its table alone; real ones are in cost/. */
#ifndef BRIAREUS_SIM_IDEAL_COST_H
#define BRIAREUS_SIM_IDEAL_COST_H

#include <stdint.h>

struct sim_gpu {
    const char *name;
    double memory_bytes, hbm_bytes_per_s, peak_flops, link_bytes_per_s;
};

struct sim_model {
    const char *name;
    double weights_bytes, parameters, kv_token_bytes;
};

extern const struct sim_gpu sim_h800, sim_h20;
extern const struct sim_model sim_qwen7b, sim_yi9b, sim_llama13b, sim_qwen72b_int4;

/* decode: max((W + KV)/(.8 HBM), 2 P B/(.6 peak)) + 1.5 ms; prefill: 2 P n/(.55 peak) + 5 ms; both in one step: 1.1 x
 * max(memory, sum of flops) + 5 ms. */
double sim_ideal_step_s(const struct sim_gpu *gpu, const struct sim_model *model, uint32_t decodes, double kv_bytes,
                        uint32_t prefill);
double sim_usable_bytes(const struct sim_gpu *gpu);     /* .9 HBM - 1 GB */
double sim_link_bytes_per_s(const struct sim_gpu *gpu); /* .8 of the link */

#endif
