/* Costs that were measured on a device of the user's own: `briareus model bench --json` writes such a file, `briareus
 * plan --costs` reads it. One JSON object:
 *
 *     {"briareus_costs": 1, "device": "cpu", "memory_bytes": 7e6, "link_bytes_per_s": 256e6, "switch_s": 1e-5,
 *      "step_overhead_s": 0, "token_overhead_s": 0, "price_usd_per_hour": 0,
 *      "models": [{"name": "prophet", "weight_bytes": 3.3e6, "kv_bytes_per_token": 1024,
 *                  "prefill": [[64, 1.5e-3], [256, 5.1e-3]],
 *                  "decode": {"batch": [1, 4], "context": [64, 256], "seconds": [[2e-4, 3e-4], [3e-4, 5e-4]]}}]}
 *
 * prefill: [tokens, seconds] of one prompt in one step; decode: seconds[i][k] of a step of batch[i] sequences that each
 * attend to context[k] positions. memory_bytes: of the device, for weights and KV together. switch_s: between two steps
 * of different models that are both there. The overheads are what a step, and a token made in it, take beside the
 * engine. switch_s, the overheads and the price may be left out: 0. */
#ifndef BRIAREUS_COST_MEASURED_H
#define BRIAREUS_COST_MEASURED_H

#include "cost/cost.h"

enum { BR_MEASURED_MAX_MODELS = 256, BR_MEASURED_MAX_POINTS = 32 };

struct br_measured_model {
    char name[64];
    double weight_bytes, kv_bytes_per_token;
    uint32_t n_prompts, n_batches, n_contexts;
    double prompt[BR_MEASURED_MAX_POINTS], prefill_s[BR_MEASURED_MAX_POINTS];
    double batch[BR_MEASURED_MAX_POINTS], context[BR_MEASURED_MAX_POINTS];
    double decode_s[BR_MEASURED_MAX_POINTS][BR_MEASURED_MAX_POINTS]; /* [batch][context] */
};

struct br_measured {
    char device[32];
    double memory_bytes, link_bytes_per_s, switch_s, step_overhead_s, token_overhead_s, price_usd_per_hour;
    struct br_measured_model *models; /* [n_models], owned; names differ */
    uint32_t n_models;
};

/* BR_EINVAL names `file`, the key and what is wrong with it; at most 1 MiB. Then *out is empty. */
int br_measured_parse(const char *text, size_t len, const char *file, struct br_measured *out, struct br_err *err);
int br_measured_read(const char *path, struct br_measured *out, struct br_err *err);
void br_measured_free(struct br_measured *measured);
/* NULL: none of that name. */
const struct br_measured_model *br_measured_find(const struct br_measured *measured, const char *name);

/* Seconds of a step, between the points linearly, beyond the last along the last two, before the first as the first.
 * Of a step of both kinds the decodes' share is what they take beyond one decode of the shortest context: weights are
 * read once. A chunk behind `context` tokens attends to them too, at the decodes' rate a token. */
double br_measured_step_s(const struct br_measured *measured, const struct br_measured_model *model,
                          const struct br_cost_step *step);

#endif
