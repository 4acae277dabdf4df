#include "scheduler/gateway/request.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "text/json_get.h"

/* A parsed element costs up to 150 bytes for each byte pair of text: bounds that real requests stay far below, checked
 * before parsing. */
enum {
    JSON_MAX_DEPTH = 64,
    JSON_MAX_CONTAINERS = 1 << 16,
    JSON_MAX_COMMAS = BR_MAX_PROMPT_TOKENS + (1 << 16),
};

static int json_scan(const char *body, size_t len, struct br_problem *problem)
{
    size_t depth = 0, containers = 0, commas = 0;
    bool string = false;
    for (size_t i = 0; i < len; i++) {
        char c = body[i];
        if (c == '"')
            string = !string;
        else if (string)
            i += c == '\\';
        else if (c == '[' || c == '{')
            containers++, depth++;
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
        else
            commas += c == ',';
        if (depth > JSON_MAX_DEPTH)
            return br_problem_set(problem, 400, NULL, NULL,
                                  "The JSON body of the request is nested deeper than %d levels.", JSON_MAX_DEPTH);
        if (containers > JSON_MAX_CONTAINERS || commas > JSON_MAX_COMMAS)
            return br_problem_set(problem, 400, NULL, NULL, "The JSON body of the request has too many elements.");
    }
    return 0;
}

static json_t *json_parse(const char *body, size_t len, struct br_problem *problem)
{
    json_error_t error;
    json_t *root;
    if (json_scan(body, len, problem) < 0)
        return NULL;
    root = json_loadb(body ? body : "", len, 0, &error);
    if (!root) {
        br_problem_set(problem, 400, NULL, NULL,
                       "We could not parse the JSON body of your request: %s (line %d, column %d).", error.text,
                       error.line, error.column);
        return NULL;
    }
    if (!json_is_object(root)) {
        br_problem_set(problem, 400, NULL, NULL, "The body of the request must be a JSON object, not %s.",
                       br_json_kind(root));
        json_decref(root);
        return NULL;
    }
    return root;
}

static int request_model(struct br_request *request, struct br_problem *problem)
{
    const json_t *model = json_object_get(request->root, "model");
    if (!model || json_is_null(model))
        return br_problem_set(problem, 400, "missing_required_parameter", "model",
                              "Missing required parameter: 'model'.");
    if (!json_is_string(model))
        return br_field_type("model", "a string", model, problem);
    if (json_string_length(model) >= sizeof request->model)
        return br_problem_set(problem, 404, "model_not_found", "model", "The model '%.64s...' does not exist.",
                              json_string_value(model));
    strcpy(request->model, json_string_value(model));
    return 0;
}

static void request_defaults(struct br_request *request, enum br_request_kind kind)
{
    memset(request, 0, sizeof *request);
    br_seq_spec_init(&request->base);
    request->kind = kind;
    request->base.ttft_s = request->base.tbt_s = 0;
    request->base.sampling.logprobs = -1;
    request->base.continues_text = kind == BR_REQUEST_COMPLETION;
    request->generation_prompt = true;
    snprintf(request->id, sizeof request->id, "%s%016" PRIx64 "%016" PRIx64,
             kind == BR_REQUEST_CHAT         ? "chatcmpl-"
             : kind == BR_REQUEST_COMPLETION ? "cmpl-"
                                             : "msg_",
             br_rng_entropy(), br_rng_entropy());
}

int br_request_parse(struct br_request *request, enum br_request_kind kind, const char *body, size_t len,
                     uint32_t max_choices, struct br_problem *problem)
{
    request_defaults(request, kind);
    request->root = json_parse(body, len, problem);
    if (!request->root)
        goto failed;
    if (request_model(request, problem) < 0 || br_request_sampling(request, problem) < 0 ||
        br_request_input(request, max_choices, problem) < 0)
        goto failed;
    return 0;
failed:
    br_request_free(request);
    return -1;
}

void br_request_drop_json(struct br_request *request)
{
    json_decref(request->root);
    request->root = NULL;
    for (uint32_t i = 0; i < request->n_joined; i++)
        free(request->joined[i]);
    free(request->joined);
    free(request->messages);
    free(request->calls);
    request->joined = NULL;
    request->messages = NULL;
    request->calls = NULL;
    request->n_joined = request->n_messages = request->n_calls = 0;
    for (uint32_t i = 0; i < request->n_prompts; i++)
        request->prompts[i].text = NULL;
}

