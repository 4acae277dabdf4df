/* Quantised models against their dequantised twins, from `briareus model synth`: in F32 the logits of every step are
 * the same bits; in BF16 they are the same bits however the ids are chunked, and no farther from the F32 logits than
 * those of the twin in BF16. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/model/model.h"
#include "cli/model/runner.h"
#include "tests/cmocka.h"
#include "worker/weights/image.h"
#include "worker/weights/pack.h"

enum { STEPS = 24, PROMPT = 9, VOCAB = 512 };

static char g_root[64];

static void run(const char *line)
{
    char copy[1000], *argv[40], *rest = copy;
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    while (argc < 39 && (argv[argc] = strsep(&rest, " ")))
        argc++;
    argv[argc] = NULL;
    assert_int_equal(br_cli_model(argc, argv), 0);
}

/* Two folders under g_root: the quantised model and its twin. */
static void synth(const char *method, const char *more)
{
    char line[1000];
    snprintf(line, sizeof line, "model synth %s/q --quantization %s --dtype float32 --force %s", g_root, method, more);
    run(line);
    snprintf(line, sizeof line, "model synth %s/twin --quantization %s --dtype float32 --force --dequantized %s",
             g_root, method, more);
    run(line);
}

static void open_model(struct br_model_runner *runner, const char *name, enum br_numeric numeric, uint64_t *bytes)
{
    struct br_model_runner_options options = {
        .numeric = numeric, .threads = 2, .max_rows = STEPS, .max_items = 1, .context = 2 * STEPS};
    char dir[128];
    struct br_err err;
    snprintf(dir, sizeof dir, "%s/%s", g_root, name);
    if (br_model_runner_open(runner, dir, &options, &err))
        fail_msg("%s", err.msg);
    *bytes = br_layout_total_bytes(&runner->layout);
}

static void push(struct br_model_runner *runner, const int32_t *ids, uint32_t n, float *logits)
{
    struct br_err err;
    if (br_model_runner_push(runner, ids, n, logits, &err))
        fail_msg("%s", err.msg);
}

static int32_t largest(const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static void prompt(int32_t ids[PROMPT])
{
    for (int32_t i = 0; i < PROMPT; i++)
        ids[i] = (i * 37 + 5) % VOCAB;
}

/* A prompt, then greedy decoding; one model gets the prompt at once, the other token by token. */
static void check_same(struct br_model_runner *q, struct br_model_runner *twin, const char *what)
{
    static float of_q[VOCAB], of_twin[VOCAB];
    int32_t ids[STEPS];
    prompt(ids);
    push(q, ids, PROMPT, of_q);
    for (uint32_t i = 0; i < PROMPT; i++)
        push(twin, ids + i, 1, of_twin);
    for (uint32_t n = PROMPT;; n++) {
        if (memcmp(of_q, of_twin, sizeof of_q) != 0)
            fail_msg("%s: logits of position %u differ", what, n - 1);
        if (n == STEPS)
            return;
        ids[n] = largest(of_q);
        push(q, ids + n, 1, of_q);
        push(twin, ids + n, 1, of_twin);
    }
}

static void check_pair(const char *name, const char *other, enum br_numeric numeric, uint64_t bytes[2],
                       const char *what)
{
    struct br_model_runner q, twin;
    open_model(&q, name, numeric, &bytes[0]);
    open_model(&twin, other, numeric, &bytes[1]);
    check_same(&q, &twin, what);
    br_model_runner_close(&q);
    br_model_runner_close(&twin);
}

static void logits_of(const char *name, enum br_numeric numeric, float logits[VOCAB])
{
    struct br_model_runner runner;
    uint64_t bytes;
    int32_t ids[PROMPT];
    prompt(ids);
    open_model(&runner, name, numeric, &bytes);
    push(&runner, ids, PROMPT, logits);
    br_model_runner_close(&runner);
}

static double distance(const float *a, const float *b)
{
    double squares = 0;
    for (int i = 0; i < VOCAB; i++)
        squares += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(squares / VOCAB);
}

static void check_bf16(const char *what)
{
    static float exact[VOCAB], rounded[VOCAB], quantised[VOCAB];
    uint64_t bytes[2];
    check_pair("q", "q", BR_NUMERIC_BF16, bytes, what);
    logits_of("twin", BR_NUMERIC_F32, exact);
    logits_of("twin", BR_NUMERIC_BF16, rounded);
    logits_of("q", BR_NUMERIC_BF16, quantised);
    double off = distance(quantised, exact), of_twin = distance(rounded, exact);
    print_message("%s: BF16 logits are off by %.4f (root of mean squares), of its twin by %.4f\n", what, off, of_twin);
    assert_true(off > 0 && off < 1.25 * of_twin);
}

static void check_twins(const char *what, uint64_t bytes[2])
{
    check_pair("q", "twin", BR_NUMERIC_F32, bytes, what);
    check_bf16(what);
}

static void test_methods(void **state)
{
    static const char *const methods[] = {"awq", "gptq", "gptq-int8", "fp8"};
    uint64_t bytes[2];
    (void)state;
    for (int i = 0; i < 4; i++) {
        synth(methods[i], "--layers 2 --ffn 384 --vocab 512");
        check_twins(methods[i], bytes);
        assert_true(bytes[0] < bytes[1]);
    }
}

/* Widths that are no multiples of groups, panels or 32. */
static void test_odd_widths(void **state)
{
    uint64_t bytes[2];
    (void)state;
    synth("fp8", "--arch qwen3 --hidden 200 --ffn 328 --heads 5 --kv-heads 5 --head-dim 40 --layers 2 --vocab 512");
    check_twins("fp8, odd", bytes);
    synth("awq", "--arch llama --hidden 136 --ffn 264 --heads 4 --kv-heads 2 --head-dim 40 --layers 2 --vocab 512");
    check_twins("awq, odd", bytes);
}

/* Checkpoints padded beyond their config.json: the tensors decide. */
static void test_padded_ffn(void **state)
{
    struct br_buf text = {0};
    uint64_t bytes[2];
    char path[128], *at;
    FILE *f;
    (void)state;
    synth("gptq", "--layers 2 --ffn 512 --vocab 512");
    snprintf(path, sizeof path, "%s/q/config.json", g_root);
    assert_int_equal(br_buf_read_file(&text, path, 1 << 20), 0);
    at = strstr(text.data, "\"intermediate_size\": 512");
    assert_non_null(at);
    memcpy(at, "\"intermediate_size\": 416", 24);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text.data, 1, text.len, f), text.len);
    assert_int_equal(fclose(f), 0);
    br_buf_free(&text);
    check_twins("padded", bytes);
}

