/* Prefill and decode speed of the engine, next to llama.cpp's on the same weights: rounds alternate, medians count.
 *   bench_engine --model DIR --cache DIR [--gguf FILE --llama DIR] [--threads N] [--rounds N] [--isa NAME] [--json] */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "tests/bench/llama.h"
#include "worker/engine/bench.h"
#include "worker/weights/image.h"

enum { PROMPT = 256, DECODE = 64, BATCH = 16, CONTEXT = PROMPT + DECODE, MAX_ROUNDS = 99 };
enum { PREFILL_1, DECODE_1, DECODE_8, DECODE_16, LLAMA_PREFILL, LLAMA_DECODE, MEASURES };

struct options {
    const char *model, *cache, *gguf, *llama, *isa;
    int threads, rounds;
    bool json;
};

struct bench {
    struct options options;
    struct br_device *dev;
    struct br_weight_image *image;
    struct br_engine *engine;
    struct br_engine_model *model;
    struct br_engine_bench *bench;
    struct llama *llama; /* NULL: not asked for */
    int32_t ids[CONTEXT];
    double result[MEASURES][MAX_ROUNDS]; /* tokens per second */
};

static void die(const struct br_err *err)
{
    fprintf(stderr, "bench_engine: %s\n", err->msg);
    exit(1);
}

static struct options options_parse(int argc, char **argv)
{
    static const struct option known[] = {{"model", 1, 0, 'm'},  {"cache", 1, 0, 'c'}, {"gguf", 1, 0, 'g'},
                                          {"llama", 1, 0, 'l'},  {"isa", 1, 0, 'i'},   {"threads", 1, 0, 't'},
                                          {"rounds", 1, 0, 'r'}, {"json", 0, 0, 'j'},  {0, 0, 0, 0}};
    struct options o = {.threads = 1, .rounds = 7};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 'm':
            o.model = optarg;
            break;
        case 'c':
            o.cache = optarg;
            break;
        case 'g':
            o.gguf = optarg;
            break;
        case 'l':
            o.llama = optarg;
            break;
        case 'i':
            o.isa = optarg;
            break;
        case 't':
            o.threads = atoi(optarg);
            break;
        case 'r':
            o.rounds = atoi(optarg);
            break;
        case 'j':
            o.json = true;
            break;
        default:
            exit(2);
        }
    }
    if (!o.model || !o.cache || o.rounds < 1 || o.rounds > MAX_ROUNDS || o.threads < 1 || !o.gguf != !o.llama) {
        fprintf(stderr, "usage: bench_engine --model DIR --cache DIR [--gguf FILE --llama DIR] [--threads N] "
                        "[--rounds N] [--isa NAME] [--json]\n");
        exit(2);
    }
    return o;
}

static void load_weights(struct bench *b)
{
    const struct br_model_layout *m = &b->image->layout;
    struct br_stream *stream;
    struct br_err err;
    br_devptr at = b->dev->memory;
    if (b->dev->ops->stream_create(b->dev, &stream, &err))
        die(&err);
    for (uint32_t u = 0; u < m->units; u++) {
        uint64_t bytes = br_layout_unit_bytes(m, u);
        b->dev->ops->copy(stream, BR_COPY_H2D, (void *)(uintptr_t)at, br_weight_image_unit(b->image, u), bytes);
        br_engine_model_place(b->model, u, at, NULL);
        at += (bytes + 63) / 64 * 64;
    }
    b->dev->ops->stream_destroy(stream); /* waits */
}

static void engine_open(struct bench *b)
{
    struct br_engine_limits limits = {PROMPT, BATCH, CONTEXT};
    struct br_err err;
    if (br_weight_image_open(b->options.model, "bench", b->options.cache, BR_NUMERIC_BF16, &b->image, &err))
        die(&err);
    const struct br_model_layout *m = &b->image->layout;
    uint64_t weights = (br_layout_total_bytes(m) + 63) / 64 * 64, kv = br_engine_bench_kv_bytes(m, BATCH, CONTEXT);
    struct br_device_config config = {.memory_bytes = weights + kv, .threads = (uint32_t)b->options.threads};
    config.isa = b->options.isa;
    if (br_device_cpu_create(&config, &b->dev, &err) || br_engine_create(b->dev, &limits, &b->engine, &err) ||
        br_engine_model_create(b->engine, m, &b->model, &err))
        die(&err);
    load_weights(b);
    if (br_engine_bench_create(b->dev, b->engine, b->model, m, b->dev->memory + weights, kv, BATCH, CONTEXT, &b->bench,
                               &err))
        die(&err);
}

