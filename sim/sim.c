#include "sim/sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sim/world.h"

static const double SIM_TICK_S = .25, SIM_WAKE_S = .1;

static bool counts(const struct sim *s, const struct sim_request *r)
{
    return r->at_s >= s->run->margin_s && r->at_s <= s->run->horizon_s - s->run->margin_s;
}

static void active_note(struct sim *s)
{
    double from = s->active_at_s > s->run->margin_s ? s->active_at_s : s->run->margin_s;
    double end = s->run->horizon_s - s->run->margin_s, to = s->now_s < end ? s->now_s : end;
    if (to > from)
        s->active_sum += s->n_active * (to - from);
    s->active_at_s = s->now_s;
}

static void request_seen(const struct sim *s, enum sim_request_event what, uint32_t request)
{
    const struct sim_observer *o = s->run->observer;
    if (o && o->request)
        o->request(o->ctx, s->now_s, what, request);
}

static void seq_forget(struct sim *s, uint32_t seq)
{
    const struct sim_request *r = &s->run->requests[s->live[seq].request];
    request_seen(s, s->live[seq].made == r->output ? SIM_REQUEST_ENDED : SIM_REQUEST_LOST, s->live[seq].request);
    if (s->books)
        sim_books_drop(s->books, seq);
    active_note(s);
    s->n_active -= --s->of_model[r->model] == 0;
    if (counts(s, r))
        s->late += r->output - s->live[seq].made; /* owed */
    s->free_seqs[s->n_free++] = seq;
}

static void latency_note(const struct sim *s, const struct live *l, const struct sim_request *r)
{
    double since = s->now_s - (l->made ? l->last_s : r->at_s);
    struct br_hist *hist = l->made ? s->run->tbt_us : s->run->ttft_us;
    if (hist)
        br_hist_add(hist, (uint64_t)(since * 1e6 + .5));
}

static void token(struct sim *s, uint32_t seq)
{
    struct live *l = &s->live[seq];
    const struct sim_request *r = &s->run->requests[l->request];
    const struct br_pl_model *m = &s->run->pool.models[r->model];
    bool on_time = s->now_s <= r->at_s + m->ttft_s + l->made * m->tbt_s + 1e-9;
    uint64_t bits;
    memcpy(&bits, &s->now_s, sizeof bits);
    s->out->digest = (s->out->digest ^ bits ^ l->request) * 0x9E3779B97F4A7C15u;
    assert(s->pool->seqs[seq].delivered == l->made); /* tokens in order */
    if (l->made == 0)
        request_seen(s, SIM_REQUEST_FIRST_TOKEN, l->request);
    if (counts(s, r))
        latency_note(s, l, r);
    l->made++;
    l->last_s = s->now_s;
    if (counts(s, r)) {
        s->out->on_time += on_time;
        s->late += !on_time;
    }
}

/* A device with books that has work and does none is asked again after a while, as the worker does. */
static void wake_set(struct sim *s, uint32_t device)
{
    if (!s->books || s->clocks[device].wakes)
        return;
    s->clocks[device].wakes = true;
    sim_heap_push(&s->heap, s->now_s + SIM_WAKE_S, SIM_WAKE, device);
}

/* Whether the device has work and does none, looked at after what may have changed it. */
static void stall_note(struct sim *s, uint32_t device)
{
    const struct br_pl_device *d = &s->pool->devices[device];
    struct device_clock *clock = &s->clocks[device];
    bool stalled = false;
    for (uint32_t i = 0; d->step.slot < 0 && !stalled && i < d->n_held; i++) {
        const struct br_pl_slot *slot = &s->pool->slots[d->held[i]];
        stalled = slot->wait.n + slot->run.n > 0;
    }
    if (stalled == (clock->stalled_s >= 0))
        return;
    double to = s->now_s < s->run->horizon_s ? s->now_s : s->run->horizon_s;
    if (!stalled && to > clock->stalled_s)
        s->out->stalled += to - clock->stalled_s;
    clock->stalled_s = stalled ? s->now_s : -1;
    if (stalled)
        wake_set(s, device);
}

static void host_kv_note(struct sim *s)
{
    double bytes = 0;
    for (uint32_t i = 0; i < s->run->pool.n_devices; i++)
        for (uint32_t k = 0; k < s->pool->devices[i].n_held; k++) {
            const struct br_pl_slot *slot = &s->pool->slots[s->pool->devices[i].held[k]];
            bytes += (double)(slot->kv_all - slot->kv) + (s->books ? (double)slot->kv_wait : 0);
        }
    if (bytes > s->out->host_kv_bytes)
        s->out->host_kv_bytes = bytes;
}

