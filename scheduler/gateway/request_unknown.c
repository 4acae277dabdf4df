/* Fields of a body that nothing here reads: they are ignored, and said once. */
#include <stdio.h>
#include <string.h>

#include "scheduler/gateway/request.h"

/* Those of every endpoint, in alphabetical order, with those that OpenAI's and Anthropic's clients send and that change
 * nothing about the answer (user, metadata, store ...). */
static const char *const field_names[] = {
    "add_generation_prompt",
    "add_special_tokens",
    "best_of",
    "chat_template_kwargs",
    "deadline",
    "echo",
    "frequency_penalty",
    "functions",
    "ignore_eos",
    "include_stop_str_in_output",
    "keep_alive",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "min_p",
    "min_tokens",
    "model",
    "n",
    "parallel_tool_calls",
    "presence_penalty",
    "priority",
    "prompt",
    "repetition_penalty",
    "response_format",
    "return_token_strs",
    "seed",
    "service_tier",
    "skip_special_tokens",
    "slo",
    "stop",
    "stop_sequences",
    "stop_token_ids",
    "store",
    "stream",
    "stream_options",
    "system",
    "temperature",
    "thinking",
    "tokens",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "user",
};

static bool field_known(const char *name)
{
    for (size_t i = 0; i < sizeof field_names / sizeof *field_names; i++)
        if (strcmp(field_names[i], name) == 0)
            return true;
    return false;
}

void br_request_unknown(struct br_request *request)
{
    json_t *root = request->root;
    for (void *at = json_object_iter(root); at; at = json_object_iter_next(root, at)) {
        const char *name = json_object_iter_key(at);
        if (request->n_unknown == BR_REQUEST_UNKNOWN)
            return;
        if (!field_known(name))
            snprintf(request->unknown[request->n_unknown++], BR_REQUEST_FIELD, "%s", name);
    }
}
