#include "tests/unit/scheduler/service/service_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "proto/convert.h"
#include "tests/cmocka.h"

static char g_model[2][512];

static void on_late(uv_timer_t *timer)
{
    ((struct fixture *)timer->data)->late = true;
}

void fixture_arm(struct fixture *f)
{
    f->late = false;
    uv_timer_start(&f->limit, on_late, 10000, 0);
}

static void on_ready(void *ctx, int rc)
{
    assert_int_equal(rc, 0);
    ((struct fixture *)ctx)->ready = true;
}

static void open_models(struct fixture *f, struct br_err *err)
{
    const char *shared = getenv("BRIAREUS_SHARED");
    char *items[2] = {g_model[0], g_model[1]}, *term = (char *)f->terms;
    struct br_option_list list = {items, 2}, terms = {&term, f->terms ? 1 : 0};
    struct br_models_config config = {.models = &list, .ttft_s = 10, .tbt_s = 0.1, .terms = &terms};
    for (int i = 0; i < 2; i++)
        snprintf(g_model[i], sizeof g_model[i], "%s=%s/data/models/tiny-qwen2", i ? "m2" : "m",
                 shared && *shared ? shared : "../shared");
    if (br_models_create(&config, &f->models, err) || br_models_trouble(f->models, 0))
        fail_msg("reference data is needed: %s", br_models_trouble(f->models, 0));
}

static void start_servers(struct fixture *f, struct br_err *err)
{
    struct br_link_limits limits = {
        .max_peers = 8, .max_out_bytes = 16 << 20, .register_ms = 5000, .silence_ms = 20000};
    struct br_link_server_cb link = br_service_link(f->service);
    struct br_gateway_backend backend = br_service_backend(f->service);
    struct br_gateway_config gateway = {.host = "127.0.0.1",
                                        .max_connections = 64,
                                        .max_header_bytes = 8192,
                                        .max_body_bytes = 1 << 20,
                                        .max_choices = 8,
                                        .header_timeout_ms = 10000,
                                        .idle_timeout_ms = 10000,
                                        .max_out_bytes = 1 << 20};
    assert_int_equal(br_link_server_start(&f->loop, f->address, &limits, &link, &f->link, err), 0);
    assert_int_equal(br_gateway_start(&f->loop, &gateway, &backend, &f->gateway, err), 0);
}

void fixture_open(struct fixture *f, double adopt_s, uint32_t max_unfinished)
{
    memset(f, 0, sizeof *f);
    fixture_open_with(f, adopt_s, max_unfinished);
}

void fixture_open_with(struct fixture *f, double adopt_s, uint32_t max_unfinished)
{
    struct br_service_config config = {.max_unfinished = max_unfinished,
                                       .max_devices = 4,
                                       .adopt_s = adopt_s,
                                       .hung_s = f->hung_s,
                                       .admission = f->admission};
    struct br_err err = {0};
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->limit);
    f->limit.data = f;
    strcpy(f->dir, "/tmp/briareus-service-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->address, sizeof f->address, "unix:%s/w", f->dir);
    open_models(f, &err);
    assert_int_equal(br_queue_mem_create(&f->loop, &f->queue, &err), 0);
    assert_int_equal(br_service_create(&f->loop, &config, f->queue, f->models, &f->service, &err), 0);
    br_service_recover(f->service, on_ready, f);
    FIX_UNTIL(f, f->ready);
    start_servers(f, &err);
}