static uint32_t model_of(const struct sim *s, int32_t slot)
{
    return s->pool->slots[slot].model;
}

/* The part of [now, end] within the horizon: what runs on after it would thin out the shares. */
static double within(const struct sim *s, double end_s)
{
    double to = end_s < s->run->horizon_s ? end_s : s->run->horizon_s;
    return to > s->now_s ? to - s->now_s : 0;
}

/* `bytes` come in. */
static void load_begun(struct sim *s, uint32_t device, int64_t bytes)
{
    const struct sim_observer *o = s->run->observer;
    const struct br_pl_device *d = &s->pool->devices[device];
    double seconds = (double)bytes / d->hw.link_bytes_per_s, end = s->now_s + room_wait_s(s, device, 0) + seconds;
    s->clocks[device].load_end_s = end;
    s->out->link_busy += within(s, s->now_s + seconds);
    s->out->bytes_loaded += (double)bytes;
    sim_heap_push(&s->heap, end, SIM_LOAD, device);
    if (o && o->load_begun)
        o->load_begun(o->ctx, s->now_s, end, device, model_of(s, d->link.slot), bytes, d->link.kv);
}

static void weights_begun(struct sim *s, uint32_t device)
{
    room_load(s, device);
    load_begun(s, device, s->clocks[device].load_granted);
}

static void evicted(const struct sim *s, const struct br_pl_action *a)
{
    const struct sim_observer *o = s->run->observer;
    if (o && o->evicted)
        o->evicted(o->ctx, s->now_s, a->device, a->model, a->bytes, a->kv);
}

/* To who watches, KV that leaves in whole sequences is an eviction like any other. */
static void swapped_out(const struct sim *s, const struct br_pl_action *a)
{
    struct br_pl_action as = *a;
    as.kv = true;
    as.bytes = s->pool->seqs[a->seq].kv * s->pool->models[a->model].kv_token_bytes;
    evicted(s, &as);
}

/* The moves in of this event's actions: one load a device. */
static void coming_begun(struct sim *s)
{
    for (uint32_t i = 0; i < s->actions->n; i++) {
        const struct br_pl_action *a = &s->actions->list[i];
        struct device_clock *clock = &s->clocks[a->device];
        if (a->kind != BR_PL_SWAP_IN || clock->coming_on || clock->n_coming == 0)
            continue;
        int64_t bytes = room_coming_begin(s, a->device);
        clock->coming_on = clock->n_coming > 0;
        if (clock->coming_on)
            load_begun(s, a->device, bytes);
    }
}

static void load_ended(const struct sim *s, uint32_t device)
{
    const struct sim_observer *o = s->run->observer;
    if (o && o->load_ended)
        o->load_ended(o->ctx, s->now_s, device, model_of(s, s->pool->devices[device].link.slot));
}

/* A streamed step ends no earlier than its load: the chunk in flight and all that is missing after it. */
static double streamed_until(const struct sim *s, uint32_t device)
{
    const struct br_pl_device *d = &s->pool->devices[device];
    const struct br_pl_slot *slot = &s->pool->slots[d->step.slot];
    int64_t miss = s->pool->models[slot->model].weights_bytes - slot->weights;
    miss += s->books ? 0 : slot->kv_all - slot->kv; /* with books KV moves in whole, and steps are of what is here */
    double from = s->now_s;
    if (d->link.slot == d->step.slot) {
        from = s->clocks[device].load_end_s;
        miss -= d->link.bytes;
    }
    return from + (double)miss / d->hw.link_bytes_per_s;
}

static void step_begun(struct sim *s, uint32_t device)
{
    const struct sim_observer *o = s->run->observer;
    const struct br_pl_running *step = &s->pool->devices[device].step;
    if (!room_step(s, device))
        return;
    double wait_s = room_wait_s(s, device, 0);
    double switches = s->run->switch_s > 0 ? s->run->switch_s : br_pl_switch_s(s->pool);
    double switch_s = step->switched ? switches : 0, end = s->now_s + wait_s + step->cost_s + switch_s;
    double streamed = step->streamed ? streamed_until(s, device) + .002 : 0;
    end = end > streamed ? end : streamed;
    s->out->steps++;
    s->out->switches += step->switched;
    double switch_part = within(s, s->now_s + switch_s);
    s->out->compute_busy += within(s, end);
    s->out->switch_busy += switch_part;
    *(step->prefill ? &s->out->prefill_busy : &s->out->decode_busy) += within(s, end) - switch_part;
    sim_heap_push(&s->heap, end, SIM_STEP, device);
    if (o && o->step_begun)
        o->step_begun(o->ctx, s->now_s, end, device, model_of(s, step->slot), step);
}

