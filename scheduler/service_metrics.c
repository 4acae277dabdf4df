/* GET /metrics: what the service knows of queues, models and devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/metrics.h"
#include "scheduler/service_impl.h"

struct model_queue {
    uint32_t waiting, running; /* sequences; waiting: accepted, without a token */
};

static struct model_queue *queues(const struct br_service *s)
{
    struct model_queue *q = br_calloc(br_models_count(s->models) + 1, sizeof *q);
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        const struct sched_seq *seq = seqtab_at(s->seqs, i);
        if (!seq || seq->state == SCHED_ENDING || seq->model >= br_models_count(s->models))
            continue;
        if (seq->state == SCHED_RUNNING && seq->progress)
            q[seq->model].running++;
        else
            q[seq->model].waiting++;
    }
    return q;
}

static void put_model(const struct br_service *s, struct br_buf *out, uint32_t model, const char *name, double value)
{
    struct br_buf labels = {0};
    if (!br_models_present(s->models, model))
        return;
    br_metric_label(&labels, "model_name", br_models_at(s->models, model)->name);
    br_metric_put(out, name, &labels, value);
    br_buf_free(&labels);
}

/* Of the memory that weights leave on the device where the model's weights are; the fullest one's, if on several. */
static double kv_usage(const struct br_service *s, uint32_t model)
{
    double most = 0;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct sched_device *d = &s->devices[i];
        double kv = (double)d->transfers.device_kv_bytes;
        double room = (double)d->memory_bytes - (double)d->transfers.device_weight_bytes;
        if (d->used && d->places[model].resident_bytes && room > 0 && kv / room > most)
            most = kv / room;
    }
    return most < 1 ? most : 1;
}

static void put_queues(struct br_service *s, struct br_buf *out)
{
    struct model_queue *q = queues(s);
    uint32_t n = br_models_count(s->models);
    br_metric_family(out, "vllm:num_requests_running", "gauge", "Sequences on devices that have made a token.");
    for (uint32_t i = 0; i < n; i++)
        put_model(s, out, i, "vllm:num_requests_running", q[i].running);
    br_metric_family(out, "vllm:num_requests_waiting", "gauge", "Sequences that wait for their first step.");
    for (uint32_t i = 0; i < n; i++)
        put_model(s, out, i, "vllm:num_requests_waiting", q[i].waiting);
    br_metric_family(out, "vllm:kv_cache_usage_perc", "gauge", "KV on the model's device; 1: all that weights leave.");
    for (uint32_t i = 0; i < n; i++)
        put_model(s, out, i, "vllm:kv_cache_usage_perc", kv_usage(s, i));
    br_metric_family(out, "briareus_model_request_rate", "gauge", "Requests a second expected of the model.");
    for (uint32_t i = 0; i < n; i++)
        put_model(s, out, i, "briareus_model_request_rate", br_fleet_rate(s->fleet, i, br_now_s()));
    free(q);
}

/* ---- devices ---- */

static void device_labels(struct br_buf *labels, const struct sched_device *d)
{
    char number[16];
    br_buf_clear(labels);
    snprintf(number, sizeof number, "%u", d->number);
    br_metric_label(labels, "node", d->node);
    br_metric_label(labels, "device", number);
}

static double of_steps(struct br_service *s, const struct sched_device *d)
{
    (void)s;
    return (double)d->total.steps;
}

static double of_switches(struct br_service *s, const struct sched_device *d)
{
    (void)s;
    return (double)d->total.switches;
}

static double of_compute(struct br_service *s, const struct sched_device *d)
{
    (void)s;
    return d->total.compute_s;
}

static double of_stall(struct br_service *s, const struct sched_device *d)
{
    (void)s;
    return d->total.stalled_s;
}

static double of_wall(struct br_service *s, const struct sched_device *d)
{
    (void)s;
    return d->total.wall_s;
}

static double of_up(struct br_service *s, const struct sched_device *d)
{
    (void)s;
    return d->peer != NULL;
}

static double of_memory(struct br_service *s, const struct sched_device *d)
{
    (void)s;
    return (double)d->memory_bytes;
}

static double of_utilisation(struct br_service *s, const struct sched_device *d)
{
    return br_fleet_utilisation(s->fleet, (uint32_t)(d - s->devices));
}

