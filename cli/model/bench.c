#include "worker/engine/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/options.h"
#include "cli/model/bench_json.h"
#include "cli/model/commands.h"
#include "cli/model/runner.h"
#include "cost/catalogue.h"

enum { MAX_DIRS = 64 };

struct options {
    const char *dirs[MAX_DIRS], *json, *device;
    enum br_numeric numeric;
    uint32_t n_dirs, threads, steps, repeat;
    double memory_bytes, link_bytes_per_s;
    struct bench_list prefill, batch, context;
};

static const struct argp_option g_options[] = {
    {"prefill", 'p', "N,...", 0, "prompt lengths (64,512)", 0},
    {"batch", 'b', "N,...", 0, "sequences decoded together (1,4,16)", 0},
    {"context", 'c', "N,...", 0, "positions that a decode attends to (64,512)", 0},
    {"steps", 's', "N", 0, "decode steps timed (16)", 0},
    {"threads", 't', "N", 0, "compute threads (all cores)", 0},
    {"dtype", 'd', "TYPE", 0, "auto (default), bfloat16 or float32", 0},
    {"repeat", 'r', "N", 0, "the median of so many runs of each (1; 3 with --json)", 0},
    {"json", 'j', "FILE", 0, "write the costs for `briareus plan --costs FILE`", 0},
    {"device", 'n', "NAME", 0, "what the device is called there (cpu)", 0},
    {"device-memory", 'm', "BYTES", 0, "that the served device will have, for --json (7M, 1.5G)", 0},
    {"device-link", 'l', "BYTES", 0, "a second that it will be capped to (measured)", 0},
    {0},
};

static void parse_list(const char *name, const char *arg, struct bench_list *list, struct argp_state *state)
{
    char copy[256], *rest = copy, *word;
    if (snprintf(copy, sizeof copy, "%s", arg) >= (int)sizeof copy)
        argp_error(state, "--%s: too long", name);
    for (list->n = 0; (word = strsep(&rest, ","));) {
        uint32_t value = br_model_parse_u32(name, word, 1, 1 << 20, state);
        if (list->n == BENCH_MAX_LIST)
            argp_error(state, "--%s: more than %d numbers", name, BENCH_MAX_LIST);
        if (list->n && value <= list->value[list->n - 1])
            argp_error(state, "--%s: numbers must ascend", name);
        list->value[list->n++] = value;
    }
}

static double parse_bytes(const char *name, const char *arg, struct argp_state *state)
{
    const struct br_option row = {name, BR_OPT_BYTES, 0, NULL, 1, 0x1p50, ""};
    uint64_t bytes = 0;
    struct br_err err;
    if (br_options_set(&row, 1, &bytes, name, arg, &err))
        argp_error(state, "%s", err.msg);
    return (double)bytes;
}

