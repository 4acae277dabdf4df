#include "scheduler/service.h"

#include <jansson.h>
#include <stdlib.h>

#include "report/trace.h"
#include "scheduler/service_impl.h"

enum { TICK_MS = 50, TERMS_S = 5 };

static void on_tick(uv_timer_t *timer)
{
    struct br_service *s = timer->data;
    service_tick_devices(s);
    service_tick_seqs(s);
    service_tick_trials(s);
    service_tick_fleet(s);
    service_tick_orders(s);
    if (br_now_ns() >= s->terms_ns) {
        if (s->config.trace) /* what is kept back may be the last for long */
            br_trace_flush(s->config.trace);
        s->terms_ns = br_now_ns() + TERMS_S * BR_NS_PER_S;
        service_send_rates(s);
    }
}

void service_model_tell(struct br_service *s, uint32_t model)
{
    const struct br_gateway_model *m = br_models_at(s->models, model);
    service_fleet_event(s, &(struct br_fleet_event){.kind = BR_FLEET_MODEL_SET,
                                                    .model = model,
                                                    .ttft_s = m->ttft_s,
                                                    .tbt_s = m->tbt_s,
                                                    .weight = m->weight,
                                                    .pinned = br_models_pinned(s->models, model)});
}

/* What is known of the models before any device has them. */
static void models_set(struct br_service *s)
{
    for (uint32_t i = 0; i < br_models_count(s->models); i++)
        if (br_models_present(s->models, i))
            service_model_tell(s, i);
}

int br_service_create(uv_loop_t *loop, const struct br_service_config *config, struct br_queue *queue,
                      struct br_models *models, struct br_service **out, struct br_err *err)
{
    struct br_service *s = br_calloc(1, sizeof *s);
    /* Recovered sequences are taken whatever their number was allowed to be: room for twice the bound. */
    uint32_t max_seqs = config->max_unfinished * 2 + 64;
    struct br_fleet_config fleet = {.max_devices = config->max_devices,
                                    .max_models = br_models_capacity(models) + 1,
                                    .max_seqs = max_seqs,
                                    .max_unfinished = config->max_unfinished,
                                    .max_nodes = config->max_devices,
                                    .policy = config->policy,
                                    .hysteresis = config->hysteresis,
                                    .admission = config->admission};
    if (br_fleet_create(&fleet, &s->fleet, err)) {
        free(s);
        return err->code;
    }
    s->loop = loop;
    s->config = *config;
    s->queue = queue;
    s->models = models;
    s->actions = br_calloc(1, sizeof *s->actions);
    s->seqs = seqtab_create(max_seqs);
    s->devices = br_calloc(config->max_devices, sizeof *s->devices);
    s->rates = br_calloc(br_models_capacity(models) + 1, sizeof *s->rates);
    s->closed = br_calloc(br_models_capacity(models) + 1, sizeof *s->closed);
    s->came = br_calloc(br_models_capacity(models) + 1, sizeof *s->came);
    s->leaving = br_calloc(br_models_capacity(models) + 1, sizeof *s->leaving);
    s->host_out = br_calloc(br_models_capacity(models) + 1, sizeof *s->host_out);
    models_set(s);
    service_trace_begin(s);
    uv_timer_init(loop, &s->tick);
    s->tick.data = s;
    uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
    *out = s;
    return 0;
}

bool br_service_settled(const struct br_service *s)
{
    return s->appends == 0 && s->accepting == 0 && s->leases == 0 && !s->retries;
}

void br_service_close(struct br_service *s)
{
    s->closing = true;
    uv_close((uv_handle_t *)&s->tick, NULL);
}

void br_service_destroy(struct br_service *s)
{
    for (uint32_t i = 0; i < s->config.max_devices; i++)
        free(s->devices[i].places);
    free(s->devices);
    free(s->rates);
    free(s->closed);
    free(s->host_out);
    free(s->leaving);
    free(s->came);
    service_orders_free(s);
    seqtab_destroy(s->seqs);
    free(s->actions);
    br_fleet_destroy(s->fleet);
    free(s);
}

/* ---- the gateway's questions ---- */

static bool listed(const struct br_service *s, uint32_t model)
{
    return br_models_present(s->models, model) && !s->leaving[model];
}

static const struct br_gateway_model *backend_model(void *ctx, const char *name)
{
    struct br_service *s = ctx;
    int index = br_models_index(s->models, name);
    return index < 0 || !listed(s, (uint32_t)index) ? NULL : br_models_at(s->models, (uint32_t)index);
}

