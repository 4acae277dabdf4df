/* Server-sent events: the stream of a call. */
#include <string.h>

#include "scheduler/gateway/gateway_impl.h"

void br_sse_send(struct br_gateway_call *call)
{
    br_buf_puts(&call->event, "\n\n");
    br_http_stream_write(call->http, call->event.data, call->event.len);
    br_buf_clear(&call->event);
    call->silent = false;
}

/* Called at even intervals. */
void br_sse_ping(struct br_gateway_call *call)
{
    if (call->silent && call->request.kind == BR_REQUEST_MESSAGES) {
        br_messages_ping(call);
    } else if (call->silent) {
        br_buf_puts(&call->event, ": ping");
        br_sse_send(call);
    }
    call->silent = true;
}

static uint64_t sse_tokens(const struct br_gateway_call *call)
{
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < call->n_choices; i++)
        tokens += call->choices[i].n_tokens;
    return tokens;
}

static void sse_chunk(struct br_gateway_call *call, const struct br_answer_choice *choice)
{
    br_buf_puts(&call->event, "data: ");
    br_buf_add(&call->event, call->head.data, call->head.len);
    br_answer_chunk(&call->request, choice, &call->event);
    br_buf_puts(&call->event, "]");
    if (call->request.running_usage)
        br_answer_usage(call->prompt_tokens, br_call_cached(call), sse_tokens(call), &call->event);
    else if (call->request.include_usage)
        br_buf_puts(&call->event, ",\"usage\":null");
    br_buf_puts(&call->event, "}");
    br_sse_send(call);
}

/* A chat opens with the role, an echo with the prompt. */
static void sse_open(struct br_gateway_call *call, struct br_choice *choice)
{
    const struct br_request *request = &call->request;
    struct br_answer_choice chunk = {.index = choice->index, .first = true};
    choice->opened = true;
    if (request->kind == BR_REQUEST_COMPLETION) {
        chunk.text = request->prompts[choice->index / request->n].echo;
        if (!chunk.text)
            return;
        chunk.len = strlen(chunk.text);
    }
    sse_chunk(call, &chunk);
}

void br_sse_begin(struct br_gateway_call *call)
{
    struct br_buf lines = {0};
    br_watch_headers(call, &lines);
    br_buf_puts(&lines, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    call->watch.status = 200;
    br_http_stream_begin(call->http, "text/event-stream", lines.data);
    br_buf_free(&lines);
    if (call->request.kind == BR_REQUEST_MESSAGES) {
        br_messages_begin(call);
        return;
    }
    br_answer_head(&call->request, true, call->created_s, &call->head);
    for (uint32_t i = 0; i < call->n_choices; i++)
        sse_open(call, &call->choices[i]);
}

/* What is ready of one choice; with its end also what is left of its log probabilities, and the reason. */
void br_sse_deliver(struct br_gateway_call *call, struct br_choice *choice)
{
    bool ended = choice->end != BR_END_NONE, failed = ended && choice->end >= BR_END_CANCELLED;
    struct br_answer_choice chunk = {.index = choice->index, .text = choice->text.data, .len = choice->ready};
    if (call->request.kind == BR_REQUEST_MESSAGES) {
        br_messages_deliver(call, choice);
        return;
    }
    chunk.logprobs = call->request.base.sampling.logprobs >= 0 ? &choice->logprobs : NULL;
    if (chunk.len > 0 || (ended && choice->logprobs.tokens.len > 0)) {
        br_watch_content(call, "content_given", chunk.text, chunk.len);
        sse_chunk(call, &chunk);
        br_answer_logprobs_clear(&choice->logprobs);
        br_choice_given(choice);
    }
    if (failed)
        br_sse_error(call, 500, call->error);
    else if (ended)
        sse_chunk(call, &(struct br_answer_choice){.index = choice->index, .finish = br_answer_finish(choice->end)});
}

void br_sse_error(struct br_gateway_call *call, int status, const char *message)
{
    struct br_problem problem;
    br_problem_set(&problem, status, NULL, NULL, "%s", message);
    problem.anthropic = call->request.kind == BR_REQUEST_MESSAGES;
    br_buf_puts(&call->event, problem.anthropic ? "event: error\ndata: " : "data: ");
    br_problem_body(&problem, &call->event);
    br_sse_send(call);
}

static void sse_usage(struct br_gateway_call *call)
{
    br_buf_puts(&call->event, "data: ");
    br_buf_add(&call->event, call->head.data, call->head.len);
    br_buf_puts(&call->event, "]");
    br_answer_usage(call->prompt_tokens, br_call_cached(call), sse_tokens(call), &call->event);
    br_buf_puts(&call->event, "}");
    br_sse_send(call);
}

void br_sse_end(struct br_gateway_call *call)
{
    if (call->request.kind == BR_REQUEST_MESSAGES) {
        br_messages_end(call);
        br_http_stream_end(call->http);
        return;
    }
    if (call->request.include_usage && !call->error[0])
        sse_usage(call);
    br_buf_puts(&call->event, "data: [DONE]");
    br_sse_send(call);
    br_http_stream_end(call->http);
}
