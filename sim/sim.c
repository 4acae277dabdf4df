#include "sim/sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim/heap.h"

enum { SIM_ARRIVAL, SIM_STEP, SIM_LOAD, SIM_TICK };
static const double SIM_TICK_S = .25;

struct live { /* what the world knows of a sequence and the pool does not */
    uint32_t request, made;
    double last_s; /* of its last token */
};

struct device_clock {
    double load_end_s;
    double stalled_s; /* since when it has sequences and runs nothing; < 0: it is not so */
};

struct sim {
    const struct sim_run *run;
    struct sim_result *out;
    struct br_pool *pool;
    struct br_pl_actions *actions;
    struct sim_heap heap;
    struct live *live;   /* [max_seqs] */
    uint32_t *free_seqs; /* [max_seqs] */
    uint32_t n_free;
    uint32_t *of_model; /* [n_models]: unfinished requests */
    struct device_clock *clocks;
    uint32_t n_active; /* models with unfinished requests */
    double now_s, active_at_s, active_sum;
    uint64_t ended, late;
    double late_limit, ended_sum_s;
};

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
}

static void host_kv_note(struct sim *s)
{
    double bytes = 0;
    for (uint32_t i = 0; i < s->run->pool.n_devices; i++)
        for (uint32_t k = 0; k < s->pool->devices[i].n_held; k++) {
            const struct br_pl_slot *slot = &s->pool->slots[s->pool->devices[i].held[k]];
            bytes += (double)(slot->kv_all - slot->kv);
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

static void load_begun(struct sim *s, uint32_t device)
{
    const struct sim_observer *o = s->run->observer;
    const struct br_pl_device *d = &s->pool->devices[device];
    double seconds = (double)d->link.bytes / d->hw.link_bytes_per_s;
    s->clocks[device].load_end_s = s->now_s + seconds;
    s->out->link_busy += within(s, s->now_s + seconds);
    s->out->bytes_loaded += (double)d->link.bytes;
    sim_heap_push(&s->heap, s->now_s + seconds, SIM_LOAD, device);
    if (o && o->load_begun)
        o->load_begun(o->ctx, s->now_s, s->now_s + seconds, device, model_of(s, d->link.slot), d->link.bytes,
                      d->link.kv);
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
    int64_t miss = s->pool->models[slot->model].weights_bytes + slot->kv_all - slot->weights - slot->kv;
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
    double switches = s->run->switch_s > 0 ? s->run->switch_s : br_pl_switch_s(s->pool);
    double switch_s = step->switched ? switches : 0, end = s->now_s + step->cost_s + switch_s;
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

static void evicted(const struct sim *s, const struct br_pl_action *a)
{
    const struct sim_observer *o = s->run->observer;
    if (o && o->evicted)
        o->evicted(o->ctx, s->now_s, a->device, a->model, a->bytes, a->kv);
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
            load_begun(s, a->device);
            break;
        case BR_PL_REFUSE:
        case BR_PL_DROP:
        case BR_PL_GONE:
            s->out->refused += a->kind == BR_PL_REFUSE;
            s->out->dropped += a->kind == BR_PL_DROP;
            seq_forget(s, a->seq);
            break;
        case BR_PL_EVICT:
            evicted(s, a);
            break;
        default: /* for those who have to move something themselves */
            break;
        }
        if (a->kind == BR_PL_ASSIGN || a->kind == BR_PL_STEP)
            stall_note(s, a->device);
    }
}

static void tell(struct sim *s, struct br_pl_event event)
{
    br_pl_step(s->pool, s->now_s, &event, s->actions);
    obey(s);
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

static void step_done(struct sim *s, uint32_t device)
{
    struct br_pl_running *step = &s->pool->devices[device].step;
    const struct sim_observer *o = s->run->observer;
    uint32_t ended[BR_PL_MAX_BATCH], n = 0;
    if (o && o->step_ended)
        o->step_ended(o->ctx, s->now_s, device, model_of(s, step->slot));
    for (uint32_t i = 0; i < step->n; i++) {
        struct br_pl_item *item = &step->items[i];
        const struct live *l = &s->live[item->seq];
        if (!item->emits)
            continue;
        token(s, item->seq);
        item->ended = l->made == s->run->requests[l->request].output;
        if (item->ended)
            ended[n++] = item->seq;
    }
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
    stall_note(s, device);
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
        load_ended(s, e->index);
        tell(s, (struct br_pl_event){.kind = BR_PL_LOAD_DONE, .device = e->index});
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

static int loop(struct sim *s, struct br_err *err)
{
    struct sim_event e;
    double end = s->run->horizon_s + s->run->run_on_s;
    while (sim_heap_pop(&s->heap, &e) && e.at_s <= end) {
        int rc = happen(s, &e, err);
        if (rc == 0 && s->run->check)
            rc = br_pl_check(s->pool, err);
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

static int sim_open(struct sim *s, struct br_err *err)
{
    struct br_pl_config config = s->run->pool;
    config.max_seqs = s->run->n_requests + 1;
    s->heap.room = 2 * config.n_devices + 8;
    s->heap.events = calloc(s->heap.room, sizeof *s->heap.events);
    s->live = calloc(config.max_seqs, sizeof *s->live);
    s->free_seqs = calloc(config.max_seqs, sizeof *s->free_seqs);
    s->of_model = calloc(config.n_models, sizeof *s->of_model);
    s->clocks = calloc(config.n_devices, sizeof *s->clocks);
    s->actions = calloc(1, sizeof *s->actions);
    if (!s->heap.events || !s->live || !s->free_seqs || !s->of_model || !s->clocks || !s->actions)
        return br_err_set(err, BR_ENOMEM, "no memory for a simulation of %u requests", s->run->n_requests);
    for (uint32_t i = 0; i < config.n_devices; i++)
        s->clocks[i].stalled_s = -1;
    for (uint32_t i = config.max_seqs; i-- > 0;)
        s->free_seqs[s->n_free++] = i;
    return br_pl_create(&config, &s->pool, err);
}

static void sim_close(struct sim *s)
{
    br_pl_destroy(s->pool);
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
