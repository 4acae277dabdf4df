#include "worker/node/agent.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "proto/convert.h"
#include "scheduler/link/link.h"
#include "worker/node/answers.h"
#include "worker/node/moments.h"
#include "worker/node/places.h"
#include "worker/node/results.h"
#include "worker/node/said.h"

enum {
    REPORT_MS = 250,
    FLUSH_MS = 200, /* between the last frame of a drained device and its end */
    KEEP_ENDED = 4096,
    MAX_OUT_BYTES = 64 << 20,
    SILENCE_MS = 10000,
};

struct agent {
    const struct node_plan *plan;
    const struct br_weight_store *store;
    struct br_turn *turn;
    struct results *results;
    struct moments *moments;
    struct br_trace *trace; /* owned; NULL: none */
    struct answers *answers;
    struct places *places;
    uint32_t n_models; /* places in the turn */
    struct br_link_client *link;
    uv_async_t wake;
    uv_timer_t report, flush;
    bool welcomed, draining, drained; /* drained: set by the turn thread */
    uint64_t incarnation;
    double *busy_s; /* [n_models] compute time at the last report */
    int64_t reported_ns;
    void (*on_end)(void *ctx);
    void *ctx;
};

/* ---- from the turn thread ---- */

static void on_output(void *ctx, const struct br_turn_output *output)
{
    struct agent *a = ctx;
    results_push(a->results, output);
    uv_async_send(&a->wake);
}

static void on_moment(void *ctx, const struct br_turn_moment *moment)
{
    moments_push(((struct agent *)ctx)->moments, moment); /* sent with the next tokens, which follow soon */
}

static void on_drained(void *ctx)
{
    struct agent *a = ctx;
    __atomic_store_n(&a->drained, true, __ATOMIC_RELEASE);
    uv_async_send(&a->wake);
}

static void on_done(void *ctx, const struct br_turn_done *done)
{
    struct agent *a = ctx;
    answers_push(a->answers, done);
    uv_async_send(&a->wake);
}

/* ---- to the scheduler ---- */

static int send_frame(struct agent *a, const Briareus__Frame *frame)
{
    return br_link_client_send(a->link, frame);
}

static int send_chunk(void *ctx, const struct result_chunk *chunk)
{
    Briareus__Tokens tokens = BRIAREUS__TOKENS__INIT;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    int rc;
    tokens.seq = chunk->seq;
    tokens.fence = chunk->fence;
    tokens.run = br_tokens_to_pb(chunk->first, chunk->tokens, chunk->n);
    tokens.end = chunk->end;
    tokens.queued_s = chunk->queued_s;
    tokens.cached = chunk->cached;
    if (chunk->error)
        tokens.error = (char *)chunk->error;
    frame.body_case = BRIAREUS__FRAME__BODY_TOKENS;
    frame.tokens = &tokens;
    rc = send_frame(ctx, &frame);
    free(tokens.run);
    return rc;
}

static void on_flushed(uv_timer_t *timer)
{
    struct agent *a = timer->data;
    a->on_end(a->ctx);
}

static void send_answer(void *ctx, const Briareus__Frame *frame)
{
    send_frame(ctx, frame);
}

static void agent_flush(struct agent *a)
{
    bool computed = __atomic_load_n(&a->drained, __ATOMIC_ACQUIRE), sent;
    if (!a->welcomed || !br_link_client_connected(a->link))
        return;
    moments_send(a->moments, send_answer, a); /* before what ends their sequences */
    sent = results_send(a->results, send_chunk, a);
    if (computed && sent && !uv_is_active((uv_handle_t *)&a->flush))
        uv_timer_start(&a->flush, on_flushed, FLUSH_MS, 0);
}

static void answer(void *ctx, const struct br_turn_done *done)
{
    places_done(((struct agent *)ctx)->places, done);
}

static void on_wake(uv_async_t *wake)
{
    struct agent *a = wake->data;
    agent_flush(a);
    answers_take(a->answers, answer, a);
}

struct running_list {
    Briareus__RunningSeq *seqs;
    Briareus__RunningSeq **pointers;
    size_t n, cap;
};

static void running_add(void *ctx, uint64_t seq, uint64_t fence, uint32_t tokens)
{
    struct running_list *list = ctx;
    if (list->n == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 64;
        list->seqs = br_realloc(list->seqs, list->cap * sizeof *list->seqs);
    }
    briareus__running_seq__init(&list->seqs[list->n]);
    list->seqs[list->n].seq = seq;
    list->seqs[list->n].fence = fence;
    list->seqs[list->n++].tokens = tokens;
}

