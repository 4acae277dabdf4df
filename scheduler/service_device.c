/* Devices: they come, report what they run, send tokens, go away and come back. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/convert.h"
#include "scheduler/service_impl.h"

/* ---- coming ---- */

/* The first device of a node gives its number to all of them. */
static uint32_t node_index(const struct br_service *s, const struct sched_device *d)
{
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].used && strcmp(s->devices[i].node, d->node) == 0)
            return i;
    return (uint32_t)(d - s->devices);
}

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
            d->node_index = node_index(s, d);
            d->places = br_calloc(br_models_capacity(s->models) + 1, sizeof *d->places);
            return d;
        }
    }
    return NULL;
}

bool service_adoptable(struct br_service *s, const struct sched_seq *seq, uint32_t device,
                       const Briareus__RunningSeq *running)
{
    (void)s;
    if (!seq || seq->fence != running->fence)
        return false;
    return seq->state == SCHED_RECOVERED || (seq->state == SCHED_RUNNING && seq->device == (int32_t)device);
}

static void adopt_one(struct br_service *s, struct sched_seq *seq, uint32_t device)
{
    struct br_fleet_event event = service_seq_event(seq, BR_FLEET_ADOPT);
    event.device = device;
    service_fleet_event(s, &event);
}

/* Recovered ones enter core/fleet as running here. */
static void adopt_running(struct br_service *s, struct sched_device *d, const Briareus__Register *hello)
{
    uint32_t device = (uint32_t)(d - s->devices);
    for (size_t i = 0; i < hello->n_running; i++) {
        struct sched_seq *seq = seqtab_find(s->seqs, hello->running[i]->seq);
        if (!service_adoptable(s, seq, device, hello->running[i]) || seq->state != SCHED_RECOVERED)
            continue;
        seq->state = SCHED_RUNNING;
        seq->device = (int32_t)device;
        adopt_one(s, seq, device);
    }
}

static bool had_by(const struct sched_seq *seq, const struct sched_device *d, const struct br_service *s)
{
    return seq->device == (int32_t)(d - s->devices) && (seq->state == SCHED_RUNNING || seq->state == SCHED_LEASING);
}

/* What the scheduler thinks is running there but the device no longer knows; to be freed. */
static bool *lost_find(struct br_service *s, struct sched_device *d, const Briareus__Register *hello)
{
    bool *lost = br_calloc(seqtab_max(s->seqs), sizeof *lost);
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        const struct sched_seq *seq = seqtab_at(s->seqs, i);
        lost[i] = seq && had_by(seq, d, s);
    }
    for (size_t i = 0; i < hello->n_running; i++) {
        const struct sched_seq *seq = seqtab_find(s->seqs, hello->running[i]->seq);
        if (service_adoptable(s, seq, (uint32_t)(d - s->devices), hello->running[i]))
            lost[seq->index] = false;
    }
    return lost;
}

/* It begins again from its tokens. */
static void requeue_lost(struct br_service *s, struct sched_device *d, const bool *lost)
{
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        struct sched_seq *seq = seqtab_at(s->seqs, i);
        if (!lost[i] || !seq || !had_by(seq, d, s))
            continue;
        service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_END, .seq = i});
        service_enter_fleet(s, seq);
    }
}

/* What an old worker does not say is guessed: reading the weights is all that a step costs. */
static struct br_step_shape shape_of(const Briareus__StepShape *shape, double step_s)
{
    if (!shape)
        return (struct br_step_shape){.read_s = step_s > 0 ? step_s : 1e-6};
    return (struct br_step_shape){shape->fixed_s, shape->read_s, shape->kv_byte_s, shape->row_s};
}

static void model_on(struct br_service *s, struct sched_device *d, const Briareus__ModelInfo *info, uint32_t model)
{
    struct br_fleet_event event = {
        .kind = BR_FLEET_MODEL_ON,
        .device = (uint32_t)(d - s->devices),
        .model = model,
        .weights_bytes = (int64_t)(info->weight_bytes < INT64_MAX ? info->weight_bytes : 0),
        .kv_token_bytes = (int64_t)(info->kv_token_bytes ? info->kv_token_bytes : info->kv_block_bytes / 16),
        .shape = shape_of(info->step, info->step_s)};
    service_fleet_event(s, &event);
}

static void model_off(struct br_service *s, struct sched_device *d, uint32_t model)
{
    if (d->places[model].serves)
        service_fleet_event(s, &(struct br_fleet_event){
                                   .kind = BR_FLEET_MODEL_OFF, .device = (uint32_t)(d - s->devices), .model = model});
}

