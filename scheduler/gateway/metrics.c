#include "scheduler/gateway/metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Bounds as in vLLM's vllm/v1/metrics/loggers.py: queries of existing dashboards name them. */
static const double ttft_bounds[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                     1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
static const double token_bounds[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                      .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
static const double request_bounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                        30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double length_bounds[] = {1,    2,    5,    10,    20,    50,    100,    200,    500,
                                       1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000};
static const double n_bounds[] = {1, 2, 5, 10, 20};

static const struct hist_row {
    const char *name, *help;
    size_t offset;
    const double *bounds;
    uint32_t n;
} hists[] = {
#define ROW(name, field, bounds, help)                                                                                 \
    {                                                                                                                  \
        "vllm:" name, help, offsetof(struct br_model_metrics, field), bounds, COUNT(bounds)                            \
    }
    ROW("time_to_first_token_seconds", ttft, ttft_bounds, "From arrival to the first token given out."),
    ROW("inter_token_latency_seconds", itl, token_bounds, "Between two tokens of a sequence as given out."),
    ROW("time_per_output_token_seconds", itl, token_bounds, "The same, under its older name."),
    ROW("e2e_request_latency_seconds", e2e, request_bounds, "From a request's arrival to its end."),
    ROW("request_queue_time_seconds", queue, request_bounds, "From arrival to the first step."),
    ROW("request_prefill_time_seconds", prefill, request_bounds, "From the first step to the first token."),
    ROW("request_decode_time_seconds", decode, request_bounds, "From the first token to the last."),
    ROW("request_inference_time_seconds", inference, request_bounds, "From the first step to the last token."),
    ROW("request_prompt_tokens", prompt_length, length_bounds, "Prompt tokens of a request."),
    ROW("request_generation_tokens", output_length, length_bounds, "Tokens generated for a request."),
    ROW("request_params_n", n, n_bounds, "Parameter n of a request."),
    ROW("request_params_max_tokens", max_tokens, length_bounds, "Parameter max_tokens of a request."),
#undef ROW
};

static const char *const finish_names[BR_N_FINISH] = {"stop", "length", "abort", "error"};

static struct br_model_metrics *model_make(const char *name)
{
    struct br_model_metrics *model = br_calloc(1, sizeof *model);
    snprintf(model->name, sizeof model->name, "%s", name);
    for (size_t i = 0; i < COUNT(hists); i++)
        br_metric_hist_init((struct br_metric_hist *)((char *)model + hists[i].offset), hists[i].bounds, hists[i].n);
    return model;
}

struct br_model_metrics *br_metrics_model(struct br_gateway_metrics *metrics, const char *name)
{
    for (uint32_t i = 0; i < metrics->n_models; i++)
        if (strcmp(metrics->models[i]->name, name) == 0)
            return metrics->models[i];
    if (metrics->n_models == BR_METRICS_MAX_MODELS)
        return NULL;
    metrics->models = br_realloc(metrics->models, (metrics->n_models + 1) * sizeof(void *));
    return metrics->models[metrics->n_models++] = model_make(name);
}

void br_metrics_free(struct br_gateway_metrics *metrics)
{
    for (uint32_t i = 0; i < metrics->n_models; i++)
        free(metrics->models[i]);
    free(metrics->models);
    *metrics = (struct br_gateway_metrics){0};
}

/* ---- text ---- */

static void model_labels(struct br_buf *labels, const struct br_model_metrics *model)
{
    br_buf_clear(labels);
    br_metric_label(labels, "model_name", model->name);
}

static void put_counter(const struct br_gateway_metrics *metrics, struct br_buf *out, const char *name,
                        const char *help, size_t offset)
{
    struct br_buf labels = {0};
    br_metric_family(out, name, "counter", help);
    for (uint32_t i = 0; i < metrics->n_models; i++) {
        model_labels(&labels, metrics->models[i]);
        br_metric_put(out, name, &labels, (double)*(const uint64_t *)((const char *)metrics->models[i] + offset));
    }
    br_buf_free(&labels);
}

static void put_finished(const struct br_gateway_metrics *metrics, struct br_buf *out)
{
    struct br_buf labels = {0};
    br_metric_family(out, "vllm:request_success_total", "counter", "Requests by how they ended.");
    for (uint32_t i = 0; i < metrics->n_models; i++)
        for (int k = 0; k < BR_N_FINISH; k++) {
            model_labels(&labels, metrics->models[i]);
            br_metric_label(&labels, "finished_reason", finish_names[k]);
            br_metric_put(out, "vllm:request_success_total", &labels, (double)metrics->models[i]->finished[k]);
        }
    br_buf_free(&labels);
}

static void put_attainment(const struct br_gateway_metrics *metrics, struct br_buf *out)
{
    struct br_buf labels = {0};
    br_metric_family(out, "briareus_slo_attainment_ratio", "gauge", "Share of tokens on time since the start.");
    for (uint32_t i = 0; i < metrics->n_models; i++) {
        const struct br_model_metrics *m = metrics->models[i];
        if (m->on_time + m->late == 0)
            continue;
        model_labels(&labels, m);
        br_metric_put(out, "briareus_slo_attainment_ratio", &labels,
                      (double)m->on_time / (double)(m->on_time + m->late));
    }
    br_buf_free(&labels);
}

static void put_hist(const struct br_gateway_metrics *metrics, struct br_buf *out, const struct hist_row *row)
{
    struct br_buf labels = {0};
    br_metric_family(out, row->name, "histogram", row->help);
    for (uint32_t i = 0; i < metrics->n_models; i++) {
        model_labels(&labels, metrics->models[i]);
        br_metric_hist_put(out, row->name, &labels,
                           (const struct br_metric_hist *)((const char *)metrics->models[i] + row->offset));
    }
    br_buf_free(&labels);
}

static void put_answers(const struct br_gateway_metrics *metrics, struct br_buf *out)
{
    struct br_buf labels = {0};
    char code[8];
    br_metric_family(out, "briareus_http_answers_total", "counter", "Answers to API requests by class of status.");
    for (int i = 2; i < 6; i++) {
        snprintf(code, sizeof code, "%dxx", i);
        br_buf_clear(&labels);
        br_metric_label(&labels, "code", code);
        br_metric_put(out, "briareus_http_answers_total", &labels, (double)metrics->answers[i]);
    }
    br_buf_free(&labels);
}

void br_metrics_put(const struct br_gateway_metrics *metrics, struct br_buf *out)
{
    put_counter(metrics, out, "vllm:prompt_tokens_total", "Prompt tokens of accepted requests.",
                offsetof(struct br_model_metrics, prompt_tokens));
    put_counter(metrics, out, "vllm:generation_tokens_total", "Tokens generated and given out.",
                offsetof(struct br_model_metrics, generated_tokens));
    put_counter(metrics, out, "vllm:prefix_cache_queries_total", "Prompt tokens looked for among known prefixes.",
                offsetof(struct br_model_metrics, prefix_queries));
    put_counter(metrics, out, "vllm:prefix_cache_hits_total", "Prompt tokens whose KV was known.",
                offsetof(struct br_model_metrics, prefix_hits));
    put_finished(metrics, out);
    put_counter(metrics, out, "briareus_requests_refused_total", "Requests that got 429 or 503.",
                offsetof(struct br_model_metrics, refused));
    for (size_t i = 0; i < COUNT(hists); i++)
        put_hist(metrics, out, &hists[i]);
    put_counter(metrics, out, "briareus_tokens_on_time_total", "Tokens that left by arrival + TTFT + k TBT.",
                offsetof(struct br_model_metrics, on_time));
    put_counter(metrics, out, "briareus_tokens_late_total", "Tokens that left later, or never.",
                offsetof(struct br_model_metrics, late));
    put_attainment(metrics, out);
    put_answers(metrics, out);
}
