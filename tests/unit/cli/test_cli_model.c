/* `briareus model` from its command line: exit statuses, and that verify sees what is wrong. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/model/model.h"
#include "cost/measured.h"
#include "tests/cmocka.h"

static char g_dir[64], g_shared[4000];

static int setup(void **state)
{
    const char *shared = getenv("BRIAREUS_SHARED");
    (void)state;
    snprintf(g_shared, sizeof g_shared, "%s/data", shared && *shared ? shared : "../shared");
    snprintf(g_dir, sizeof g_dir, "/tmp/briareus-test-XXXXXX");
    return mkdtemp(g_dir) ? 0 : -1;
}

static int teardown(void **state)
{
    DIR *d = opendir(g_dir);
    struct dirent *entry;
    (void)state;
    while (d && (entry = readdir(d))) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", g_dir, entry->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    return rmdir(g_dir);
}

/* Words separated by spaces; no paths with spaces here. */
static int run(const char *line)
{
    char copy[16000], *argv[40], *rest = copy;
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    while (argc < 39 && (argv[argc] = strsep(&rest, " ")))
        argc++;
    argv[argc] = NULL;
    return br_cli_model(argc, argv);
}

static int run_verify(const char *model, const char *golden)
{
    char line[16000];
    snprintf(line, sizeof line, "model verify %s/models/%s --golden %s", g_shared, model, golden);
    return run(line);
}

static void models_give_the_reference_engine_s_answers(void **state)
{
    static const char *const models[] = {"stories260K", "tiny-qwen2"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char golden[4096];
        snprintf(golden, sizeof golden, "%s/golden/%s.json", g_shared, models[i]);
        assert_int_equal(run_verify(models[i], golden), 0);
    }
}

/* The golden file with the first `from` made `to`. */
static int run_tampered(const char *from, const char *to)
{
    struct br_buf text = {0};
    char path[4096];
    const char *at;
    FILE *f;
    snprintf(path, sizeof path, "%s/golden/stories260K.json", g_shared);
    assert_int_equal(br_buf_read_file(&text, path, 1 << 24), 0);
    at = strstr(text.data, from);
    assert_non_null(at);
    snprintf(path, sizeof path, "%s/golden.json", g_dir);
    f = fopen(path, "w");
    fprintf(f, "%.*s%s%s", (int)(at - text.data), text.data, to, at + strlen(from));
    fclose(f);
    br_buf_free(&text);
    return run_verify("stories260K", path);
}

/* What the command prints; caller frees. */
static char *said(const char *line, int status)
{
    FILE *out = tmpfile();
    int keep = dup(STDOUT_FILENO);
    char *text = calloc(1, 1 << 16);
    fflush(stdout);
    dup2(fileno(out), STDOUT_FILENO);
    assert_int_equal(run(line), status);
    fflush(stdout);
    dup2(keep, STDOUT_FILENO);
    close(keep);
    rewind(out);
    fread(text, 1, (1 << 16) - 1, out);
    fclose(out);
    return text;
}

static void golden_files_that_do_not_fit(void **state)
{
    static const struct {
        const char *golden, *says;
    } cases[] = {
        {"golden/tiny-qwen2.json",
         "golden id 965 is not in the vocabulary of 512: the file does not fit this model (it was made with "
         "tiny-qwen2.gguf)\n"},
        {"golden/none.json", "golden/none.json: No such file or directory\n"},
        {"golden", "golden: not a regular file\n"},
        {"models/stories260K/model.safetensors", "line 1: "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[16000], *text;
        snprintf(line, sizeof line, "model verify %s/models/stories260K --golden %s/%s", g_shared, g_shared,
                 cases[i].golden);
        text = said(line, 1);
        if (!strstr(text, cases[i].says) || strstr(text, " 0 differences") || strstr(text, "line -1") ||
            (i < 3 && i > 0 && !strstr(text, "FAIL golden: cannot open ")))
            fail_msg("\"%s\" lacks \"%s\"", text, cases[i].says);
        free(text);
    }
}

static void verify_sees_a_wrong_answer(void **state)
{
    (void)state;
    assert_int_equal(run_tampered("17.023518", "17.023518"), 0);
    assert_int_equal(run_tampered("17.023518", "17.026518"), 1); /* a logit 3e-3 off */
    assert_int_equal(run_tampered("\"greedy_ids\": [\n    403", "\"greedy_ids\": [\n    404"), 1);
    assert_int_equal(run_tampered("\"greedy_ids\": [\n    403", "\"greedy_ids\": [\n    99999"), 1);
    assert_int_equal(run_tampered("\"l2\": 128.1", "\"l2\": 129.1"), 1);
    assert_int_equal(run_tampered("\"cases\"", "\"none\""), 1);
    assert_int_equal(run_tampered("{", "["), 1);
}

static int run_in_dir(const char *command, const char *rest)
{
    char line[1000];
    snprintf(line, sizeof line, "model %s %s/m%s", command, g_dir, rest);
    return run(line);
}

/* Removes the folder below g_dir. */
static void clean(void)
{
    static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"};
    char path[400];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/m/%s", g_dir, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/m", g_dir);
    rmdir(path);
}

