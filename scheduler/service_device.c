/* Devices: they come, report what they run, send tokens, go away and come back. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/convert.h"
#include "scheduler/service_impl.h"

static struct br_link_peer *seq_peer(struct br_service *s, const struct sched_seq *seq)
{
    return seq->device >= 0 ? s->devices[seq->device].peer : NULL;
}

void service_send_assign(struct br_service *s, struct sched_seq *seq)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Assign assign = BRIAREUS__ASSIGN__INIT;
    struct br_seq_spec_pb spec;
    struct br_link_peer *peer = seq_peer(s, seq);
    if (!peer)
        return; /* away: it comes back and adopts, or is declared lost */
    br_seq_spec_to_pb(&seq->spec, &spec);
    assign.spec = &spec.msg;
    assign.fence = seq->fence;
    assign.tokens = br_tokens_to_pb(0, seq->tokens, seq->n_tokens);
    assign.age_s = (double)(br_now_ns() - seq->arrived_ns) * 1e-9;
    frame.body_case = BRIAREUS__FRAME__BODY_ASSIGN;
    frame.assign = &assign;
    br_log(BR_INFO, "seq_assigned",
           "seq=%" PRIu64 " req=%s model=%s node=%s device=%u fence=%" PRIu64 " prompt=%u tokens=%u", seq->spec.id,
           seq->spec.request_id, seq->spec.model, s->devices[seq->device].node, s->devices[seq->device].number,
           seq->fence, seq->spec.n_prompt, seq->n_tokens);
    br_link_send(peer, &frame);
    free(assign.tokens);
}

static void send_cancel(struct br_link_peer *peer, uint64_t id, uint64_t fence)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Cancel cancel = BRIAREUS__CANCEL__INIT;
    cancel.seq = id;
    cancel.fence = fence;
    frame.body_case = BRIAREUS__FRAME__BODY_CANCEL;
    frame.cancel = &cancel;
    br_link_send(peer, &frame);
}

void service_send_cancel(struct br_service *s, struct sched_seq *seq)
{
    struct br_link_peer *peer = seq_peer(s, seq);
    if (peer && seq->state == SCHED_RUNNING)
        send_cancel(peer, seq->spec.id, seq->fence);
}

/* ---- coming ---- */

static struct sched_device *device_slot(struct br_service *s, const Briareus__Register *hello)
{
    struct sched_device *d;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        d = &s->devices[i];
        if (d->used && d->number == hello->device && strcmp(d->node, hello->node) == 0)
            return d;
    }
    for (uint32_t i = 0; i < s->config.max_devices; i++) {
        d = &s->devices[i];
        if (!d->used) {
            if (i >= s->n_devices)
                s->n_devices = i + 1;
            d->used = true;
            snprintf(d->node, sizeof d->node, "%s", hello->node);
            d->number = hello->device;
            d->serves = br_calloc(br_models_count(s->models) + 1, sizeof *d->serves);
            d->step_s = br_calloc(br_models_count(s->models) + 1, sizeof *d->step_s);
            d->load_s = br_calloc(br_models_count(s->models) + 1, sizeof *d->load_s);
            return d;
        }
    }
    return NULL;
}

static bool adoptable(struct br_service *s, const struct sched_seq *seq, uint32_t device,
                      const Briareus__RunningSeq *running)
{
    (void)s;
    if (!seq || seq->fence != running->fence)
        return false;
    return seq->state == SCHED_RECOVERED || (seq->state == SCHED_RUNNING && seq->device == (int32_t)device);
}

/* Tells the device which of its sequences go on; what it is not told it drops. */
static void send_welcome(struct br_service *s, struct sched_device *d, const Briareus__Register *hello)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Welcome welcome = BRIAREUS__WELCOME__INIT;
    Briareus__Adopt *adopts = br_calloc(hello->n_running + 1, sizeof *adopts);
    Briareus__Adopt **list = br_calloc(hello->n_running + 1, sizeof *list);
    uint32_t device = (uint32_t)(d - s->devices);
    welcome.version = BR_LINK_VERSION;
    welcome.adopted = list;
    for (size_t i = 0; i < hello->n_running; i++) {
        struct sched_seq *seq = seqtab_find(s->seqs, hello->running[i]->seq);
        Briareus__Adopt *adopt = &adopts[welcome.n_adopted];
        if (!adoptable(s, seq, device, hello->running[i]))
            continue;
        briareus__adopt__init(adopt);
        adopt->seq = seq->spec.id;
        adopt->fence = seq->fence;
        adopt->acknowledged = seq->n_tokens;
        list[welcome.n_adopted++] = adopt;
    }
    frame.body_case = BRIAREUS__FRAME__BODY_WELCOME;
    frame.welcome = &welcome;
    br_link_send(d->peer, &frame);
    free(list);
    free(adopts);
}

