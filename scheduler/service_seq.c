/* The life of a sequence: accepted, leased, assigned, its tokens stored and delivered, ended. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/queue/refusal.h"
#include "scheduler/service_impl.h"

void service_retry_later(struct br_service *s, struct sched_seq *seq)
{
    seq->again = true;
    s->retries = true;
}

/* ---- towards the queue and the client ---- */

static void deliver(struct br_service *s, struct sched_seq *seq)
{
    uint32_t n = seq->n_stored > seq->n_delivered ? seq->n_stored - seq->n_delivered : 0;
    enum br_end end = seq->end_stored ? seq->end : BR_END_NONE;
    struct br_gateway_call *call = seq->call;
    (void)s;
    if (!call || (n == 0 && end == BR_END_NONE))
        return;
    if (end != BR_END_NONE)
        seq->call = NULL; /* the gateway may free the call when its last sequence ends */
    if (n)
        seq->n_delivered = seq->n_stored;
    br_gateway_cached(call, seq->spec.id, seq->n_cached);
    br_gateway_tokens(call, seq->spec.id, seq->tokens + seq->n_delivered - n, n, end,
                      seq->error[0] ? seq->error : NULL);
}

struct append_ctx {
    struct br_service *s;
    uint64_t id;
    uint32_t upto;
    enum br_end end;
};

static void ignore(void *ctx, int rc)
{
    (void)ctx;
    (void)rc;
}

/* What follows tells how it went: all calls of a sequence are carried out in their order. */
void service_restore(struct br_service *s, struct sched_seq *seq)
{
    br_log(BR_WARN, "seq_restored", "seq=%" PRIu64 " req=%s fence=%" PRIu64 " tokens=%u why=%s", seq->spec.id,
           seq->spec.request_id, seq->fence, seq->n_tokens, BR_Q("the queue came back with less than it had said"));
    s->queue->ops->restore(s->queue, &seq->spec, seq->fence, ignore, NULL);
    service_retry_later(s, seq);
}

static void append_lost(struct br_service *s, struct sched_seq *seq, int rc)
{
    br_log(BR_ERROR, "append_refused", "seq=%" PRIu64 " req=%s fence=%" PRIu64 " why=%s", seq->spec.id,
           seq->spec.request_id, seq->fence, br_err_name(rc));
    if (seq->call)
        br_gateway_tokens(seq->call, seq->spec.id, NULL, 0, BR_END_FAILED, "another scheduler took the request over");
    seq->call = NULL;
    if (seq->state != SCHED_ENDING) {
        service_send_cancel(s, seq);
        service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_END, .seq = seq->index});
    }
    seqtab_remove(s->seqs, seq);
}

static void on_appended(void *ctx, int rc)
{
    struct append_ctx *done = ctx;
    struct br_service *s = done->s;
    struct sched_seq *seq = seqtab_find(s->seqs, done->id);
    uint32_t upto = done->upto;
    enum br_end end = done->end;
    free(done);
    s->appends--;
    if (!seq)
        return;
    seq->appends--;
    if (rc == BR_ESTALE || rc == BR_ENOENT) {
        append_lost(s, seq, rc);
        return;
    }
    if (rc == BR_EINVAL) {
        seq->n_stored = 0; /* all of it again: what the queue has it skips */
        service_restore(s, seq);
        return;
    }
    if (rc) {
        service_retry_later(s, seq);
        return;
    }
    if (upto > seq->n_stored)
        seq->n_stored = upto;
    seq->end_stored = seq->end_stored || end != BR_END_NONE;
    deliver(s, seq);
    if (seq->end_stored && seq->appends == 0)
        seqtab_remove(s->seqs, seq);
}

static void append(struct br_service *s, struct sched_seq *seq, uint32_t first)
{
    struct append_ctx *ctx = br_malloc(sizeof *ctx);
    *ctx = (struct append_ctx){s, seq->spec.id, seq->n_tokens, seq->end};
    seq->appends++;
    s->appends++;
    s->queue->ops->append(s->queue, seq->spec.id, seq->fence, first, seq->tokens + first, seq->n_tokens - first,
                          seq->end, seq->error[0] ? seq->error : NULL, on_appended, ctx);
}