static struct running_list running_all(struct agent *a)
{
    struct running_list list = {0};
    results_each(a->results, running_add, &list);
    list.pointers = br_calloc(list.n + 1, sizeof *list.pointers);
    for (size_t i = 0; i < list.n; i++)
        list.pointers[i] = &list.seqs[i];
    return list;
}

static void hello_send(struct agent *a, Briareus__Register *hello)
{
    uint32_t n = a->n_models;
    Briareus__ModelInfo *infos = br_calloc(n + 1, sizeof *infos), **models = br_calloc(n + 1, sizeof *models);
    Briareus__StepShape *steps = br_calloc(n + 1, sizeof *steps);
    struct running_list running = running_all(a);
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    for (uint32_t i = 0; i < n; i++) {
        if (!places_name(a->places, i))
            continue;
        said_model_info(br_turn_model_info(a->turn, i), &steps[i], &infos[i]);
        models[hello->n_models++] = &infos[i];
    }
    hello->models = models;
    hello->n_running = running.n;
    hello->running = running.pointers;
    frame.body_case = BRIAREUS__FRAME__BODY_REGISTER_;
    frame.register_ = hello;
    send_frame(a, &frame);
    free(infos);
    free(steps);
    free(models);
    free(running.seqs);
    free(running.pointers);
}

static void on_connected(void *ctx)
{
    struct agent *a = ctx;
    const struct br_worker_config *c = &a->plan->config;
    const struct br_device *dev = br_turn_device(a->turn);
    Briareus__Register hello = BRIAREUS__REGISTER__INIT;
    hello.version = BR_LINK_VERSION;
    hello.node = (char *)c->node;
    hello.device = a->plan->device;
    hello.kind = (char *)dev->ops->kind;
    hello.numeric_profile = (char *)dev->numeric_profile;
    hello.memory_bytes = c->memory_bytes;
    hello.link_bytes_per_s = dev->config.link_bytes_per_s;
    hello.incarnation = a->incarnation;
    a->welcomed = false;
    hello_send(a, &hello);
}

static void on_disconnected(void *ctx)
{
    ((struct agent *)ctx)->welcomed = false;
}

/* ---- reports ---- */

static void slot_load(struct agent *a, uint32_t i, const struct br_turn_slot_stats *s, double wall_s,
                      Briareus__StepShape *step, Briareus__SlotLoad *out)
{
    briareus__slot_load__init(out);
    out->model = (char *)places_name(a->places, i);
    out->waiting = s->waiting;
    out->running = s->running;
    out->resident_bytes = s->resident_bytes;
    out->loading = s->loading; /* stepping is not said: the leader would never move the model that runs for long */
    out->utilisation = wall_s > 0 ? (s->compute_s - a->busy_s[i]) / wall_s : 0;
    a->busy_s[i] = s->compute_s;
    said_shape(&s->shape, step);
    out->step = s->shape.read_s > 0 ? step : NULL;
}

static void transfers_sum(const struct agent *a, const struct br_turn_stats *stats, struct br_transfers *out)
{
    *out = a->plan->spent;
    said_turn_transfers(stats, out);
    out->host_kv_limit_bytes = a->plan->config.host_kv_bytes;
    if (!a->store)
        return;
    said_store_transfers(a->store, out);
    out->cache_bytes = br_weight_store_used(a->store, &out->cache_limit_bytes);
}