void service_model_info(struct br_service *s, struct sched_device *d, const Briareus__ModelInfo *info)
{
    int model = br_models_index(s->models, info->name);
    bool ok = model >= 0 && info->error[0] == 0;
    if (model < 0) {
        br_log(BR_WARN, "model_unknown", "node=%s device=%u model=%s", d->node, d->number, BR_Q(info->name));
        return;
    }
    if (!ok)
        br_log(BR_ERROR, "model_refused", "node=%s device=%u model=%s why=%s", d->node, d->number, info->name,
               BR_Q(info->error));
    br_models_set_trouble(s->models, (uint32_t)model, ok ? NULL : info->error);
    d->places[model].step_s = info->step_s;
    d->places[model].load_s = info->load_s;
    d->places[model].weight_bytes = info->weight_bytes;
    if (ok)
        model_on(s, d, info, (uint32_t)model);
    else
        model_off(s, d, (uint32_t)model);
    d->places[model].serves = ok;
}

static void models_on(struct br_service *s, struct sched_device *d, const Briareus__Register *hello)
{
    for (size_t i = 0; i < hello->n_models; i++)
        service_model_info(s, d, hello->models[i]);
    service_orders_device_up(s, d, hello);
}

/* While it was away it got nothing new; if it rests it still does not. */
static void device_on(struct br_service *s, struct sched_device *d)
{
    struct br_fleet_event event = {.kind = BR_FLEET_DEVICE_UP,
                                   .device = (uint32_t)(d - s->devices),
                                   .node = d->node_index,
                                   .memory_bytes = (int64_t)d->memory_bytes,
                                   .link_bytes_per_s = (double)d->link_bytes_per_s};
    bool rests = service_rests(s, d);
    d->shunned = false;
    if (!d->in_fleet || !rests)
        service_fleet_event(s, &event);
    event.kind = BR_FLEET_DEVICE_DRAIN;
    if (rests)
        service_fleet_event(s, &event);
    d->in_fleet = true;
    d->progress_ns = br_now_ns();
}

static void on_up(void *ctx, struct br_link_peer *peer, const Briareus__Register *hello)
{
    struct br_service *s = ctx;
    struct sched_device *d = device_slot(s, hello);
    bool *lost;
    if (!d) {
        br_link_peer_close(peer, "more devices than --max-devices");
        return;
    }
    if (d->peer) {
        service_orders_device_down(s, d);
        br_link_peer_set_data(d->peer, NULL); /* its down must not count for the new connection */
        br_link_peer_close(d->peer, "the device connected again");
    }
    d->peer = peer;
    br_link_peer_set_data(peer, d);
    if (d->in_fleet && d->incarnation != hello->incarnation)
        service_device_died(s, d);
    d->incarnation = hello->incarnation;
    d->memory_bytes = hello->memory_bytes < INT64_MAX ? hello->memory_bytes : 0;
    d->link_bytes_per_s = hello->link_bytes_per_s;
    snprintf(d->kind, sizeof d->kind, "%s", hello->kind);
    br_log(BR_INFO, "device_up", "node=%s device=%u kind=%s profile=%s memory=%" PRIu64 " models=%zu running=%zu",
           d->node, d->number, d->kind, hello->numeric_profile, d->memory_bytes, hello->n_models, hello->n_running);
    service_send_welcome(s, d, hello);
    lost = lost_find(s, d, hello);
    device_on(s, d);
    models_on(s, d, hello); /* may give it what has waited */
    adopt_running(s, d, hello);
    requeue_lost(s, d, lost);
    free(lost);
}

/* ---- going ---- */

static void on_down(void *ctx, struct br_link_peer *peer)
{
    struct br_service *s = ctx;
    struct sched_device *d = br_link_peer_data(peer);
    if (!d)
        return;
    d->peer = NULL;
    d->away_since_ns = br_now_ns();
    service_orders_device_down(s, d);
    br_log(BR_WARN, "device_away", "node=%s device=%u", d->node, d->number);
}

static void device_lost(struct br_service *s, struct sched_device *d)
{
    int32_t device = (int32_t)(d - s->devices);
    br_log(BR_ERROR, "device_lost", "node=%s device=%u", d->node, d->number);
    service_device_died(s, d);
    d->in_fleet = false;
    memset(d->places, 0, br_models_capacity(s->models) * sizeof *d->places);
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        struct sched_seq *seq = seqtab_at(s->seqs, i);
        if (seq && seq->device == device && seq->state != SCHED_ENDING)
            service_unplace(s, seq);
    }
    service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_DEVICE_DOWN, .device = (uint32_t)device});
}

void service_tick_devices(struct br_service *s)
{
    int64_t limit_ns = (int64_t)(s->config.adopt_s * 1e9);
    for (uint32_t i = 0; i < s->n_devices; i++) {
        struct sched_device *d = &s->devices[i];
        if (!d->in_fleet || d->peer)
            continue;
        if (br_now_ns() - d->away_since_ns > limit_ns)
            device_lost(s, d);
        else if (!d->shunned)
            service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_DEVICE_DRAIN, .device = i});
        d->shunned = true;
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
            service_send_stray(d->peer, msg->seq, msg->fence);
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
    if (before == 0 && seq->n_tokens)
        service_trace_streams(s, seq);
    if (seq->call && msg->queued_s > 0)
        br_gateway_first_step(seq->call, msg->queued_s);
    if (before == 0)
        seq->n_cached = msg->cached;
    if (seq->n_tokens > before) {
        service_trial_passed(d, seq);
        service_fleet_event(
            s, &(struct br_fleet_event){.kind = BR_FLEET_TOKENS, .seq = seq->index, .delivered = seq->n_tokens});
    }
    if (msg->end != BR_END_NONE)
        service_end(s, seq, (enum br_end)msg->end, msg->error[0] ? msg->error : NULL);
    else if (seq->n_tokens > before)
        service_store(s, seq);
}

