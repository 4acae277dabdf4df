/* The workloads of the Aegaeon artifact (../shared/data/traces/aegaeon_artifact) with fair baselines and with the ones
 * that the artifact compares with, beside the published ratios: 16 GPUs of H800 class, policy.md's costs, SLO 10 s /
 * 100 ms, every token of every request counts.
 * sim_artifact FOLDER [DEVICES] */
#include <stdio.h>
#include <stdlib.h>

#include "sim/ideal_cost.h"
#include "sim/sim.h"
#include "traffic/trace.h"

enum { MAX_REQUESTS = 4096, MAX_MODELS = 100, MAX_DEVICES = 64 };

static const struct sim_model *const mix[10] = {&sim_qwen7b, &sim_yi9b, &sim_qwen7b, &sim_llama13b, &sim_qwen7b,
                                                &sim_qwen7b, &sim_yi9b, &sim_qwen7b, &sim_llama13b, &sim_qwen7b};

struct system {
    const char *name;
    struct br_pl_options options;
    double link_bytes_per_s; /* 0: .8 of an H800's */
};

/* Like the product's: continuous batching, joining, draining, the whole link; what has not started by 15 s is dropped,
 * as in the artifact. Then the artifact's handicaps one by one, and together: one request at a time, then, since
 * nobody joins it and it is taken alone. Not among them: the artifact counts KV as if all heads had their own (392
 * KiB a token of Qwen2.5-7B instead of 56). */
static const struct system systems[] = {
    {"request", {.policy = "request", .shed = true}, 0},
    {"request-sjf", {.policy = "request-sjf", .shed = true}, 0},
    {" batch 4", {.policy = "request", .shed = true, .max_batch = 4}, 0},
    {" 16 GB/s", {.policy = "request", .shed = true}, 16e9},
    {" no joining", {.policy = "request", .shed = true, .no_joining = true}, 0},
    {" no draining", {.policy = "request", .shed = true, .no_draining = true}, 0},
    {" all four", {.policy = "request", .shed = true, .max_batch = 4, .no_joining = true, .no_draining = true}, 16e9},
    {"aegaeon", {.policy = "aegaeon", .q_max_s = 4}, 0},
    {"slack", {.policy = "slack", .hysteresis = .35}, 0},
};
enum { N_SYSTEMS = sizeof systems / sizeof *systems, REQUEST = 0, HANDICAPPED = 6, AEGAEON = 7 };

struct workload {
    uint32_t n_models, n;
    double horizon_s;
    struct sim_request requests[MAX_REQUESTS];
};

/* Models are called synth_model_NN. */
static int workload_read(const char *path, struct workload *w, struct br_err *err)
{
    const struct br_trace_options options = {.format = BR_TRACE_AEGAEON};
    struct br_workload trace;
    int rc = br_trace_load(path, &options, &trace, NULL, err);
    if (rc == 0 && trace.n > MAX_REQUESTS)
        rc = br_err_set(err, BR_EINVAL, "%s: %zu requests, room for %d", path, trace.n, MAX_REQUESTS);
    w->n = rc ? 0 : (uint32_t)trace.n;
    for (uint32_t i = 0; i < w->n && rc == 0; i++) {
        const struct br_request *r = &trace.requests[i];
        unsigned model;
        if (sscanf(trace.names[r->model], "synth_model_%u", &model) != 1 || model >= MAX_MODELS)
            rc = br_err_set(err, BR_EINVAL, "%s: model '%s' is none of the artifact's", path, trace.names[r->model]);
        else
            w->requests[i] = (struct sim_request){r->at_s, model, r->prompt, r->output};
    }
    w->horizon_s = w->n ? w->requests[w->n - 1].at_s + 1 : 1;
    br_workload_free(&trace);
    return rc;
}

static double step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                     uint32_t prefill)
{
    (void)ctx, (void)device;
    return sim_ideal_step_s(&sim_h800, mix[model % 10], decodes, (double)kv_bytes, prefill);
}

