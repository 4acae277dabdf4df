/* logit_bias: an object of token ids (as text: JSON has no other keys) and numbers from -100 to 100. */
#include <stdlib.h>

#include "scheduler/gateway/request.h"

static int bias_entry(struct br_request *request, const char *key, const json_t *value, struct br_problem *problem)
{
    struct br_seq_spec *spec = &request->base;
    char *end;
    long id = strtol(key, &end, 10);
    double number = json_number_value(value);
    if (end == key || *end || key[0] == '+' || key[0] == ' ' || id < 0 || id > INT32_MAX)
        return br_problem_set(problem, 400, "invalid_value", "logit_bias",
                              "Invalid key in 'logit_bias': '%.40s' is not a token id.", key);
    if (!json_is_number(value))
        return br_field_type("logit_bias", "an object of token ids and numbers", value, problem);
    if (!(number >= -100 && number <= 100))
        return br_problem_set(problem, 400, "invalid_value", "logit_bias",
                              "Invalid value for 'logit_bias': expected numbers between -100 and 100, but got %g.",
                              number);
    for (uint32_t i = 0; i < spec->n_bias; i++) /* "7" and "007" */
        if (spec->bias_ids[i] == id)
            return br_problem_set(problem, 400, "invalid_value", "logit_bias",
                                  "Invalid 'logit_bias': token id %ld is there twice.", id);
    spec->bias_ids[spec->n_bias] = (int32_t)id;
    spec->bias[spec->n_bias++] = (float)number;
    return 0;
}

int br_request_bias(struct br_request *request, struct br_problem *problem)
{
    json_t *bias = json_object_get(request->root, "logit_bias");
    size_t n = json_object_size(bias);
    if (!bias || json_is_null(bias))
        return 0;
    if (!json_is_object(bias))
        return br_field_type("logit_bias", "an object of token ids and numbers", bias, problem);
    if (n > BR_MAX_LOGIT_BIAS)
        return br_problem_set(problem, 400, "array_above_max_length", "logit_bias",
                              "Invalid 'logit_bias': at most %d token ids are allowed, but got %zu.", BR_MAX_LOGIT_BIAS,
                              n);
    request->base.bias_ids = br_calloc(n + 1, sizeof *request->base.bias_ids);
    request->base.bias = br_calloc(n + 1, sizeof *request->base.bias);
    for (void *at = json_object_iter(bias); at; at = json_object_iter_next(bias, at))
        if (bias_entry(request, json_object_iter_key(at), json_object_iter_value(at), problem) < 0)
            return -1;
    return 0;
}
