#include "scheduler/gateway/spans.h"

#include "scheduler/gateway/gateway_impl.h"

/* Monotonic to wall time, by the moment at which the call began. */
static int64_t wall_of(const struct br_gateway_call *call, int64_t ns)
{
    return call->watch.began_wall_ns + (ns - call->watch.began_ns);
}

static void child(const struct br_gateway_call *call, struct br_span *span, int64_t from_ns, int64_t to_ns)
{
    const struct br_traceparent *trace = &call->watch.trace;
    uint8_t id[8];
    br_traceparent_span(id);
    span->trace = trace->trace;
    span->id = id;
    span->parent = trace->span;
    span->kind = BR_SPAN_INTERNAL;
    span->start_ns = wall_of(call, from_ns);
    span->end_ns = wall_of(call, to_ns);
    br_otlp_span(call->gateway->otlp, span);
}

static void phases(const struct br_gateway_call *call)
{
    const struct br_watch *w = &call->watch;
    int64_t began_ns = w->began_ns, step_ns = began_ns + (int64_t)(w->queue_s * 1e9);
    if (w->queue_s >= 0) {
        child(call, &(struct br_span){.name = "queue"}, began_ns, step_ns);
        if (w->first_ns)
            child(call, &(struct br_span){.name = "prefill"}, step_ns, w->first_ns);
    }
    if (w->first_ns)
        child(call, &(struct br_span){.name = "decode"}, w->first_ns, w->last_ns);
}

static void attr(struct br_span *span, const char *key, const char *text, double number)
{
    if (span->n_attrs < BR_OTLP_MAX_ATTRS)
        span->attrs[span->n_attrs++] = (struct br_span_attr){key, text, number};
}

/* Names as vLLM's spans have them, which follow OpenTelemetry's conventions for generative AI. */
static void request_attrs(const struct br_gateway_call *call, struct br_span *span)
{
    const struct br_watch *w = &call->watch;
    attr(span, "gen_ai.request.id", call->request.id, 0);
    attr(span, "gen_ai.request.model", call->request.model, 0);
    attr(span, "gen_ai.request.n", NULL, call->request.n);
    attr(span, "gen_ai.usage.prompt_tokens", NULL, (double)call->prompt_tokens);
    attr(span, "gen_ai.usage.completion_tokens", NULL, (double)w->tokens);
    if (w->first_ns)
        attr(span, "gen_ai.latency.time_to_first_token", NULL, (double)(w->first_ns - w->began_ns) * 1e-9);
    if (w->queue_s >= 0)
        attr(span, "gen_ai.latency.time_in_queue", NULL, w->queue_s);
    attr(span, "http.response.status_code", NULL, w->status);
    attr(span, "briareus.end", w->cut ? "left" : br_end_name(w->end), 0);
    if (w->client)
        attr(span, "briareus.key", w->client->key.name, 0);
}

void br_spans_of_call(const struct br_gateway_call *call, int64_t now_ns)
{
    const struct br_watch *w = &call->watch;
    struct br_span span = {.name = "llm_request", .kind = BR_SPAN_SERVER};
    if (!call->gateway->otlp || !w->traced || !w->trace.sampled)
        return;
    phases(call);
    span.trace = w->trace.trace;
    span.id = w->trace.span;
    span.parent = w->trace.has_parent ? w->trace.parent : NULL;
    span.state = w->tracestate;
    span.start_ns = w->began_wall_ns;
    span.end_ns = wall_of(call, now_ns);
    span.error = call->error[0] ? call->error : w->status >= 500 ? "refused" : NULL;
    request_attrs(call, &span);
    br_otlp_span(call->gateway->otlp, &span);
}

void br_spans_of_moment(const struct br_gateway_call *call, uint32_t choice, const struct br_gateway_moment *m)
{
    static const char *const names[] = {"turn", "swap_out", "swap_in"};
    struct br_span span = {.name = names[m->kind]};
    if (!call->gateway->otlp || !call->watch.traced || !call->watch.trace.sampled)
        return;
    attr(&span, "briareus.choice", NULL, choice);
    attr(&span, "briareus.device", m->device, 0);
    if (m->kind == BR_MOMENT_TURN) {
        attr(&span, "briareus.steps", NULL, m->steps);
        attr(&span, "briareus.rows", NULL, m->rows);
    } else {
        attr(&span, "briareus.bytes", NULL, (double)m->bytes);
    }
    child(call, &span, m->begin_ns, m->end_ns);
}
