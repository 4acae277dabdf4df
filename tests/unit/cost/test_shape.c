/* config.json as published models write it, and as it must not be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/shape.h"
#include "tests/cmocka.h"

/* As published: Qwen2.5-0.5B-Instruct, Llama-3.2-1B-Instruct, Qwen3-0.6B, Mistral-7B-Instruct-v0.3. */
static const char g_qwen2[] =
    "{\"architectures\":[\"Qwen2ForCausalLM\"],\"attention_dropout\":0.0,\"bos_token_id\":151643,"
    "\"eos_token_id\":151645,\"hidden_act\":\"silu\",\"hidden_size\":896,\"initializer_range\":0.02,"
    "\"intermediate_size\":4864,\"max_position_embeddings\":32768,\"max_window_layers\":21,\"model_type\":\"qwen2\","
    "\"num_attention_heads\":14,\"num_hidden_layers\":24,\"num_key_value_heads\":2,\"rms_norm_eps\":1e-06,"
    "\"rope_theta\":1000000.0,\"sliding_window\":32768,\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\","
    "\"use_cache\":true,\"use_sliding_window\":false,\"vocab_size\":151936}";
static const char g_qwen2_generation[] =
    "{\"bos_token_id\":151643,\"pad_token_id\":151643,\"do_sample\":true,\"eos_token_id\":[151645,151643]}";
