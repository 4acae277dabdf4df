/* Request bodies: what is taken, what is refused and with which words. The rules are those of OpenAI's API reference
 * and of vLLM's OpenAI-compatible server. */
#include <math.h>

#include "fixture.h"
#include "scheduler/gateway/request.h"

static struct br_gateway_model qwen, stories;

static int setup(void **state)
{
    (void)state;
    qwen = fixture_model("tiny-qwen2");
    stories = fixture_model("stories260K");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_free(&qwen);
    fixture_free(&stories);
    return 0;
}

static int take(struct br_request *request, enum br_request_kind kind, const char *body, struct br_problem *problem)
{
    memset(problem, 0, sizeof *problem);
    if (br_request_parse(request, kind, body, strlen(body), 8, problem) < 0)
        return -1;
    if (br_request_bind(request, strcmp(request->model, "stories260K") == 0 ? &stories : &qwen, problem) == 0)
        return 0;
    br_request_free(request);
    return -1;
}

#define CHAT "\"model\":\"tiny-qwen2\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define PROMPT "\"model\":\"tiny-qwen2\",\"prompt\":\"hi\""
#define USER(content) "{\"model\":\"tiny-qwen2\",\"messages\":[{\"role\":\"user\",\"content\":" content "}]}"

struct refusal {
    enum br_request_kind kind;
    const char *body;
    int status;
    const char *param, *code, *message;
};