static void bench_open(struct bench *b)
{
    struct br_rng rng = {.seed = 1};
    struct br_err err;
    engine_open(b);
    for (int i = 0; i < CONTEXT; i++)
        b->ids[i] = (int32_t)(br_rng_next(&rng) * b->image->layout.shape.vocab);
    if (b->options.gguf && llama_open(b->options.llama, b->options.gguf, b->options.threads, CONTEXT, &b->llama, &err))
        die(&err);
}

static void bench_close(struct bench *b)
{
    if (b->llama)
        llama_close(b->llama);
    br_engine_bench_destroy(b->bench);
    br_engine_model_destroy(b->model);
    br_engine_destroy(b->engine);
    b->dev->ops->destroy(b->dev);
    br_weight_image_close(b->image);
}

static void round_run(struct bench *b, int round)
{
    double(*r)[MAX_ROUNDS] = b->result;
    struct br_err err;
    if (br_engine_bench_prefill(b->bench, PROMPT, &r[PREFILL_1][round], &err) ||
        (b->llama && llama_prefill(b->llama, b->ids, PROMPT, &r[LLAMA_PREFILL][round], &err)) ||
        br_engine_bench_decode(b->bench, 1, PROMPT, DECODE, &r[DECODE_1][round], &err) ||
        (b->llama && llama_decode_each(b->llama, b->ids + PROMPT, DECODE, &r[LLAMA_DECODE][round], &err)) ||
        br_engine_bench_decode(b->bench, 8, PROMPT, DECODE / 8, &r[DECODE_8][round], &err) ||
        br_engine_bench_decode(b->bench, 16, PROMPT, DECODE / 8, &r[DECODE_16][round], &err))
        die(&err);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool slower(const struct bench *b, const double median[MEASURES])
{
    return b->llama && (median[PREFILL_1] < median[LLAMA_PREFILL] || median[DECODE_1] < median[LLAMA_DECODE]);
}

static void report(const struct bench *b, const double median[MEASURES])
{
    double prefill = median[PREFILL_1] / median[LLAMA_PREFILL], decode = median[DECODE_1] / median[LLAMA_DECODE];
    const char *profile = b->dev->numeric_profile;
    static const char *const names[] = {"prefill 256", "decode 64", "decode, batch of 8", "decode, batch of 16"};
    if (b->options.json) {
        printf("{\"profile\":\"%s\",\"threads\":%d,\"rounds\":%d,\"prefill_256\":%.1f,\"decode_64\":%.1f,"
               "\"decode_batch_8\":%.1f,\"decode_batch_16\":%.1f",
               profile, b->options.threads, b->options.rounds, median[PREFILL_1], median[DECODE_1], median[DECODE_8],
               median[DECODE_16]);
        if (b->llama)
            printf(",\"llama_prefill_256\":%.1f,\"llama_decode_64\":%.1f,\"prefill_ratio\":%.3f,\"decode_ratio\":%.3f",
                   median[LLAMA_PREFILL], median[LLAMA_DECODE], prefill, decode);
        printf("}\n");
        return;
    }
    printf("tokens/s, %s, BF16, %d thread(s), median of %d rounds\n", profile, b->options.threads, b->options.rounds);
    printf("%-20s %10s", "", "briareus");
    if (b->llama)
        printf(" %10s %7s", "llama.cpp", "ratio");
    printf("\n");
    for (int m = 0; m < LLAMA_PREFILL; m++) {
        printf("%-20s %10.1f", names[m], median[m]);
        if (b->llama && m <= DECODE_1)
            printf(" %10.1f %7.2f", median[LLAMA_PREFILL + m], median[m] / median[LLAMA_PREFILL + m]);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    struct bench *b = br_calloc(1, sizeof *b);
    double median[MEASURES];
    b->options = options_parse(argc, argv);
    bench_open(b);
    round_run(b, 0); /* warms up; overwritten */
    for (int i = 0; i < b->options.rounds; i++)
        round_run(b, i);
    for (int m = 0; m < MEASURES; m++) {
        qsort(b->result[m], (size_t)b->options.rounds, sizeof b->result[m][0], by_value);
        median[m] = b->result[m][b->options.rounds / 2];
    }
    report(b, median);
    int status = slower(b, median);
    bench_close(b);
    free(b);
    return status;
}
