/* Models and GPUs by name, against model cards, data sheets and published KV sizes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/catalogue.h"
#include "cost/gpu.h"
#include "tests/cmocka.h"

static void assert_near(double value, double expected, double tolerance)
{
    if (fabs(value / expected - 1) > tolerance)
        fail_msg("%g is not within %g of %g", value, tolerance, expected);
}

static struct br_model_size find(const char *name)
{
    struct br_model_size size;
    struct br_err err;
    if (br_catalogue_find(name, &size, &err))
        fail_msg("%s", err.msg);
    return size;
}

/* Billions, from the model cards. */
static void parameters_are_the_published_ones(void **state)
{
    static const struct {
        const char *name;
        double all, active;
    } known[] = {
        {"Qwen2.5-0.5B", 0.49, 0}, {"Qwen2.5-1.5B", 1.54, 0},    {"Qwen2.5-3B", 3.09, 0},
        {"Qwen2.5-7B", 7.61, 0},   {"Qwen2.5-14B", 14.7, 0},     {"Qwen2.5-32B", 32.5, 0},
        {"Qwen2.5-72B", 72.7, 0},  {"Qwen3-0.6B", 0.6, 0},       {"Qwen3-1.7B", 1.7, 0},
        {"Qwen3-4B", 4.0, 0},      {"Qwen3-8B", 8.2, 0},         {"Qwen3-14B", 14.8, 0},
        {"Qwen3-32B", 32.8, 0},    {"Qwen3-30B-A3B", 30.5, 3.3}, {"Qwen3-235B-A22B", 235, 22},
        {"Llama-2-7B", 6.74, 0},   {"Llama-2-13B", 13.0, 0},     {"Llama-2-70B", 69.0, 0},
        {"Llama-3-8B", 8.03, 0},   {"Llama-3.1-70B", 70.6, 0},   {"Yi-6B", 6.06, 0},
        {"Yi-1.5-9B", 8.83, 0},    {"Yi-34B", 34.4, 0},          {"InternLM2.5-7B", 7.74, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct br_model_size size = find(known[i].name);
        assert_near(br_size_params(&size), known[i].all * 1e9, 0.015);
        assert_near(br_size_active_params(&size), (known[i].active > 0 ? known[i].active : known[i].all) * 1e9, 0.02);
    }
}

/* KiB a token in 16 bits: Aegaeon's table 1, and the sizes of grouped heads. */
static void kv_sizes_are_the_published_ones(void **state)
{
    static const struct {
        const char *name;
        double kib;
    } known[] = {{"Qwen-7B", 512},     {"InternLM2.5-7B", 128}, {"Llama-2-13B", 800}, {"Qwen-72B", 2560},
                 {"Qwen2.5-7B", 56},   {"Yi-1.5-9B", 96},       {"Qwen2.5-72B", 320}, {"Llama-3-8B", 128},
                 {"Llama-2-70B", 320}, {"Qwen3-235B-A22B", 188}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct br_model_size size = find(known[i].name);
        struct br_footprint f;
        br_footprint_init(&f, &size, BR_WEIGHTS_BF16, BR_KV_BF16);
        assert_true(f.kv_bytes_per_token == known[i].kib * 1024);
        br_footprint_init(&f, &size, BR_WEIGHTS_BF16, BR_KV_FP8);
        assert_true(f.kv_bytes_per_token == known[i].kib * 512);
    }
}

/* GB of the checkpoints: 16 bits, and the published 4-bit and 8-bit ones. */
static void weights_weigh_what_checkpoints_do(void **state)
{
    static const struct {
        const char *name;
        enum br_weight_format format;
        double gb;
    } known[] = {
        {"Qwen2.5-7B", BR_WEIGHTS_BF16, 15.2},   {"Yi-1.5-9B", BR_WEIGHTS_BF16, 17.7},
        {"Llama-2-13B", BR_WEIGHTS_BF16, 26},    {"Qwen2.5-72B", BR_WEIGHTS_INT4, 41.6},
        {"Qwen2.5-72B", BR_WEIGHTS_BF16, 145.4}, {"Qwen2.5-7B", BR_WEIGHTS_INT4, 5.58},
        {"Qwen3-8B", BR_WEIGHTS_FP8, 9.44},      {"Qwen3-32B", BR_WEIGHTS_FP8, 34.3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct br_model_size size = find(known[i].name);
        struct br_footprint f;
        br_footprint_init(&f, &size, known[i].format, BR_KV_BF16);
        assert_near(f.weight_bytes, known[i].gb * 1e9, 0.01);
    }
}

static void names_are_found_as_people_write_them(void **state)
{
    static const char *const spellings[] = {"Qwen2.5-7B", "qwen2_5_7b", "Qwen/Qwen2.5-7B-Instruct", "QWEN2.5 7B",
                                            "qwen2.5-7b-chat"};
    struct br_err err;
    (void)state;
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
        assert_string_equal(find(spellings[i]).name, "Qwen2.5-7B");
    assert_string_equal(find("meta-llama/Llama-2-13b-chat-hf").name, "Llama-2-13B");
    assert_string_equal(br_gpu_find("nvidia a100", &err)->name, "A100-80");
    assert_string_equal(br_gpu_find("A100-40GB", &err)->name, "A100-40");
    assert_string_equal(br_gpu_find("rtx4090", &err)->name, "RTX 4090");
    assert_string_equal(br_gpu_find("NVIDIA H20", &err)->name, "H20");
}

static void unknown_names_give_the_nearest(void **state)
{
    struct br_model_size size;
    struct br_err err;
    (void)state;
    assert_null(br_gpu_find("h2O", &err));
    assert_int_equal(err.code, BR_ENOENT);
    assert_string_equal(err.msg, "unknown GPU 'h2O': did you mean 'H20'?");
    assert_null(br_gpu_find("abacus", &err));
    assert_non_null(strstr(err.msg, "known are H20, L20, H800"));
    assert_int_equal(br_catalogue_find("qwen2.5-72bb", &size, &err), BR_ENOENT);
    assert_string_equal(err.msg, "unknown model 'qwen2.5-72bb': did you mean 'Qwen2.5-72B'?");
    assert_int_equal(br_catalogue_find("", &size, &err), BR_ENOENT);
}

static void gpus_are_whole(void **state)
{
    const struct br_gpu *gpu;
    size_t n = 0;
    (void)state;
    for (; (gpu = br_gpu_at(n)); n++) {
        assert_true(gpu->memory_bytes >= 24e9 && gpu->memory_bytes_per_s >= 600e9 && gpu->peak_bf16 >= 100e12);
        assert_true(gpu->link_effective_bytes_per_s < gpu->link_bytes_per_s && gpu->price_usd_per_hour > 0);
        assert_true(gpu->peak_fp8 == 0 || gpu->peak_fp8 > 1.9 * gpu->peak_bf16);
    }
    assert_int_equal(n, 11);
}

static void a_shape_from_config_json_costs_the_same(void **state)
{
    static const char config[] =
        "{\"architectures\": [\"Qwen2ForCausalLM\"], \"hidden_size\": 3584, \"intermediate_size\": 18944, "
        "\"num_hidden_layers\": 28, \"num_attention_heads\": 28, \"num_key_value_heads\": 4, \"vocab_size\": 152064, "
        "\"rms_norm_eps\": 1e-6, \"torch_dtype\": \"bfloat16\", \"max_position_embeddings\": 32768}";
    struct br_model_shape shape;
    struct br_model_size size, known = find("Qwen2.5-7B");
    struct br_err err;
    (void)state;
    assert_int_equal(br_model_shape_parse(config, sizeof config - 1, NULL, 0, &shape, &err), 0);
    br_model_size_of(&shape, "Qwen2.5-7B", &size);
    assert_memory_equal(&size, &known, sizeof size);
    assert_true(br_size_params(&size) == (double)br_model_params(&shape));
}

#define MOE_CONFIG                                                                                                     \
    "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"hidden_size\": 2048, \"intermediate_size\": 6144, "              \
    "\"moe_intermediate_size\": 768, \"num_hidden_layers\": 48, \"num_attention_heads\": 32, "                         \
    "\"num_key_value_heads\": 4, \"head_dim\": 128, \"vocab_size\": 151936, \"num_experts\": 128, "                    \
    "\"num_experts_per_tok\": "

static void a_mixture_s_config_json_is_read(void **state)
{
    static const char config[] = MOE_CONFIG "8, \"decoder_sparse_step\": 1, \"mlp_only_layers\": []}";
    static const char many[] = MOE_CONFIG "129}", mixed[] = MOE_CONFIG "8, \"mlp_only_layers\": [0]}";
    struct br_model_size size, known = find("Qwen3-30B-A3B");
    struct br_err err;
    (void)state;
    assert_int_equal(br_model_size_parse(config, sizeof config - 1, "c", "Qwen3-30B-A3B", &size, &err), 0);
    assert_memory_equal(&size, &known, sizeof size);
    assert_int_equal(br_model_size_parse(many, sizeof many - 1, "c", "x", &size, &err), BR_EINVAL);
    assert_string_equal(err.msg, "c: num_experts_per_tok = 129: must be an integer in 1..128");
    assert_int_equal(br_model_size_parse(mixed, sizeof mixed - 1, "c", "x", &size, &err), BR_ENOTSUP);
    assert_int_equal(br_model_size_parse("{}", 2, "c", "x", &size, &err), BR_ENOTSUP);
    assert_int_equal(br_model_size_load("/nonexistent", &size, &err), BR_ENOENT);
}

static void a_folder_s_config_json_is_read(void **state)
{
    struct br_model_shape shape;
    struct br_model_size size;
    struct br_err err;
    char dir[4096];
    (void)state;
    snprintf(dir, sizeof dir, "%s/demo/models/newton", getenv("BRIAREUS_SOURCE"));
    assert_int_equal(br_model_shape_load(dir, &shape, &err), 0);
    assert_int_equal(br_model_size_load(dir, &size, &err), 0);
    assert_string_equal(size.name, "newton");
    assert_true(br_size_params(&size) == (double)br_model_params(&shape));
}

/* A mixture reads the experts that were chosen: 8 of 128 for one token, nearly all for a long chunk. */
static void a_mixture_reads_what_its_tokens_choose(void **state)
{
    struct br_model_size size = find("Qwen3-30B-A3B");
    struct br_footprint f;
    double one, all;
    (void)state;
    br_footprint_init(&f, &size, BR_WEIGHTS_BF16, BR_KV_BF16);
    one = br_footprint_read_bytes(&f, 1);
    all = f.weight_bytes - 2 * f.embedding_params;
    assert_near(one, 2 * (br_size_active_params(&size) - f.embedding_params), 1e-9);
    assert_near(br_footprint_read_bytes(&f, 1000), all, 1e-9);
    assert_true(br_footprint_read_bytes(&f, 16) > one && br_footprint_read_bytes(&f, 16) < all);
}

static void formats_have_names(void **state)
{
    enum br_weight_format weights;
    enum br_kv_format kv;
    struct br_err err;
    (void)state;
    assert_int_equal(br_weight_format_parse("int4", &weights, &err), 0);
    assert_int_equal(weights, BR_WEIGHTS_INT4);
    assert_int_equal(br_kv_format_parse("fp8", &kv, &err), 0);
    assert_int_equal(kv, BR_KV_FP8);
    assert_int_equal(br_weight_format_parse("int3", &weights, &err), BR_EINVAL);
    assert_int_equal(br_kv_format_parse("int8", &kv, &err), BR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_the_published_ones),
        cmocka_unit_test(kv_sizes_are_the_published_ones),
        cmocka_unit_test(weights_weigh_what_checkpoints_do),
        cmocka_unit_test(names_are_found_as_people_write_them),
        cmocka_unit_test(unknown_names_give_the_nearest),
        cmocka_unit_test(gpus_are_whole),
        cmocka_unit_test(a_shape_from_config_json_costs_the_same),
        cmocka_unit_test(a_mixture_s_config_json_is_read),
        cmocka_unit_test(a_folder_s_config_json_is_read),
        cmocka_unit_test(a_mixture_reads_what_its_tokens_choose),
        cmocka_unit_test(formats_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
