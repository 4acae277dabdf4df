/* The life of a call: read, bound to a model, submitted, accepted, answered; or abandoned at any point. */
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/gateway/gateway_impl.h"

void br_request_id_line(char *out, size_t size, const char *wanted, const char *own)
{
    bool fine = wanted[0] != 0;
    for (const char *p = wanted; *p; p++)
        fine = fine && isgraph((unsigned char)*p);
    if (fine || *own)
        snprintf(out, size, "X-Request-Id: %s\r\n", fine ? wanted : own);
    else
        *out = 0;
}

/* Of kept tokens at once: text of a few KiB. */
enum { RELEASE_TOKENS = 64 };

static void call_finish(struct br_gateway_call *call);

/* ---- ends ---- */

static void call_free(struct br_gateway_call *call)
{
    if (call->submitting) {
        call->over = true;
        return;
    }
    br_watch_end(call);
    if (call->http)
        call->http->call = NULL;
    if (call->prev)
        call->prev->next = call->next;
    else
        call->gateway->calls = call->next;
    if (call->next)
        call->next->prev = call->prev;
    for (uint32_t i = 0; i < call->n_choices; i++)
        br_choice_free(&call->choices[i]);
    free(call->choices);
    br_request_free(&call->request);
    br_buf_free(&call->body);
    br_buf_free(&call->head);
    br_buf_free(&call->event);
    free(call);
}

/* Answers with an error and ends the call. */
static void call_refuse(struct br_gateway_call *call, const struct br_problem *problem)
{
    struct br_buf lines = {0};
    br_watch_headers(call, &lines);
    call->watch.status = problem->status;
    br_http_answer_problem(call->http, problem, lines.data ? lines.data : "");
    br_buf_free(&lines);
    call_free(call);
}

static void call_cancel(struct br_gateway_call *call)
{
    const struct br_gateway_backend *backend = &call->gateway->backend;
    if (call->state == CALL_READING)
        return;
    for (uint32_t i = 0; i < call->n_choices; i++)
        if (!br_choice_over(&call->choices[i]))
            backend->cancel(backend->ctx, call, call->choices[i].seq);
}

/* A job cannot be stopped once it runs: the call stays until it is back. */
static void call_leave(struct br_gateway_call *call)
{
    call->watch.cut = true;
    call->http->call = NULL;
    call->http = NULL;
    if (call->work.data == call)
        uv_cancel((uv_req_t *)&call->work);
    else
        call_free(call);
}

void br_call_abandon(struct br_gateway_call *call)
{
    br_log(BR_INFO, "client_gone", "req=%s open=%u", call->request.id, call->n_open);
    call_cancel(call);
    call_leave(call);
}

static void call_pause(struct br_gateway_call *call, bool pause)
{
    const struct br_gateway_backend *backend = &call->gateway->backend;
    if (!backend->pace || call->paused == pause)
        return;
    call->paused = pause;
    br_watch_pace(call, pause);
    br_log(BR_INFO, pause ? "client_slow" : "client_reads", "req=%s open=%u kept=%u", call->request.id, call->n_open,
           call->n_kept);
    for (uint32_t i = 0; i < call->n_choices; i++)
        if (!br_choice_over(&call->choices[i]))
            backend->pace(backend->ctx, call->choices[i].seq, pause);
}

/* Text is made of kept tokens again, in portions: what is written of one makes room for the next. Returns whether there
 * is more. */
static bool call_release(struct br_gateway_call *call)
{
    uint32_t room = RELEASE_TOKENS, i = 0;
    for (; i < call->n_choices && room > 0; i++) {
        struct br_choice *choice = &call->choices[i];
        uint32_t n;
        if (choice->n_kept == 0 && (choice->kept_end == BR_END_NONE || choice->end != BR_END_NONE))
            continue;
        n = br_choice_release(choice, &call->request, room);
        room -= n;
        call->n_kept -= n;
        br_sse_deliver(call, choice);
        if (choice->end != BR_END_NONE && --call->n_open == 0) {
            call_finish(call);
            return false;
        }
    }
    if (call->n_kept > 0 || room == 0)
        return true;
    call->held = false;
    call_pause(call, false);
    return false;
}

bool br_call_pace(struct br_gateway_call *call, bool slow)
{
    if (call->state != CALL_ACCEPTED || !call->request.stream)
        return false;
    if (!slow)
        return call->held ? call_release(call) : false;
    call->held = true;
    if (call->n_kept > call->gateway->config.slow_tokens)
        call_pause(call, true);
    return true;
}