/* What the planner counts for INT4 and FP8 is what the device holds, norms and biases in F32 aside. */
static void test_memory(void **state)
{
    static const struct {
        const char *method;
        enum br_weight_format format;
    } cases[] = {{"awq", BR_WEIGHTS_INT4}, {"gptq", BR_WEIGHTS_INT4}, {"fp8", BR_WEIGHTS_FP8}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct br_model_runner q;
        struct br_model_size size;
        struct br_footprint planned;
        uint64_t bytes;
        synth(cases[i].method, "--hidden 512 --ffn 1536 --heads 8 --layers 3 --vocab 512");
        open_model(&q, "q", BR_NUMERIC_AUTO, &bytes);
        br_model_size_of(&q.layout.shape, "m", &size);
        br_footprint_init(&planned, &size, cases[i].format, BR_KV_BF16);
        assert_true((double)bytes < planned.weight_bytes * 1.02 && (double)bytes > planned.weight_bytes * 0.98);
        br_model_runner_close(&q);
    }
}

/* The host cache's image, made in pieces by threads, holds what the packer writes at once; its key is the content's. */
static void check_image(const char *name, uint64_t *key)
{
    struct br_weight_image *image;
    struct br_model_shape shape;
    struct br_safetensors *st;
    struct br_packer packer;
    struct br_err err;
    char dir[128], cache[128];
    snprintf(dir, sizeof dir, "%s/%s", g_root, name);
    snprintf(cache, sizeof cache, "%s/cache", g_root);
    if (br_weight_image_open(dir, name, cache, BR_NUMERIC_AUTO, &image, &err) ||
        br_model_shape_load(dir, &shape, &err) || br_safetensors_open(dir, &st, &err) ||
        br_packer_init(&packer, st, &shape, BR_NUMERIC_AUTO, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(image->layout.format[BR_MATRIX_DOWN].code, packer.layout.format[BR_MATRIX_DOWN].code);
    for (uint32_t u = 0; u < packer.layout.units; u++) {
        uint64_t bytes = br_layout_unit_bytes(&packer.layout, u);
        void *unit = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(unit);
        memset(unit, 0xff, bytes);
        br_pack_unit(&packer, u, unit);
        assert_memory_equal(unit, br_weight_image_unit(image, u), bytes);
        free(unit);
    }
    *key = br_weight_image_key(image);
    br_packer_free(&packer);
    br_safetensors_close(st);
    br_weight_image_close(image);
}

static void test_image(void **state)
{
    uint64_t first, again, other;
    (void)state;
    synth("gptq", "--layers 2 --ffn 384 --vocab 512");
    check_image("q", &first);
    check_image("q", &again);
    synth("gptq", "--layers 2 --ffn 384 --vocab 512 --seed 2");
    check_image("q", &other);
    assert_true(first == again && first != other);
}

static int setup(void **state)
{
    (void)state;
    snprintf(g_root, sizeof g_root, "/tmp/briareus-quant-XXXXXX");
    return mkdtemp(g_root) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", g_root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods), cmocka_unit_test(test_odd_widths), cmocka_unit_test(test_padded_ffn),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_image),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
