/* Decode and prefill of quantised models beside BF16 ones of the same shape (115M parameters), in one run: rounds
 * alternate, medians count. Rates are by CPU time (times threads), so that neighbours on the machine matter less.
 *   bench_quant [THREADS [ROUNDS]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "cli/model/model.h"
#include "cli/model/runner.h"
#include "worker/engine/bench.h"

enum { MODELS = 5, MEASURES = 3, MAX_ROUNDS = 99, PROMPT = 128, DECODE = 16, BATCH = 16 };

static const char *const g_names[MODELS] = {"bf16", "awq", "gptq", "gptq-int8", "fp8"};
static const char *const g_measures[MEASURES] = {"decode 1", "decode 16", "prefill 128"};

struct model {
    struct br_model_runner runner;
    struct br_engine_bench *bench;
    double rate[MEASURES][MAX_ROUNDS];
};

static void die(const struct br_err *err)
{
    fprintf(stderr, "bench_quant: %s\n", err->msg);
    exit(1);
}

static void synth(const char *dir, const char *name)
{
    char line[500], *argv[40], *rest = line;
    int argc = 0;
    snprintf(line, sizeof line,
             "model synth %s/%s --layers 12 --hidden 768 --ffn 2560 --heads 12 --kv-heads 4 --vocab 16384", dir, name);
    if (strcmp(name, "bf16") != 0)
        snprintf(line + strlen(line), sizeof line - strlen(line), " --quantization %s", name);
    while ((argv[argc] = strsep(&rest, " ")))
        argc++;
    if (br_cli_model(argc, argv))
        exit(1);
}

static void open_model(struct model *m, const char *dir, const char *name, uint32_t threads)
{
    struct br_model_runner_options options = {
        .numeric = BR_NUMERIC_BF16, .threads = threads, .max_rows = PROMPT, .max_items = BATCH, .context = 256};
    struct br_model_layout like = {.numeric = BR_NUMERIC_BF16};
    char path[500];
    struct br_err err;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (br_model_shape_load(path, &like.shape, &err))
        die(&err);
    options.kv_bytes = br_engine_bench_kv_bytes(&like, BATCH, 256);
    if (br_model_runner_open(&m->runner, path, &options, &err) ||
        br_engine_bench_create(m->runner.dev, m->runner.engine, m->runner.model, &m->runner.layout, m->runner.kv,
                               m->runner.kv_bytes, BATCH, 256, &m->bench, &err))
        die(&err);
}

/* Seconds that this process computed: on a busy machine they say more than the clock on the wall. */
static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void measure(struct model *m, int round, uint32_t threads)
{
    static const uint32_t steps[2] = {DECODE, DECODE / 4}, batch[2] = {1, BATCH};
    struct br_err err;
    double wall, start;
    for (int i = 0; i < 2; i++) {
        start = cpu_s();
        if (br_engine_bench_decode(m->bench, batch[i], 32, steps[i], &wall, &err))
            die(&err);
        m->rate[i][round] = threads * batch[i] * steps[i] / (cpu_s() - start);
    }
    start = cpu_s();
    if (br_engine_bench_prefill(m->bench, PROMPT, &wall, &err))
        die(&err);
    m->rate[2][round] = threads * PROMPT / (cpu_s() - start);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

static void print(struct model *models, int rounds)
{
    double base[MEASURES];
    printf("%s\n%-10s %9s", models[0].runner.dev->numeric_profile, "weights", "MB");
    for (int k = 0; k < MEASURES; k++)
        printf("  %12s ratio", g_measures[k]);
    for (int i = 0; i < MODELS; i++) {
        printf("\n%-10s %9.1f", g_names[i], (double)br_layout_total_bytes(&models[i].runner.layout) / 1e6);
        for (int k = 0; k < MEASURES; k++) {
            double rate = median(models[i].rate[k], rounds);
            base[k] = i ? base[k] : rate;
            printf("  %12.1f %5.2f", rate, rate / base[k]);
        }
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static struct model models[MODELS];
    uint32_t threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 7;
    char dir[] = "/tmp/bench-quant-XXXXXX", command[64];
    if (!mkdtemp(dir) || !threads || rounds < 1 || rounds > MAX_ROUNDS)
        return 2;
    for (int i = 0; i < MODELS; i++) {
        synth(dir, g_names[i]);
        open_model(&models[i], dir, g_names[i], threads);
    }
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < MODELS; i++)
            measure(&models[i], r, threads);
    print(models, rounds);
    for (int i = 0; i < MODELS; i++) {
        br_engine_bench_destroy(models[i].bench);
        br_model_runner_close(&models[i].runner);
    }
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}
