#include "scheduler/gateway/watch.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/gateway/gateway_impl.h"
#include "scheduler/gateway/spans.h"

static double seconds(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

static void trace_begin(struct br_gateway_call *call)
{
    struct br_watch *w = &call->watch;
    const char *parent = call->http->header[BR_HEADER_TRACEPARENT];
    const char *state = call->http->header[BR_HEADER_TRACESTATE];
    w->traced = call->gateway->otlp || *parent;
    if (!w->traced)
        return;
    br_traceparent_begin(&w->trace, parent);
    if (w->trace.has_parent && strlen(state) < BR_HTTP_HEADER_VALUE - 1) /* a longer one was cut */
        strcpy(w->tracestate, state);
}

int br_watch_begin(struct br_gateway_call *call)
{
    struct br_watch *w = &call->watch;
    struct br_client *client = call->http->client;
    w->began_ns = br_now_ns();
    w->began_wall_ns = br_wall_ns();
    trace_begin(call);
    w->queue_s = -1;
    if (!client)
        return 0;
    if (br_client_begin(client, br_now_s(), &call->problem))
        return -1;
    w->client = client;
    return 0;
}

int br_watch_model(struct br_gateway_call *call)
{
    struct br_watch *w = &call->watch;
    w->model = br_metrics_model(&call->gateway->metrics, call->model->name);
    if (!w->client || br_client_may(w->client, call->model->name))
        return 0;
    return br_problem_set(&call->problem, 403, "model_not_allowed", "model", "Key '%s' may not use the model '%s'.",
                          w->client->key.name, call->request.model);
}

static uint64_t prompt_tokens(const struct br_gateway_call *call)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < call->request.n_prompts; i++)
        n += call->request.prompts[i].ids.len;
    return n;
}

int br_watch_bound(struct br_gateway_call *call)
{
    struct br_watch *w = &call->watch;
    if (w->traced)
        br_traceparent_pass(&w->trace, call->request.base.traceparent);
    if (!w->client)
        return 0;
    if (br_client_charge(w->client, prompt_tokens(call), br_now_s(), &call->problem))
        return -1;
    w->charged = prompt_tokens(call);
    call->request.base.weight *= w->client->key.weight * br_client_share(w->client);
    call->request.base.salt = br_client_salt(w->client);
    return 0;
}

void br_watch_accepted(struct br_gateway_call *call)
{
    struct br_watch *w = &call->watch;
    const struct br_request *request = &call->request;
    w->accepted = true;
    if (!w->model)
        return;
    w->model->prompt_tokens += call->prompt_tokens;
    br_metric_hist_add(&w->model->n, request->n, 1);
    if (request->has_max_tokens)
        br_metric_hist_add(&w->model->max_tokens, request->base.max_tokens, 1);
}

void br_watch_pace(struct br_gateway_call *call, bool slow)
{
    struct br_watch *w = &call->watch;
    if (!slow && w->paused_since_ns)
        w->paused_ns += br_now_ns() - w->paused_since_ns;
    w->paused_since_ns = slow ? br_now_ns() : 0;
}

/* Token k is on time when it leaves by arrival + TTFT + k TBT. */
static uint32_t on_time(const struct br_gateway_call *call, const struct br_choice *choice, uint32_t n, double age_s)
{
    const struct br_seq_spec *spec = &call->request.base;
    uint32_t good = 0;
    for (uint32_t i = 0; i < n; i++)
        good += age_s <= spec->ttft_s + (choice->n_tokens + choice->n_kept - choice->n_released + i) * spec->tbt_s;
    return good;
}

static void watch_gaps(struct br_watch *w, struct br_choice *choice, uint32_t n, int64_t now_ns)
{
    if (choice->last_ns)
        br_metric_hist_add(&w->model->itl, seconds(choice->last_ns, now_ns) / n, n);
    else if (n > 1)
        br_metric_hist_add(&w->model->itl, 0, n - 1); /* came with the first one */
    choice->last_ns = now_ns;
}

/* What a sequence that did not end well still owed is late. */
static uint64_t owed(const struct br_gateway_call *call, const struct br_choice *choice, uint32_t n)
{
    uint64_t have = (uint64_t)choice->n_tokens + n, most = call->request.base.max_tokens;
    return most > have ? most - have : 0;
}

void br_watch_tokens(struct br_gateway_call *call, struct br_choice *choice, uint32_t n, enum br_end end)
{
    struct br_watch *w = &call->watch;
    int64_t now_ns = br_now_ns();
    double age_s = seconds(w->began_ns + w->paused_ns, now_ns);
    uint32_t good;
    if (end > w->end)
        w->end = end;
    w->tokens += n;
    if (w->client && n)
        br_client_generated(w->client, n, br_now_s());
    if (!w->model)
        return;
    if (end == BR_END_FAILED)
        w->model->late += owed(call, choice, n);
    if (n == 0)
        return;
    if (!w->first_ns)
        br_metric_hist_add(&w->model->ttft, seconds(w->began_ns, now_ns), 1);
    w->first_ns = w->first_ns ? w->first_ns : now_ns;
    w->last_ns = now_ns;
    w->model->generated_tokens += n;
    good = on_time(call, choice, n, age_s);
    w->model->on_time += good;
    w->model->late += n - good;
    watch_gaps(w, choice, n, now_ns);
}