static const char g_llama[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":false,\"bos_token_id\":128000,"
    "\"eos_token_id\":[128001,128008,128009],\"head_dim\":64,\"hidden_act\":\"silu\",\"hidden_size\":2048,"
    "\"intermediate_size\":8192,\"max_position_embeddings\":131072,\"mlp_bias\":false,\"num_attention_heads\":32,"
    "\"num_hidden_layers\":16,\"num_key_value_heads\":8,\"pretraining_tp\":1,\"rms_norm_eps\":1e-05,"
    "\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,"
    "\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},\"rope_theta\":500000.0,"
    "\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\",\"vocab_size\":128256}";
static const char g_qwen3[] =
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"attention_bias\":false,\"bos_token_id\":151643,"
    "\"eos_token_id\":151645,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":1024,"
    "\"intermediate_size\":3072,\"max_position_embeddings\":40960,\"max_window_layers\":28,"
    "\"num_attention_heads\":16,\"num_hidden_layers\":28,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-06,"
    "\"rope_scaling\":null,\"rope_theta\":1000000,\"sliding_window\":null,\"tie_word_embeddings\":true,"
    "\"torch_dtype\":\"bfloat16\",\"use_sliding_window\":false,\"vocab_size\":151936}";
static const char g_mistral[] =
    "{\"architectures\":[\"MistralForCausalLM\"],\"bos_token_id\":1,\"eos_token_id\":2,\"hidden_act\":\"silu\","
    "\"hidden_size\":4096,\"intermediate_size\":14336,\"max_position_embeddings\":32768,"
    "\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-05,"
    "\"rope_theta\":1000000.0,\"sliding_window\":null,\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\","
    "\"vocab_size\":32768}";

static struct br_model_shape parse(const char *config, const char *generation)
{
    struct br_model_shape s;
    struct br_err err;
    if (br_model_shape_parse(config, strlen(config), generation, generation ? strlen(generation) : 0, &s, &err))
        fail_msg("%s", err.msg);
    return s;
}

/* Parameter counts as Hugging Face's model pages report them from the safetensors headers. */
static void published_models(void **state)
{
    struct br_model_shape s = parse(g_qwen2, g_qwen2_generation);
    (void)state;
    assert_int_equal(s.arch, BR_ARCH_QWEN2);
    assert_int_equal(s.dtype, BR_BF16);
    assert_true(s.qkv_bias && !s.qk_norm && s.tied);
    assert_int_equal(s.head_dim, 64);
    assert_int_equal(s.max_positions, 32768);
    assert_int_equal(s.n_eos, 2);
    assert_int_equal(s.eos[0], 151645);
    assert_int_equal(s.eos[1], 151643);
    assert_true(br_model_params(&s) == 494032768);
    /* 2 (K, V) x 24 layers x 2 heads x 64 x 2 bytes = 12,288 a token */
    assert_true(br_kv_block_bytes(&s, BR_NUMERIC_BF16) == 16 * 12288);
    assert_true(br_kv_block_bytes(&s, BR_NUMERIC_F32) == 16 * 24576);

    s = parse(g_llama, NULL);
    assert_int_equal(s.arch, BR_ARCH_LLAMA);
    assert_int_equal(s.rope.kind, BR_ROPE_LLAMA3);
    assert_true(s.rope.factor == 32 && s.rope.low_freq_factor == 1 && s.rope.high_freq_factor == 4);
    assert_int_equal(s.rope.original_max_positions, 8192);
    assert_int_equal(s.max_positions, 131072);
    assert_int_equal(s.n_eos, 3);
    assert_true(br_model_params(&s) == 1235814400);

    s = parse(g_qwen3, NULL);
    assert_true(s.qk_norm && !s.qkv_bias);
    assert_int_equal(s.head_dim, 128);
    assert_true(br_model_params(&s) == 596049920);

    s = parse(g_mistral, NULL);
    assert_int_equal(s.arch, BR_ARCH_LLAMA);
    assert_true(br_model_params(&s) == 7248023552);
}

/* g_mistral with `key` set to `value` (replaced, or added before the end). */
static void with(char *out, size_t size, const char *key, const char *value)
{
    char quoted[64];
    const char *at, *end;
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    at = strstr(g_mistral, quoted);
    if (!at) {
        snprintf(out, size, "%.*s,%s%s}", (int)strlen(g_mistral) - 1, g_mistral, quoted, value);
        return;
    }
    end = at + strcspn(at, strchr(at, '[') == at + strlen(quoted) ? "]" : ",}");
    end += *end == ']';
    snprintf(out, size, "%.*s%s%s%s", (int)(at - g_mistral), g_mistral, quoted, value, end);
}

static struct br_model_shape parse_with(const char *key, const char *value)
{
    char text[4096];
    with(text, sizeof text, key, value);
    return parse(text, NULL);
}

static void rope_in_three_spellings(void **state)
{
    struct br_model_shape s =
        parse_with("rope_scaling", "{\"type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":32768}");
    (void)state;
    assert_int_equal(s.rope.kind, BR_ROPE_YARN);
    assert_true(s.rope.beta_fast == 32 && s.rope.beta_slow == 1 && s.rope.attention_factor == 0);
    assert_true(s.rope.theta == 1e6);
    assert_int_equal(s.max_positions, 131072);
    s = parse_with("rope_scaling", "{\"rope_type\":\"linear\",\"factor\":2}");
    assert_int_equal(s.rope.kind, BR_ROPE_LINEAR);
    assert_int_equal(s.max_positions, 65536);
    assert_int_equal(s.rope.original_max_positions, 32768);
    s = parse_with("rope_parameters", "{\"rope_type\":\"default\",\"rope_theta\":12345.0}");
    assert_int_equal(s.rope.kind, BR_ROPE_DEFAULT);
    assert_true(s.rope.theta == 12345);
    assert_int_equal(parse_with("rope_scaling", "null").rope.kind, BR_ROPE_DEFAULT);
}

static void windows_that_are_none(void **state)
{
    (void)state;
    assert_int_equal(parse_with("sliding_window", "32768").layers, 32);
    assert_int_equal(parse_with("layer_types", "[\"full_attention\",\"full_attention\"]").layers, 32);
}

static void refused_with(const char *key, const char *value, const char *part)
{
    char text[4096];
    struct br_model_shape s = {.hidden = 77};
    struct br_err err;
    with(text, sizeof text, key, value);
    if (br_model_shape_parse(text, strlen(text), NULL, 0, &s, &err) >= 0)
        fail_msg("%s = %s was taken", key, value);
    assert_int_equal(s.hidden, 77);
    assert_non_null(strstr(err.msg, "config.json"));
    if (!strstr(err.msg, key) || !strstr(err.msg, part))
        fail_msg("\"%s\" lacks %s or %s", err.msg, key, part);
}

static void bad_values_name_file_key_and_value(void **state)
{
    static const char *const cases[][3] = {
        {"hidden_size", "0", "= 0: must be an integer in 1..65536"},
        {"hidden_size", "-4096", "-4096"},
        {"hidden_size", "4096.0", "4096.0"},
        {"hidden_size", "\"4096\"", "must be an integer"},
        {"hidden_size", "99999999999", "99999999999"},
        {"hidden_size", "4095", "not a multiple of num_attention_heads = 32"},
        {"hidden_size", "null", "is missing"},
        {"num_hidden_layers", "1025", "1..1024"},
        {"num_key_value_heads", "5", "num_attention_heads"},
        {"vocab_size", "4294967297", "4294967297"},
        {"head_dim", "63", "must be even"},
        {"rms_norm_eps", "0", "must be a number"},
        {"rms_norm_eps", "1e30", "1e30"},
        {"rope_theta", "-1.0", "-1.0"},
        {"eos_token_id", "32768", "ids in 0..32767"},
        {"eos_token_id", "-7", "-7"},
        {"eos_token_id", "[1,2,3,4,5,6,7,8,9]", "at most 8"},
        {"eos_token_id", "[\"x\"]", "ids in"},
        {"tie_word_embeddings", "1", "true or false"},
        {"torch_dtype", "\"float8_e4m3fn\"", "float8_e4m3fn"},
        {"architectures", "[\"GPT2LMHeadModel\"]", "GPT2LMHeadModel"},
        {"architectures", "\"LlamaForCausalLM\"", "must be one of"},
        {"sliding_window", "4096", "4096"},
        {"layer_types", "[\"full_attention\",\"sliding_attention\"]", "only full_attention"},
        {"hidden_act", "\"gelu\"", "gelu"},
        {"mlp_bias", "true", "not supported"},
        {"quantization_config", "{\"quant_method\":\"bitsandbytes\"}", "bitsandbytes"},
        {"partial_rotary_factor", "0.5", "only 1"},
        {"rope_scaling", "{\"type\":\"longrope\",\"factor\":2.0}", "longrope"},
        {"rope_scaling", "{\"type\":\"linear\"}", "factor is missing"},
        {"rope_scaling", "{\"type\":\"linear\",\"factor\":0.5}", "0.5"},
        {"rope_scaling", "{\"type\":\"linear\",\"factor\":4000}", "positions"},
        {"rope_scaling", "{\"rope_type\":\"llama3\",\"factor\":8.0}", "low_freq_factor is missing"},
        {"rope_scaling", "{\"type\":\"yarn\",\"factor\":8.0,\"mscale\":1.0}", "mscale"},
        {"rope_scaling", "[1]", "must be an object"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused_with(cases[i][0], cases[i][1], cases[i][2]);
}

static void text_that_is_no_config(void **state)
{
    static const char *const cases[] = {
        "", "[]", "{", "{\"hidden_size\":1,\"hidden_size\":2}", "{\"hidden_size\":NaN}", "\xff"};
    char *big = malloc((1 << 20) + 1);
    struct br_model_shape s;
    struct br_err err;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(br_model_shape_parse(cases[i], strlen(cases[i]), NULL, 0, &s, &err), BR_EINVAL);
        assert_non_null(strstr(err.msg, "config.json"));
    }
    memset(big, ' ', (1 << 20) + 1);
    assert_int_equal(br_model_shape_parse(big, (1 << 20) + 1, NULL, 0, &s, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "limit"));
    assert_int_equal(br_model_shape_parse(g_qwen2, strlen(g_qwen2), "{", 1, &s, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "generation_config.json"));
    free(big);
}

static void folders(void **state)
{
    struct br_model_shape s;
    struct br_err err;
    char dir[4096];
    const char *shared = getenv("BRIAREUS_SHARED");
    (void)state;
    assert_int_equal(br_model_shape_load("/nonexistent", &s, &err), BR_ENOENT);
    assert_non_null(strstr(err.msg, "/nonexistent: config.json"));
    snprintf(dir, sizeof dir, "%s/data/models/stories260K", shared && *shared ? shared : "../shared");
    if (br_model_shape_load(dir, &s, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(s.ffn, 172);
    /* "260K": 512 x 64 tied + 5 x (2 x 64 + 64 x 128 + 64 x 64 + 3 x 64 x 172) + 64 */
    assert_true(br_model_params(&s) == 32768 + 5 * (128 + 8192 + 4096 + 33024) + 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_models),       cmocka_unit_test(rope_in_three_spellings),
        cmocka_unit_test(windows_that_are_none),  cmocka_unit_test(bad_values_name_file_key_and_value),
        cmocka_unit_test(text_that_is_no_config), cmocka_unit_test(folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