void fixture_close(struct fixture *f)
{
    br_gateway_stop(f->gateway);
    br_link_server_stop(f->link);
    br_service_close(f->service);
    f->queue->ops->destroy(f->queue);
    uv_close((uv_handle_t *)&f->limit, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    br_service_destroy(f->service);
    br_models_destroy(f->models);
    unlink(f->address + 5);
    rmdir(f->dir);
}

/* ---- devices ---- */

static void runs_fill(const struct fix_device *d, Briareus__Register *hello)
{
    Briareus__RunningSeq *seqs = br_calloc(d->n_runs, sizeof *seqs);
    hello->running = br_calloc(d->n_runs, sizeof *hello->running);
    hello->n_running = d->n_runs;
    for (uint32_t i = 0; i < d->n_runs; i++) {
        briareus__running_seq__init(&seqs[i]);
        seqs[i].seq = d->runs[i].seq;
        seqs[i].fence = d->runs[i].fence;
        seqs[i].tokens = d->runs[i].tokens;
        hello->running[i] = &seqs[i];
    }
}

static void on_connected(void *ctx)
{
    struct fix_device *d = ctx;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Register hello = BRIAREUS__REGISTER__INIT;
    Briareus__ModelInfo info = BRIAREUS__MODEL_INFO__INIT, info2 = info, *models[2] = {&info, &info2};
    Briareus__RunningSeq seq = BRIAREUS__RUNNING_SEQ__INIT, *running[1] = {&seq};
    info.name = (char *)"m";
    info.step_s = d->step_s > 0 ? d->step_s : 0.01;
    info.load_s = 0.1;
    info.weight_bytes = 1000;
    info2 = info;
    info2.name = (char *)"m2";
    seq.seq = d->running_seq;
    seq.fence = d->running_fence;
    seq.tokens = d->running_tokens;
    hello.version = BR_LINK_VERSION;
    hello.node = (char *)(d->node ? d->node : "n");
    hello.device = d->number;
    hello.kind = (char *)"cpu";
    hello.incarnation = d->incarnation;
    hello.memory_bytes = d->memory_bytes;
    hello.models = models;
    hello.n_models = 2;
    hello.running = running;
    hello.n_running = d->running_seq ? 1 : 0;
    if (d->n_runs)
        runs_fill(d, &hello);
    frame.body_case = BRIAREUS__FRAME__BODY_REGISTER_;
    frame.register_ = &hello;
    assert_int_equal(br_link_client_send(d->link, &frame), 0);
    if (d->n_runs) {
        free(hello.running[0]);
        free(hello.running);
    }
}

static void on_frame(void *ctx, const Briareus__Frame *frame)
{
    struct fix_device *d = ctx;
    if (d->heard)
        d->heard(d, frame);
    if (d->heard && frame->body_case != BRIAREUS__FRAME__BODY_WELCOME)
        return;
    if (frame->body_case == BRIAREUS__FRAME__BODY_ASSIGN) {
        const Briareus__Assign *a = frame->assign;
        assert_true(d->n_assigns < FIX_MAX_ASSIGNS);
        d->kv_from = a->kv_from;
        d->assigns[d->n_assigns++] =
            (struct fix_assign){a->spec->id, a->fence, a->tokens ? (uint32_t)a->tokens->n_tokens : 0, a->age_s};
    } else if (frame->body_case == BRIAREUS__FRAME__BODY_CANCEL) {
        d->n_cancels++;
        d->n_forgotten += frame->cancel->forget;
        d->n_handed += frame->cancel->hand_over;
        d->cancelled = frame->cancel->seq;
    } else if (frame->body_case == BRIAREUS__FRAME__BODY_PAUSE) {
        d->n_pauses++;
        d->paced = frame->pause->seq;
    } else if (frame->body_case == BRIAREUS__FRAME__BODY_RESUME) {
        d->n_resumes++;
        d->paced = frame->resume->seq;
    } else if (frame->body_case == BRIAREUS__FRAME__BODY_WELCOME) {
        d->n_welcomes++;
        d->n_adopted = (uint32_t)frame->welcome->n_adopted;
        if (d->n_adopted)
            d->acknowledged = frame->welcome->adopted[0]->acknowledged;
        d->n_terms = (uint32_t)frame->welcome->n_terms;
        for (uint32_t i = 0; i < d->n_terms; i++)
            if (strcmp(frame->welcome->terms[i]->name, "m2") == 0) {
                d->ttft_s = frame->welcome->terms[i]->ttft_s;
                d->weight = frame->welcome->terms[i]->weight;
                d->pinned = frame->welcome->terms[i]->pinned;
            }
    }
}

static void on_disconnected(void *ctx)
{
    (void)ctx;
}

void device_connect(struct fixture *f, struct fix_device *d, uint32_t number, uint64_t incarnation)
{
    struct br_link_limits limits = {.max_out_bytes = 16 << 20, .register_ms = 5000, .silence_ms = 20000};
    struct br_link_client_cb cb = {
        .ctx = d, .connected = on_connected, .frame = on_frame, .disconnected = on_disconnected};
    struct br_err err;
    uint32_t before = d->n_welcomes;
    d->f = f;
    d->number = number;
    d->incarnation = incarnation;
    assert_int_equal(br_link_client_start(&f->loop, f->address, &limits, &cb, &d->link, &err), 0);
    FIX_UNTIL(f, d->n_welcomes > before);
}

void device_leave(struct fix_device *d)
{
    br_link_client_stop(d->link);
    d->link = NULL;
}

void device_reports(struct fix_device *d, uint64_t steps, uint32_t running)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__StepReport report = BRIAREUS__STEP_REPORT__INIT;
    Briareus__SlotLoad m = BRIAREUS__SLOT_LOAD__INIT, *slots[1] = {&m};
    m.model = (char *)"m";
    m.running = running;
    m.resident_bytes = 1000;
    report.steps = steps;
    report.slots = slots;
    report.n_slots = 1;
    frame.body_case = BRIAREUS__FRAME__BODY_REPORT;
    frame.report = &report;
    assert_int_equal(br_link_client_send(d->link, &frame), 0);
}