/* What is stored stays for the next start; the rest was promised to nobody. */
static void call_part(struct br_gateway_call *call)
{
    const struct br_gateway_backend *backend = &call->gateway->backend;
    if (!backend->leave || call->state != CALL_ACCEPTED) {
        call_cancel(call);
        return;
    }
    for (uint32_t i = 0; i < call->n_choices; i++)
        if (!br_choice_over(&call->choices[i]))
            backend->leave(backend->ctx, call, call->choices[i].seq);
}

void br_call_stop(struct br_gateway_call *call)
{
    static const char message[] = "The server is shutting down.";
    struct br_problem problem;
    call_part(call);
    br_problem_set(&problem, 503, NULL, NULL, "%s", message);
    problem.retry_after_s = 1;
    call->watch.status = call->http->state == BR_HTTP_STREAM ? 200 : 503;
    if (call->http->state == BR_HTTP_STREAM) {
        snprintf(call->error, sizeof call->error, "%s", message);
        br_sse_error(call, 503, message);
        br_sse_end(call);
    } else {
        br_http_answer_problem(call->http, &problem, "");
    }
    call_leave(call);
}

/* ---- answering ---- */

static void answer_whole_choice(struct br_gateway_call *call, struct br_choice *choice, struct br_buf *out)
{
    const struct br_request *request = &call->request;
    const char *echo = request->prompts[choice->index / request->n].echo;
    struct br_buf text = {0};
    struct br_answer_choice answer = {.index = choice->index, .finish = br_answer_finish(choice->end)};
    br_buf_puts(&text, echo ? echo : "");
    br_buf_add(&text, choice->text.data, choice->ready);
    answer.text = text.data;
    answer.len = text.len;
    answer.logprobs = request->base.sampling.logprobs >= 0 ? &choice->logprobs : NULL;
    br_watch_content(call, "content_given", text.data, text.len);
    br_buf_puts(out, choice->index ? "," : "");
    br_answer_choice(request, &answer, out);
    br_buf_free(&text);
}

static void answer_openai(struct br_gateway_call *call, struct br_buf *out)
{
    uint64_t tokens = 0;
    br_answer_head(&call->request, false, call->created_s, out);
    for (uint32_t i = 0; i < call->n_choices; i++) {
        answer_whole_choice(call, &call->choices[i], out);
        tokens += call->choices[i].n_tokens;
    }
    br_buf_puts(out, "]");
    br_answer_usage(call->prompt_tokens, br_call_cached(call), tokens, out);
    br_buf_puts(out, "}");
}

/* Takes the body. */
static void answer_json(struct br_gateway_call *call, struct br_buf *body)
{
    struct br_buf lines = {0};
    br_watch_headers(call, &lines);
    call->watch.status = 200;
    br_http_answer(call->http, 200, "application/json", lines.data ? lines.data : "", body->data, body->len);
    br_buf_free(&lines);
    br_buf_free(body);
}

static void answer_whole(struct br_gateway_call *call)
{
    struct br_buf body = {0};
    if (call->request.kind == BR_REQUEST_MESSAGES)
        br_messages_answer(call, &body);
    else
        answer_openai(call, &body);
    answer_json(call, &body);
}

static void call_finish(struct br_gateway_call *call)
{
    struct br_problem problem;
    if (!call->request.stream && call->error[0]) {
        br_problem_set(&problem, 500, NULL, NULL, "%s", call->error);
        call_refuse(call, &problem);
        return;
    }
    if (call->request.stream)
        br_sse_end(call);
    else
        answer_whole(call);
    call_free(call);
}

/* ---- what the backend says ---- */

void br_gateway_accepted(struct br_gateway_call *call)
{
    if (call->state == CALL_ACCEPTED)
        return;
    call->state = CALL_ACCEPTED;
    br_watch_accepted(call);
    if (call->request.stream)
        br_sse_begin(call);
}

void br_gateway_refused(struct br_gateway_call *call, int status, double retry_after_s, const char *message)
{
    struct br_problem problem;
    assert(call->state == CALL_SUBMITTED);
    br_problem_set(&problem, status, status == 429 ? "rate_limit_exceeded" : NULL, NULL, "%s", message);
    problem.retry_after_s = retry_after_s > 0 || status == 500 ? retry_after_s : 1;
    call_refuse(call, &problem);
}

static struct br_choice *call_choice(struct br_gateway_call *call, uint64_t seq)
{
    for (uint32_t i = 0; i < call->n_choices; i++)
        if (call->choices[i].seq == seq)
            return &call->choices[i];
    return NULL;
}

