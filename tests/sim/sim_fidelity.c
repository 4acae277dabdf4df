/* The simulator's half of tests/fidelity.sh: a workload, and what `briareus plan` makes of it on a fleet of given size.
 * sim_fidelity trace MODELS RATE SECONDS SEED                    CSV (Aegaeon's form) to stdout; RATE of all models
 * sim_fidelity run MODELS TRACE GPU DEVICES WARMUP_S SECONDS     JSON to stdout
 * MODELS is a file as for --models-from. Requests of the first WARMUP_S seconds do not count. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cost/model_list.h"
#include "sim/plan/pool.h"
#include "traffic/trace.h"

static const double TTFT_S = 10, TBT_S = .1;

static int fail(const struct br_err *err)
{
    fprintf(stderr, "sim_fidelity: %s\n", err->msg);
    return 2;
}

/* ---- the workload ---- */

static void clock_print(double at_s, char *out, size_t room)
{
    unsigned long ms = (unsigned long)(at_s * 1e3);
    snprintf(out, room, "%02lu:%02lu:%02lu.%03lu", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
}

/* Poisson, the lengths of the policies' comparison. */
static int trace_command(char **argv)
{
    struct br_model_list models;
    struct br_workload w;
    struct br_err err;
    if (br_model_list_read(argv[0], &models, &err))
        return fail(&err);
    struct br_source *sources = br_calloc(models.n, sizeof *sources);
    for (uint32_t i = 0; i < models.n; i++)
        sources[i] = (struct br_source){
            .name = models.entries[i].name,
            .process = {.kind = BR_PROCESS_POISSON, .rate = atof(argv[1]) / models.n},
            .lengths = {.prompt = {.kind = BR_LENGTH_LOGNORMAL, .min = 16, .max = 4096, .median = 540, .sigma = .78},
                        .output = {.kind = BR_LENGTH_LOGNORMAL, .min = 16, .max = 2048, .median = 242, .sigma = .6}}};
    int rc = br_workload_generate(sources, models.n, atof(argv[2]), strtoull(argv[3], NULL, 10), &w, &err);
    free(sources);
    br_model_list_free(&models);
    if (rc)
        return fail(&err);
    puts("Request Time,Model Name,Input Length,Output Length");
    for (size_t i = 0; i < w.n; i++) {
        char at[32];
        clock_print(w.requests[i].at_s, at, sizeof at);
        printf("%s,%s,%u,%u\n", at, w.names[w.requests[i].model], w.requests[i].prompt, w.requests[i].output);
    }
    br_workload_free(&w);
    return 0;
}

/* ---- the run ---- */

static int model_of(const struct br_model_list *models, const char *name, uint32_t *out, struct br_err *err)
{
    for (*out = 0; *out < models->n; ++*out)
        if (strcmp(models->entries[*out].name, name) == 0)
            return 0;
    return br_err_set(err, BR_EINVAL, "the trace names model '%s', which the file of models has not", name);
}

static int requests_read(const char *path, const struct br_model_list *models, struct plan_requests *out,
                         struct br_err *err)
{
    struct br_trace_options options = {0};
    struct br_workload w;
    int rc = br_trace_load(path, &options, &w, NULL, err);
    if (rc)
        return rc;
    struct sim_request *list = br_calloc(w.n + 1, sizeof *list);
    *out = (struct plan_requests){list, (uint32_t)w.n};
    for (uint32_t i = 0; rc == 0 && i < out->n; i++) {
        const struct br_request *r = &w.requests[i];
        list[i] = (struct sim_request){.at_s = r->at_s, .prompt = r->prompt, .output = r->output};
        rc = model_of(models, w.names[r->model], &list[i].model, err);
    }
    br_workload_free(&w);
    return rc;
}

static double or_else(double x, double otherwise)
{
    return x > 0 ? x : otherwise;
}

static struct plan_model *models_make(const struct br_model_list *list)
{
    struct plan_model *models = br_calloc(list->n, sizeof *models);
    for (uint32_t i = 0; i < list->n; i++) {
        const struct br_model_entry *e = &list->entries[i];
        models[i] = (struct plan_model){
            .footprint = e->footprint, .ttft_s = or_else(e->ttft_s, TTFT_S), .tbt_s = or_else(e->tbt_s, TBT_S)};
        snprintf(models[i].name, sizeof models[i].name, "%.60s", e->name);
    }
    return models;
}

static json_t *quantiles(const struct br_hist *hist)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "mean", (double)hist->sum / (double)(hist->total ? hist->total : 1) / 1e3,
                     "p50", (double)br_hist_quantile(hist, .5) / 1e3, "p90", (double)br_hist_quantile(hist, .9) / 1e3,
                     "p99", (double)br_hist_quantile(hist, .99) / 1e3);
}

static void report(const struct plan_tally *t)
{
    json_t *j =
        json_pack("{s:f, s:I, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:f}", "attainment", plan_tally_attainment(t),
                  "tokens", (json_int_t)t->tokens, "ttft_ms", quantiles(t->ttft_us), "tbt_ms", quantiles(t->tbt_us),
                  "switches_per_minute", 60 * t->switches / t->device_s, "compute_busy", t->compute_s / t->device_s,
                  "prefill_busy", t->prefill_s / t->device_s, "link_busy", t->link_s / t->device_s, "stalled",
                  t->stalled_s / t->device_s, "host_kv_bytes", t->host_kv_bytes);
    json_dumpf(j, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(j);
}

/* The span ends a warm-up after the last request: the simulator leaves out as much at its end as at its beginning. */
static int run_command(char **argv)
{
    struct br_model_list list;
    struct plan_trial trial = {.policy = "slack", .n_devices = (uint32_t)atoi(argv[3])};
    struct plan_ask ask = {.margin_s = atof(argv[4]), .run_on_s = 30, .memory_use = .9, .hysteresis = BR_PL_HYSTERESIS};
    struct plan_pool pool = {.kind = {.tp = 1}};
    struct plan_tally tally;
    struct br_err err;
    ask.horizon_s = atof(argv[5]) + ask.margin_s;
    if (!(pool.kind.gpu = br_gpu_find(argv[2], &err)) || br_model_list_read(argv[0], &list, &err))
        return fail(&err);
    if (requests_read(argv[1], &list, &trial.requests, &err))
        return fail(&err);
    ask.models = models_make(&list);
    ask.n_models = pool.n_models = list.n;
    pool.models = br_calloc(list.n, sizeof *pool.models);
    for (uint32_t i = 0; i < list.n; i++)
        pool.models[i] = i;
    trial.ask = &ask;
    trial.pool = &pool;
    plan_tally_init(&tally);
    int rc = plan_trial_run(&trial, &tally, &err) < 0 ? fail(&err) : 0;
    if (rc == 0)
        report(&tally);
    plan_tally_free(&tally);
    free((void *)trial.requests.list);
    free(ask.models);
    free(pool.models);
    br_model_list_free(&list);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "trace") == 0)
        return trace_command(argv + 2);
    if (argc == 8 && strcmp(argv[1], "run") == 0)
        return run_command(argv + 2);
    fprintf(stderr,
            "usage: sim_fidelity trace MODELS RATE SECONDS SEED | run MODELS TRACE GPU DEVICES WARMUP_S SECONDS\n");
    return 2;
}