/* Marks the adopted ones: recovered ones enter core/fleet as running here. Returns in `kept` who they are. */
static void adopt_running(struct br_service *s, struct sched_device *d, const Briareus__Register *hello, bool *kept)
{
    uint32_t device = (uint32_t)(d - s->devices);
    for (size_t i = 0; i < hello->n_running; i++) {
        struct sched_seq *seq = seqtab_find(s->seqs, hello->running[i]->seq);
        if (!adoptable(s, seq, device, hello->running[i]))
            continue;
        kept[seq->index] = true;
        if (seq->state != SCHED_RECOVERED)
            continue;
        seq->state = SCHED_RUNNING;
        seq->device = (int32_t)device;
        service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_ADOPT,
                                                        .seq = seq->index,
                                                        .device = device,
                                                        .model = seq->model,
                                                        .tokens = seq->spec.n_prompt + seq->spec.max_tokens});
    }
}

/* What the scheduler thought was running there but the device no longer knows begins again from its tokens. */
static void requeue_lost(struct br_service *s, struct sched_device *d, const bool *kept)
{
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        struct sched_seq *seq = seqtab_at(s->seqs, i);
        if (!seq || seq->device != (int32_t)(d - s->devices) || kept[i])
            continue;
        if (seq->state != SCHED_RUNNING && seq->state != SCHED_LEASING)
            continue;
        service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_END, .seq = i});
        service_enter_fleet(s, seq);
    }
}

static void models_on(struct br_service *s, struct sched_device *d, const Briareus__Register *hello)
{
    for (size_t i = 0; i < hello->n_models; i++) {
        const Briareus__ModelInfo *info = hello->models[i];
        int model = br_models_index(s->models, info->name);
        bool ok = model >= 0 && info->error[0] == 0;
        if (model < 0) {
            br_log(BR_WARN, "model_unknown", "node=%s device=%u model=%s", d->node, d->number, BR_Q(info->name));
            continue;
        }
        if (!ok) {
            br_log(BR_ERROR, "model_refused", "node=%s device=%u model=%s why=%s", d->node, d->number, info->name,
                   BR_Q(info->error));
            br_models_set_trouble(s->models, (uint32_t)model, info->error);
        } else {
            br_models_set_trouble(s->models, (uint32_t)model, NULL);
        }
        d->step_s[model] = info->step_s;
        d->load_s[model] = info->load_s;
        if (d->serves[model] == ok)
            continue;
        d->serves[model] = ok;
        service_fleet_event(s, &(struct br_fleet_event){.kind = ok ? BR_FLEET_MODEL_ON : BR_FLEET_MODEL_OFF,
                                                        .device = (uint32_t)(d - s->devices),
                                                        .model = (uint32_t)model,
                                                        .step_s = info->step_s,
                                                        .load_s = info->load_s});
    }
}

static void on_up(void *ctx, struct br_link_peer *peer, const Briareus__Register *hello)
{
    struct br_service *s = ctx;
    struct sched_device *d = device_slot(s, hello);
    bool *kept;
    if (!d) {
        br_link_peer_close(peer, "more devices than --max-devices");
        return;
    }
    if (d->peer) {
        br_link_peer_set_data(d->peer, NULL); /* its down must not count for the new connection */
        br_link_peer_close(d->peer, "the device connected again");
    }
    d->peer = peer;
    br_link_peer_set_data(peer, d);
    d->incarnation = hello->incarnation;
    d->memory_bytes = hello->memory_bytes;
    snprintf(d->kind, sizeof d->kind, "%s", hello->kind);
    br_log(BR_INFO, "device_up", "node=%s device=%u kind=%s profile=%s memory=%" PRIu64 " models=%zu running=%zu",
           d->node, d->number, d->kind, hello->numeric_profile, d->memory_bytes, hello->n_models, hello->n_running);
    send_welcome(s, d, hello);
    if (!d->in_fleet) {
        d->in_fleet = true;
        service_fleet_event(s,
                            &(struct br_fleet_event){.kind = BR_FLEET_DEVICE_UP, .device = (uint32_t)(d - s->devices)});
    }
    kept = br_calloc(seqtab_max(s->seqs), sizeof *kept);
    adopt_running(s, d, hello, kept);
    requeue_lost(s, d, kept);
    free(kept);
    models_on(s, d, hello);
}

