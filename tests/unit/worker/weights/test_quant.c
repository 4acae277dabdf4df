/* Quantised tensors against the numbers that other hands say they stand for (shared/data/golden/quant): bit for bit,
 * but for the sign of a zero, as its README compares them. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cost/config_field.h"
#include "tests/cmocka.h"
#include "worker/weights/quant.h"

static const char *golden_path(const char *name)
{
    static char path[1024];
    const char *shared = getenv("BRIAREUS_SHARED");
    snprintf(path, sizeof path, "%s/data/golden/quant/%s", shared ? shared : "../shared", name);
    return path;
}

static json_t *golden_json(const char *name)
{
    json_error_t error;
    json_t *root = json_load_file(golden_path(name), 0, &error);
    if (!root)
        fail_msg("%s: %s (is BRIAREUS_SHARED set?)", golden_path(name), error.text);
    return root;
}

/* A file of the golden data as if it were a model's. */
struct file {
    struct br_buf text;
    struct br_safetensors st;
};

static void file_open(struct file *f, const char *name)
{
    struct br_err err;
    memset(f, 0, sizeof *f);
    assert_int_equal(br_buf_read_file(&f->text, golden_path(name), 1 << 20), 0);
    if (br_safetensors_parse(f->text.data, f->text.len, "golden", &f->st.table, &err))
        fail_msg("%s", err.msg);
}

static void file_close(struct file *f)
{
    br_tensor_table_free(&f->st.table);
    br_buf_free(&f->text);
}

static struct br_quant_config config_of(const json_t *root)
{
    struct br_config c = {.object = root, .file = "golden"};
    struct br_quant_config q = {0};
    struct br_err err;
    if (br_quant_config_read(&c, &q, &err))
        fail_msg("%s", err.msg);
    return q;
}

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (a == 0 && b == 0);
}

static uint64_t differences(const struct br_quant_source *src, const float *expected)
{
    struct br_quant_row row;
    float *values = br_malloc(src->k * sizeof *values);
    uint64_t wrong = 0;
    br_quant_row_init(&row, &src->format, src->k);
    for (uint64_t n = 0; n < src->n; n++) {
        br_quant_row_values(src, n, &row, values);
        for (uint64_t k = 0; k < src->k; k++)
            wrong += !same(values[k], expected[n * src->k + k]);
    }
    br_quant_row_free(&row);
    free(values);
    return wrong;
}

static void check_case(const char *name)
{
    char file[128];
    struct file tensors, expected;
    struct br_quant_source src;
    struct br_err err;
    snprintf(file, sizeof file, "%s.json", name);
    json_t *root = golden_json(file);
    struct br_quant_config config = config_of(root);
    uint64_t n = (uint64_t)json_integer_value(json_object_get(root, "out_features"));
    uint64_t k = (uint64_t)json_integer_value(json_object_get(root, "in_features"));
    snprintf(file, sizeof file, "%s.safetensors", name);
    file_open(&tensors, file);
    snprintf(file, sizeof file, "%s.expected.safetensors", name);
    file_open(&expected, file);
    if (br_quant_find(&tensors.st, &config, json_string_value(json_object_get(root, "module")), n, k, NULL, &src, &err))
        fail_msg("%s: %s", name, err.msg);
    const struct br_tensor *want = br_safetensors_find(&expected.st, "expected");
    assert_non_null(want);
    assert_int_equal(want->elements, n * k);
    float *values = br_malloc(want->bytes);
    memcpy(values, want->data, want->bytes);
    if (differences(&src, values))
        fail_msg("%s: %llu of %llu values differ", name, (unsigned long long)differences(&src, values),
                 (unsigned long long)(n * k));
    free(values);
    file_close(&tensors);
    file_close(&expected);
    json_decref(root);
}

