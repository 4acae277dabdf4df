/* Models in GGUF files against safetensors twins that hold the numbers their blocks stand for: the same logits, bit for
 * bit in F32. The blocks are random; what they stand for is checked against other hands' values in test_quant. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/model/model.h"
#include "cli/model/runner.h"
#include "tests/cmocka.h"
#include "tests/unit/worker/device/quant_twin.h"
#include "worker/weights/pack.h"

enum { VOCAB = 512, TOKENS = 12 };

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

/* A GGUF file in the making. */
struct gguf {
    struct br_buf infos, data;
    uint64_t tensors;
    bool llama;
    uint32_t heads, kv_heads;
};

static void put(struct br_buf *buf, const void *bytes, size_t n)
{
    br_buf_add(buf, bytes, n);
}

static void put_u32(struct br_buf *buf, uint32_t value)
{
    put(buf, &value, 4);
}

static void put_u64(struct br_buf *buf, uint64_t value)
{
    put(buf, &value, 8);
}

static void put_text(struct br_buf *buf, const char *text)
{
    put_u64(buf, strlen(text));
    put(buf, text, strlen(text));
}

/* Hugging Face's name as llama.cpp has it. */
static void gguf_name(const char *name, char *out, size_t size)
{
    static const char *const names[][2] = {{"model.embed_tokens.weight", "token_embd.weight"},
                                           {"model.norm.weight", "output_norm.weight"},
                                           {"lm_head.weight", "output.weight"},
                                           {"input_layernorm", "attn_norm"},
                                           {"post_attention_layernorm", "ffn_norm"},
                                           {"self_attn.q_proj", "attn_q"},
                                           {"self_attn.k_proj", "attn_k"},
                                           {"self_attn.v_proj", "attn_v"},
                                           {"self_attn.o_proj", "attn_output"},
                                           {"self_attn.q_norm", "attn_q_norm"},
                                           {"self_attn.k_norm", "attn_k_norm"},
                                           {"mlp.gate_proj", "ffn_gate"},
                                           {"mlp.up_proj", "ffn_up"},
                                           {"mlp.down_proj", "ffn_down"}};
    unsigned layer;
    int skip = 0;
    out[0] = 0;
    if (sscanf(name, "model.layers.%u.%n", &layer, &skip) == 1 && skip)
        snprintf(out, size, "blk.%u.", layer);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name + skip, names[i][0], strlen(names[i][0])) == 0) {
            snprintf(out + strlen(out), size - strlen(out), "%s%s", names[i][1], name + skip + strlen(names[i][0]));
            return;
        }
    fail_msg("%s has no GGUF name", name);
}

static void put_tensor(struct gguf *g, const struct br_tensor *t, uint32_t type, const unsigned char *bytes, size_t n)
{
    char name[128];
    gguf_name(t->name, name, sizeof name);
    put_text(&g->infos, name);
    put_u32(&g->infos, t->rank);
    for (uint32_t i = t->rank; i-- > 0;)
        put_u64(&g->infos, t->shape[i]);
    put_u32(&g->infos, type);
    put_u64(&g->infos, g->data.len);
    put(&g->data, bytes, n);
    while (g->data.len % 32)
        put(&g->data, "", 1);
    g->tensors++;
}

static uint32_t heads_of(const struct gguf *g, const struct br_tensor *t)
{
    if (!g->llama)
        return 0;
    return strstr(t->name, "q_proj.") ? g->heads : strstr(t->name, "k_proj.") ? g->kv_heads : 0;
}

/* Llama's q and k rows as llama.cpp's converter leaves them: the halves of a head alternate. */
static unsigned char *interleaved(const unsigned char *rows, uint64_t n, size_t row_bytes, uint32_t heads)
{
    unsigned char *out = br_malloc(n * row_bytes);
    uint64_t per_head = heads ? n / heads : 0;
    memcpy(out, rows, n * row_bytes);
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t i = 0; i < per_head / 2; i++)
            for (uint64_t j = 0; j < 2; j++)
                memcpy(out + (h * per_head + 2 * i + j) * row_bytes,
                       rows + (h * per_head + j * per_head / 2 + i) * row_bytes, row_bytes);
    return out;
}