static void on_report(uv_timer_t *timer)
{
    struct agent *a = timer->data;
    uint32_t n = a->n_models;
    struct br_turn_stats stats;
    struct br_turn_slot_stats *slots;
    Briareus__SlotLoad *loads, **pointers;
    Briareus__StepShape *steps;
    struct br_transfers transfers;
    Briareus__Transfers transfers_msg;
    Briareus__StepReport report;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    int64_t now_ns = br_now_ns();
    if (!a->welcomed || !br_link_client_connected(a->link))
        return;
    slots = br_calloc(n + 1, sizeof *slots);
    loads = br_calloc(n + 1, sizeof *loads);
    steps = br_calloc(n + 1, sizeof *steps);
    pointers = br_calloc(n + 1, sizeof *pointers);
    br_turn_stats(a->turn, &stats, slots);
    said_report(&stats, &report);
    transfers_sum(a, &stats, &transfers);
    br_transfers_to_pb(&transfers, &transfers_msg, &report);
    for (uint32_t i = 0; i < n; i++) {
        if (!places_name(a->places, i))
            continue;
        slot_load(a, i, &slots[i], (double)(now_ns - a->reported_ns) / 1e9, &steps[i], &loads[i]);
        pointers[report.n_slots++] = &loads[i];
    }
    a->reported_ns = now_ns;
    report.slots = pointers;
    frame.body_case = BRIAREUS__FRAME__BODY_REPORT;
    frame.report = &report;
    send_frame(a, &frame);
    free(slots);
    free(loads);
    free(steps);
    free(pointers);
}

/* ---- from the scheduler ---- */

static int32_t *ids_of(const struct br_token *tokens, uint32_t n)
{
    int32_t *ids = br_calloc(n + 1, sizeof *ids);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = tokens[i].id;
    return ids;
}

static void sequence_add(struct agent *a, struct br_seq_spec *spec, const Briareus__Assign *assign, const int32_t *ids,
                         uint32_t n)
{
    if (assign->kv_from)
        br_turn_add_from(a->turn, spec, assign->fence, ids, n, assign->age_s, assign->kv_from - 1);
    else
        br_turn_add(a->turn, spec, assign->fence, ids, n, assign->age_s);
}

static void sequence_start(struct agent *a, struct br_seq_spec *spec, const Briareus__Assign *assign,
                           const int32_t *ids, uint32_t n)
{
    uint64_t seq = spec->id;
    switch (results_open(a->results, seq, assign->fence, n)) {
    case RESULT_BEHIND:
        br_turn_forget(a->turn, seq);
        sequence_add(a, spec, assign, ids, n);
        break;
    case RESULT_NEW:
        sequence_add(a, spec, assign, ids, n);
        break;
    case RESULT_KNOWN:
        br_turn_adopt(a->turn, seq, assign->fence);
        break;
    case RESULT_ENDED:
        break;
    }
}

/* A sequence that cannot even be understood ends at once, so that its client hears of it. */
static void assign_refuse(struct agent *a, const Briareus__Assign *assign, const char *why)
{
    struct result_chunk end = {.fence = assign->fence, .end = BR_END_FAILED, .error = why};
    br_log(BR_ERROR, "assign_damaged", "why=%s", BR_Q(why));
    if (!assign->spec || !assign->spec->id)
        return;
    end.seq = assign->spec->id;
    end.first = assign->tokens ? assign->tokens->first + (uint32_t)assign->tokens->n_tokens : 0;
    send_chunk(a, &end);
}

static void on_assign(struct agent *a, const Briareus__Assign *assign)
{
    struct br_seq_spec spec;
    struct br_token *tokens = NULL;
    struct br_err err;
    uint32_t first = 0, n = 0;
    int rc = assign->spec ? br_seq_spec_from_pb(assign->spec, &spec, &err) : br_err_set(&err, BR_EINVAL, "no spec");
    if (rc) {
        assign_refuse(a, assign, err.msg);
        return;
    }
    rc = br_tokens_from_pb(assign->tokens, &first, &tokens, &n, &err);
    if (rc == 0 && first)
        rc = br_err_set(&err, BR_EINVAL, "output tokens so far begin at index %u, not at 0", first);
    if (rc)
        assign_refuse(a, assign, err.msg);
    else {
        int32_t *ids = ids_of(tokens, n);
        sequence_start(a, &spec, assign, ids, n);
        free(ids);
    }
    free(tokens);
    br_seq_spec_free(&spec);
}

/* It goes on elsewhere: nothing of it may be sent any more, and it may come back under a newer fence. */
static void on_cancel(struct agent *a, const Briareus__Cancel *cancel)
{
    if (!cancel->forget)
        br_turn_cancel(a->turn, cancel->seq, cancel->fence);
    else if (results_forget(a->results, cancel->seq, cancel->fence)) {
        if (cancel->hand_over)
            br_turn_hand_over(a->turn, cancel->seq);
        else
            br_turn_forget(a->turn, cancel->seq);
    }
}