static void test_checkpoints(void **state)
{
    static const char *const cases[] = {
        "awq_g128",           "gptq4_g128_sym",        "gptq4_g128_sym_v2", "gptq4_g128_asym",
        "gptq4_g128_asym_v2", "gptq4_g128_desc_act",   "gptq8_g128",        "gptq8_g128_asym",
        "fp8_tensor",         "fp8_tensor_scalar_f32", "fp8_channel",       "fp8_channel_f32",
        "fp8_block128",       "fp8_block128_f32"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_case(cases[i]);
}

static void check_block(const char *type, const json_t *block)
{
    const char *hex = json_string_value(json_object_get(block, "hex"));
    const char *bits = json_string_value(json_object_get(block, "expected_bits"));
    unsigned char bytes[256];
    float expected[256];
    struct br_tensor t = {.name = (char *)"block", .rank = 2, .data = bytes, .file = "golden"};
    struct br_quant_source src;
    struct br_err err;
    assert_non_null(hex);
    for (size_t i = 0; 2 * i < strlen(hex); i++)
        assert_int_equal(sscanf(hex + 2 * i, "%2hhx", &bytes[i]), 1);
    snprintf(t.dtype_name, sizeof t.dtype_name, "%s", type);
    for (; *bits; t.elements++) {
        char *end;
        uint32_t word = (uint32_t)strtoul(bits, &end, 16);
        memcpy(&expected[t.elements], &word, 4);
        bits = end + strspn(end, " ");
    }
    t.shape[0] = 1;
    t.shape[1] = t.elements;
    if (br_quant_of_blocks(&t, &src, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(br_quant_block_values(src.kind), t.elements);
    assert_int_equal(br_quant_block_bytes(src.kind), strlen(hex) / 2);
    assert_int_equal(differences(&src, expected), 0);
}

static void test_blocks(void **state)
{
    json_t *root = golden_json("gguf_blocks.json"), *block;
    const char *type;
    json_t *of_type;
    size_t i;
    (void)state;
    json_object_foreach(json_object_get(root, "types"), type, of_type)
        json_array_foreach(json_object_get(of_type, "blocks"), i, block) check_block(type, block);
    json_decref(root);
}

/* OCP 8-bit floating point specification, table 2: largest 448, smallest normal 2^-6, smallest subnormal 2^-9. */
static void test_e4m3(void **state)
{
    (void)state;
    assert_true(br_e4m3_value(0x7e) == 448);
    assert_true(br_e4m3_value(0x08) == 0x1p-6f);
    assert_true(br_e4m3_value(0x01) == 0x1p-9f);
    assert_true(br_e4m3_value(0x38) == 1);
    assert_true(br_e4m3_value(0xfe) == -448);
    assert_true(br_e4m3_value(0x7f) != br_e4m3_value(0x7f));
}

static void check_refused(const char *config, const char *what)
{
    json_t *root = json_loads(config, 0, NULL);
    struct br_config c = {.object = root, .file = "config.json"};
    struct br_quant_config q = {0};
    struct br_err err = {0};
    assert_non_null(root);
    assert_int_equal(br_quant_config_read(&c, &q, &err), BR_ENOTSUP);
    if (!strstr(err.msg, what) || !strstr(err.msg, "support"))
        fail_msg("%s: does not name %s or what is supported", err.msg, what);
    json_decref(root);
}

static void test_refused(void **state)
{
    (void)state;
    check_refused("{\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}}", "bitsandbytes");
    check_refused("{\"quantization_config\":{\"bits\":4}}", "quant_method");
    check_refused("{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,"
                  "\"version\":\"gemv\"}}",
                  "gemv");
    check_refused("{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":8,\"group_size\":128}}", "bits = 8");
    check_refused("{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":128}}", "bits = 3");
    check_refused("{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-1}}", "group_size");
    check_refused("{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128,"
                  "\"checkpoint_format\":\"marlin\"}}",
                  "marlin");
    check_refused("{\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}}", "e5m2");
    check_refused("{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\"}}",
                  "pack-quantized");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_e4m3),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