/* What has left the device makes room in core/fleet's books for what has come. */
static void report_left(struct br_service *s, const struct sched_device *d, const Briareus__SlotLoad *slot)
{
    int model = br_models_index(s->models, slot->model);
    const struct sched_place *p = model < 0 ? NULL : &d->places[model];
    if (p && p->serves && slot->resident_bytes < p->resident_bytes)
        service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_RESIDENT,
                                                        .device = (uint32_t)(d - s->devices),
                                                        .model = (uint32_t)model,
                                                        .bytes = (int64_t)slot->resident_bytes});
}

/* What is there is told every time: the books may have had no room for it before. */
static void report_slot(struct br_service *s, struct sched_device *d, const Briareus__SlotLoad *slot)
{
    int model = br_models_index(s->models, slot->model);
    struct sched_place *p = model < 0 ? NULL : &d->places[model];
    bool changed;
    if (!p || !p->serves)
        return;
    changed = slot->resident_bytes || p->resident_bytes || p->stepping != slot->stepping || slot->step;
    p->resident_bytes = slot->resident_bytes < INT64_MAX ? slot->resident_bytes : 0;
    s->host_out[model] = s->host_out[model] && !p->resident_bytes;
    p->stepping = slot->stepping;
    p->loading = slot->loading;
    p->waiting = slot->waiting;
    p->running = slot->running;
    p->utilisation = slot->utilisation;
    if (changed)
        service_fleet_event(
            s, &(struct br_fleet_event){.kind = BR_FLEET_RESIDENT,
                                        .device = (uint32_t)(d - s->devices),
                                        .model = (uint32_t)model,
                                        .bytes = (int64_t)p->resident_bytes,
                                        .running = p->stepping,
                                        .shape = slot->step ? shape_of(slot->step, 0) : (struct br_step_shape){0}});
}

static void on_report(struct br_service *s, struct sched_device *d, const Briareus__StepReport *r)
{
    d->total.steps = r->steps;
    d->total.switches = r->switches;
    d->total.compute_s = r->compute_s;
    d->total.stalled_s = r->stalled_s;
    d->total.wall_s = r->wall_s;
    br_transfers_from_pb(r, &d->transfers);
    if (r->link_bytes_per_s > 0)
        service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_LINK,
                                                        .device = (uint32_t)(d - s->devices),
                                                        .link_bytes_per_s = r->link_bytes_per_s});
    for (size_t i = 0; i < r->n_slots; i++)
        report_left(s, d, r->slots[i]);
    for (size_t i = 0; i < r->n_slots; i++)
        report_slot(s, d, r->slots[i]);
    service_device_progress(s, d);
}

/* Of sequences that its clients wait for; what makes no sense is left out. */
static void on_moments(struct br_service *s, const struct sched_device *d, const Briareus__Moments *msg)
{
    char device[80];
    int64_t now_ns = br_now_ns();
    snprintf(device, sizeof device, "%s/%u", d->node, d->number);
    for (size_t i = 0; i < msg->n_moments; i++) {
        const Briareus__Moment *m = msg->moments[i];
        const struct sched_seq *seq = seqtab_find(s->seqs, m->seq);
        struct br_gateway_moment moment = {
            .kind = (enum br_moment_kind)m->kind, .steps = m->steps, .rows = m->rows, .bytes = m->bytes};
        if (!seq || !seq->call || m->kind > BR_MOMENT_SWAP_IN || !(m->ago_s >= 0 && m->ago_s < 1e6) ||
            !(m->took_s >= 0 && m->took_s <= m->ago_s))
            continue;
        moment.begin_ns = now_ns - (int64_t)(m->ago_s * 1e9);
        moment.end_ns = moment.begin_ns + (int64_t)(m->took_s * 1e9);
        moment.device = device;
        br_gateway_moment(seq->call, m->seq, &moment);
    }
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
        on_report(s, d, frame->report);
    else if (frame->body_case == BRIAREUS__FRAME__BODY_MOMENTS)
        on_moments(s, d, frame->moments);
    else if (frame->body_case == BRIAREUS__FRAME__BODY_MODEL_DONE)
        service_order_done(s, d, frame->model_done);
}

struct br_link_server_cb br_service_link(struct br_service *s)
{
    return (struct br_link_server_cb){.ctx = s, .up = on_up, .frame = on_frame, .down = on_down};
}