void br_request_free(struct br_request *request)
{
    br_request_drop_json(request);
    for (uint32_t i = 0; i < request->n_prompts; i++) {
        br_ids_free(&request->prompts[i].ids);
        free(request->prompts[i].echo);
    }
    free(request->prompts);
    request->prompts = NULL;
    request->n_prompts = 0;
    br_seq_spec_free(&request->base);
    br_seq_spec_init(&request->base);
}

/* ---- binding to a model ---- */

static const char *input_name(const struct br_request *request)
{
    return request->n_messages > 0 ? "messages" : request->kind == BR_REQUEST_DETOKENIZE ? "tokens" : "prompt";
}

static int bind_chat(struct br_request *request, const struct br_gateway_model *model, struct br_problem *problem)
{
    struct br_chat_template chat = model->chat;
    struct br_err err;
    if (!model->has_chat)
        return br_problem_set(problem, 400, "unsupported_value", "model",
                              "The model '%s' has no chat template: use /v1/completions.", model->name);
    chat.no_thinking = chat.no_thinking || request->no_thinking;
    if (br_chat_encode(model->tokenizer, &chat, request->messages, request->n_messages, request->generation_prompt,
                       &request->prompts[0].ids, &err) < 0)
        return br_problem_set(problem, 400, "invalid_value", "messages", "%s.", err.msg);
    return 0;
}

static void bind_echo(struct br_request_prompt *prompt, const struct br_gateway_model *model)
{
    struct br_buf text = {0};
    if (prompt->text)
        br_buf_add(&text, prompt->text, prompt->len);
    else
        br_tokenizer_decode(model->tokenizer, prompt->ids.data, prompt->ids.len, true, &text);
    br_buf_puts(&text, "");
    prompt->echo = text.data;
}

static int bind_prompt(struct br_request *request, struct br_request_prompt *prompt,
                       const struct br_gateway_model *model, struct br_problem *problem)
{
    struct br_err err;
    unsigned flags = (request->no_special ? 0 : BR_ENCODE_ADD_SPECIAL) | BR_ENCODE_PARSE_SPECIAL;
    const char *name = input_name(request);
    if (prompt->text && br_tokenizer_encode(model->tokenizer, prompt->text, prompt->len, flags, &prompt->ids, &err) < 0)
        return br_problem_set(problem, 400, "invalid_value", "prompt", "%s.", err.msg);
    for (size_t i = 0; i < prompt->ids.len; i++)
        if ((uint32_t)prompt->ids.data[i] >= model->vocab)
            return br_problem_set(problem, 400, "invalid_value", name,
                                  "Invalid '%s': token id %d is not below the model's vocabulary size of %u.", name,
                                  prompt->ids.data[i], model->vocab);
    if (request->echo)
        bind_echo(prompt, model);
    return 0;
}

static int bind_too_long(const struct br_request *request, const struct br_gateway_model *model, size_t length,
                         struct br_problem *problem)
{
    const char *input = input_name(request);
    if (request->has_max_tokens)
        return br_problem_set(
            problem, 400, "context_length_exceeded", input,
            "This model's maximum context length is %u tokens. However, you requested %llu tokens "
            "(%zu in the %s, %u in the completion). Please reduce the length of the %s or completion.",
            model->max_context, (unsigned long long)length + request->base.max_tokens, length, input,
            request->base.max_tokens, input);
    return br_problem_set(problem, 400, "context_length_exceeded", input,
                          "This model's maximum context length is %u tokens. However, your %s resulted in %zu tokens, "
                          "which leaves no room for a completion. Please reduce the length of the %s.",
                          model->max_context, input, length, input);
}

/* Checks one prompt's length; *room becomes the least that any prompt leaves. */
static int bind_length(const struct br_request *request, const struct br_gateway_model *model, size_t length,
                       uint32_t *room, struct br_problem *problem)
{
    uint64_t wanted = request->has_max_tokens ? request->base.max_tokens : 1;
    if (length == 0)
        return br_problem_set(problem, 400, "invalid_value", input_name(request),
                              "Invalid '%s': it must contain at least one token.", input_name(request));
    if (length > BR_MAX_PROMPT_TOKENS || length + wanted > model->max_context)
        return bind_too_long(request, model, length, problem);
    if (model->max_context - length < *room)
        *room = (uint32_t)(model->max_context - length);
    return 0;
}

static int bind_stop_ids(const struct br_request *request, const struct br_gateway_model *model,
                         struct br_problem *problem)
{
    for (uint32_t i = 0; i < request->base.n_stop_ids; i++)
        if ((uint32_t)request->base.stop_ids[i] >= model->vocab)
            return br_problem_set(problem, 400, "invalid_value", "stop_token_ids",
                                  "Invalid 'stop_token_ids': %d is not below the model's vocabulary size of %u.",
                                  request->base.stop_ids[i], model->vocab);
    return 0;
}