static void obey(struct sim *s)
{
    for (uint32_t i = 0; i < s->actions->n; i++) {
        const struct br_pl_action *a = &s->actions->list[i];
        switch (a->kind) {
        case BR_PL_STEP:
            step_begun(s, a->device);
            break;
        case BR_PL_LOAD:
            weights_begun(s, a->device);
            break;
        case BR_PL_SWAP_IN:
            room_coming_add(s, a->device, a->seq);
            break;
        case BR_PL_SWAP_OUT:
            room_leaves(s, a->device, a->seq);
            swapped_out(s, a);
            break;
        case BR_PL_RECOMPUTE:
            if (s->books)
                sim_books_drop(s->books, a->seq);
            break;
        case BR_PL_REFUSE:
        case BR_PL_DROP:
        case BR_PL_GONE:
            s->out->refused += a->kind == BR_PL_REFUSE;
            s->out->dropped += a->kind == BR_PL_DROP;
            seq_forget(s, a->seq);
            break;
        case BR_PL_EVICT:
            if (s->books)
                sim_books_evict(s->books, a->device, a->bytes);
            evicted(s, a);
            break;
        case BR_PL_ASSIGN:
            room_assigned(s, a->device, a->seq);
            break;
        default: /* for those who have to move something themselves */
            break;
        }
        if (a->kind == BR_PL_ASSIGN || a->kind == BR_PL_STEP)
            stall_note(s, a->device);
    }
    if (s->books)
        coming_begun(s);
}

/* What the pool has to hear of its own actions comes when all of them are done, and may lead to more. */
static void answers(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_later; i++) {
        struct br_pl_event event = s->later[i];
        br_pl_step(s->pool, s->now_s, &event, s->actions);
        obey(s);
        if (event.kind == BR_PL_STEP_END)
            stall_note(s, event.device);
    }
    s->n_later = 0;
}

static void tell(struct sim *s, struct br_pl_event event)
{
    br_pl_step(s->pool, s->now_s, &event, s->actions);
    obey(s);
    answers(s);
}

static int arrival(struct sim *s, uint32_t request, struct br_err *err)
{
    const struct sim_request *r = &s->run->requests[request];
    if (s->n_free == 0)
        return br_err_set(err, BR_ENOMEM, "more sequences at once than the simulation has room for");
    uint32_t seq = s->free_seqs[--s->n_free];
    s->live[seq] = (struct live){request, 0, 0};
    request_seen(s, SIM_REQUEST_ARRIVED, request);
    active_note(s);
    s->n_active += s->of_model[r->model]++ == 0;
    if (request + 1 < s->run->n_requests)
        sim_heap_push(&s->heap, s->run->requests[request + 1].at_s, SIM_ARRIVAL, request + 1);
    tell(s, (struct br_pl_event){
                .kind = BR_PL_ARRIVE, .seq = seq, .model = r->model, .prompt = r->prompt, .output = r->output});
    return 0;
}

/* Some of its items found no room: the pool hears of each that ran. */
static void step_over_in_part(struct sim *s, uint32_t device)
{
    struct br_pl_running *step = &s->pool->devices[device].step;
    const struct device_clock *clock = &s->clocks[device];
    for (uint32_t i = 0; i < step->n; i++) {
        const struct br_pl_item *item = &step->items[i];
        if (!clock->left_out[i])
            br_pl_tell(s->pool, s->now_s,
                       &(struct br_pl_event){
                           .kind = BR_PL_STEPPED, .seq = item->seq, .rows = item->rows, .emitted = item->emits},
                       s->actions);
    }
    br_pl_step(s->pool, s->now_s, &(struct br_pl_event){.kind = BR_PL_STEP_END, .device = device}, s->actions);
}

static bool left_out(const struct sim *s, uint32_t device, uint32_t item)
{
    return s->clocks[device].n_left_out && s->clocks[device].left_out[item];
}

