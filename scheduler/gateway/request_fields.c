/* The parameters of a request other than messages and prompt: names and ranges as in OpenAI's API and in vLLM's
 * extensions of it. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "scheduler/gateway/request.h"
#include "text/json_get.h"

bool br_field_present(json_t *obj, const char *name)
{
    return br_json_has(obj, name);
}

int br_field_type(const char *name, const char *expected, const json_t *value, struct br_problem *problem)
{
    return br_problem_set(problem, 400, "invalid_type", name, "Invalid type for '%s': expected %s, but got %s instead.",
                          name, expected, br_json_kind(value));
}

static int field_range(const char *name, double min, double max, double value, struct br_problem *problem)
{
    return br_problem_set(problem, 400, "invalid_value", name,
                          "Invalid value for '%s': expected a value between %.12g and %.12g, but got %.12g.", name, min,
                          max, value);
}

int br_field_number(json_t *obj, const char *name, double min, double max, double *out, struct br_problem *problem)
{
    const json_t *value = json_object_get(obj, name);
    double number;
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_number(value))
        return br_field_type(name, "a number", value, problem);
    number = json_number_value(value);
    if (!(number >= min && number <= max))
        return field_range(name, min, max, number, problem);
    *out = number;
    return 0;
}

int br_field_int(json_t *obj, const char *name, int64_t min, int64_t max, int64_t *out, bool *given,
                 struct br_problem *problem)
{
    const json_t *value = json_object_get(obj, name);
    int64_t number;
    if (!value || json_is_null(value))
        return 0;
    if (json_is_real(value) && json_real_value(value) == floor(json_real_value(value)) &&
        fabs(json_real_value(value)) < 9007199254740992.0) /* 2^53: 16.0 is an integer to many clients */
        number = (int64_t)json_real_value(value);
    else if (json_is_integer(value))
        number = json_integer_value(value);
    else
        return br_field_type(name, "an integer", value, problem);
    if (number < min || number > max)
        return field_range(name, (double)min, (double)max, (double)number, problem);
    *out = number;
    if (given)
        *given = true;
    return 0;
}

int br_field_bool(json_t *obj, const char *name, bool *out, struct br_problem *problem)
{
    const json_t *value = json_object_get(obj, name);
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_boolean(value))
        return br_field_type(name, "a boolean", value, problem);
    *out = json_is_true(value);
    return 0;
}

static int sampling_numbers(struct br_request *request, struct br_problem *problem)
{
    struct br_sampling *sampling = &request->base.sampling;
    json_t *root = request->root;
    const struct {
        const char *name;
        double min, max;
        float *out;
        unsigned given;
    } fields[] = {
        {"temperature", 0, 2, &sampling->temperature, BR_DEFAULT_TEMPERATURE},
        {"top_p", 0, 1, &sampling->top_p, BR_DEFAULT_TOP_P},
        {"min_p", 0, 1, &sampling->min_p, BR_DEFAULT_MIN_P},
        {"repetition_penalty", 0.01, 10, &sampling->repetition_penalty, BR_DEFAULT_REPETITION},
        {"frequency_penalty", -2, 2, &sampling->frequency_penalty, 0},
        {"presence_penalty", -2, 2, &sampling->presence_penalty, 0},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        double value = (double)*fields[i].out;
        if (br_field_number(root, fields[i].name, fields[i].min, fields[i].max, &value, problem) < 0)
            return -1;
        *fields[i].out = (float)value;
        request->given |= br_field_present(root, fields[i].name) ? fields[i].given : 0;
    }
    if (sampling->top_p < 1e-6f)
        sampling->top_p = 1e-6f; /* 0 asks for the likeliest token alone */
    return 0;
}

static int sampling_seed(json_t *root, struct br_sampling *sampling, struct br_problem *problem)
{
    int64_t seed = 0;
    bool given = false;
    if (br_field_int(root, "seed", INT64_MIN, INT64_MAX, &seed, &given, problem) < 0)
        return -1;
    sampling->seed = given ? (uint64_t)seed : br_rng_entropy();
    return 0;
}

static int sampling_lengths(struct br_request *request, struct br_problem *problem)
{
    int64_t max_tokens = 0, min_tokens = 0, top_k = 0;
    bool *given = &request->has_max_tokens;
    if (br_field_int(request->root, "max_tokens", 1, UINT32_MAX, &max_tokens, given, problem) < 0 ||
        br_field_int(request->root, "max_completion_tokens", 1, UINT32_MAX, &max_tokens, given, problem) < 0 ||
        br_field_int(request->root, "min_tokens", 0, UINT32_MAX, &min_tokens, NULL, problem) < 0 ||
        br_field_int(request->root, "top_k", -1, INT32_MAX, &top_k, NULL, problem) < 0)
        return -1;
    if (*given && min_tokens > max_tokens)
        return br_problem_set(problem, 400, "invalid_value", "min_tokens",
                              "'min_tokens' (%lld) is larger than 'max_tokens' (%lld).", (long long)min_tokens,
                              (long long)max_tokens);
    request->base.max_tokens = (uint32_t)max_tokens;
    request->base.min_tokens = (uint32_t)min_tokens;
    request->base.sampling.top_k = top_k > 0 ? (int32_t)top_k : 0;
    request->given |= br_field_present(request->root, "top_k") ? BR_DEFAULT_TOP_K : 0;
    if (request->kind == BR_REQUEST_MESSAGES && !*given)
        return br_problem_set(problem, 400, "missing_required_parameter", "max_tokens", "max_tokens: Field required");
    return 0;
}