static void twin_overwrite(const struct br_tensor *t, const struct br_quant_source *src)
{
    struct br_quant_row row;
    float *values = br_malloc(src->k * sizeof *values);
    br_quant_row_init(&row, &src->format, src->k);
    for (uint64_t n = 0; n < src->n; n++) {
        br_quant_row_values(src, n, &row, values);
        memcpy((unsigned char *)t->data + n * src->k * 4, values, src->k * 4);
    }
    br_quant_row_free(&row);
    free(values);
}

/* A matrix becomes random blocks, in the file and, as numbers, in the twin; anything else stays F32. */
static void put_model_tensor(struct gguf *g, const struct br_tensor *t, enum quant_sort sort)
{
    static const uint32_t types[] = {8, 2, 12, 14}; /* Q8_0, Q4_0, Q4_K, Q6_K */
    struct br_rng rng = {.seed = t->bytes + strlen(t->name)};
    struct quant_twin blocks;
    unsigned char *bytes;
    if (t->rank != 2) {
        bytes = interleaved(t->data, t->shape[0], 4, heads_of(g, t));
        put_tensor(g, t, 0, bytes, t->bytes);
        free(bytes);
        return;
    }
    quant_twin_init(&blocks, sort, t->shape[0], t->shape[1], &rng);
    size_t row_bytes =
        t->shape[1] / br_quant_block_values(blocks.linear.quant.kind) * br_quant_block_bytes(blocks.linear.quant.kind);
    bytes = interleaved(blocks.weight.data, t->shape[0], row_bytes, heads_of(g, t));
    put_tensor(g, t, types[sort - QUANT_SORT_Q8_0], bytes, t->shape[0] * row_bytes);
    twin_overwrite(t, &blocks.linear.quant);
    free(bytes);
    quant_twin_free(&blocks);
}

static void write_file(const char *name, const struct br_buf *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", g_root, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text->data, 1, text->len, f), text->len);
    assert_int_equal(fclose(f), 0);
}

static void gguf_write(const struct gguf *g, const char *arch)
{
    struct br_buf out = {0};
    char key[64];
    put(&out, "GGUF", 4);
    put_u32(&out, 3);
    put_u64(&out, g->tensors);
    put_u64(&out, 4);
    put_text(&out, "general.architecture");
    put_u32(&out, 8);
    put_text(&out, arch);
    put_text(&out, "tokenizer.ggml.tokens"); /* an array of strings, to be passed over */
    put_u32(&out, 9);
    put_u32(&out, 8);
    put_u64(&out, 2);
    put_text(&out, "a");
    put_text(&out, "bc");
    snprintf(key, sizeof key, "%s.attention.head_count", arch);
    put_text(&out, key);
    put_u32(&out, 4);
    put_u32(&out, g->heads);
    snprintf(key, sizeof key, "%s.attention.head_count_kv", arch);
    put_text(&out, key);
    put_u32(&out, 4);
    put_u32(&out, g->kv_heads);
    put(&out, g->infos.data, g->infos.len);
    while (out.len % 32)
        put(&out, "", 1);
    put(&out, g->data.data, g->data.len);
    write_file("g/model-Q.gguf", &out);
    br_buf_free(&out);
}