static uint32_t tokens_out(struct sim *s, uint32_t device, uint32_t *ended)
{
    struct br_pl_running *step = &s->pool->devices[device].step;
    uint32_t n = 0;
    for (uint32_t i = 0; i < step->n; i++) {
        struct br_pl_item *item = &step->items[i];
        const struct live *l = &s->live[item->seq];
        if (!item->emits || left_out(s, device, i))
            continue;
        token(s, item->seq);
        item->ended = l->made == s->run->requests[l->request].output;
        if (item->ended)
            ended[n++] = item->seq;
    }
    return n;
}

static void step_done(struct sim *s, uint32_t device)
{
    const struct sim_observer *o = s->run->observer;
    uint32_t ended[BR_PL_MAX_BATCH];
    if (o && o->step_ended)
        o->step_ended(o->ctx, s->now_s, device, model_of(s, s->pool->devices[device].step.slot));
    uint32_t n = tokens_out(s, device, ended);
    if (s->clocks[device].n_left_out)
        step_over_in_part(s, device);
    else
        br_pl_step(s->pool, s->now_s, &(struct br_pl_event){.kind = BR_PL_STEP_DONE, .device = device}, s->actions);
    for (uint32_t i = 0; i < n; i++) {
        const struct sim_request *r = &s->run->requests[s->live[ended[i]].request];
        if (counts(s, r)) {
            s->ended++;
            s->ended_sum_s += s->now_s - r->at_s;
        }
        seq_forget(s, ended[i]);
    }
    obey(s);
    answers(s);
    stall_note(s, device);
}

static void load_done(struct sim *s, uint32_t device)
{
    struct device_clock *clock = &s->clocks[device];
    load_ended(s, device);
    if (clock->coming_on) {
        clock->coming_on = false;
        room_coming_done(s, device);
        answers(s);
        return;
    }
    bool part = s->books && clock->load_granted < s->pool->devices[device].link.bytes;
    tell(s, (struct br_pl_event){
                .kind = BR_PL_LOAD_DONE, .device = device, .partial = part, .bytes = clock->load_granted});
}

static void wake(struct sim *s, uint32_t device)
{
    s->clocks[device].wakes = false;
    if (s->clocks[device].stalled_s < 0)
        return;
    br_pl_decide(s->pool, s->now_s, device, false, s->actions);
    obey(s);
    answers(s);
    stall_note(s, device);
    if (s->clocks[device].stalled_s >= 0)
        wake_set(s, device);
}

static int happen(struct sim *s, const struct sim_event *e, struct br_err *err)
{
    s->now_s = e->at_s;
    s->out->events++;
    switch (e->kind) {
    case SIM_ARRIVAL:
        return arrival(s, e->index, err);
    case SIM_STEP:
        step_done(s, e->index);
        break;
    case SIM_LOAD:
        load_done(s, e->index);
        break;
    case SIM_WAKE:
        wake(s, e->index);
        break;
    case SIM_TICK:
        sim_heap_push(&s->heap, s->now_s + SIM_TICK_S, SIM_TICK, 0);
        tell(s, (struct br_pl_event){.kind = BR_PL_TICK});
        for (uint32_t i = 0; i < s->run->pool.n_devices; i++)
            stall_note(s, i);
        host_kv_note(s);
        break;
    }
    return 0;
}

/* The inside of kvcache's books is looked at less often: it takes as long as everything else together. */
static int books_check(const struct sim *s, struct br_err *err)
{
    uint64_t turn = s->out->events / 64;
    bool deep = s->out->events % 64 == 0;
    return sim_books_check(s->books, s->pool, deep ? (int32_t)(turn % s->run->pool.n_devices) : -1, err);
}

static int loop(struct sim *s, struct br_err *err)
{
    struct sim_event e;
    double end = s->run->horizon_s + s->run->run_on_s;
    while (sim_heap_pop(&s->heap, &e) && e.at_s <= end) {
        int rc = happen(s, &e, err);
        if (rc == 0 && s->run->check)
            rc = br_pl_check(s->pool, err);
        if (rc == 0 && s->run->check && s->books)
            rc = books_check(s, err);
        if (rc < 0)
            return rc;
        if (s->late_limit > 0 && (double)s->late > s->late_limit)
            break;
    }
    return 0;
}

static void totals(struct sim *s)
{
    const struct sim_run *run = s->run;
    struct sim_result *out = s->out;
    for (uint32_t i = 0; i < run->n_requests; i++)
        if (counts(s, &run->requests[i]))
            out->tokens += run->requests[i].output;
    s->late_limit = run->late_stop * (double)out->tokens;
}