void br_gateway_first_step(struct br_gateway_call *call, double queue_s)
{
    struct br_watch *w = &call->watch;
    double most_s = seconds(w->began_ns, br_now_ns());
    if (w->queue_s < 0 && queue_s >= 0)
        w->queue_s = queue_s < most_s ? queue_s : most_s;
}

void br_gateway_moment(struct br_gateway_call *call, uint64_t seq, const struct br_gateway_moment *moment)
{
    for (uint32_t i = 0; i < call->n_choices; i++)
        if (call->choices[i].seq == seq)
            br_spans_of_moment(call, i, moment);
}

void br_watch_content(const struct br_gateway_call *call, const char *what, const char *text, size_t len)
{
    char copy[512];
    if (!call->gateway->config.log_content || len == 0)
        return;
    snprintf(copy, sizeof copy, "%.*s", (int)(len < sizeof copy ? len : sizeof copy - 1), text);
    br_log(BR_INFO, what, "req=%s bytes=%zu text=%s", call->request.id, len, BR_Q(copy));
}

/* ---- the end ---- */

static enum br_finish finish_of(const struct br_watch *w)
{
    if (w->cut || w->end == BR_END_CANCELLED)
        return BR_FINISH_ABORT;
    if (w->end == BR_END_FAILED)
        return BR_FINISH_ERROR;
    return w->end == BR_END_LENGTH ? BR_FINISH_LENGTH : BR_FINISH_STOP;
}

static void count_times(const struct br_watch *w, int64_t now_ns)
{
    struct br_model_metrics *m = w->model;
    double queue_s = w->queue_s;
    br_metric_hist_add(&m->e2e, seconds(w->began_ns, now_ns), 1);
    if (w->first_ns)
        br_metric_hist_add(&m->decode, seconds(w->first_ns, w->last_ns), 1);
    if (!w->first_ns || queue_s < 0)
        return;
    br_metric_hist_add(&m->queue, queue_s, 1);
    br_metric_hist_add(&m->prefill, seconds(w->began_ns, w->first_ns) - queue_s, 1);
    br_metric_hist_add(&m->inference, seconds(w->began_ns, w->last_ns) - queue_s, 1);
}

static void count_end(struct br_gateway_call *call, int64_t now_ns)
{
    struct br_watch *w = &call->watch;
    if (w->status >= 200 && w->status < 600)
        call->gateway->metrics.answers[w->status / 100]++;
    if (!w->model)
        return;
    if (!w->accepted) {
        w->model->refused += w->status == 429 || w->status == 503;
        return;
    }
    w->model->finished[finish_of(w)]++;
    w->model->prefix_queries += call->prompt_tokens;
    w->model->prefix_hits += br_call_cached(call);
    br_metric_hist_add(&w->model->prompt_length, (double)call->prompt_tokens, 1);
    br_metric_hist_add(&w->model->output_length, (double)w->tokens, 1);
    count_times(w, now_ns);
}

static void log_end(const struct br_gateway_call *call, int64_t now_ns)
{
    const struct br_watch *w = &call->watch;
    br_log(BR_INFO, "request",
           "req=%s id=%s key=%s model=%s status=%d end=%s prompt=%" PRIu64 " tokens=%" PRIu64
           " ttft_s=%.3f e2e_s=%.3f queue_s=%.3f",
           call->request.id, BR_Q(call->request_id), w->client ? w->client->key.name : "-", BR_Q(call->request.model),
           w->status, w->cut ? "left" : br_end_name(w->end), call->prompt_tokens, w->tokens,
           w->first_ns ? seconds(w->began_ns, w->first_ns) : 0, seconds(w->began_ns, now_ns),
           w->queue_s > 0 ? w->queue_s : 0);
}

void br_watch_end(struct br_gateway_call *call)
{
    struct br_watch *w = &call->watch;
    int64_t now_ns = br_now_ns();
    count_end(call, now_ns);
    log_end(call, now_ns);
    br_spans_of_call(call, now_ns);
    if (!w->client)
        return;
    if (!w->accepted && w->charged)
        br_client_refund(w->client, w->charged, br_now_s());
    br_client_end(w->client);
    w->client = NULL;
}

void br_watch_headers(struct br_gateway_call *call, struct br_buf *out)
{
    char line[BR_HTTP_HEADER_VALUE + 32];
    struct br_client *client = call->watch.client ? call->watch.client : call->http->client;
    br_request_id_line(line, sizeof line, call->request_id, call->request.id);
    br_buf_puts(out, line);
    if (client)
        br_client_headers(client, br_now_s(), out);
}