static int sampling_chat_logprobs(struct br_request *request, struct br_problem *problem)
{
    bool wanted = false;
    int64_t top = 0;
    if (br_field_bool(request->root, "logprobs", &wanted, problem) < 0 ||
        br_field_int(request->root, "top_logprobs", 0, BR_MAX_TOP_LOGPROBS, &top, NULL, problem) < 0)
        return -1;
    if (top > 0 && !wanted)
        return br_problem_set(problem, 400, "invalid_value", "top_logprobs",
                              "'top_logprobs' needs 'logprobs' to be true.");
    request->base.sampling.logprobs = wanted ? (int32_t)top : -1;
    return 0;
}

static int sampling_logprobs(struct br_request *request, struct br_problem *problem)
{
    int64_t top = -1;
    if (request->kind == BR_REQUEST_CHAT)
        return sampling_chat_logprobs(request, problem);
    if (request->kind != BR_REQUEST_COMPLETION)
        return 0;
    if (br_field_int(request->root, "logprobs", 0, BR_MAX_TOP_LOGPROBS, &top, NULL, problem) < 0 ||
        br_field_bool(request->root, "echo", &request->echo, problem) < 0)
        return -1;
    if (request->echo && top >= 0)
        return br_problem_set(problem, 400, "unsupported_value", "echo",
                              "'echo' together with 'logprobs' is not supported: log probabilities of the prompt are "
                              "not computed.");
    request->base.sampling.logprobs = (int32_t)top;
    return 0;
}

static int stop_string(struct br_request *request, const char *name, const json_t *value, struct br_problem *problem)
{
    struct br_seq_spec *spec = &request->base;
    if (!json_is_string(value))
        return br_field_type(name, "a string or a list of strings", value, problem);
    if (json_string_length(value) == 0 || json_string_length(value) > BR_MAX_STOP_STRING_BYTES)
        return br_problem_set(problem, 400, "invalid_value", name,
                              "Invalid value for '%s': each string has 1 to %d bytes, but got %zu.", name,
                              BR_MAX_STOP_STRING_BYTES, json_string_length(value));
    spec->stop[spec->n_stop++] = br_strdup(json_string_value(value));
    return 0;
}

static int sampling_stop(struct br_request *request, struct br_problem *problem)
{
    const char *name = request->kind == BR_REQUEST_MESSAGES ? "stop_sequences" : "stop";
    const json_t *stop = json_object_get(request->root, name);
    size_t n = json_is_array(stop) ? json_array_size(stop) : 1;
    if (!stop || json_is_null(stop) || n == 0)
        return 0;
    if (n > BR_MAX_STOP_STRINGS)
        return br_problem_set(problem, 400, "array_above_max_length", name,
                              "Invalid '%s': at most %d strings are allowed, but got %zu.", name, BR_MAX_STOP_STRINGS,
                              n);
    request->base.stop = br_calloc(n, sizeof *request->base.stop);
    for (size_t i = 0; i < n; i++)
        if (stop_string(request, name, json_is_array(stop) ? json_array_get(stop, i) : stop, problem) < 0)
            return -1;
    return 0;
}

static int sampling_stop_ids(struct br_request *request, struct br_problem *problem)
{
    const json_t *ids = json_object_get(request->root, "stop_token_ids");
    struct br_seq_spec *spec = &request->base;
    if (!ids || json_is_null(ids))
        return 0;
    if (!json_is_array(ids))
        return br_field_type("stop_token_ids", "a list of integers", ids, problem);
    if (json_array_size(ids) > BR_MAX_STOP_IDS)
        return br_problem_set(problem, 400, "array_above_max_length", "stop_token_ids",
                              "Invalid 'stop_token_ids': at most %d are allowed, but got %zu.", BR_MAX_STOP_IDS,
                              json_array_size(ids));
    spec->stop_ids = br_calloc(json_array_size(ids) + 1, sizeof *spec->stop_ids);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id))
            return br_field_type("stop_token_ids", "a list of integers", id, problem);
        if (json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return field_range("stop_token_ids", 0, INT32_MAX, (double)json_integer_value(id), problem);
        spec->stop_ids[spec->n_stop_ids++] = (int32_t)json_integer_value(id);
    }
    return 0;
}