static void options_check(struct options *o, struct argp_state *state)
{
    if (!o->n_dirs)
        argp_error(state, "a model folder is needed");
    if (o->json && !(o->memory_bytes > 0))
        argp_error(state, "--json needs --device-memory: what the device that is planned for has for weights and KV");
    if (!o->json && o->n_dirs > 1)
        argp_error(state, "one folder at a time, unless with --json");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'p':
        return parse_list("prefill", arg, &o->prefill, state), 0;
    case 'b':
        return parse_list("batch", arg, &o->batch, state), 0;
    case 'c':
        return parse_list("context", arg, &o->context, state), 0;
    case 's':
        return o->steps = br_model_parse_u32("steps", arg, 1, 100000, state), 0;
    case 't':
        return o->threads = br_model_parse_u32("threads", arg, 1, 1024, state), 0;
    case 'd':
        return o->numeric = br_model_parse_numeric(arg, state), 0;
    case 'r':
        return o->repeat = br_model_parse_u32("repeat", arg, 1, 100, state), 0;
    case 'j':
        return o->json = arg, 0;
    case 'n':
        return o->device = arg, 0;
    case 'm':
        return o->memory_bytes = parse_bytes("device-memory", arg, state), 0;
    case 'l':
        return o->link_bytes_per_s = parse_bytes("device-link", arg, state), 0;
    case ARGP_KEY_ARG:
        if (o->n_dirs == MAX_DIRS)
            argp_error(state, "at most %d folders", MAX_DIRS);
        return o->dirs[o->n_dirs++] = arg, 0;
    case ARGP_KEY_END:
        return options_check(o, state), 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static uint32_t most(const struct bench_list *list)
{
    return list->value[list->n - 1];
}

static int prefill_time(struct br_engine_bench *bench, const struct options *o, uint32_t tokens, double *seconds,
                        struct br_err *err)
{
    double times[BENCH_MAX_REPEAT], rate;
    for (uint32_t i = 0; i < o->repeat; i++) {
        if (br_engine_bench_prefill(bench, tokens, &rate, err))
            return err->code;
        times[i] = tokens / rate;
    }
    *seconds = bench_median(times, o->repeat);
    return 0;
}

static int decode_time(struct br_engine_bench *bench, const struct options *o, uint32_t batch, uint32_t context,
                       double *seconds, struct br_err *err)
{
    double times[BENCH_MAX_REPEAT], rate;
    for (uint32_t i = 0; i < o->repeat; i++) {
        if (br_engine_bench_decode(bench, batch, context, o->steps, &rate, err))
            return err->code;
        times[i] = batch / rate;
    }
    *seconds = bench_median(times, o->repeat);
    return 0;
}

static int bench_all(struct br_engine_bench *bench, const struct options *o, struct bench_times *t, struct br_err *err)
{
    int rc;
    for (uint32_t i = 0; i < t->prefill.n; i++) {
        uint32_t tokens = t->prefill.value[i];
        if ((rc = prefill_time(bench, o, tokens, &t->prefill_s[i], err)))
            return rc;
        printf("prefill  tokens %6u                  %10.1f tokens/s\n", tokens, tokens / t->prefill_s[i]);
    }
    for (uint32_t c = 0; c < t->context.n; c++)
        for (uint32_t b = 0; b < t->batch.n; b++) {
            uint32_t batch = t->batch.value[b], context = t->context.value[c];
            if ((rc = decode_time(bench, o, batch, context, &t->decode_s[b][c], err)))
                return rc;
            printf("decode   batch  %6u  context %6u  %10.1f tokens/s\n", batch, context, batch / t->decode_s[b][c]);
        }
    return 0;
}

/* What the model's positions do not reach is shortened to the longest that they do. */
static void list_limit(struct bench_list *list, uint32_t limit)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t value = list->value[i] < limit ? list->value[i] : limit;
        if (!n || value > list->value[n - 1])
            list->value[n++] = value;
    }
    list->n = n;
}

/* Bytes from host memory to where the bench's KV lies, as many as the weights have. */
static int link_time(struct br_model_runner *runner, const struct options *o, struct bench_times *t, struct br_err *err)
{
    const struct br_device_ops *ops = runner->dev->ops;
    uint64_t bytes = (uint64_t)t->weight_bytes < runner->kv_bytes ? (uint64_t)t->weight_bytes : runner->kv_bytes;
    double times[BENCH_MAX_REPEAT + 1];
    unsigned char *host = aligned_alloc(64, (bytes + 63) & ~63ull);
    if (!host)
        return br_err_set(err, BR_ENOMEM, "no memory for %llu bytes", (unsigned long long)bytes);
    memset(host, 0, bytes);
    for (uint32_t i = 0; i <= o->repeat; i++) {
        double from = br_now_s();
        ops->copy(runner->stream, BR_COPY_H2D, (void *)(uintptr_t)runner->kv, host, bytes);
        ops->event_record(runner->done, runner->stream);
        ops->event_sync(runner->done);
        times[i] = br_now_s() - from;
    }
    free(host);
    t->link_bytes_per_s = o->link_bytes_per_s;
    if (!(o->link_bytes_per_s > 0)) /* the first copy meets memory that was never touched */
        t->link_bytes_per_s = (double)bytes / bench_median(times + 1, o->repeat);
    return 0;
}

