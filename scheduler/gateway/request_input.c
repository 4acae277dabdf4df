/* messages of a chat, prompt of a completion: from JSON to what chat templates and tokenizers take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gateway/request.h"
#include "text/json_get.h"

static int message_problem(struct br_problem *problem, size_t i, const char *field, const char *what)
{
    char param[64];
    snprintf(param, sizeof param, "messages[%zu]%s%s", i, *field ? "." : "", field);
    return br_problem_set(problem, 400, "invalid_value", param, "Invalid '%s': %s", param, what);
}

/* Parts are joined by line ends, as vLLM does for templates that take strings. */
static int message_parts(struct br_request *request, size_t i, const json_t *parts, const char **content,
                         struct br_problem *problem)
{
    struct br_buf text = {0};
    br_buf_reserve(&text, 1);
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *part = json_array_get(parts, k);
        const char *type = json_string_value(json_object_get(part, "type"));
        const char *value = json_string_value(json_object_get(part, "text"));
        if (!type || strcmp(type, "text") != 0 || !value) {
            char what[200];
            snprintf(what, sizeof what,
                     "part %zu has type '%.60s', but only {\"type\": \"text\", \"text\": ...} is "
                     "supported.",
                     k, type ? type : "(missing)");
            br_buf_free(&text);
            return message_problem(problem, i, "content", what);
        }
        br_buf_puts(&text, k ? "\n" : "");
        br_buf_puts(&text, value);
    }
    br_buf_puts(&text, "");
    request->joined[request->n_joined++] = text.data;
    *content = text.data;
    return 0;
}

static int message_content(struct br_request *request, size_t i, json_t *message, struct br_problem *problem)
{
    const json_t *content = json_object_get(message, "content");
    struct br_chat_message *out = &request->messages[request->n_system + i];
    if (json_is_array(content))
        return message_parts(request, i, content, &out->content, problem);
    if (json_is_string(content))
        out->content = json_string_value(content);
    else if (content && !json_is_null(content))
        return message_problem(problem, i, "content", "it must be a string or a list of text parts.");
    else if (strcmp(out->role, "assistant") != 0)
        return message_problem(problem, i, "content", "it is missing.");
    return 0;
}

static bool has_system_apart(const struct br_request *request)
{
    return request->kind == BR_REQUEST_MESSAGES || request->kind == BR_REQUEST_COUNT;
}

/* Anthropic's messages have users and assistants; their system text stands apart. */
static int message_turn(struct br_request *request, size_t i, const char *role, struct br_problem *problem)
{
    if (role && (strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0)) {
        request->messages[request->n_system + i].role = *role == 'u' ? "user" : "assistant";
        return 0;
    }
    return message_problem(problem, i, "role", "it must be user or assistant.");
}

static int message_role(struct br_request *request, size_t i, json_t *message, struct br_problem *problem)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    const char *role = json_string_value(json_object_get(message, "role"));
    if (has_system_apart(request))
        return message_turn(request, i, role, problem);
    for (size_t k = 0; role && k < sizeof roles / sizeof *roles; k++)
        if (strcmp(role, roles[k]) == 0) {
            request->messages[request->n_system + i].role = roles[k];
            return 0;
        }
    return message_problem(problem, i, "role", "it must be one of system, developer, user, assistant, tool.");
}

/* Calls of earlier answers: {"function": {"name", "arguments"}}. */
static int message_calls(struct br_request *request, size_t i, json_t *message, struct br_problem *problem)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    size_t n = json_array_size(calls);
    struct br_chat_tool_call *out;
    if (!calls || json_is_null(calls) || (json_is_array(calls) && n == 0))
        return 0;
    request->calls = br_realloc(request->calls, (request->n_calls + n + 1) * sizeof *request->calls);
    out = request->calls + request->n_calls;
    for (size_t k = 0; k < n; k++) {
        const json_t *function = json_object_get(json_array_get(calls, k), "function");
        out[k].name = json_string_value(json_object_get(function, "name"));
        out[k].arguments = json_string_value(json_object_get(function, "arguments"));
        if (!out[k].name || !out[k].arguments)
            return message_problem(problem, i, "tool_calls",
                                   "each needs a function with name and arguments (strings).");
    }
    if (n == 0)
        return message_problem(problem, i, "tool_calls", "it must be a list.");
    request->n_calls += (uint32_t)n;
    request->messages[request->n_system + i].n_tool_calls = n;
    return 0;
}

static int input_message(struct br_request *request, size_t i, json_t *message, struct br_problem *problem)
{
    if (!json_is_object(message))
        return message_problem(problem, i, "", "it must be an object with role and content.");
    request->messages[request->n_system + i].reasoning =
        json_string_value(json_object_get(message, "reasoning_content"));
    if (message_role(request, i, message, problem) < 0 || message_content(request, i, message, problem) < 0)
        return -1;
    return message_calls(request, i, message, problem);
}

/* Room for n messages behind what stands apart from them. */
static int input_system(struct br_request *request, size_t n, struct br_problem *problem)
{
    const json_t *system = has_system_apart(request) ? json_object_get(request->root, "system") : NULL;
    request->messages = br_calloc(n + 1, sizeof *request->messages);
    request->joined = br_calloc(n + 1, sizeof *request->joined);
    if (!system || json_is_null(system))
        return 0;
    request->messages[0].role = "system";
    request->n_system = request->n_messages = 1;
    if (json_is_array(system))
        return message_parts(request, 0, system, &request->messages[0].content, problem);
    if (!json_is_string(system))
        return br_field_type("system", "a string or a list of text parts", system, problem);
    request->messages[0].content = json_string_value(system);
    return 0;
}