static int bind_bias(const struct br_request *request, const struct br_gateway_model *model, struct br_problem *problem)
{
    for (uint32_t i = 0; i < request->base.n_bias; i++)
        if ((uint32_t)request->base.bias_ids[i] >= model->vocab)
            return br_problem_set(problem, 400, "invalid_value", "logit_bias",
                                  "Invalid 'logit_bias': %d is not below the model's vocabulary size of %u.",
                                  request->base.bias_ids[i], model->vocab);
    return 0;
}

/* What the client has not said, as the model's folder says. */
static void bind_sampling(struct br_request *request, const struct br_gateway_model *model)
{
    const struct br_gateway_defaults *d = &model->defaults;
    struct br_sampling *s = &request->base.sampling;
    unsigned take = d->given & ~request->given;
    if (take & BR_DEFAULT_TEMPERATURE)
        s->temperature = d->temperature;
    if (take & BR_DEFAULT_TOP_P)
        s->top_p = d->top_p;
    if (take & BR_DEFAULT_TOP_K)
        s->top_k = d->top_k;
    if (take & BR_DEFAULT_MIN_P)
        s->min_p = d->min_p;
    if (take & BR_DEFAULT_REPETITION)
        s->repetition_penalty = d->repetition_penalty;
}

static uint32_t default_length(const struct br_request *request, const struct br_gateway_model *model, uint32_t room)
{
    uint32_t length = request->kind == BR_REQUEST_COMPLETION ? 16 : room;
    if (request->kind != BR_REQUEST_COMPLETION && (model->defaults.given & BR_DEFAULT_MAX_TOKENS))
        length = model->defaults.max_tokens;
    return length < room ? length : room;
}

static void bind_defaults(struct br_request *request, const struct br_gateway_model *model, uint32_t room)
{
    struct br_seq_spec *base = &request->base;
    bind_sampling(request, model);
    if (!request->has_max_tokens)
        base->max_tokens = default_length(request, model, room);
    if (base->min_tokens > base->max_tokens)
        base->min_tokens = base->max_tokens;
    if (base->ttft_s <= 0)
        base->ttft_s = model->ttft_s;
    if (base->tbt_s <= 0)
        base->tbt_s = model->tbt_s;
    if (model->weight > 0)
        base->weight *= model->weight;
    snprintf(base->model, sizeof base->model, "%s", model->name);
    snprintf(base->request_id, sizeof base->request_id, "%s", request->id);
}

int br_request_bind(struct br_request *request, const struct br_gateway_model *model, struct br_problem *problem)
{
    uint32_t room = model->max_context;
    if (request->n_messages > 0 && bind_chat(request, model, problem) < 0)
        return -1;
    if (br_request_is_local(request))
        return bind_prompt(request, &request->prompts[0], model, problem);
    if (bind_stop_ids(request, model, problem) < 0 || bind_bias(request, model, problem) < 0)
        return -1;
    for (uint32_t i = 0; i < request->n_prompts; i++) {
        struct br_request_prompt *prompt = &request->prompts[i];
        if (bind_prompt(request, prompt, model, problem) < 0 ||
            bind_length(request, model, prompt->ids.len, &room, problem) < 0)
            return -1;
    }
    bind_defaults(request, model, room);
    br_request_drop_json(request);
    return 0;
}

struct br_seq_spec *br_request_specs(const struct br_request *request, uint32_t *n)
{
    struct br_seq_spec *specs;
    *n = request->n * request->n_prompts;
    specs = br_calloc(*n, sizeof *specs);
    for (uint32_t i = 0; i < *n; i++) {
        const struct br_ids *ids = &request->prompts[i / request->n].ids;
        specs[i] = request->base;
        specs[i].choice = i;
        specs[i].prompt = ids->data;
        specs[i].n_prompt = (uint32_t)ids->len;
        do
            specs[i].id = br_rng_entropy();
        while (specs[i].id == 0);
    }
    return specs;
}

int br_request_slo(const char *header, const char *value, double *out_s, struct br_problem *problem)
{
    char *end;
    double ms;
    if (!*value)
        return 0;
    ms = strtod(value, &end);
    if (*end || !(ms >= 1 && ms <= 86400e3))
        return br_problem_set(problem, 400, "invalid_value", header,
                              "Invalid header '%s': expected milliseconds between 1 and 86400000, but got '%s'.",
                              header, value);
    *out_s = ms / 1e3;
    return 0;
}