static const struct {
    const char *name, *type, *help;
    double (*value)(struct br_service *s, const struct sched_device *d);
} device_rows[] = {
    {"briareus_device_up", "gauge", "1: its worker is connected.", of_up},
    {"briareus_device_memory_bytes", "gauge", "Memory of the device.", of_memory},
    {"briareus_device_utilisation_ratio", "gauge", "Part of the device that its sequences need.", of_utilisation},
    {"briareus_steps_total", "counter", "Steps since the device's process started.", of_steps},
    {"briareus_switches_total", "counter", "Steps of another model than the last one's.", of_switches},
    {"briareus_compute_seconds_total", "counter", "Seconds in which it computed.", of_compute},
    {"briareus_stalled_seconds_total", "counter", "Seconds with work and no computing, all causes.", of_stall},
    {"briareus_device_seconds_total", "counter", "Seconds since the device's process started.", of_wall},
};

static void put_devices(struct br_service *s, struct br_buf *out)
{
    struct br_buf labels = {0};
    for (size_t i = 0; i < sizeof device_rows / sizeof *device_rows; i++) {
        br_metric_family(out, device_rows[i].name, device_rows[i].type, device_rows[i].help);
        for (uint32_t d = 0; d < s->n_devices; d++) {
            if (!s->devices[d].used)
                continue;
            device_labels(&labels, &s->devices[d]);
            br_metric_put(out, device_rows[i].name, &labels, device_rows[i].value(s, &s->devices[d]));
        }
    }
    br_buf_free(&labels);
}

/* ---- what memory costs: proto/transfers.h has the list ---- */

static void put_transfer(struct br_service *s, const struct br_transfer_counter *counter, const char *name,
                         struct br_buf *out)
{
    struct br_buf labels = {0};
    for (uint32_t d = 0; d < s->n_devices; d++) {
        if (!s->devices[d].used)
            continue;
        device_labels(&labels, &s->devices[d]);
        if (*counter->label)
            br_buf_printf(&labels, ",%s", counter->label);
        br_metric_put(out, name, &labels, br_transfer_value(&s->devices[d].transfers, counter));
    }
    br_buf_free(&labels);
}

static void put_transfers(struct br_service *s, struct br_buf *out)
{
    uint32_t n;
    const struct br_transfer_counter *counters = br_transfer_counters(&n);
    char name[96] = "", before[96] = "";
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "briareus_%s", counters[i].metric);
        if (strcmp(name, before) != 0)
            br_metric_family(out, name, br_transfer_is_gauge(&counters[i]) ? "gauge" : "counter", counters[i].help);
        put_transfer(s, &counters[i], name, out);
        strcpy(before, name);
    }
}

/* ---- models on devices ---- */

static double of_resident(const struct sched_place *p)
{
    return (double)p->resident_bytes;
}

static double of_waiting(const struct sched_place *p)
{
    return p->waiting;
}

static double of_running(const struct sched_place *p)
{
    return p->running;
}

static const struct {
    const char *name, *help;
    double (*value)(const struct sched_place *p);
} place_rows[] = {
    {"briareus_resident_weights_bytes", "Bytes of the model's weights on the device.", of_resident},
    {"briareus_slot_waiting", "Sequences there without a token from there.", of_waiting},
    {"briareus_slot_running", "Sequences there with a token from there.", of_running},
};

static void put_place_row(const struct br_service *s, size_t row, struct br_buf *out)
{
    struct br_buf labels = {0};
    for (uint32_t d = 0; d < s->n_devices; d++)
        for (uint32_t m = 0; s->devices[d].used && m < br_models_count(s->models); m++) {
            if (!s->devices[d].places[m].serves)
                continue;
            device_labels(&labels, &s->devices[d]);
            br_metric_label(&labels, "model_name", br_models_at(s->models, m)->name);
            br_metric_put(out, place_rows[row].name, &labels, place_rows[row].value(&s->devices[d].places[m]));
        }
    br_buf_free(&labels);
}

static void put_totals(struct br_service *s, struct br_buf *out)
{
    br_metric_family(out, "briareus_unfinished_sequences", "gauge", "Accepted and not ended.");
    br_metric_put(out, "briareus_unfinished_sequences", NULL, seqtab_count(s->seqs));
    br_metric_family(out, "briareus_unfinished_limit", "gauge", "More get 429.");
    br_metric_put(out, "briareus_unfinished_limit", NULL, s->config.max_unfinished);
    br_metric_family(out, "briareus_queue_up", "gauge", "1: Redis answers.");
    br_metric_put(out, "briareus_queue_up", NULL, s->queue->ops->healthy(s->queue));
}

void service_metrics(void *ctx, struct br_buf *out)
{
    struct br_service *s = ctx;
    put_totals(s, out);
    put_queues(s, out);
    put_devices(s, out);
    put_transfers(s, out);
    for (size_t i = 0; i < sizeof place_rows / sizeof *place_rows; i++) {
        br_metric_family(out, place_rows[i].name, "gauge", place_rows[i].help);
        put_place_row(s, i, out);
    }
}
