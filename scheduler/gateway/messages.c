/* Answers and streams in the shape of Anthropic's Messages API. One choice, one block of text. */
#include <inttypes.h>
#include <string.h>

#include "scheduler/gateway/gateway_impl.h"

static void put_text(struct br_buf *out, const char *text)
{
    br_json_put(out, text, strlen(text));
}

/* {"id","type":"message",...,"content": up to the list's bracket */
static void put_head(const struct br_gateway_call *call, struct br_buf *out)
{
    br_buf_printf(out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", call->request.id);
    put_text(out, call->request.model);
    br_buf_puts(out, ",\"content\":[");
}

/* "stop_reason":...,"stop_sequence":... */
static void put_reason(const struct br_gateway_call *call, struct br_buf *out)
{
    const struct br_choice *choice = &call->choices[0];
    const struct br_seq_spec *spec = &call->request.base;
    const char *stop = choice->end == BR_END_STOP_TEXT && choice->stop.n > 0 && choice->stop.hit >= 0
                           ? spec->stop[choice->stop.hit]
                           : NULL;
    const char *reason = choice->end == BR_END_LENGTH ? "max_tokens" : stop ? "stop_sequence" : "end_turn";
    br_buf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (stop)
        put_text(out, stop);
    else
        br_buf_puts(out, "null");
}

static void put_usage(const struct br_gateway_call *call, struct br_buf *out)
{
    br_buf_printf(out, "\"usage\":{\"input_tokens\":%" PRIu64 ",\"output_tokens\":%u}", call->prompt_tokens,
                  call->choices[0].n_tokens);
}

void br_messages_answer(struct br_gateway_call *call, struct br_buf *out)
{
    const struct br_choice *choice = &call->choices[0];
    put_head(call, out);
    br_buf_puts(out, "{\"type\":\"text\",\"text\":");
    br_json_put(out, choice->text.data, choice->ready);
    br_buf_puts(out, "}],");
    put_reason(call, out);
    br_buf_puts(out, ",");
    put_usage(call, out);
    br_buf_puts(out, "}");
}

/* ---- the stream: every event has its name on a line of its own and in its JSON ---- */

static struct br_buf *event_begin(struct br_gateway_call *call, const char *name)
{
    br_buf_printf(&call->event, "event: %s\ndata: {\"type\":\"%s\"", name, name);
    return &call->event;
}

static void event_end(struct br_gateway_call *call)
{
    br_buf_puts(&call->event, "}");
    br_sse_send(call);
}

void br_messages_begin(struct br_gateway_call *call)
{
    struct br_buf *out = event_begin(call, "message_start");
    br_buf_puts(out, ",\"message\":");
    put_head(call, out);
    br_buf_puts(out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    put_usage(call, out);
    br_buf_puts(out, "}");
    event_end(call);
    br_buf_puts(event_begin(call, "content_block_start"),
                ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    event_end(call);
}

void br_messages_ping(struct br_gateway_call *call)
{
    event_begin(call, "ping");
    event_end(call);
}

void br_messages_deliver(struct br_gateway_call *call, struct br_choice *choice)
{
    if (choice->ready > 0) {
        struct br_buf *out = event_begin(call, "content_block_delta");
        br_buf_puts(out, ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":");
        br_json_put(out, choice->text.data, choice->ready);
        br_buf_puts(out, "}");
        event_end(call);
        br_choice_given(choice);
    }
    if (choice->end != BR_END_NONE && choice->end >= BR_END_CANCELLED)
        br_sse_error(call, 500, call->error);
}

void br_messages_end(struct br_gateway_call *call)
{
    struct br_buf *out;
    if (call->error[0])
        return; /* an error event is the last */
    br_buf_puts(event_begin(call, "content_block_stop"), ",\"index\":0");
    event_end(call);
    out = event_begin(call, "message_delta");
    br_buf_puts(out, ",\"delta\":{");
    put_reason(call, out);
    br_buf_puts(out, "},");
    put_usage(call, out);
    event_end(call);
    event_begin(call, "message_stop");
    event_end(call);
}