/* Folders g (config, tokenizer, GGUF) and twin (safetensors). mixed: the sorts change from matrix to matrix. */
static void make_models(const char *arch, enum quant_sort sort, bool mixed)
{
    struct gguf g = {.llama = strcmp(arch, "llama") == 0, .heads = 4, .kv_heads = 2};
    struct br_tensor_table table;
    struct br_buf file = {0};
    struct br_err err;
    char line[500];
    static const char *const names[] = {"g", "twin"};
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line,
                 "model synth %s/%s --arch %s --dtype float32 --layers 2 --hidden 256 --ffn 512 "
                 "--heads 4 --kv-heads 2 --vocab 512 --force",
                 g_root, names[i], arch);
        run(line);
    }
    snprintf(line, sizeof line, "%s/twin/model.safetensors", g_root);
    assert_int_equal(br_buf_read_file(&file, line, 1 << 28), 0);
    if (br_safetensors_parse(file.data, file.len, "twin", &table, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < table.n; i++)
        put_model_tensor(&g, &table.tensors[i], mixed ? QUANT_SORT_Q8_0 + i * 7 % 4 : sort);
    write_file("twin/model.safetensors", &file);
    gguf_write(&g, arch);
    snprintf(line, sizeof line, "%s/g/model.safetensors", g_root);
    assert_int_equal(unlink(line), 0);
    br_tensor_table_free(&table);
    br_buf_free(&file);
    br_buf_free(&g.infos);
    br_buf_free(&g.data);
}

static void logits_of(const char *name, enum br_numeric numeric, float logits[VOCAB], uint64_t *bytes)
{
    struct br_model_runner_options options = {
        .numeric = numeric, .threads = 2, .max_rows = TOKENS, .max_items = 1, .context = 32};
    struct br_model_runner runner;
    int32_t ids[TOKENS];
    char dir[128];
    struct br_err err;
    snprintf(dir, sizeof dir, "%s/%s", g_root, name);
    for (int32_t i = 0; i < TOKENS; i++)
        ids[i] = (i * 41 + 3) % VOCAB;
    if (br_model_runner_open(&runner, dir, &options, &err) || br_model_runner_push(&runner, ids, TOKENS, logits, &err))
        fail_msg("%s", err.msg);
    *bytes = br_layout_total_bytes(&runner.layout);
    br_model_runner_close(&runner);
}

static void check_same(const char *what)
{
    static float of_g[VOCAB], of_twin[VOCAB];
    uint64_t bytes[2];
    logits_of("g", BR_NUMERIC_F32, of_g, &bytes[0]);
    logits_of("twin", BR_NUMERIC_F32, of_twin, &bytes[1]);
    for (int i = 0; i < VOCAB; i++)
        if (!(of_g[i] == of_twin[i]))
            fail_msg("%s: logit %d is %g, of the twin %g", what, i, (double)of_g[i], (double)of_twin[i]);
    assert_true(bytes[0] < bytes[1]); /* blocks stayed blocks */
}

static void test_types(void **state)
{
    static const enum quant_sort sorts[] = {QUANT_SORT_Q8_0, QUANT_SORT_Q4_0, QUANT_SORT_Q4_K, QUANT_SORT_Q6_K};
    (void)state;
    for (size_t i = 0; i < sizeof sorts / sizeof sorts[0]; i++) {
        make_models("qwen2", sorts[i], false);
        check_same(quant_sort_names[sorts[i]]);
    }
}

static void test_mixed_and_interleaved(void **state)
{
    (void)state;
    make_models("llama", QUANT_SORT_Q8_0, true);
    check_same("llama, mixed types");
    make_models("qwen3", QUANT_SORT_Q8_0, true);
    check_same("qwen3, mixed types");
}

/* inspect and verify say that the folder is whole; a cut file is refused with the reason. */
static void test_commands(void **state)
{
    char line[200];
    (void)state;
    make_models("qwen2", QUANT_SORT_Q4_K, false);
    snprintf(line, sizeof line, "model inspect %s/g", g_root);
    run(line);
    snprintf(line, sizeof line, "model verify %s/g", g_root);
    run(line);
    snprintf(line, sizeof line, "%s/g/model-Q.gguf", g_root);
    assert_int_equal(truncate(line, 100000), 0);
    struct br_safetensors *st;
    struct br_err err;
    snprintf(line, sizeof line, "%s/g", g_root);
    assert_int_equal(br_safetensors_open(line, &st, &err), BR_ECORRUPT);
    assert_non_null(strstr(err.msg, "truncated"));
}

static int setup(void **state)
{
    (void)state;
    snprintf(g_root, sizeof g_root, "/tmp/briareus-gguf-XXXXXX");
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
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_mixed_and_interleaved),
        cmocka_unit_test(test_commands),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