static void finish(struct sim *s)
{
    const struct sim_run *run = s->run;
    struct sim_result *out = s->out;
    double end = s->now_s < run->horizon_s ? s->now_s : run->horizon_s;
    double span = end * run->pool.n_devices, counted = run->horizon_s - 2 * run->margin_s;
    out->attainment = out->tokens ? (double)out->on_time / (double)out->tokens : 1;
    if (s->late_limit > 0 && (double)s->late > s->late_limit)
        out->attainment = 1 - (double)s->late / (double)out->tokens;
    double *const shares[] = {&out->compute_busy, &out->link_busy,   &out->decode_busy,
                              &out->prefill_busy, &out->switch_busy, &out->stalled};
    for (uint32_t i = 0; i < sizeof shares / sizeof *shares; i++)
        *shares[i] /= span > 0 ? span : 1;
    out->active_models = s->active_sum / counted;
    out->in_flight_s = s->ended ? s->ended_sum_s / (double)s->ended : 0;
}

static int world_alloc(struct sim *s, const struct br_pl_config *config, struct br_err *err)
{
    s->heap.room = 3 * config->n_devices + 8;
    s->heap.events = calloc(s->heap.room, sizeof *s->heap.events);
    s->live = calloc(config->max_seqs, sizeof *s->live);
    s->free_seqs = calloc(config->max_seqs, sizeof *s->free_seqs);
    s->of_model = calloc(config->n_models, sizeof *s->of_model);
    s->clocks = calloc(config->n_devices, sizeof *s->clocks);
    s->actions = calloc(1, sizeof *s->actions);
    if (!s->heap.events || !s->live || !s->free_seqs || !s->of_model || !s->clocks || !s->actions)
        return br_err_set(err, BR_ENOMEM, "no memory for a simulation of %u requests", s->run->n_requests);
    for (uint32_t i = 0; i < config->n_devices; i++)
        s->clocks[i].stalled_s = -1;
    for (uint32_t i = config->max_seqs; i-- > 0;)
        s->free_seqs[s->n_free++] = i;
    return 0;
}

static uint32_t longest(const struct sim_run *run)
{
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < run->n_requests; i++)
        if (run->requests[i].prompt + run->requests[i].output > tokens)
            tokens = run->requests[i].prompt + run->requests[i].output;
    return tokens;
}

/* With books the pool plans as a worker's does: with memory in whole slabs, with what KV takes in them, and with moves
 * of whole sequences. */
static int pool_with_books(struct sim *s, struct br_pl_config *config, struct br_err *err)
{
    struct br_pl_model *models = br_calloc(config->n_models, sizeof *models);
    struct br_pl_hardware *hardware = br_calloc(config->n_devices, sizeof *hardware);
    int rc = sim_books_create(config, longest(s->run), &s->books, err);
    for (uint32_t i = 0; rc == 0 && i < config->n_models; i++) {
        models[i] = config->models[i];
        models[i].kv_token_bytes = sim_books_token_bytes(s->books, i);
    }
    for (uint32_t i = 0; rc == 0 && i < config->n_devices; i++) {
        hardware[i] = config->hardware[i];
        hardware[i].memory_bytes = sim_books_planned(s->books, i);
    }
    config->models = models;
    config->hardware = hardware;
    config->options.whole_kv = true;
    if (rc == 0)
        rc = br_pl_create(config, &s->pool, err);
    free(models);
    free(hardware);
    return rc;
}

static int sim_open(struct sim *s, struct br_err *err)
{
    struct br_pl_config config = s->run->pool;
    config.max_seqs = s->run->n_requests + 1;
    int rc = world_alloc(s, &config, err);
    if (rc < 0)
        return rc;
    return s->run->books ? pool_with_books(s, &config, err) : br_pl_create(&config, &s->pool, err);
}

static void sim_close(struct sim *s)
{
    br_pl_destroy(s->pool);
    sim_books_destroy(s->books);
    free(s->later);
    free(s->heap.events);
    free(s->live);
    free(s->free_seqs);
    free(s->of_model);
    free(s->clocks);
    free(s->actions);
}

int sim_run(const struct sim_run *run, struct sim_result *out, struct br_err *err)
{
    struct sim s = {.run = run, .out = out};
    *out = (struct sim_result){0};
    int rc = sim_open(&s, err);
    if (rc == 0) {
        totals(&s);
        if (run->n_requests)
            sim_heap_push(&s.heap, run->requests[0].at_s, SIM_ARRIVAL, 0);
        sim_heap_push(&s.heap, 0, SIM_TICK, 0);
        rc = loop(&s, err);
        finish(&s);
    }
    sim_close(&s);
    return rc;
}