static int sampling_stream(struct br_request *request, struct br_problem *problem)
{
    json_t *options = json_object_get(request->root, "stream_options");
    if (br_field_bool(request->root, "stream", &request->stream, problem) < 0)
        return -1;
    if (!options || json_is_null(options))
        return 0;
    if (!json_is_object(options))
        return br_field_type("stream_options", "an object", options, problem);
    if (!request->stream)
        return br_problem_set(problem, 400, "invalid_value", "stream_options",
                              "'stream_options' is only allowed when 'stream' is true.");
    if (br_field_bool(options, "include_usage", &request->include_usage, problem) < 0 ||
        br_field_bool(options, "continuous_usage_stats", &request->running_usage, problem) < 0)
        return -1;
    request->running_usage = request->running_usage && request->include_usage; /* as vLLM has it */
    return 0;
}

/* Anthropic's way of saying it. */
static bool thinking_off(const struct br_request *request)
{
    const char *type = json_string_value(json_object_get(json_object_get(request->root, "thinking"), "type"));
    return request->kind == BR_REQUEST_MESSAGES && type && strcmp(type, "disabled") == 0;
}

static int sampling_flags(struct br_request *request, struct br_problem *problem)
{
    json_t *kwargs = json_object_get(request->root, "chat_template_kwargs");
    bool thinking = true, skip_special = true;
    if (br_field_bool(request->root, "ignore_eos", &request->base.ignore_eos, problem) < 0 ||
        br_field_bool(request->root, "include_stop_str_in_output", &request->base.include_stop, problem) < 0 ||
        br_field_bool(request->root, "skip_special_tokens", &skip_special, problem) < 0 ||
        br_field_bool(request->root, "add_generation_prompt", &request->generation_prompt, problem) < 0)
        return -1;
    if (json_is_object(kwargs) && br_field_bool(kwargs, "enable_thinking", &thinking, problem) < 0)
        return -1;
    request->no_thinking = !thinking || thinking_off(request);
    request->base.show_special = !skip_special;
    return 0;
}

/* ---- what would change the answer and is not there: refused, rather than ignored ---- */

static bool json_is_empty(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static int refuse_unsupported(json_t *root, struct br_problem *problem)
{
    static const char *const names[] = {
        "tools", "functions", "suffix", "audio", "continue_final_message", "web_search_options", "use_beam_search"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!json_is_empty(json_object_get(root, names[i])))
            return br_problem_set(problem, 400, "unsupported_parameter", names[i],
                                  "'%s' is not supported by this server: leave it out.", names[i]);
    return 0;
}

static int refuse_tool_choice(json_t *root, struct br_problem *problem)
{
    const json_t *choice = json_object_get(root, "tool_choice");
    const char *name = json_string_value(choice);
    if (json_is_object(choice) && !name)
        name = json_string_value(json_object_get(choice, "type")); /* Anthropic's way of writing it */
    if (!choice || json_is_null(choice) || (name && (strcmp(name, "none") == 0 || strcmp(name, "auto") == 0)))
        return 0;
    return br_problem_set(problem, 400, "unsupported_value", "tool_choice",
                          "'tool_choice' must be \"none\" or \"auto\": tools are not supported by this server.");
}

static int refuse_format(json_t *root, struct br_problem *problem)
{
    const json_t *format = json_object_get(root, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || json_is_null(format) || (type && strcmp(type, "text") == 0))
        return 0;
    return br_problem_set(problem, 400, "unsupported_value", "response_format",
                          "'response_format' of type '%.60s' is not supported: only 'text' is.",
                          type ? type : "(missing)");
}

static int sampling_choices(struct br_request *request, struct br_problem *problem)
{
    int64_t n = 1, best_of;
    request->n = 1;
    if (request->kind == BR_REQUEST_MESSAGES)
        return 0;
    if (br_field_int(request->root, "n", 1, UINT32_MAX, &n, NULL, problem) < 0)
        return -1;
    best_of = n;
    if (br_field_int(request->root, "best_of", 1, UINT32_MAX, &best_of, NULL, problem) < 0)
        return -1;
    if (best_of != n)
        return br_problem_set(problem, 400, "unsupported_value", "best_of",
                              "'best_of' is only supported when it equals 'n' (%lld), but got %lld.", (long long)n,
                              (long long)best_of);
    request->n = (uint32_t)n;
    return 0;
}

int br_request_sampling(struct br_request *request, struct br_problem *problem)
{
    json_t *root = request->root;
    br_request_unknown(request);
    if (sampling_numbers(request, problem) < 0 || sampling_seed(root, &request->base.sampling, problem) < 0 ||
        sampling_lengths(request, problem) < 0 || sampling_logprobs(request, problem) < 0 ||
        sampling_stop(request, problem) < 0 || sampling_stop_ids(request, problem) < 0 ||
        sampling_stream(request, problem) < 0 || sampling_flags(request, problem) < 0 ||
        sampling_choices(request, problem) < 0 || br_request_bias(request, problem) < 0 ||
        br_request_urgency(request, problem) < 0)
        return -1;
    if (refuse_unsupported(root, problem) < 0 || refuse_tool_choice(root, problem) < 0)
        return -1;
    return refuse_format(root, problem);
}