static void synthetic_models_are_whole(void **state)
{
    static const char *const variants[] = {
        "",
        " --arch llama --tied --dtype float16 --layers 2 --ffn 100",
        " --arch qwen3 --hidden 192 --heads 6 --kv-heads 3 --head-dim 40 --vocab 259 --dtype float32 --layers 1",
    };
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        assert_int_equal(run_in_dir("synth", variants[i]), 0);
        assert_int_equal(run_in_dir("inspect", ""), 0);
        assert_int_equal(run_in_dir("verify", ""), 0);
        assert_int_equal(run_in_dir("bench", " --prefill 40 --batch 1,3 --context 20 --steps 2 --threads 2"), 0);
        clean();
    }
}

/* What bench writes is what the planner reads: sizes as the shape says, a time for each point, in order. */
static void bench_writes_costs_to_plan_with(void **state)
{
    struct br_measured measured;
    struct br_model_shape shape;
    struct br_err err;
    char path[400], words[600];
    (void)state;
    assert_int_equal(run_in_dir("synth", " --layers 2 --dtype float32"), 0);
    snprintf(path, sizeof path, "%s/m/costs.json", g_dir);
    snprintf(words, sizeof words,
             " --prefill 8,40 --batch 1,3 --context 20 --steps 2 --repeat 2 --device lab --device-memory 1M "
             "--device-link 2M --json %s",
             path);
    assert_int_equal(run_in_dir("bench", words), 0);
    assert_int_equal(br_measured_read(path, &measured, &err), 0);
    snprintf(words, sizeof words, "%s/m", g_dir);
    assert_int_equal(br_model_shape_load(words, &shape, &err), 0);
    assert_string_equal(measured.device, "lab");
    assert_true(measured.memory_bytes == 1 << 20 && fabs(measured.link_bytes_per_s / (2 << 20) - 1) < 1e-4);
    assert_int_equal(measured.n_models, 1);
    const struct br_measured_model *m = br_measured_find(&measured, "m");
    assert_non_null(m);
    assert_true(m->weight_bytes >= .99 * 4 * (double)br_model_params(&shape)); /* and padding */
    assert_true(m->kv_bytes_per_token == 2.0 * 4 * shape.layers * shape.kv_heads * shape.head_dim);
    assert_true(m->n_prompts == 2 && m->prompt[1] == 40 && m->n_batches == 2 && m->batch[1] == 3 && m->n_contexts == 1);
    br_measured_free(&measured);
    unlink(path);
    clean();
}

static void same_seed_same_bytes(void **state)
{
    struct br_buf a = {0}, b = {0}, c = {0};
    char path[400];
    (void)state;
    snprintf(path, sizeof path, "%s/m/model.safetensors", g_dir);
    assert_int_equal(run_in_dir("synth", " --seed 7"), 0);
    assert_int_equal(br_buf_read_file(&a, path, 1 << 24), 0);
    assert_int_equal(run_in_dir("synth", " --seed 7 --force"), 0);
    assert_int_equal(br_buf_read_file(&b, path, 1 << 24), 0);
    assert_int_equal(run_in_dir("synth", " --seed 8"), 1); /* a model is there */
    assert_int_equal(br_buf_read_file(&c, path, 1 << 24), 0);
    assert_true(a.len == c.len && memcmp(a.data, c.data, a.len) == 0);
    br_buf_clear(&c);
    assert_int_equal(run_in_dir("synth", " --seed 8 --force"), 0);
    assert_int_equal(br_buf_read_file(&c, path, 1 << 24), 0);
    assert_true(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    assert_true(a.len == c.len && memcmp(a.data, c.data, a.len) != 0);
    br_buf_free(&a);
    br_buf_free(&b);
    br_buf_free(&c);
    clean();
}

/* Weights without their configuration are no tokenizer-only folder. */
static void weights_need_a_configuration(void **state)
{
    static const char *const names[] = {"config.json", "model.safetensors"};
    char path[400], line[400], *text;
    (void)state;
    snprintf(line, sizeof line, "model verify %s/m", g_dir);
    assert_int_equal(run_in_dir("synth", ""), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/m/%s", g_dir, names[i]);
        unlink(path);
        text = said(line, i == 0 ? 1 : 0);
        assert_true(i == 1 ||
                    (strstr(text, "FAIL config: ") && strstr(text, "config.json: No such file or directory")));
        free(text);
    }
    assert_int_equal(symlink("config.json", path), 0); /* model.safetensors, leading nowhere */
    assert_int_equal(run_in_dir("verify", ""), 1);
    clean();
}

static void what_is_wrong_is_status_1(void **state)
{
    char path[400];
    (void)state;
    assert_int_equal(run("model verify /nonexistent"), 1);
    assert_int_equal(run("model inspect /nonexistent"), 1);
    assert_int_equal(run("model bench /nonexistent"), 1);
    assert_int_equal(run_in_dir("synth", " --vocab 100"), 1);
    assert_int_equal(run_in_dir("synth", " --heads 3"), 1);
    assert_int_equal(run_in_dir("synth", ""), 0);
    snprintf(path, sizeof path, "%s/m/model.safetensors", g_dir);
    assert_int_equal(truncate(path, 100000), 0);
    assert_int_equal(run_in_dir("verify", ""), 1);
    clean();
    assert_int_equal(run("model"), 2);
    assert_int_equal(run("model frobnicate"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_give_the_reference_engine_s_answers),
        cmocka_unit_test(golden_files_that_do_not_fit),
        cmocka_unit_test(verify_sees_a_wrong_answer),
        cmocka_unit_test(synthetic_models_are_whole),
        cmocka_unit_test(bench_writes_costs_to_plan_with),
        cmocka_unit_test(same_seed_same_bytes),
        cmocka_unit_test(weights_need_a_configuration),
        cmocka_unit_test(what_is_wrong_is_status_1),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