static void on_terms(struct agent *a, Briareus__ModelTerms *const *terms, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t m = places_find(a->places, terms[i]->name);
        if (m >= 0)
            br_turn_set_terms(a->turn, (uint32_t)m,
                              &(struct br_turn_terms){.ttft_s = terms[i]->ttft_s,
                                                      .tbt_s = terms[i]->tbt_s,
                                                      .weight = terms[i]->weight > 0 ? terms[i]->weight : 1,
                                                      .rate = terms[i]->rate,
                                                      .pinned = terms[i]->pinned});
    }
}

static void sequence_adopted(struct agent *a, const Briareus__Adopt *adopt)
{
    br_turn_adopt(a->turn, adopt->seq, adopt->fence);
    if (adopt->paused)
        br_turn_pause(a->turn, adopt->seq, adopt->fence);
    else
        br_turn_resume(a->turn, adopt->seq, adopt->fence);
}

static void on_welcome(struct agent *a, const Briareus__Welcome *welcome)
{
    uint64_t *gone;
    uint32_t n_gone;
    results_welcome(a->results);
    for (size_t i = 0; i < welcome->n_adopted; i++) {
        const Briareus__Adopt *adopt = welcome->adopted[i];
        if (results_adopt(a->results, adopt->seq, adopt->fence, adopt->acknowledged))
            sequence_adopted(a, adopt);
        else
            br_log(BR_WARN, "adopted_unknown", "seq=%" PRIu64, adopt->seq);
    }
    gone = results_retire(a->results, &n_gone);
    for (uint32_t i = 0; i < n_gone; i++)
        br_turn_forget(a->turn, gone[i]);
    free(gone);
    on_terms(a, welcome->terms, welcome->n_terms);
    br_log(BR_INFO, "welcomed", "adopted=%zu dropped=%u", welcome->n_adopted, n_gone);
    a->welcomed = true;
    agent_flush(a);
}

static void on_plan(struct agent *a, const Briareus__Plan *plan)
{
    Briareus__PlanReply reply = BRIAREUS__PLAN_REPLY__INIT;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    reply.version = plan->version;
    frame.body_case = BRIAREUS__FRAME__BODY_PLAN_REPLY;
    frame.plan_reply = &reply;
    send_frame(a, &frame);
}

static void on_frame(void *ctx, const Briareus__Frame *frame)
{
    struct agent *a = ctx;
    switch (frame->body_case) {
    case BRIAREUS__FRAME__BODY_ASSIGN:
        on_assign(a, frame->assign);
        break;
    case BRIAREUS__FRAME__BODY_CANCEL:
        on_cancel(a, frame->cancel);
        break;
    case BRIAREUS__FRAME__BODY_PAUSE:
        br_turn_pause(a->turn, frame->pause->seq, frame->pause->fence);
        break;
    case BRIAREUS__FRAME__BODY_RESUME:
        br_turn_resume(a->turn, frame->resume->seq, frame->resume->fence);
        break;
    case BRIAREUS__FRAME__BODY_TERMS:
        on_terms(a, frame->terms->models, frame->terms->n_models);
        break;
    case BRIAREUS__FRAME__BODY_ORDER:
        places_order(a->places, frame->order);
        break;
    case BRIAREUS__FRAME__BODY_DRAIN:
        br_turn_drain(a->turn);
        break;
    case BRIAREUS__FRAME__BODY_WELCOME:
        on_welcome(a, frame->welcome);
        break;
    case BRIAREUS__FRAME__BODY_PLAN:
        on_plan(a, frame->plan);
        break;
    default: /* an unknown kind is ignored; pings are answered by the link */
        break;
    }
}

/* ---- start and stop ---- */

static void turn_config(const struct node_plan *plan, struct br_parcels *parcels, struct br_turn_config *out)
{
    const struct br_worker_config *c = &plan->config;
    br_turn_config_init(out);
    out->device.kind = plan->device_kind;
    out->device.tensor_parallel = c->tensor_parallel;
    out->device.speed = c->speed;
    out->device.memory_bytes = c->memory_bytes;
    out->device.threads = c->threads;
    out->device.link_bytes_per_s = c->link_bytes_per_s;
    out->parcels = parcels;
    out->kv_bytes = c->kv_bytes;
    out->host_kv_bytes = c->host_kv_bytes;
    out->prefix_cache = c->prefix_cache;
    out->kv_disk_path = c->kv_disk;
    out->kv_disk_bytes = plan->kv_disk_bytes;
    out->kv_disk_offset = plan->kv_disk_offset;
    out->max_seqs = c->max_seqs;
    out->max_batch = c->max_batch;
    out->prefill_chunk = c->prefill_chunk;
    out->max_context = c->max_context;
    out->policy = c->policy;
    out->quota_max_s = c->quota_max_s;
    out->hysteresis = c->hysteresis;
    out->chunk_bytes = c->load_chunk_bytes;
    out->switch_every_step = c->switch_every_step;
}