/* Under the old fence it would be refused if a lease is under way: then it is stored when that is answered. */
void service_store(struct br_service *s, struct sched_seq *seq)
{
    if (seq->leases == 0)
        append(s, seq, seq->n_stored);
}

void service_give_up(struct br_service *s, struct sched_seq *seq, const char *why)
{
    seq->hopeless = s->hopeless = true; /* ended by the tick: core/fleet may be in the middle of its actions */
    snprintf(seq->error, sizeof seq->error, "%s", why);
}

void service_end(struct br_service *s, struct sched_seq *seq, enum br_end end, const char *error)
{
    if (seq->state == SCHED_ENDING)
        return;
    seq->end = end;
    if (error)
        snprintf(seq->error, sizeof seq->error, "%s", error);
    else if (end != BR_END_FAILED)
        seq->error[0] = 0; /* it was to be given up, and ended first */
    seq->state = SCHED_ENDING;
    service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_END, .seq = seq->index});
    br_log(end == BR_END_FAILED ? BR_ERROR : BR_INFO, "seq_end",
           "seq=%" PRIu64 " req=%s model=%s end=%s tokens=%u age_s=%.3f error=%s", seq->spec.id, seq->spec.request_id,
           seq->spec.model, br_end_name(end), seq->n_tokens, (double)(br_now_ns() - seq->arrived_ns) * 1e-9,
           BR_Q(seq->error));
    service_trace_ended(s, seq);
    service_store(s, seq);
}

/* ---- from the gateway ---- */

struct accept_ctx {
    struct br_service *s;
    uint32_t n;
    uint64_t ids[];
};

static struct br_gateway_call *accept_call(struct accept_ctx *ctx)
{
    for (uint32_t i = 0; i < ctx->n; i++) {
        struct sched_seq *seq = seqtab_find(ctx->s->seqs, ctx->ids[i]);
        if (seq && seq->call)
            return seq->call;
    }
    return NULL;
}

static void accept_failed(struct accept_ctx *ctx, int rc)
{
    struct br_gateway_call *call = accept_call(ctx);
    br_log(BR_ERROR, "accept_failed", "n=%u why=%s", ctx->n, br_err_name(rc));
    for (uint32_t i = 0; i < ctx->n; i++) {
        struct sched_seq *seq = seqtab_find(ctx->s->seqs, ctx->ids[i]);
        if (rc == BR_EIO &&
            !ctx->s->closing) /* it may be stored all the same, but the client will be told that it is not */
            ctx->s->queue->ops->append(ctx->s->queue, ctx->ids[i], 1, 0, NULL, 0, BR_END_CANCELLED, NULL, ignore, NULL);
        if (seq)
            seqtab_remove(ctx->s->seqs, seq);
    }
    if (call)
        br_gateway_refused(call, 503, 1, br_queue_refusal(rc));
}

static void on_accepted(void *arg, int rc, int64_t arrival_us, uint64_t fence)
{
    struct accept_ctx *ctx = arg;
    struct br_service *s = ctx->s;
    struct br_gateway_call *call;
    s->accepting -= ctx->n;
    if (rc) {
        accept_failed(ctx, rc);
        free(ctx);
        return;
    }
    if ((call = accept_call(ctx)))
        br_gateway_accepted(call);
    for (uint32_t i = 0; i < ctx->n; i++) {
        struct sched_seq *seq = seqtab_find(s->seqs, ctx->ids[i]);
        if (!seq)
            continue;
        seq->spec.arrival_us = arrival_us;
        seq->fence = fence;
        seq->fresh = true;
        service_trace_accepted(s, seq);
        service_enter_fleet(s, seq);
        if (seq->cancel_wanted)
            service_cancel(s, NULL, ctx->ids[i]);
    }
    free(ctx);
}

/* Adds all n to the table, or none. */
static int submit_add(struct br_service *s, struct br_gateway_call *call, const struct br_seq_spec *specs, uint32_t n,
                      struct accept_ctx *ctx)
{
    for (uint32_t i = 0; i < n; i++) {
        struct br_seq_spec copy;
        struct sched_seq *seq;
        br_seq_spec_copy(&copy, &specs[i]);
        seq = seqtab_add(s->seqs, &copy);
        if (!seq) {
            br_seq_spec_free(&copy);
            while (i-- > 0)
                seqtab_remove(s->seqs, seqtab_find(s->seqs, ctx->ids[i]));
            return -1;
        }
        seq->state = SCHED_ACCEPTING;
        seq->model = (uint32_t)br_models_index(s->models, seq->spec.model);
        seq->call = call;
        seq->arrived_ns = br_now_ns();
        s->deadlines = s->deadlines || seq->spec.deadline_s > 0;
        ctx->ids[i] = seq->spec.id;
    }
    return 0;
}