static const struct refusal refusals[] = {
    {BR_REQUEST_CHAT, "", 400, "", NULL, "could not parse the JSON"},
    {BR_REQUEST_CHAT, "{", 400, "", NULL, "could not parse the JSON"},
    {BR_REQUEST_CHAT, "[]", 400, "", NULL, "must be a JSON object"},
    {BR_REQUEST_CHAT, "{\"model\":\"\xff\"}", 400, "", NULL, "unable to decode byte 0xff"},
    {BR_REQUEST_CHAT, "{\"model\":\"a\\ud800\"}", 400, "", NULL, "could not parse"},
    {BR_REQUEST_CHAT, "{\"model\":\"a\\u0000\"}", 400, "", NULL, "could not parse"},
    {BR_REQUEST_CHAT, "{" CHAT "} x", 400, "", NULL, "could not parse"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"temperature\":NaN}", 400, "", NULL, "could not parse"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"temperature\":1e999}", 400, "", NULL, "could not parse"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"seed\":99999999999999999999}", 400, "", NULL, "could not parse"},
    {BR_REQUEST_CHAT, "{\"messages\":[]}", 400, "model", "missing_required_parameter", "'model'"},
    {BR_REQUEST_CHAT, "{\"model\":1}", 400, "model", "invalid_type", "an integer"},
    {BR_REQUEST_CHAT, "{\"model\":\"m\"}", 400, "messages", "missing_required_parameter", "'messages'"},
    {BR_REQUEST_CHAT, "{\"model\":\"m\",\"messages\":{}}", 400, "messages", "invalid_type", "list"},
    {BR_REQUEST_CHAT, "{\"model\":\"m\",\"messages\":[]}", 400, "messages", "empty_array", "at least one"},
    {BR_REQUEST_CHAT, "{\"model\":\"m\",\"messages\":[1]}", 400, "messages[0]", "invalid_value", "object"},
    {BR_REQUEST_CHAT, "{\"model\":\"m\",\"messages\":[{\"content\":\"x\"}]}", 400, "messages[0].role", NULL, "system"},
    {BR_REQUEST_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}]}", 400, "messages[0].content", NULL,
     "missing"},
    {BR_REQUEST_CHAT, USER("7"), 400, "messages[0].content", NULL, "string or a list"},
    {BR_REQUEST_CHAT, USER("[{\"type\":\"image_url\"}]"), 400, "messages[0].content", NULL, "'image_url'"},
    {BR_REQUEST_CHAT, USER("[{\"type\":\"text\"}]"), 400, "messages[0].content", NULL, "only"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"temperature\":\"hot\"}", 400, "temperature", "invalid_type", "a string"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"temperature\":2.5}", 400, "temperature", "invalid_value", "between 0 and 2"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"temperature\":-0.1}", 400, "temperature", "invalid_value", "-0.1"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"top_p\":1.1}", 400, "top_p", "invalid_value", "between 0 and 1"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"min_p\":-1}", 400, "min_p", "invalid_value", "between 0 and 1"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"top_k\":-2}", 400, "top_k", "invalid_value", "-2"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"top_k\":1.5}", 400, "top_k", "invalid_type", "an integer"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"presence_penalty\":3}", 400, "presence_penalty", "invalid_value", "-2 and 2"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"frequency_penalty\":-3}", 400, "frequency_penalty", "invalid_value", "-2 and 2"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"repetition_penalty\":0}", 400, "repetition_penalty", "invalid_value", "got 0"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"n\":0}", 400, "n", "invalid_value", "got 0"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"n\":9}", 400, "n", "invalid_value", "8 choices"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"n\":4294967295}", 400, "n", "invalid_value", "8 choices"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"n\":2,\"best_of\":3}", 400, "best_of", "unsupported_value", "equals 'n'"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"max_tokens\":0}", 400, "max_tokens", "invalid_value", "got 0"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"max_tokens\":-5}", 400, "max_tokens", "invalid_value", "got -5"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"max_tokens\":true}", 400, "max_tokens", "invalid_type", "integer"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"max_tokens\":1e300}", 400, "max_tokens", "invalid_type", "integer"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"max_completion_tokens\":[]}", 400, "max_completion_tokens", "invalid_type", "list"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"max_tokens\":1000}", 400, "messages", "context_length_exceeded", "512 tokens"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"max_tokens\":4,\"min_tokens\":5}", 400, "min_tokens", "invalid_value", "larger"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"stop\":7}", 400, "stop", "invalid_type", "a string or a list of strings"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"stop\":[\"a\",null]}", 400, "stop", "invalid_type", "null"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"stop\":\"\"}", 400, "stop", "invalid_value", "1 to 256 bytes"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"stop\":[1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7]}", 400, "stop", "array_above_max_length",
     "at most 16"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"stop_token_ids\":[-1]}", 400, "stop_token_ids", "invalid_value", "-1"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"stop_token_ids\":[2048]}", 400, "stop_token_ids", "invalid_value", "2048"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"stop_token_ids\":\"a\"}", 400, "stop_token_ids", "invalid_type", "string"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"stream\":1}", 400, "stream", "invalid_type", "a boolean"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"stream_options\":{}}", 400, "stream_options", "invalid_value", "'stream' is true"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"stream\":true,\"stream_options\":1}", 400, "stream_options", "invalid_type",
     "object"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"slo\":5}", 400, "slo", "invalid_type", "an object"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"slo\":{\"ttft\":0}}", 400, "ttft", "invalid_value", "0.001"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"slo\":{\"tbt\":\"fast\"}}", 400, "tbt", "invalid_type", "a number"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"slo\":{\"ttft_ms\":500}}", 400, "slo", "invalid_value", "'ttft_ms'"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"slo\":{\"deadline\":-1}}", 400, "deadline", "invalid_value", "got -1"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"priority\":\"high\"}", 400, "priority", "invalid_type", "an integer"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"priority\":1e12}", 400, "priority", "invalid_value", "between"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"logprobs\":2}", 400, "logprobs", "invalid_type", "a boolean"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"top_logprobs\":2}", 400, "top_logprobs", "invalid_value", "'logprobs' to be true"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"logprobs\":true,\"top_logprobs\":21}", 400, "top_logprobs", NULL,
     "between 0 and 20"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"logit_bias\":[1]}", 400, "logit_bias", "invalid_type", "an object"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"logit_bias\":{\"the\":1}}", 400, "logit_bias", "invalid_value", "'the'"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"logit_bias\":{\"-1\":1}}", 400, "logit_bias", "invalid_value", "'-1'"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"logit_bias\":{\"5\":101}}", 400, "logit_bias", "invalid_value", "-100 and 100"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"logit_bias\":{\"5\":\"x\"}}", 400, "logit_bias", "invalid_type", "a string"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"logit_bias\":{\"5\":1,\"05\":2}}", 400, "logit_bias", "invalid_value", "twice"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"logit_bias\":{\"2048\":1}}", 400, "logit_bias", "invalid_value", "2048"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"deadline\":-1}", 400, "deadline", "invalid_value", "-1"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"keep_alive\":\"5 weeks\"}", 400, "keep_alive", "invalid_value", "5 weeks"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"keep_alive\":[]}", 400, "keep_alive", "invalid_type", "a list"},
    {BR_REQUEST_MESSAGES, "{" CHAT "}", 400, "max_tokens", "missing_required_parameter", "max_tokens"},
    {BR_REQUEST_MESSAGES, "{" CHAT ",\"max_tokens\":5,\"system\":5}", 400, "system", "invalid_type", "integer"},
    {BR_REQUEST_MESSAGES, "{" CHAT ",\"max_tokens\":5,\"stop_sequences\":[\"\"]}", 400, "stop_sequences",
     "invalid_value", "1 to 256"},
    {BR_REQUEST_MESSAGES, "{\"model\":\"m\",\"max_tokens\":5,\"messages\":[{\"role\":\"system\",\"content\":\"x\"}]}",
     400, "messages[0].role", "invalid_value", "user or assistant"},
    {BR_REQUEST_MESSAGES,
     "{\"model\":\"m\",\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
     "{\"role\":\"assistant\",\"content\":\"so\"}]}",
     400, "messages", "unsupported_value", "user's"},
    {BR_REQUEST_TOKENIZE, "{\"model\":\"m\",\"prompt\":[1]}", 400, "prompt", "invalid_type", "a string"},
    {BR_REQUEST_DETOKENIZE, "{\"model\":\"m\"}", 400, "tokens", "missing_required_parameter", "token ids"},
    {BR_REQUEST_DETOKENIZE, "{\"model\":\"m\",\"tokens\":[2048]}", 400, "tokens", "invalid_value", "2048"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"tools\":[{}]}", 400, "tools", "unsupported_parameter", "not supported"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"tool_choice\":\"required\"}", 400, "tool_choice", NULL, "tools are not supported"},
    {BR_REQUEST_CHAT, "{" CHAT ",\"response_format\":{\"type\":\"json_object\"}}", 400, "response_format", NULL,
     "'json_object'"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\"}", 400, "prompt", "missing_required_parameter", "'prompt'"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[]}", 400, "prompt", "empty_array", "empty"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":{}}", 400, "prompt", "invalid_type", "a string, or lists"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[1,\"a\"]}", 400, "prompt", "invalid_type", "token ids"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[[1],[true]]}", 400, "prompt", "invalid_type", "token ids"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[-1]}", 400, "prompt", "invalid_value", "-1"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[2048]}", 400, "prompt", "invalid_value", "2048"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":\"\"}", 400, "prompt", "invalid_value", "at least one token"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[[]]}", 400, "prompt", "invalid_value", "at least one token"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[[1],[2],[3],[4],[5]],\"n\":2}", 400, "n", NULL,
     "asks for 10"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\"]}", 400,
     "prompt", "array_above_max_length", "at most 8"},
    {BR_REQUEST_COMPLETION, "{" PROMPT ",\"suffix\":\"x\"}", 400, "suffix", "unsupported_parameter", "not supported"},
    {BR_REQUEST_COMPLETION, "{" PROMPT ",\"logprobs\":true}", 400, "logprobs", "invalid_type", "an integer"},
    {BR_REQUEST_COMPLETION, "{" PROMPT ",\"logprobs\":21}", 400, "logprobs", "invalid_value", "between 0 and 20"},
    {BR_REQUEST_COMPLETION, "{" PROMPT ",\"logprobs\":1,\"echo\":true}", 400, "echo", "unsupported_value", "logprobs"},
    {BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[5],\"max_tokens\":512}", 400, "prompt",
     "context_length_exceeded",
     "maximum context length is 512 tokens. However, you requested 513 tokens (1 in the prompt, 512 in the "
     "completion)"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *want = &refusals[i];
        struct br_request request;
        struct br_problem got;
        if (take(&request, want->kind, want->body, &got) == 0)
            fail_msg("taken: %s", want->body);
        if (got.status != want->status || strcmp(got.param, want->param) != 0 || !strstr(got.message, want->message) ||
            (want->code && strcmp(got.code ? got.code : "", want->code) != 0))
            fail_msg("%s\ngave %d, param '%s', code %s: %s", want->body, got.status, got.param,
                     got.code ? got.code : "none", got.message);
    }
}