/* ---- going ---- */

static void on_down(void *ctx, struct br_link_peer *peer)
{
    struct br_service *s = ctx;
    struct sched_device *d = br_link_peer_data(peer);
    (void)s;
    if (!d)
        return;
    d->peer = NULL;
    d->away_since_ns = br_now_ns();
    br_log(BR_WARN, "device_away", "node=%s device=%u", d->node, d->number);
}

static void device_lost(struct br_service *s, struct sched_device *d)
{
    int32_t device = (int32_t)(d - s->devices);
    br_log(BR_ERROR, "device_lost", "node=%s device=%u", d->node, d->number);
    d->in_fleet = false;
    memset(d->serves, 0, br_models_count(s->models) * sizeof *d->serves);
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        struct sched_seq *seq = seqtab_at(s->seqs, i);
        if (seq && seq->device == device && (seq->state == SCHED_RUNNING || seq->state == SCHED_LEASING)) {
            seq->state = SCHED_WAITING;
            seq->device = -1;
        }
    }
    service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_DEVICE_DOWN, .device = (uint32_t)device});
}

void service_tick_devices(struct br_service *s)
{
    int64_t limit_ns = (int64_t)(s->config.adopt_s * 1e9);
    for (uint32_t i = 0; i < s->n_devices; i++) {
        struct sched_device *d = &s->devices[i];
        if (d->in_fleet && !d->peer && br_now_ns() - d->away_since_ns > limit_ns)
            device_lost(s, d);
    }
}

/* ---- what it says ---- */

static void on_tokens(struct br_service *s, struct sched_device *d, const Briareus__Tokens *msg)
{
    struct sched_seq *seq = seqtab_find(s->seqs, msg->seq);
    struct br_token *tokens = NULL;
    uint32_t first = 0, n = 0, before;
    struct br_err err;
    if (!seq || seq->state != SCHED_RUNNING || seq->fence != msg->fence || seq->device != (int32_t)(d - s->devices)) {
        if (!seq || seq->fence != msg->fence)
            send_cancel(d->peer, msg->seq, msg->fence); /* nobody wants it any more */
        return;
    }
    if (br_tokens_from_pb(msg->run, &first, &tokens, &n, &err) || msg->end > BR_END_FAILED) {
        br_link_peer_close(d->peer, "tokens that break the contract");
        return;
    }
    before = seq->n_tokens;
    if (seqtab_take_tokens(seq, first, tokens, n) < 0) {
        free(tokens);
        br_link_peer_close(d->peer, "a gap in a sequence's tokens");
        return;
    }
    free(tokens);
    if (seq->n_tokens > before)
        seq->tries = 0;
    if (msg->end != BR_END_NONE)
        service_end(s, seq, (enum br_end)msg->end, msg->error[0] ? msg->error : NULL);
    else if (seq->n_tokens > before)
        service_store(s, seq);
}

static void on_report(struct sched_device *d, const Briareus__StepReport *r)
{
    d->total.steps = r->steps;
    d->total.switches = r->switches;
    d->total.loaded_bytes = r->loaded_bytes;
    d->total.kv_out_bytes = r->kv_out_bytes;
    d->total.kv_in_bytes = r->kv_in_bytes;
    d->total.compute_s = r->compute_s;
    d->total.stalled_s = r->stalled_s;
    d->total.wall_s = r->wall_s;
}

static void on_frame(void *ctx, struct br_link_peer *peer, const Briareus__Frame *frame)
{
    struct br_service *s = ctx;
    struct sched_device *d = br_link_peer_data(peer);
    if (!d)
        return;
    if (frame->body_case == BRIAREUS__FRAME__BODY_TOKENS)
        on_tokens(s, d, frame->tokens);
    else if (frame->body_case == BRIAREUS__FRAME__BODY_REPORT)
        on_report(d, frame->report);
}

struct br_link_server_cb br_service_link(struct br_service *s)
{
    return (struct br_link_server_cb){.ctx = s, .up = on_up, .frame = on_frame, .down = on_down};
}