static void refuse(struct br_service *s, struct br_gateway_call *call, const struct br_fleet_answer *answer,
                   const char *model)
{
    char why[160 + BR_MAX_MODEL_NAME];
    if (answer->verdict == BR_FLEET_LATE)
        snprintf(why, sizeof why,
                 "too many tokens of '%s' or of others would be late (%.0f %% of them on time); try again later", model,
                 100 * answer->attainment);
    else
        snprintf(why, sizeof why, "%u sequences are unfinished and the limit is %u; try again later",
                 seqtab_count(s->seqs), s->config.max_unfinished);
    br_log(BR_WARN, "refused", "model=%s utilisation=%.2f attainment=%.3f retry_s=%.1f unfinished=%u", model,
           answer->utilisation, answer->attainment, answer->retry_s, seqtab_count(s->seqs));
    br_gateway_refused(call, 429, answer->retry_s > 1 ? answer->retry_s : 1, why);
}

void service_submit(void *arg, struct br_gateway_call *call, const struct br_seq_spec *specs, uint32_t n)
{
    struct br_service *s = arg;
    struct accept_ctx *ctx = br_malloc(sizeof *ctx + n * sizeof ctx->ids[0]);
    *ctx = (struct accept_ctx){.s = s, .n = n};
    uint32_t model = (uint32_t)br_models_index(s->models, specs[0].model); /* one for all of a call */
    if (model == UINT32_MAX || s->leaving[model]) {
        free(ctx);
        br_gateway_refused(call, 404, 0, "the model has been removed from this server");
        return;
    }
    if (s->closed[model]) {
        free(ctx);
        br_gateway_refused(call, 503, 1, "the model is being unloaded; try again in a moment");
        return;
    }
    struct br_fleet_request request = service_request_of(s, model, specs, n);
    struct br_fleet_answer answer = br_fleet_admits(s->fleet, br_now_s(), &request);
    if (answer.verdict != BR_FLEET_ADMIT || submit_add(s, call, specs, n, ctx)) {
        free(ctx);
        refuse(s, call, &answer, specs[0].model);
        return;
    }
    s->accepting += n;
    s->queue->ops->accept(s->queue, specs, n, on_accepted, ctx);
}

void service_cancel(void *arg, struct br_gateway_call *call, uint64_t id)
{
    struct br_service *s = arg;
    struct sched_seq *seq = seqtab_find(s->seqs, id);
    (void)call;
    if (!seq)
        return;
    seq->call = NULL;
    if (seq->state == SCHED_ACCEPTING) {
        seq->cancel_wanted = true;
    } else if (seq->state != SCHED_ENDING) {
        service_send_cancel(s, seq);
        service_end(s, seq, BR_END_CANCELLED, NULL);
    }
}

/* The next start finds it in the queue. */
void service_leave(void *arg, struct br_gateway_call *call, uint64_t id)
{
    struct br_service *s = arg;
    struct sched_seq *seq = seqtab_find(s->seqs, id);
    (void)call;
    if (seq)
        seq->call = NULL;
}

void service_pace(void *arg, uint64_t id, bool pause)
{
    struct br_service *s = arg;
    struct sched_seq *seq = seqtab_find(s->seqs, id);
    if (!seq || seq->state == SCHED_ENDING || seq->paused == pause)
        return;
    if (pause)
        seq->paused_since_ns = br_now_ns();
    else
        seq->paused_ns += br_now_ns() - seq->paused_since_ns;
    seq->paused = pause;
    service_fleet_event(s,
                        &(struct br_fleet_event){.kind = pause ? BR_FLEET_PAUSE : BR_FLEET_RESUME, .seq = seq->index});
    service_send_pace(s, seq);
}

/* ---- recovery and upkeep ---- */