/* A trace that cannot be written is no reason not to serve. */
static struct br_trace *trace_open(const struct br_worker_config *c)
{
    struct br_trace *trace = NULL;
    struct br_err err;
    if (c->trace && br_trace_join(c->trace, c->trace_bytes, &trace, &err))
        br_log(BR_WARN, "no_trace", "why=%s", BR_Q(err.msg));
    return trace;
}

static void handles_init(struct agent *a, uv_loop_t *loop)
{
    uv_async_init(loop, &a->wake, on_wake);
    uv_timer_init(loop, &a->report);
    uv_timer_init(loop, &a->flush);
    a->wake.data = a->report.data = a->flush.data = a;
}

static void handles_close(struct agent *a)
{
    uv_close((uv_handle_t *)&a->wake, NULL);
    uv_close((uv_handle_t *)&a->report, NULL);
    uv_close((uv_handle_t *)&a->flush, NULL);
}

/* Weights are there and none of them fits: that is the configuration's fault, not a model's. */
static int models_check(const struct br_turn *turn, const struct br_turn_model *models, uint32_t n, struct br_err *err)
{
    const struct br_turn_model_info *first = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct br_turn_model_info *info = br_turn_model_info(turn, i);
        if (!info->error[0])
            return 0;
        if (models[i].image && !first)
            first = info;
    }
    return first ? br_err_set(err, BR_EINVAL, "no model can be served; %s: %s", first->name, first->error) : 0;
}

int agent_start(uv_loop_t *loop, const struct node_plan *plan, const struct br_turn_model *models,
                const struct agent_with *with, void (*on_end)(void *ctx), void *ctx, struct agent **out,
                struct br_err *err)
{
    struct agent *a = br_calloc(1, sizeof *a);
    struct br_link_limits limits = {.max_out_bytes = MAX_OUT_BYTES, .silence_ms = SILENCE_MS};
    struct br_link_client_cb link = {a, on_connected, on_frame, on_disconnected};
    struct br_turn_cb turn = {a, on_output, on_drained, on_done, on_moment};
    struct br_turn_config config;
    int rc;
    a->plan = plan;
    a->store = with->store;
    a->on_end = on_end;
    a->ctx = ctx;
    a->incarnation = br_rng_entropy();
    a->n_models = plan->config.n_models + NODE_SPARE_MODELS;
    a->busy_s = br_calloc(a->n_models + 1, sizeof *a->busy_s);
    a->reported_ns = br_now_ns();
    limits.token = plan->config.token;
    turn_config(plan, with->parcels, &config);
    config.trace = a->trace = trace_open(&plan->config);
    config.trace_group = plan->device;
    results_create(KEEP_ENDED, &a->results);
    a->moments = moments_create();
    a->answers = answers_create();
    a->places = places_create(loop, plan, models, a->n_models, send_answer, a);
    handles_init(a, loop);
    rc = br_turn_create(&config, models, a->n_models, &turn, &a->turn, err);
    if (rc == 0)
        rc = models_check(a->turn, models, a->n_models, err);
    places_turn(a->places, a->turn);
    if (rc == 0)
        rc = br_link_client_start(loop, plan->config.scheduler, &limits, &link, &a->link, err);
    *out = a;
    if (rc)
        return rc;
    uv_timer_start(&a->report, on_report, REPORT_MS, REPORT_MS);
    return 0;
}

void agent_stop(struct agent *a)
{
    if (a->link)
        br_link_client_stop(a->link);
    br_turn_destroy(a->turn);
    a->turn = NULL;
    places_turn(a->places, NULL);
    if (a->trace)
        br_trace_close(a->trace, &(struct br_err){0});
    handles_close(a);
}

void agent_free(struct agent *a)
{
    results_free(a->results);
    moments_free(a->moments);
    answers_free(a->answers);
    places_free(a->places);
    free(a->busy_s);
    free(a);
}