/* The answer would have to go on inside that message. */
static int input_prefill(const struct br_request *request, struct br_problem *problem)
{
    if (!has_system_apart(request) || strcmp(request->messages[request->n_messages - 1].role, "assistant") != 0)
        return 0;
    return br_problem_set(problem, 400, "unsupported_value", "messages",
                          "The last message must be the user's: beginnings of answers are not supported.");
}

static int input_messages(struct br_request *request, struct br_problem *problem)
{
    const json_t *messages = json_object_get(request->root, "messages");
    size_t n = json_array_size(messages), call = 0;
    if (!messages || json_is_null(messages))
        return br_problem_set(problem, 400, "missing_required_parameter", "messages",
                              "Missing required parameter: 'messages'.");
    if (!json_is_array(messages))
        return br_field_type("messages", "a list of objects", messages, problem);
    if (n == 0)
        return br_problem_set(problem, 400, "empty_array", "messages",
                              "Invalid 'messages': there must be at least one message.");
    request->prompts = br_calloc(1, sizeof *request->prompts);
    request->n_prompts = 1;
    if (input_system(request, n, problem) < 0)
        return -1;
    request->n_messages += (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        if (input_message(request, i, json_array_get(messages, i), problem) < 0)
            return -1;
    for (size_t i = 0; i < request->n_messages; i++) { /* the list of calls stands still from here */
        request->messages[i].tool_calls = request->calls ? request->calls + call : NULL;
        call += request->messages[i].n_tool_calls;
    }
    return input_prefill(request, problem);
}

int br_request_ids(const json_t *list, const char *param, struct br_ids *ids, struct br_problem *problem)
{
    size_t n = json_array_size(list);
    if (n > BR_MAX_PROMPT_TOKENS)
        return br_problem_set(problem, 400, "array_above_max_length", param,
                              "Invalid '%s': it has %zu token ids, more than any model takes.", param, n);
    br_ids_reserve(ids, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id))
            return br_field_type(param, "a string, or lists of strings or of token ids", id, problem);
        if (json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return br_problem_set(problem, 400, "invalid_value", param, "Invalid '%s': token id %lld is out of range.",
                                  param, (long long)json_integer_value(id));
        br_ids_add(ids, (int32_t)json_integer_value(id));
    }
    return 0;
}

static int prompt_one(struct br_request_prompt *prompt, const json_t *value, struct br_problem *problem)
{
    if (json_is_array(value))
        return br_request_ids(value, "prompt", &prompt->ids, problem);
    if (!json_is_string(value))
        return br_field_type("prompt", "a string, or lists of strings or of token ids", value, problem);
    prompt->text = json_string_value(value);
    prompt->len = json_string_length(value);
    return 0;
}

static int input_prompt(struct br_request *request, uint32_t max_choices, struct br_problem *problem)
{
    const json_t *prompt = json_object_get(request->root, "prompt");
    bool many = json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0));
    size_t n = many ? json_array_size(prompt) : 1;
    if (!prompt || json_is_null(prompt))
        return br_problem_set(problem, 400, "missing_required_parameter", "prompt",
                              "Missing required parameter: 'prompt'.");
    if (n == 0)
        return br_problem_set(problem, 400, "empty_array", "prompt", "Invalid 'prompt': the list is empty.");
    if (n > max_choices)
        return br_problem_set(problem, 400, "array_above_max_length", "prompt",
                              "Invalid 'prompt': at most %u prompts are allowed in a request, but got %zu.",
                              max_choices, n);
    request->prompts = br_calloc(n, sizeof *request->prompts);
    request->n_prompts = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        if (prompt_one(&request->prompts[i], many ? json_array_get(prompt, i) : prompt, problem) < 0)
            return -1;
    return 0;
}

static int input_tokens(struct br_request *request, struct br_problem *problem)
{
    const json_t *tokens = json_object_get(request->root, "tokens");
    if (!json_is_array(tokens))
        return br_problem_set(problem, 400, "missing_required_parameter", "tokens",
                              "Missing required parameter: 'tokens', a list of token ids.");
    request->prompts = br_calloc(1, sizeof *request->prompts);
    request->n_prompts = 1;
    return br_request_ids(tokens, "tokens", &request->prompts[0].ids, problem);
}

static int input_text(struct br_request *request, uint32_t max_choices, struct br_problem *problem)
{
    const json_t *prompt = json_object_get(request->root, "prompt");
    bool special = true;
    if (request->kind == BR_REQUEST_TOKENIZE) {
        if (prompt && !json_is_string(prompt))
            return br_field_type("prompt", "a string", prompt, problem);
        if (br_field_bool(request->root, "return_token_strs", &request->token_strings, problem) < 0 ||
            br_field_bool(request->root, "add_special_tokens", &special, problem) < 0)
            return -1;
        request->no_special = !special;
    }
    return input_prompt(request, max_choices, problem);
}

static bool input_is_chat(const struct br_request *request)
{
    return request->kind == BR_REQUEST_CHAT || has_system_apart(request) ||
           (request->kind == BR_REQUEST_TOKENIZE && !br_field_present(request->root, "prompt") &&
            br_field_present(request->root, "messages"));
}

int br_request_input(struct br_request *request, uint32_t max_choices, struct br_problem *problem)
{
    int rc = request->kind == BR_REQUEST_DETOKENIZE ? input_tokens(request, problem)
             : input_is_chat(request)               ? input_messages(request, problem)
                                                    : input_text(request, max_choices, problem);
    if (rc < 0)
        return rc;
    if ((uint64_t)request->n * request->n_prompts > max_choices)
        return br_problem_set(problem, 400, "invalid_value", "n",
                              "Invalid value for 'n': a request may have %u choices, but this one asks for %llu.",
                              max_choices, (unsigned long long)request->n * request->n_prompts);
    return 0;
}