/* A prompt counts once, as its first completion found it: the others find what that one has computed. */
uint64_t br_call_cached(const struct br_gateway_call *call)
{
    uint64_t cached = 0;
    for (uint32_t i = 0; i < call->n_choices; i += call->request.n)
        cached += call->choices[i].n_cached;
    return cached;
}

void br_gateway_cached(struct br_gateway_call *call, uint64_t seq, uint32_t tokens)
{
    struct br_choice *choice = call_choice(call, seq);
    if (choice)
        choice->n_cached = tokens;
}

void br_gateway_tokens(struct br_gateway_call *call, uint64_t seq, const struct br_token *tokens, uint32_t n,
                       enum br_end end, const char *error)
{
    struct br_choice *choice = call_choice(call, seq);
    if (!choice || br_choice_over(choice))
        return;
    br_gateway_accepted(call);
    if (end >= BR_END_CANCELLED)
        snprintf(call->error, sizeof call->error, "%s",
                 error ? error : (end == BR_END_CANCELLED ? "The request was cancelled." : "The request failed."));
    br_watch_tokens(call, choice, n, end);
    if (call->held) {
        br_choice_keep(choice, &call->request, tokens, n, end);
        call->n_kept += n;
        call->http->events->wake(call->http); /* the connection's turn sees whether it is too much */
        return;
    }
    br_choice_push(choice, &call->request, tokens, n, end);
    if (call->request.stream)
        br_sse_deliver(call, choice);
    if (end != BR_END_NONE && --call->n_open == 0)
        call_finish(call);
}

/* ---- from a request to the backend ---- */

static void call_choices(struct br_gateway_call *call, const struct br_seq_spec *specs, uint32_t n)
{
    call->n_choices = call->n_open = n;
    call->choices = br_calloc(n, sizeof *call->choices);
    for (uint32_t i = 0; i < n; i++) {
        br_choice_init(&call->choices[i], &call->request, call->model->tokenizer);
        call->choices[i].seq = specs[i].id;
        call->choices[i].index = i;
    }
    for (uint32_t i = 0; i < call->request.n_prompts; i++)
        call->prompt_tokens += call->request.prompts[i].ids.len;
}

static void call_submit(struct br_gateway_call *call)
{
    const struct br_gateway_backend *backend = &call->gateway->backend;
    uint32_t n;
    struct br_seq_spec *specs = br_request_specs(&call->request, &n);
    call_choices(call, specs, n);
    call->state = CALL_SUBMITTED;
    call->submitting = true; /* the backend may refuse, even finish, at once: the specs borrow from the call */
    backend->submit(backend->ctx, call, specs, n);
    call->submitting = false;
    free(specs);
    for (uint32_t i = 0; i < call->request.n_prompts; i++)
        br_ids_free(&call->request.prompts[i].ids);
    if (call->over)
        call_free(call);
}

static void bind_work(uv_work_t *work)
{
    struct br_gateway_call *call = work->data;
    call->rc = br_request_bind(&call->request, call->model, &call->problem);
}

/* The tokenizer has said all there is to say. */
static void call_answer_local(struct br_gateway_call *call)
{
    struct br_buf body = {0};
    br_request_answer_local(&call->request, call->model, &body);
    answer_json(call, &body);
    call_free(call);
}

static void call_keep_alive(const struct br_gateway_call *call)
{
    const struct br_gateway_backend *backend = &call->gateway->backend;
    if (call->request.keeps_alive && backend->keep_alive)
        backend->keep_alive(backend->ctx, call->model, call->request.keep_alive_s);
}

static void call_bound(struct br_gateway_call *call)
{
    if (call->rc < 0 || br_watch_bound(call) < 0) {
        call_refuse(call, &call->problem);
    } else if (br_request_is_local(&call->request)) {
        call_answer_local(call);
    } else {
        call_keep_alive(call);
        call_submit(call);
    }
}

static void parse_work(uv_work_t *work)
{
    struct br_gateway_call *call = work->data;
    call->rc = br_request_parse(&call->request, call->request.kind, call->body.data, call->body.len,
                                call->gateway->config.max_choices, &call->problem);
}

/* Runs fn here, or on the thread pool when the body is long; then `then`, on the loop. */
static void job_done(struct br_gateway_call *call, void (*then)(struct br_gateway_call *))
{
    struct br_gateway *gateway = call->gateway;
    call->work.data = NULL;
    if (call->http)
        then(call);
    else
        call_free(call);
    gateway->n_jobs--;
    br_gateway_job_done(gateway);
}

static void on_bound(uv_work_t *work, int status)
{
    (void)status; /* cancelled only when the client is gone */
    job_done(work->data, call_bound);
}