void device_holds(struct fix_device *d, uint64_t m_bytes, uint64_t m2_bytes)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__StepReport report = BRIAREUS__STEP_REPORT__INIT;
    Briareus__SlotLoad m = BRIAREUS__SLOT_LOAD__INIT, m2 = m, *slots[2] = {&m, &m2};
    m.model = (char *)"m";
    m.resident_bytes = m_bytes;
    m2.model = (char *)"m2";
    m2.resident_bytes = m2_bytes;
    report.slots = slots;
    report.n_slots = 2;
    frame.body_case = BRIAREUS__FRAME__BODY_REPORT;
    frame.report = &report;
    assert_int_equal(br_link_client_send(d->link, &frame), 0);
}

void device_tokens(struct fix_device *d, uint64_t seq, uint64_t fence, uint32_t first, uint32_t n, enum br_end end)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Tokens msg = BRIAREUS__TOKENS__INIT;
    struct br_token *tokens = br_calloc(n + 1, sizeof *tokens);
    for (uint32_t i = 0; i < n; i++)
        tokens[i].id = (int32_t)(100 + first + i);
    msg.seq = seq;
    msg.fence = fence;
    msg.run = br_tokens_to_pb(first, tokens, n);
    msg.end = end;
    frame.body_case = BRIAREUS__FRAME__BODY_TOKENS;
    frame.tokens = &msg;
    assert_int_equal(br_link_client_send(d->link, &frame), 0);
    free(msg.run);
    free(tokens);
}

/* ---- clients ---- */

static void on_client_tokens(void *ctx, uint32_t total)
{
    ((struct fix_client *)ctx)->tokens = total;
}

static void on_client_done(void *ctx, bool ok, const char *why)
{
    struct fix_client *c = ctx;
    c->done = true;
    c->ok = ok;
    c->client = NULL;
    snprintf(c->why, sizeof c->why, "%s", why ? why : "");
}

static void ask(struct fixture *f, struct fix_client *c, const char *model, uint32_t max_tokens, const char *more)
{
    struct http_client_cb cb = {.ctx = c, .tokens = on_client_tokens, .done = on_client_done};
    struct sockaddr_in to;
    char body[512];
    memset(c, 0, sizeof *c);
    uv_ip4_addr("127.0.0.1", br_gateway_port(f->gateway), &to);
    snprintf(body, sizeof body,
             "{\"model\":\"%s\",\"prompt\":[1,2,3],\"max_tokens\":%u,\"stream\":true,\"temperature\":0,"
             "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}%s}",
             model, max_tokens, more);
    c->client = http_client_start(&f->loop, &to, "x", "/v1/completions", body, &cb);
}

void client_ask(struct fixture *f, struct fix_client *c, uint32_t max_tokens)
{
    ask(f, c, "m", max_tokens, "");
}

void client_ask_with(struct fixture *f, struct fix_client *c, const char *model, const char *more)
{
    ask(f, c, model, FIX_TOKENS, more);
}