static void recover_one(void *ctx, struct br_seq_spec *spec, struct br_token *tokens, uint32_t n, uint64_t fence,
                        double age_s)
{
    struct br_service *s = ctx;
    int model = br_models_index(s->models, spec->model);
    struct sched_seq *seq = seqtab_add(s->seqs, spec);
    if (!seq) {
        br_log(BR_ERROR, "recover_skipped", "seq=%" PRIu64 " why=%s", spec->id,
               BR_Q("more unfinished sequences than --max-unfinished: raise it and restart"));
        br_seq_spec_free(spec);
        free(tokens);
        return;
    }
    seq->state = SCHED_RECOVERED;
    seq->tokens = tokens;
    seq->n_tokens = seq->cap_tokens = seq->n_stored = seq->n_delivered = n;
    seq->fence = fence;
    seq->arrived_ns = br_now_ns() - (int64_t)(age_s * 1e9);
    seq->model = (uint32_t)model;
    s->deadlines = s->deadlines || seq->spec.deadline_s > 0;
    service_trace_accepted(s, seq);
    if (model < 0) {
        char why[256];
        snprintf(why, sizeof why, "model '%.128s' is no longer served", seq->spec.model);
        service_end(s, seq, BR_END_FAILED, why);
    }
}

static void recover_done(void *ctx, int rc)
{
    struct br_service *s = ctx;
    br_log(rc ? BR_ERROR : BR_INFO, "recovered", "unfinished=%u rc=%s", seqtab_count(s->seqs), br_err_name(rc));
    if (seqtab_count(s->seqs))
        s->adopt_until_ns = br_now_ns() + (int64_t)(s->config.adopt_s * 1e9);
    s->ready(s->ready_ctx, rc);
}

void br_service_recover(struct br_service *s, void (*ready)(void *ctx, int rc), void *ctx)
{
    s->ready = ready;
    s->ready_ctx = ctx;
    s->queue->ops->recover(s->queue, recover_one, recover_done, s);
}

static void retry_seq(struct br_service *s, struct sched_seq *seq)
{
    if (!seq->again)
        return;
    if (seq->appends > 0 || seq->leases > 0) {
        s->retries = true; /* what is under way comes first */
        return;
    }
    seq->again = false;
    if (seq->unsure && seq->state == SCHED_ENDING)
        service_lease(s, seq);
    else if (seq->state == SCHED_WAITING && seq->device >= 0 && !seq->held)
        service_lease(s, seq);
    else if (seq->n_stored < seq->n_tokens || (seq->end != BR_END_NONE && !seq->end_stored))
        service_store(s, seq);
}

/* Sequences with a deadline of their own are looked at this often. */
enum { DEADLINE_MS = 200 };

static void deadlines_begin(struct br_service *s, int64_t now_ns)
{
    s->deadlines = false;
    s->deadlines_ns = now_ns + DEADLINE_MS * (BR_NS_PER_S / 1000);
}

static void deadline_watch(struct br_service *s, struct sched_seq *seq)
{
    char why[96];
    if (!(seq->spec.deadline_s > 0) || seq->state == SCHED_ENDING)
        return;
    s->deadlines = true;
    if (seq->state == SCHED_ACCEPTING || service_age_s(seq) < seq->spec.deadline_s)
        return;
    snprintf(why, sizeof why, "its deadline of %.3f s has passed", seq->spec.deadline_s);
    service_give_up(s, seq, why);
}

void service_tick_seqs(struct br_service *s)
{
    int64_t now_ns = br_now_ns();
    bool adoption_over = s->adopt_until_ns && now_ns >= s->adopt_until_ns;
    bool deadlines = s->deadlines && now_ns >= s->deadlines_ns;
    if (!adoption_over && !s->retries && !s->hopeless && !deadlines)
        return;
    s->retries = s->hopeless = false;
    if (deadlines)
        deadlines_begin(s, now_ns);
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        struct sched_seq *seq = seqtab_at(s->seqs, i);
        if (!seq)
            continue;
        if (deadlines)
            deadline_watch(s, seq);
        if (seq->hopeless && seq->state != SCHED_ENDING) {
            service_send_cancel(s, seq);
            service_end(s, seq, BR_END_FAILED, NULL);
        } else if (adoption_over && seq->state == SCHED_RECOVERED)
            service_enter_fleet(s, seq);
        else
            retry_seq(s, seq);
    }
    if (adoption_over)
        s->adopt_until_ns = 0;
}
