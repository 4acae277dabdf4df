/* What the gateway counts, by model and by key, under vLLM's names (its dashboards work), and briareus_* beside them.
 */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_METRICS_H
#define BRIAREUS_SCHEDULER_GATEWAY_METRICS_H

#include "base/metrics.h"
#include "proto/seq.h"

enum { BR_METRICS_MAX_MODELS = 4096 };

/* How a request ended, as vLLM's label finished_reason says it. */
enum br_finish { BR_FINISH_STOP, BR_FINISH_LENGTH, BR_FINISH_ABORT, BR_FINISH_ERROR, BR_N_FINISH };

struct br_model_metrics {
    char name[BR_MAX_MODEL_NAME];
    uint64_t finished[BR_N_FINISH], refused; /* requests; refused: with 429 or 503 */
    uint64_t prompt_tokens, generated_tokens;
    uint64_t prefix_queries, prefix_hits; /* tokens of prompts that ended; of which KV was known */
    uint64_t on_time, late;               /* tokens; owed ones of failed sequences are late */
    struct br_metric_hist ttft, itl, e2e, queue, prefill, decode, inference;
    struct br_metric_hist prompt_length, output_length, n, max_tokens;
};

struct br_gateway_metrics {
    struct br_model_metrics **models; /* owned */
    uint32_t n_models;
    uint64_t answers[6]; /* by the first digit of the HTTP status */
};

/* The model's counters, made at the first call; NULL beyond BR_METRICS_MAX_MODELS. They stay where they are. */
struct br_model_metrics *br_metrics_model(struct br_gateway_metrics *metrics, const char *name);
void br_metrics_free(struct br_gateway_metrics *metrics);
void br_metrics_put(const struct br_gateway_metrics *metrics, struct br_buf *out);

#endif