static double attainment(const struct workload *w, const struct system *s, uint32_t n_devices, double rate)
{
    struct br_pl_model models[MAX_MODELS];
    struct br_pl_hardware hw[MAX_DEVICES];
    struct sim_result result;
    struct br_err err;
    for (uint32_t i = 0; i < w->n_models; i++)
        models[i] = (struct br_pl_model){.weights_bytes = (int64_t)mix[i % 10]->weights_bytes,
                                         .kv_token_bytes = (int64_t)mix[i % 10]->kv_token_bytes,
                                         .ttft_s = 10,
                                         .tbt_s = .1,
                                         .rate = rate};
    for (uint32_t i = 0; i < n_devices; i++)
        hw[i] = (struct br_pl_hardware){.memory_bytes = (int64_t)sim_usable_bytes(&sim_h800),
                                        .link_bytes_per_s = s->link_bytes_per_s > 0 ? s->link_bytes_per_s
                                                                                    : sim_link_bytes_per_s(&sim_h800)};
    struct sim_run run = {.pool = {.n_models = w->n_models,
                                   .n_devices = n_devices,
                                   .models = models,
                                   .hardware = hw,
                                   .cost = {NULL, step_s},
                                   .options = s->options},
                          .requests = w->requests,
                          .n_requests = w->n,
                          .horizon_s = w->horizon_s,
                          .run_on_s = 300};
    run.pool.options.chunk_bytes = 1000000000;
    run.pool.options.prefill_step_s = .3;
    run.pool.options.n_prefill = n_devices * 3 / 8; /* 6 of 16, as published */
    if (sim_run(&run, &result, &err) == 0)
        return result.attainment;
    fprintf(stderr, "sim_artifact: %s\n", err.msg);
    return -1;
}

struct curve {         /* of one system at one rate */
    double models, at; /* the last point at 90 % or more */
    double held;       /* where 90 % is crossed; 0: not yet */
};

static void curve_add(struct curve *c, uint32_t n_models, double at)
{
    if (c->held > 0)
        return;
    if (at < .9 && c->models > 0)
        c->held = c->models + (n_models - c->models) * (c->at - .9) / (c->at - at);
    else if (at < .9)
        c->held = n_models * at / .9; /* the first point is below: about */
    c->models = n_models;
    c->at = at;
}

static void held_print(const struct curve *c)
{
    printf(c->held > 0 ? "  %9.1f  " : "  >= %6.1f  ", c->held > 0 ? c->held : c->models);
}

static double ratio(const struct curve *a, const struct curve *b)
{
    return (a->held > 0 ? a->held : a->models) / (b->held > 0 ? b->held : b->models);
}

static int rate_run(const char *folder, double rate, const uint32_t *counts, int n_counts, uint32_t n_devices)
{
    static struct workload w;
    struct curve curves[N_SYSTEMS] = {0};
    printf("%.1f requests/s a model, %u GPUs: attainment %%\nmodels", rate, n_devices);
    for (int s = 0; s < N_SYSTEMS; s++)
        printf(" %12s", systems[s].name);
    printf("\n");
    for (int i = 0; i < n_counts; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/synth-%u-%.1f-1.0-1.0.csv", folder, counts[i], rate);
        struct br_err err;
        if (workload_read(path, &w, &err)) {
            fprintf(stderr, "sim_artifact: %s\n", err.msg);
            return 2;
        }
        w.n_models = counts[i];
        printf("%6u", counts[i]);
        for (int s = 0; s < N_SYSTEMS; s++) {
            double at = attainment(&w, &systems[s], n_devices, rate);
            curve_add(&curves[s], counts[i], at);
            printf(" %12.1f", 100 * at);
        }
        printf("\n");
    }
    printf("models at 90 %%:\n");
    for (int s = 0; s < N_SYSTEMS; s++) {
        printf("%-13s", systems[s].name);
        held_print(&curves[s]);
        printf("aegaeon / this %.2f\n", ratio(&curves[AEGAEON], &curves[s]));
    }
    printf("published: aegaeon %s x its `request` (ServerlessLLM); here %.2f x handicapped, %.2f x fair\n\n",
           rate < .3 ? "2" : "2.5", ratio(&curves[AEGAEON], &curves[HANDICAPPED]),
           ratio(&curves[AEGAEON], &curves[REQUEST]));
    return 0;
}

int main(int argc, char **argv)
{
    /* 40 at .1 is left out: it covers half the time of its siblings and 39 models. */
    static const uint32_t slow[] = {16, 24, 32, 48, 56, 64, 72, 80}, fast[] = {16, 24, 32, 40, 48, 54};
    uint32_t n_devices = argc > 2 ? (uint32_t)atoi(argv[2]) : 16;
    if (argc < 2 || n_devices < 2 || n_devices > MAX_DEVICES) {
        fprintf(stderr, "sim_artifact FOLDER [DEVICES 2..%d]\n", MAX_DEVICES);
        return 2;
    }
    int rc = rate_run(argv[1], .1, slow, sizeof slow / sizeof *slow, n_devices);
    return rc ? rc : rate_run(argv[1], .5, fast, sizeof fast / sizeof *fast, n_devices);
}
