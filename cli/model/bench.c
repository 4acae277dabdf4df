#include "worker/engine/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/model/commands.h"
#include "cli/model/runner.h"

enum { MAX_LIST = 16 };

struct list {
    uint32_t value[MAX_LIST], n;
};

struct options {
    const char *dir;
    enum br_numeric numeric;
    uint32_t threads, steps;
    struct list prefill, batch, context;
};

static const struct argp_option g_options[] = {
    {"prefill", 'p', "N,...", 0, "prompt lengths (64,512)", 0},
    {"batch", 'b', "N,...", 0, "sequences decoded together (1,4,16)", 0},
    {"context", 'c', "N,...", 0, "positions that a decode attends to (64,512)", 0},
    {"steps", 's', "N", 0, "decode steps timed (16)", 0},
    {"threads", 't', "N", 0, "compute threads (all cores)", 0},
    {"dtype", 'd', "TYPE", 0, "auto (default), bfloat16 or float32", 0},
    {0},
};

static void parse_list(const char *name, const char *arg, struct list *list, struct argp_state *state)
{
    char copy[256], *rest = copy, *word;
    if (snprintf(copy, sizeof copy, "%s", arg) >= (int)sizeof copy)
        argp_error(state, "--%s: too long", name);
    for (list->n = 0; (word = strsep(&rest, ","));) {
        if (list->n == MAX_LIST)
            argp_error(state, "--%s: more than %d numbers", name, MAX_LIST);
        list->value[list->n++] = br_model_parse_u32(name, word, 1, 1 << 20, state);
    }
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
    case ARGP_KEY_ARG:
        if (o->dir)
            argp_error(state, "one folder at a time");
        return o->dir = arg, 0;
    case ARGP_KEY_END:
        if (!o->dir)
            argp_error(state, "a model folder is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static uint32_t most(const struct list *list)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < list->n; i++)
        best = list->value[i] > best ? list->value[i] : best;
    return best;
}

static int bench_all(struct br_engine_bench *bench, const struct options *o, struct br_err *err)
{
    double rate;
    int rc;
    for (uint32_t i = 0; i < o->prefill.n; i++) {
        if ((rc = br_engine_bench_prefill(bench, o->prefill.value[i], &rate, err)))
            return rc;
        printf("prefill  tokens %6u                  %10.1f tokens/s\n", o->prefill.value[i], rate);
    }
    for (uint32_t c = 0; c < o->context.n; c++)
        for (uint32_t b = 0; b < o->batch.n; b++) {
            if ((rc = br_engine_bench_decode(bench, o->batch.value[b], o->context.value[c], o->steps, &rate, err)))
                return rc;
            printf("decode   batch  %6u  context %6u  %10.1f tokens/s\n", o->batch.value[b], o->context.value[c], rate);
        }
    return 0;
}

/* Blocks for the largest batch at the longest context, and for the longest prompt alone. */
static int bench_run(const struct options *o, struct br_err *err)
{
    uint32_t batch = most(&o->batch), prefill = most(&o->prefill), context = most(&o->context) + o->steps;
    struct br_model_runner_options options = {.numeric = o->numeric, .threads = o->threads};
    struct br_model_layout layout = {.numeric = BR_NUMERIC_F32}; /* the larger KV of the two */
    struct br_engine_bench *bench;
    struct br_model_runner runner;
    int rc = br_model_shape_load(o->dir, &layout.shape, err);
    if (rc)
        return rc;
    context = prefill > context ? prefill : context;
    options.max_rows = prefill > batch ? prefill : batch;
    options.max_items = batch;
    options.context = context;
    options.kv_bytes = br_engine_bench_kv_bytes(&layout, batch, context);
    if ((rc = br_model_runner_open(&runner, o->dir, &options, err)))
        return rc;
    printf("%s, %s, %u threads\n", runner.dev->numeric_profile, br_numeric_name(runner.layout.numeric), o->threads);
    rc = br_engine_bench_create(runner.dev, runner.engine, runner.model, &runner.layout, runner.kv, runner.kv_bytes,
                                batch, context, &bench, err);
    if (!rc) {
        rc = bench_all(bench, o, err);
        br_engine_bench_destroy(bench);
    }
    br_model_runner_close(&runner);
    return rc;
}

int br_model_bench(int argc, char **argv)
{
    static const struct argp argp = {.options = g_options,
                                     .parser = parse_option,
                                     .args_doc = "DIR",
                                     .doc = "Times prefill and decode of a model on this machine's CPU."};
    struct options o = {.steps = 16, .prefill = {{64, 512}, 2}, .batch = {{1, 4, 16}, 3}, .context = {{64, 512}, 2}};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct br_err err;
    int rc;
    o.threads = cores > 0 ? (uint32_t)cores : 1;
    rc = br_model_parse(&argp, argc, argv, &o);
    if (rc)
        return rc;
    if (bench_run(&o, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    return 0;
}
