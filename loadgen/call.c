/* One request: sent, heard, perhaps read slowly, given up or hung up. */
#include <stdlib.h>

#include "loadgen/run_impl.h"

static void call_release(struct load_call *call)
{
    struct load_run *run = call->run;
    uv_timer_stop(&call->timer);
    call->conn = NULL;
    call->next_free = run->free_calls;
    run->free_calls = call;
    run->open--;
}

static void call_end(struct load_call *call, enum load_outcome outcome, double at_s, const char *why)
{
    struct load_run *run = call->run;
    load_journal_end(run->journal, call->request, outcome, at_s, why);
    run->failed += load_outcome_failed(outcome);
    call_release(call);
}

static void call_abort(struct load_call *call, enum load_outcome outcome, const char *why)
{
    struct load_run *run = call->run;
    load_conn_abort(call->conn);
    call_end(call, outcome, load_run_now(run), why);
}

static double read_time(const struct load_run *run)
{
    return run->pool->read_at_s - (double)run->start_ns * 1e-9;
}

static void on_tokens(void *ctx, uint32_t n)
{
    struct load_call *call = ctx;
    struct load_run *run = call->run;
    load_journal_tokens(run->journal, call->request, n, read_time(run));
    run->tokens += n;
    call->tokens += n;
    if (call->cancel_after && call->tokens >= call->cancel_after) {
        call_abort(call, LOAD_CANCELLED, NULL);
        load_run_ended(run);
    }
}

static void on_moved(void *ctx, struct load_conn *conn)
{
    struct load_call *call = ctx;
    call->conn = conn;
    if (call->traits & LOAD_SLOW)
        load_conn_slow(conn);
}

static void on_end(void *ctx, const struct load_answer *answer)
{
    struct load_call *call = ctx;
    struct load_run *run = call->run;
    struct load_record *record = &run->journal->records[call->request];
    double at = answer->outcome == LOAD_OK ? read_time(run) : load_run_now(run);
    record->status = answer->status;
    record->prompt_seen = answer->prompt_tokens;
    call_end(call, answer->outcome, at, answer->why);
    load_run_ended(run);
}

/* When the request is to be given up, from its scheduled time on; infinity: never. */
static double give_up_at(const struct load_call *call)
{
    const struct load_config *c = call->run->config;
    double after = c->request_timeout_s > 0 ? c->request_timeout_s : 1e18;
    if (call->traits & LOAD_HAS_DEADLINE && c->deadline_s < after)
        after = c->deadline_s;
    return call->run->journal->records[call->request].scheduled_s + after;
}

static void on_timer(uv_timer_t *timer);

static void call_wait(struct load_call *call)
{
    double give_up = give_up_at(call), wait = give_up - load_run_now(call->run);
    if (call->traits & LOAD_SLOW && wait > call->run->config->slow_delay_s)
        wait = call->run->config->slow_delay_s;
    if (wait < 1e9)
        uv_timer_start(&call->timer, on_timer, wait > 0 ? (uint64_t)(wait * 1000) + 1 : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct load_call *call = timer->data;
    const struct load_config *c = call->run->config;
    if (load_run_now(call->run) >= give_up_at(call)) {
        bool deadline =
            call->traits & LOAD_HAS_DEADLINE && !(c->request_timeout_s > 0 && c->request_timeout_s < c->deadline_s);
        struct load_run *run = call->run;
        call_abort(call, deadline ? LOAD_DEADLINE : LOAD_TIMEOUT,
                   deadline ? "not answered by its deadline" : "not answered in --request-timeout");
        load_run_ended(run);
        return;
    }
    load_conn_resume(call->conn);
    call_wait(call);
}

static struct load_call *call_take(struct load_run *run)
{
    struct load_call *call = run->free_calls;
    if (call) {
        run->free_calls = call->next_free;
        return call;
    }
    call = br_calloc(1, sizeof *call);
    call->run = run;
    uv_timer_init(&run->loop, &call->timer);
    call->timer.data = call;
    run->calls = br_realloc(run->calls, (run->n_calls + 1) * sizeof *run->calls);
    run->calls[run->n_calls++] = call;
    return call;
}

void load_call_start(struct load_run *run, uint32_t request)
{
    struct load_call *call = call_take(run);
    const struct br_request *r = &run->ask->workload->requests[request];
    struct load_conn_cb cb = {.ctx = call, .tokens = on_tokens, .moved = on_moved, .end = on_end};
    struct load_record *record = &run->journal->records[request];
    struct br_buf bytes = {0};
    call->request = request;
    call->tokens = 0;
    call->traits = load_ask_traits(run->ask, r, &call->cancel_after);
    record->traits = (uint8_t)call->traits;
    record->sent_s = load_run_now(run);
    load_ask_write(run->ask, r, &bytes);
    run->open++;
    call->conn = load_conn_send(run->pool, &bytes, !run->config->no_stream, &cb);
    if (call->traits & LOAD_SLOW)
        load_conn_slow(call->conn);
    if (call->traits & (LOAD_SLOW | LOAD_HAS_DEADLINE) || run->config->request_timeout_s > 0)
        call_wait(call);
}

void load_calls_abort(struct load_run *run, enum load_outcome outcome, const char *why)
{
    for (uint32_t i = 0; i < run->n_calls; i++)
        if (run->calls[i]->conn)
            call_abort(run->calls[i], outcome, why);
}

void load_calls_close(struct load_run *run)
{
    for (uint32_t i = 0; i < run->n_calls; i++)
        uv_close((uv_handle_t *)&run->calls[i]->timer, NULL);
}

void load_calls_free(struct load_run *run)
{
    for (uint32_t i = 0; i < run->n_calls; i++)
        free(run->calls[i]);
    free(run->calls);
}