static void call_run(struct br_gateway_call *call, uv_work_cb fn, uv_after_work_cb after,
                     void (*then)(struct br_gateway_call *))
{
    call->work.data = call;
    if (call->body.len >= BR_REQUEST_INLINE_BYTES && uv_queue_work(call->gateway->loop, &call->work, fn, after) == 0) {
        call->gateway->n_jobs++;
        return;
    }
    fn(&call->work);
    call->work.data = NULL;
    then(call);
}

static int call_model(struct br_gateway_call *call)
{
    const struct br_gateway_backend *backend = &call->gateway->backend;
    const char *trouble;
    call->model = backend->model(backend->ctx, call->request.model);
    if (!call->model)
        return br_problem_set(&call->problem, 404, "model_not_found", "model", "The model '%s' does not exist.",
                              call->request.model);
    trouble = backend->model_trouble(backend->ctx, call->model);
    if (!trouble || (br_request_is_local(&call->request) && call->model->tokenizer))
        return 0;
    br_problem_set(&call->problem, 503, NULL, "model", "The model '%s' cannot be served now: %s.", call->request.model,
                   trouble);
    call->problem.retry_after_s = 5;
    return -1;
}

/* Each name is said once; beyond a bound of names nothing is. */
static void call_warn(struct br_gateway_call *call)
{
    struct br_gateway *gateway = call->gateway;
    enum { MOST = sizeof gateway->warned / sizeof *gateway->warned };
    for (uint32_t i = 0; i < call->request.n_unknown; i++) {
        const char *name = call->request.unknown[i];
        uint32_t k = 0;
        while (k < gateway->n_warned && strcmp(gateway->warned[k], name) != 0)
            k++;
        if (k < gateway->n_warned || k == MOST)
            continue;
        strcpy(gateway->warned[gateway->n_warned++], name);
        br_log(BR_WARN, "unknown_field", "req=%s field=%s hint=%s", call->request.id, BR_Q(name),
               BR_Q("it is ignored; this is said once"));
    }
}

static void call_parsed(struct br_gateway_call *call)
{
    br_watch_content(call, "content_asked", call->body.data, call->body.len);
    br_buf_free(&call->body);
    if (call->rc == 0)
        call_warn(call);
    if (call->rc < 0 || call_model(call) < 0 || br_watch_model(call) < 0) {
        call_refuse(call, &call->problem);
        return;
    }
    if (call->request.base.ttft_s <= 0) /* the body's word counts more than a header's */
        call->request.base.ttft_s = call->ttft_s;
    if (call->request.base.tbt_s <= 0)
        call->request.base.tbt_s = call->tbt_s;
    call_run(call, bind_work, on_bound, call_bound);
}

static void on_parsed(uv_work_t *work, int status)
{
    (void)status;
    job_done(work->data, call_parsed);
}

static int call_draining(struct br_gateway_call *call)
{
    if (!call->http->draining)
        return 0;
    br_problem_set(&call->problem, 503, "shutting_down", NULL,
                   "The server is shutting down: it takes no new requests.");
    call->problem.retry_after_s = call->gateway->retry_after_s > 1 ? call->gateway->retry_after_s : 1;
    return -1;
}

static int call_headers(struct br_gateway_call *call)
{
    struct br_http *http = call->http;
    if (br_request_slo("x-slo-ttft-ms", http->header[BR_HEADER_SLO_TTFT], &call->ttft_s, &call->problem) < 0)
        return -1;
    return br_request_slo("x-slo-tbt-ms", http->header[BR_HEADER_SLO_TBT], &call->tbt_s, &call->problem);
}

void br_call_start(struct br_gateway *gateway, struct br_http *http, enum br_request_kind kind)
{
    struct br_gateway_call *call = br_calloc(1, sizeof *call);
    call->gateway = gateway;
    call->http = http;
    http->call = call;
    call->next = gateway->calls;
    if (call->next)
        call->next->prev = call;
    gateway->calls = call;
    call->request.kind = kind;
    call->created_s = br_wall_ns() / BR_NS_PER_S;
    snprintf(call->request_id, sizeof call->request_id, "%s", http->header[BR_HEADER_REQUEST_ID]);
    call->body = http->body;
    call->body_len = http->body.len;
    http->body = (struct br_buf){0};
    if (br_watch_begin(call) < 0 || call_draining(call) < 0 || call_headers(call) < 0)
        call_refuse(call, &call->problem);
    else
        call_run(call, parse_work, on_parsed, call_parsed);
}