static void test_long_names_are_unknown_models(void **state)
{
    struct br_request request;
    struct br_problem problem;
    char body[512];
    (void)state;
    snprintf(body, sizeof body, "{\"model\":\"%0300d\",\"prompt\":\"a\"}", 1);
    assert_int_equal(take(&request, BR_REQUEST_COMPLETION, body, &problem), -1);
    assert_int_equal(problem.status, 404);
    assert_string_equal(problem.code, "model_not_found");
}

static void take_ok(struct br_request *request, enum br_request_kind kind, const char *body)
{
    struct br_problem problem;
    if (take(request, kind, body, &problem) < 0)
        fail_msg("%s\nrefused: %s", body, problem.message);
}

static void test_defaults(void **state)
{
    struct br_request request;
    const struct br_seq_spec *base = &request.base;
    (void)state;
    take_ok(&request, BR_REQUEST_COMPLETION, "{" PROMPT "}");
    assert_float_equal(base->sampling.temperature, 1, 0);
    assert_float_equal(base->sampling.top_p, 1, 0);
    assert_float_equal(base->sampling.repetition_penalty, 1, 0);
    assert_int_equal(base->sampling.logprobs, -1);
    assert_int_equal(base->max_tokens, 16);
    assert_int_equal(request.n, 1);
    assert_false(request.stream);
    assert_float_equal(base->ttft_s, 10, 0);
    assert_float_equal(base->tbt_s, 0.1, 1e-12);
    assert_int_equal(strncmp(request.id, "cmpl-", 5), 0);
    br_request_free(&request);
    take_ok(&request, BR_REQUEST_CHAT, "{" CHAT "}");
    assert_int_equal(base->max_tokens + request.prompts[0].ids.len, 512); /* the rest of the context */
    assert_int_equal(strncmp(request.id, "chatcmpl-", 9), 0);
    br_request_free(&request);
}

