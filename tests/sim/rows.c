#include "tests/sim/rows.h"

#define MIX                                                                                                            \
    {                                                                                                                  \
        &sim_qwen7b, &sim_yi9b, &sim_qwen7b, &sim_llama13b, &sim_qwen7b, &sim_qwen7b, &sim_yi9b, &sim_qwen7b,          \
            &sim_llama13b, &sim_qwen7b                                                                                 \
    }
#define MIX72                                                                                                          \
    {                                                                                                                  \
        &sim_qwen72b_int4, &sim_qwen72b_int4, &sim_qwen72b_int4, &sim_qwen72b_int4, &sim_qwen72b_int4,                 \
            &sim_qwen72b_int4, &sim_qwen72b_int4, &sim_qwen72b_int4, &sim_qwen72b_int4, &sim_qwen72b_int4              \
    }

const struct row rows[N_ROWS] = {
    {{"H800 mix .1/s", &sim_h800, MIX, .1, 1000, 10, .1, 8}, {{55, 47}, {24, 23}, {46, 35}, {76, 69}, {120, 109}}},
    {{"H800 mix .5/s", &sim_h800, MIX, .5, 500, 10, .1, 8}, {{23, 18}, {24, 23}, {37, 26}, {54, 51}, {84, 79}}},
    {{"H20 72B .037/s", &sim_h20, MIX72, .037, 2500, 10, .1, 8}, {{44, 37}, {8, 8}, {34, 26}, {34, 29}, {56, 51}}},
};

const char *const row_policy_names[ROW_POLICIES] = {"request", "multiplex", "aegaeon", "aegaeon-tuned", "slack"};

struct br_pl_options row_options(enum row_policy policy)
{
    static const char *const names[ROW_POLICIES] = {"request", "multiplex", "aegaeon", "aegaeon", "slack"};
    return (struct br_pl_options){
        .policy = names[policy],
        .shed = policy == ROW_REQUEST || policy == ROW_SLACK,
        .hysteresis = .8,
        .q_max_s = 4,
        .n_prefill = 3,
        .chunk_bytes = 1000000000,
        .prefill_step_s = .3,
    };
}