static uint32_t backend_n_models(void *ctx)
{
    struct br_service *s = ctx;
    uint32_t n = 0;
    for (uint32_t i = 0; i < br_models_count(s->models); i++)
        n += listed(s, i);
    return n;
}

static const struct br_gateway_model *backend_model_at(void *ctx, uint32_t at)
{
    struct br_service *s = ctx;
    for (uint32_t i = 0; i < br_models_count(s->models); i++)
        if (listed(s, i) && at-- == 0)
            return br_models_at(s->models, i);
    return NULL;
}

static const char *backend_trouble(void *ctx, const struct br_gateway_model *model)
{
    struct br_service *s = ctx;
    int found = br_models_index(s->models, model->name);
    uint32_t index = (uint32_t)found;
    if (found < 0)
        return "it has been removed";
    if (!model->tokenizer)
        return br_models_trouble(s->models, index);
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].in_fleet && s->devices[i].places[index].serves)
            return NULL;
    return br_models_trouble(s->models, index); /* no device yet: it waits in the queue */
}

static bool backend_healthy(void *ctx, const char **why)
{
    struct br_service *s = ctx;
    *why = "the queue (Redis) does not answer";
    return s->queue->ops->healthy(s->queue);
}

/* ---- GET /stats ---- */

static json_t *place_stats(const char *name, const struct sched_place *p)
{
    return json_pack("{s:s,s:f,s:f,s:I,s:i,s:i,s:f}", "name", name, "step_s", p->step_s, "load_s", p->load_s,
                     "resident_bytes", (json_int_t)p->resident_bytes, "waiting", (int)p->waiting, "running",
                     (int)p->running, "utilisation", p->utilisation);
}

static json_t *transfer_stats(const struct br_transfers *t)
{
    uint32_t n;
    const struct br_transfer_counter *counters = br_transfer_counters(&n);
    json_t *all = json_object();
    for (uint32_t i = 0; i < n; i++) {
        double value = br_transfer_value(t, &counters[i]);
        json_object_set_new(all, counters[i].name,
                            counters[i].seconds ? json_real(value) : json_integer((json_int_t)value));
    }
    return all;
}

static json_t *device_stats(const struct br_service *s, const struct sched_device *d)
{
    json_t *models = json_array(), *root;
    for (uint32_t m = 0; m < br_models_count(s->models); m++)
        if (d->places[m].serves)
            json_array_append_new(models, place_stats(br_models_at(s->models, m)->name, &d->places[m]));
    root = json_pack("{s:s,s:i,s:b,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:o}", "node", d->node, "device", (int)d->number,
                     "connected", d->peer != NULL, "steps", (json_int_t)d->total.steps, "switches",
                     (json_int_t)d->total.switches, "loaded_bytes", (json_int_t)d->transfers.loaded_bytes,
                     "kv_out_bytes", (json_int_t)d->transfers.kv_out_bytes, "kv_in_bytes",
                     (json_int_t)d->transfers.kv_in_bytes, "compute_s", d->total.compute_s, "stalled_s",
                     d->total.stalled_s, "wall_s", d->total.wall_s, "models", models);
    json_object_set_new(root, "transfers", transfer_stats(&d->transfers));
    json_object_set_new(
        root, "utilisation",
        json_real(br_fleet_utilisation(s->fleet, (uint32_t)(d - s->devices)))); /* as core/fleet sees it */
    return root;
}

static void backend_stats(void *ctx, struct br_buf *out)
{
    const struct br_service *s = ctx;
    json_t *devices = json_array(), *root;
    char *text;
    for (uint32_t i = 0; i < s->n_devices; i++)
        json_array_append_new(devices, device_stats(s, &s->devices[i]));
    root = json_pack("{s:I,s:I,s:o}", "unfinished", (json_int_t)seqtab_count(s->seqs), "waiting",
                     (json_int_t)br_fleet_waiting(s->fleet), "devices", devices);
    text = json_dumps(root, JSON_COMPACT);
    br_buf_puts(out, text ? text : "{}");
    free(text);
    json_decref(root);
}

struct br_gateway_backend br_service_backend(struct br_service *s)
{
    return (struct br_gateway_backend){.ctx = s,
                                       .model = backend_model,
                                       .n_models = backend_n_models,
                                       .model_at = backend_model_at,
                                       .model_trouble = backend_trouble,
                                       .submit = service_submit,
                                       .cancel = service_cancel,
                                       .leave = service_leave,
                                       .pace = service_pace,
                                       .healthy = backend_healthy,
                                       .unready = service_unready,
                                       .running = service_running,
                                       .stats = backend_stats,
                                       .order = service_order,
                                       .order_forget = service_order_forget,
                                       .models_state = service_models_state,

                                       .metrics = service_metrics};
}