static void test_every_parameter(void **state)
{
    struct br_request r;
    const struct br_sampling *s = &r.base.sampling;
    (void)state;
    take_ok(
        &r, BR_REQUEST_CHAT,
        "{" CHAT ",\"max_tokens\":5,\"max_completion_tokens\":7.0,\"temperature\":0.5,\"top_p\":0.25,\"n\":3,"
        "\"best_of\":3,\"stop\":[\"a\",\"b\"],\"stream\":true,\"stream_options\":{\"include_usage\":true},\"seed\":-1,"
        "\"logprobs\":true,\"top_logprobs\":20,\"presence_penalty\":-2,\"frequency_penalty\":2,\"logit_bias\":{},"
        "\"user\":\"u\",\"metadata\":{\"a\":1},\"store\":true,\"top_k\":40,\"min_p\":0.5,\"repetition_penalty\":1.5,"
        "\"min_tokens\":2,\"ignore_eos\":true,\"stop_token_ids\":[5,6],\"include_stop_str_in_output\":true,"
        "\"skip_special_tokens\":false,\"add_generation_prompt\":true,\"response_format\":{\"type\":\"text\"},"
        "\"tools\":[],\"tool_choice\":\"auto\",\"suffix\":null,\"nobody_knows\":[1,{\"a\":2}]}");
    assert_int_equal(r.base.max_tokens, 7); /* max_completion_tokens goes first */
    assert_float_equal(s->temperature, 0.5, 0);
    assert_float_equal(s->top_p, 0.25, 0);
    assert_int_equal(r.n, 3);
    assert_int_equal(r.base.n_stop, 2);
    assert_string_equal(r.base.stop[1], "b");
    assert_true(r.stream && r.include_usage);
    assert_true(s->seed == UINT64_MAX);
    assert_int_equal(s->logprobs, 20);
    assert_float_equal(s->presence_penalty, -2, 0);
    assert_float_equal(s->frequency_penalty, 2, 0);
    assert_int_equal(s->top_k, 40);
    assert_float_equal(s->min_p, 0.5, 0);
    assert_float_equal(s->repetition_penalty, 1.5, 0);
    assert_int_equal(r.base.min_tokens, 2);
    assert_true(r.base.ignore_eos && r.base.include_stop && r.base.show_special);
    assert_int_equal(r.base.n_stop_ids, 2);
    assert_int_equal(r.base.stop_ids[1], 6);
    br_request_free(&r);
}