static int runner_bench(struct br_model_runner *runner, const struct options *o, uint32_t batch, uint32_t context,
                        struct bench_times *t, struct br_err *err)
{
    struct br_engine_bench *bench;
    int rc = link_time(runner, o, t, err);
    printf("%s, %s, %u threads\n", runner->dev->numeric_profile, br_numeric_name(runner->layout.numeric), o->threads);
    if (!rc)
        rc = br_engine_bench_create(runner->dev, runner->engine, runner->model, &runner->layout, runner->kv,
                                    runner->kv_bytes, batch, context, &bench, err);
    if (!rc) {
        rc = bench_all(bench, o, t, err);
        br_engine_bench_destroy(bench);
    }
    return rc;
}

/* Blocks for the largest batch at the longest context, and for the longest prompt alone. profile: [64]. */
static int bench_run(const struct options *o, const char *dir, struct bench_times *t, char *profile, struct br_err *err)
{
    struct br_model_runner_options options = {.numeric = o->numeric, .threads = o->threads};
    struct br_model_layout layout = {.numeric = BR_NUMERIC_F32}; /* the larger KV of the two */
    struct br_model_runner runner;
    int rc = br_model_shape_load(dir, &layout.shape, err);
    if (rc)
        return rc;
    *t = (struct bench_times){.prefill = o->prefill, .batch = o->batch, .context = o->context};
    if (layout.shape.max_positions <= o->steps)
        return br_err_set(err, BR_EINVAL, "%s has %u positions: --steps must be less", dir, layout.shape.max_positions);
    list_limit(&t->prefill, layout.shape.max_positions);
    list_limit(&t->context, layout.shape.max_positions - o->steps);
    uint32_t batch = most(&t->batch), prefill = most(&t->prefill), context = most(&t->context) + o->steps;
    context = prefill > context ? prefill : context;
    options.max_rows = prefill > batch ? prefill : batch;
    options.max_items = batch;
    options.context = context;
    options.kv_bytes = br_engine_bench_kv_bytes(&layout, batch, context);
    if ((rc = br_model_runner_open(&runner, dir, &options, err)))
        return rc;
    snprintf(profile, 64, "%s", runner.dev->numeric_profile);
    t->weight_bytes = (double)br_layout_total_bytes(&runner.layout);
    t->kv_bytes_per_token = (double)br_kv_block_bytes(&runner.layout.shape, runner.layout.numeric) / BR_KV_BLOCK_TOKENS;
    rc = runner_bench(&runner, o, batch, context, t, err);
    br_model_runner_close(&runner);
    return rc;
}

/* One file of all folders' models; the link is the slowest measured. */
static int bench_dirs(const struct options *o, struct br_err *err)
{
    struct bench_times times;
    struct br_model_size size;
    char profile[64] = "";
    double link = 0;
    json_t *models = json_array();
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < o->n_dirs; i++) {
        if ((rc = bench_run(o, o->dirs[i], &times, profile, err)) == 0)
            rc = br_model_size_load(o->dirs[i], &size, err);
        if (rc)
            break;
        link = i == 0 || times.link_bytes_per_s < link ? times.link_bytes_per_s : link;
        json_array_append_new(models, bench_model_json(&times, size.name));
    }
    if (rc == 0 && o->json)
        return bench_json_write(o->json, o->device, profile, o->memory_bytes, link, o->threads, models, err);
    json_decref(models);
    return rc;
}

int br_model_bench(int argc, char **argv)
{
    static const struct argp argp = {.options = g_options,
                                     .parser = parse_option,
                                     .args_doc = "DIR...",
                                     .doc = "Times prefill and decode of models on this machine's CPU."};
    struct options o = {
        .device = "cpu", .steps = 16, .prefill = {{64, 512}, 2}, .batch = {{1, 4, 16}, 3}, .context = {{64, 512}, 2}};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct br_err err;
    int rc;
    o.threads = cores > 0 ? (uint32_t)cores : 1;
    rc = br_model_parse(&argp, argc, argv, &o);
    if (rc)
        return rc;
    if (!o.repeat)
        o.repeat = o.json ? 3 : 1;
    if (bench_dirs(&o, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    return 0;
}
