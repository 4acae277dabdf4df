#include "sim/ideal_cost.h"

#include <math.h>

const struct sim_gpu sim_h800 = {"H800", 80e9, 3.35e12, 989e12, 64e9};
const struct sim_gpu sim_h20 = {"H20", 96e9, 4.0e12, 148e12, 64e9};
const struct sim_model sim_qwen7b = {"Qwen2.5-7B", 15.2e9, 7.6e9, 56 * 1024.0};
const struct sim_model sim_yi9b = {"Yi-1.5-9B", 17.7e9, 8.8e9, 96 * 1024.0};
const struct sim_model sim_llama13b = {"Llama-2-13B", 26e9, 13e9, 800 * 1024.0};
const struct sim_model sim_qwen72b_int4 = {"Qwen2.5-72B-INT4", 41e9, 72.7e9, 320 * 1024.0};

double sim_ideal_step_s(const struct sim_gpu *gpu, const struct sim_model *model, uint32_t decodes, double kv_bytes,
                        uint32_t prefill)
{
    double memory = (model->weights_bytes + kv_bytes) / (.8 * gpu->hbm_bytes_per_s);
    double decode = 2 * model->parameters * decodes / (.6 * gpu->peak_flops);
    double prompt = 2 * model->parameters * prefill / (.55 * gpu->peak_flops);
    if (prefill == 0)
        return fmax(memory, decode) + .0015;
    if (decodes == 0)
        return prompt + .005;
    return 1.1 * fmax(memory, decode + prompt) + .005;
}

double sim_usable_bytes(const struct sim_gpu *gpu)
{
    return .9 * gpu->memory_bytes - 1e9;
}

double sim_link_bytes_per_s(const struct sim_gpu *gpu)
{
    return .8 * gpu->link_bytes_per_s;
}