static void test_bias_is_taken(void **state)
{
    struct br_request r;
    (void)state;
    take_ok(&r, BR_REQUEST_CHAT, "{" CHAT ",\"logit_bias\":{\"5\":-100,\"2047\":1.5}}");
    assert_int_equal(r.base.n_bias, 2);
    for (int i = 0; i < 2; i++)
        assert_float_equal(r.base.bias[i], r.base.bias_ids[i] == 5 ? -100 : 1.5, 0);
    assert_int_equal(r.base.bias_ids[0] + r.base.bias_ids[1], 2052);
    br_request_free(&r);
}

static void test_keep_alive(void **state)
{
    static const struct {
        const char *value;
        double seconds;
    } cases[] = {{"5", 5}, {"\"5m\"", 300}, {"\"1h\"", 3600}, {"\"250ms\"", 0.25},
                 {"0", 0}, {"-1", -1},      {"\"-1\"", -1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_request r;
        char body[200];
        snprintf(body, sizeof body, "{" CHAT ",\"keep_alive\":%s}", cases[i].value);
        take_ok(&r, BR_REQUEST_CHAT, body);
        assert_true(r.keeps_alive);
        assert_float_equal(r.keep_alive_s, cases[i].seconds, 1e-12);
        br_request_free(&r);
    }
}

static void test_unknown_fields_are_named(void **state)
{
    struct br_request r;
    (void)state;
    take_ok(&r, BR_REQUEST_CHAT,
            "{" CHAT ",\"user\":\"u\",\"nobody_knows_this_long_name_of_a_parameter_at_all\":1,\"b\":2}");
    assert_int_equal(r.n_unknown, 2);
    assert_string_equal(r.unknown[0], "nobody_knows_this_long_name_of_a_parame"); /* 39 bytes of it */
    assert_string_equal(r.unknown[1], "b");
    br_request_free(&r);
    take_ok(&r, BR_REQUEST_CHAT, "{" CHAT ",\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5}");
    assert_int_equal(r.n_unknown, BR_REQUEST_UNKNOWN);
    br_request_free(&r);
}

/* generation_config.json counts where the client is silent, and nowhere else. */
static void test_model_defaults(void **state)
{
    struct br_gateway_defaults before = qwen.defaults;
    struct br_request r;
    (void)state;
    qwen.defaults = (struct br_gateway_defaults){.given = 63,
                                                 .temperature = 0.7f,
                                                 .top_p = 0.8f,
                                                 .top_k = 20,
                                                 .min_p = 0.1f,
                                                 .repetition_penalty = 1.05f,
                                                 .max_tokens = 77};
    take_ok(&r, BR_REQUEST_CHAT, "{" CHAT ",\"top_p\":1,\"top_k\":0}");
    assert_float_equal(r.base.sampling.temperature, 0.7f, 0);
    assert_float_equal(r.base.sampling.top_p, 1, 0);
    assert_int_equal(r.base.sampling.top_k, 0);
    assert_float_equal(r.base.sampling.min_p, 0.1f, 0);
    assert_float_equal(r.base.sampling.repetition_penalty, 1.05f, 0);
    assert_int_equal(r.base.max_tokens, 77);
    br_request_free(&r);
    take_ok(&r, BR_REQUEST_COMPLETION, "{" PROMPT ",\"temperature\":0,\"min_p\":null}");
    assert_float_equal(r.base.sampling.temperature, 0, 0);
    assert_float_equal(r.base.sampling.top_p, 0.8f, 0);
    assert_int_equal(r.base.sampling.top_k, 20);
    assert_int_equal(r.base.max_tokens, 16); /* completions have a default of their own */
    br_request_free(&r);
    qwen.defaults = before;
}

/* Anthropic's system text and OpenAI's system message make the same prompt. */
static void test_messages_render_like_chat(void **state)
{
    struct br_request a, b;
    (void)state;
    take_ok(&a, BR_REQUEST_MESSAGES,
            "{\"model\":\"tiny-qwen2\",\"max_tokens\":5,\"system\":[{\"type\":\"text\",\"text\":\"Be brief.\"}],"
            "\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},"
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"c\"}]}],\"stop_sequences\":[\"x\"]}");
    take_ok(&b, BR_REQUEST_CHAT,
            "{\"model\":\"tiny-qwen2\",\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
            "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},"
            "{\"role\":\"user\",\"content\":\"c\"}]}");
    assert_int_equal(a.prompts[0].ids.len, b.prompts[0].ids.len);
    assert_memory_equal(a.prompts[0].ids.data, b.prompts[0].ids.data, a.prompts[0].ids.len * sizeof(int32_t));
    assert_int_equal(a.base.n_stop, 1);
    assert_int_equal(a.base.max_tokens, 5);
    br_request_free(&a);
    br_request_free(&b);
}

static void test_null_is_absent(void **state)
{
    struct br_request request;
    (void)state;
    take_ok(&request, BR_REQUEST_CHAT,
            "{" CHAT
            ",\"max_tokens\":null,\"temperature\":null,\"stop\":null,\"n\":null,\"logprobs\":null,\"stream\":null,"
            "\"stream_options\":null,\"tools\":null,\"seed\":null,\"response_format\":null,\"top_k\":null}");
    assert_float_equal(request.base.sampling.temperature, 1, 0);
    br_request_free(&request);
}

static void assert_ids(const struct br_ids *ids, const int32_t *want, size_t n)
{
    assert_int_equal(ids->len, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids->data[i], want[i]);
}

static void test_prompt_forms(void **state)
{
    static const int32_t ids[] = {5, 6, 7};
    struct br_request request;
    struct br_ids want = {0};
    struct br_err err;
    (void)state;
    take_ok(&request, BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[5,6,7]}");
    assert_int_equal(request.n_prompts, 1);
    assert_ids(&request.prompts[0].ids, ids, 3);
    br_request_free(&request);
    take_ok(&request, BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[[5,6,7],[7]],\"n\":2}");
    assert_int_equal(request.n_prompts, 2);
    assert_ids(&request.prompts[1].ids, ids + 2, 1);
    br_request_free(&request);
    assert_int_equal(br_tokenizer_encode(qwen.tokenizer, "a b", 3, BR_ENCODE_ADD_SPECIAL, &want, &err), 0);
    take_ok(&request, BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[\"x\",\"a b\"]}");
    assert_ids(&request.prompts[1].ids, want.data, want.len);
    br_request_free(&request);
    br_ids_free(&want);
    take_ok(&request, BR_REQUEST_COMPLETION, "{\"model\":\"stories260K\",\"prompt\":\"Once\"}");
    assert_int_equal(request.prompts[0].ids.data[0], 1); /* BOS, as its post_processor says */
    br_request_free(&request);
}

static void test_chat_renders_the_template(void **state)
{
    static const char text[] = "<|im_start|>user\nhi\nthere<|im_end|>\n<|im_start|>assistant\n";
    struct br_request request;
    struct br_ids want = {0};
    struct br_err err;
    (void)state;
    assert_true(qwen.has_chat);
    br_tokenizer_encode(qwen.tokenizer, text, strlen(text), BR_ENCODE_PARSE_SPECIAL, &want, &err);
    take_ok(&request, BR_REQUEST_CHAT,
            USER("[{\"type\":\"text\",\"text\":\"hi\"},{\"type\":\"text\",\"text\":\"there\"}]"));
    assert_ids(&request.prompts[0].ids, want.data, want.len);
    br_request_free(&request);
    br_ids_free(&want);
}

static void test_tool_history_is_taken(void **state)
{
    struct br_request request;
    (void)state;
    take_ok(&request, BR_REQUEST_CHAT,
            "{\"model\":\"tiny-qwen2\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
            "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":"
            "{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"content\":\"7\"}]}");
    br_request_free(&request);
}

static void test_no_chat_template(void **state)
{
    struct br_request request;
    struct br_problem problem;
    bool had = stories.has_chat;
    (void)state;
    stories.has_chat = false;
    assert_int_equal(take(&request, BR_REQUEST_CHAT,
                          "{\"model\":\"stories260K\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
                          &problem),
                     -1);
    stories.has_chat = had;
    assert_int_equal(problem.status, 400);
    assert_non_null(strstr(problem.message, "/v1/completions"));
}

static void test_specs(void **state)
{
    struct br_request request;
    struct br_seq_spec *specs;
    uint32_t n;
    (void)state;
    take_ok(&request, BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[[5],[6]],\"n\":3,\"seed\":9}");
    specs = br_request_specs(&request, &n);
    assert_int_equal(n, 6);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(specs[i].choice, i);
        assert_int_equal(specs[i].prompt[0], i < 3 ? 5 : 6);
        assert_true(specs[i].sampling.seed == 9);
        assert_true(specs[i].id != 0);
        assert_string_equal(specs[i].request_id, request.id);
        assert_string_equal(specs[i].model, "tiny-qwen2");
        for (uint32_t k = 0; k < i; k++)
            assert_true(specs[k].id != specs[i].id);
    }
    free(specs);
    br_request_free(&request);
}

static void test_missing_seeds_differ(void **state)
{
    struct br_request a, b;
    (void)state;
    take_ok(&a, BR_REQUEST_COMPLETION, "{" PROMPT "}");
    take_ok(&b, BR_REQUEST_COMPLETION, "{" PROMPT "}");
    assert_true(a.base.sampling.seed != b.base.sampling.seed);
    br_request_free(&a);
    br_request_free(&b);
}

static void test_echo_text(void **state)
{
    struct br_request request;
    (void)state;
    take_ok(&request, BR_REQUEST_COMPLETION, "{\"model\":\"m\",\"prompt\":[\"a\",\"b c\"],\"echo\":true}");
    assert_string_equal(request.prompts[1].echo, "b c");
    br_request_free(&request);
}

static void refuse_repeated(const char *begin, const char *piece, size_t times, const char *message)
{
    struct br_request request;
    struct br_problem problem;
    struct br_buf body = {0};
    br_buf_puts(&body, begin);
    for (size_t i = 0; i < times; i++)
        br_buf_puts(&body, piece);
    assert_int_equal(br_request_parse(&request, BR_REQUEST_COMPLETION, body.data, body.len, 8, &problem), -1);
    assert_int_equal(problem.status, 400);
    if (!strstr(problem.message, message))
        fail_msg("%s", problem.message);
    br_buf_free(&body);
}

static void test_bombs(void **state)
{
    (void)state;
    refuse_repeated("", "[", 1000000, "nested deeper");
    refuse_repeated("{\"a\":", "{\"a\":", 100, "nested deeper");
    refuse_repeated("{\"prompt\":[", "[],", 100000, "too many elements");
    refuse_repeated("{\"prompt\":[", "1,", 2000000, "too many elements");
    refuse_repeated("{\"prompt\":\"", "[", 1000, "could not parse"); /* brackets in a string are text */
}

static void test_duplicate_keys(void **state)
{
    struct br_request request;
    (void)state;
    take_ok(&request, BR_REQUEST_COMPLETION, "{" PROMPT ",\"n\":1,\"n\":2}");
    assert_int_equal(request.n, 2); /* the last counts, as in Python's and JavaScript's parsers */
    br_request_free(&request);
}

static void test_long_prompts_are_measured(void **state)
{
    struct br_request request;
    struct br_problem problem;
    struct br_buf body = {0};
    (void)state;
    br_buf_puts(&body, "{\"model\":\"m\",\"prompt\":[5");
    for (int i = 1; i < 600; i++)
        br_buf_puts(&body, ",5");
    br_buf_puts(&body, "]}");
    assert_int_equal(take(&request, BR_REQUEST_COMPLETION, body.data, &problem), -1);
    assert_string_equal(problem.code, "context_length_exceeded");
    assert_non_null(strstr(problem.message, "maximum context length is 512 tokens"));
    assert_non_null(strstr(problem.message, "600 tokens"));
    br_buf_free(&body);
}

static void test_slo_headers(void **state)
{
    static const char *const wrong[] = {"x", "0", "-1", "nan", "inf", "1e12", "5 ms"};
    struct br_problem problem;
    double seconds = 7;
    (void)state;
    assert_int_equal(br_request_slo("x-slo-ttft-ms", "", &seconds, &problem), 0);
    assert_float_equal(seconds, 7, 0);
    assert_int_equal(br_request_slo("x-slo-ttft-ms", "250", &seconds, &problem), 0);
    assert_float_equal(seconds, 0.25, 1e-12);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(br_request_slo("x-slo-ttft-ms", wrong[i], &seconds, &problem), -1);
        assert_string_equal(problem.param, "x-slo-ttft-ms");
    }
}

/* Lower is more urgent, as in vLLM; a step is a factor of two, up to 2^10. */
static void test_urgency(void **state)
{
    static const struct {
        const char *body;
        double weight;
    } cases[] = {
        {"{" PROMPT "}", 1},
        {"{" PROMPT ",\"priority\":0}", 1},
        {"{" PROMPT ",\"priority\":-1}", 2},
        {"{" PROMPT ",\"priority\":3}", .125},
        {"{" PROMPT ",\"priority\":-2147483648}", 1024},
        {"{" PROMPT ",\"priority\":2147483647}", 1. / 1024},
    };
    struct br_request request;
    struct br_problem problem;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(take(&request, BR_REQUEST_COMPLETION, cases[i].body, &problem), 0);
        assert_float_equal(request.base.weight, cases[i].weight, 0);
        assert_float_equal(request.base.ttft_s, 10, 0); /* the model's */
        assert_float_equal(request.base.deadline_s, 0, 0);
        br_request_free(&request);
    }
    qwen.weight = 3;
    assert_int_equal(take(&request, BR_REQUEST_COMPLETION,
                          "{" PROMPT ",\"priority\":-2,\"slo\":{\"ttft\":2,\"tbt\":0.05,\"deadline\":30}}", &problem),
                     0);
    qwen.weight = 0;
    assert_float_equal(request.base.weight, 12, 0);
    assert_float_equal(request.base.ttft_s, 2, 0);
    assert_float_equal(request.base.tbt_s, .05, 0);
    assert_float_equal(request.base.deadline_s, 30, 0);
    br_request_free(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_long_names_are_unknown_models),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_parameter),
        cmocka_unit_test(test_bias_is_taken),
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_unknown_fields_are_named),
        cmocka_unit_test(test_model_defaults),
        cmocka_unit_test(test_messages_render_like_chat),
        cmocka_unit_test(test_null_is_absent),
        cmocka_unit_test(test_prompt_forms),
        cmocka_unit_test(test_chat_renders_the_template),
        cmocka_unit_test(test_tool_history_is_taken),
        cmocka_unit_test(test_no_chat_template),
        cmocka_unit_test(test_specs),
        cmocka_unit_test(test_missing_seeds_differ),
        cmocka_unit_test(test_echo_text),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_duplicate_keys),
        cmocka_unit_test(test_long_prompts_are_measured),
        cmocka_unit_test(test_slo_headers),
        cmocka_unit_test(test_urgency),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
