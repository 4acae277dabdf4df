/* Whether new requests would be served, and by what: GET /health/ready and GET /running. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/service_impl.h"

/* Everything that a device at work counts up, whatever it is doing; seconds pass also when nothing is done. */
static double device_count(const struct sched_device *d)
{
    double sum = (double)d->total.steps + (double)d->total.switches;
    uint32_t n;
    const struct br_transfer_counter *counters = br_transfer_counters(&n);
    for (uint32_t i = 0; i < n; i++)
        sum += counters[i].seconds ? 0 : br_transfer_value(&d->transfers, &counters[i]);
    return sum;
}

void service_device_progress(const struct br_service *s, struct sched_device *d)
{
    double count = device_count(d);
    bool idle = true;
    for (uint32_t m = 0; m < br_models_count(s->models); m++)
        idle = idle && d->places[m].waiting + d->places[m].running == 0;
    if (idle || count != d->progress)
        d->progress_ns = br_now_ns();
    d->progress = count;
}

/* Sequences whose clients do not read are nobody's fault. */
static bool device_owes(const struct br_service *s, uint32_t device)
{
    for (uint32_t i = 0; i < seqtab_max(s->seqs); i++) {
        const struct sched_seq *seq = seqtab_at(s->seqs, i);
        if (seq && seq->state == SCHED_RUNNING && seq->device == (int32_t)device && !seq->paused)
            return true;
    }
    return false;
}

static bool device_hung(const struct br_service *s, uint32_t device)
{
    const struct sched_device *d = &s->devices[device];
    double still_s = (double)(br_now_ns() - d->progress_ns) * 1e-9;
    return s->config.hung_s > 0 && still_s > s->config.hung_s && device_owes(s, device);
}

const char *service_unready(void *ctx)
{
    struct br_service *s = ctx;
    uint32_t up = 0, hung = 0, last = 0;
    if (!s->queue->ops->healthy(s->queue))
        return "the queue (Redis) does not answer";
    for (uint32_t i = 0; i < s->n_devices; i++) {
        if (!s->devices[i].in_fleet || !s->devices[i].peer)
            continue;
        up++;
        if (device_hung(s, i)) {
            hung++;
            last = i;
        }
    }
    if (up > hung)
        return NULL;
    if (hung == 0)
        return "no device is connected";
    snprintf(s->why, sizeof s->why,
             "%u of %u devices have work and make no progress, the last of them device %u of %s for %.0f s", hung, up,
             s->devices[last].number, s->devices[last].node,
             (double)(br_now_ns() - s->devices[last].progress_ns) * 1e-9);
    return s->why;
}

/* A model's state is that of the device where it is furthest. */
static json_t *model_running(const struct br_service *s, uint32_t model)
{
    json_int_t bytes = 0, waiting = 0, running = 0, devices = 0;
    bool loading = false;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct sched_place *p = s->devices[i].places ? &s->devices[i].places[model] : NULL;
        if (!p || !p->serves || !s->devices[i].peer || (!p->resident_bytes && !p->waiting && !p->running))
            continue;
        devices++;
        bytes += (json_int_t)p->resident_bytes;
        waiting += p->waiting;
        running += p->running;
        loading = loading || p->loading;
    }
    if (devices == 0)
        return NULL;
    return json_pack("{s:s,s:s,s:I,s:I,s:I,s:I}", "model", br_models_at(s->models, model)->name, "state",
                     loading || bytes == 0 ? "loading" : "ready", "devices", devices, "resident_bytes", bytes,
                     "waiting", waiting, "running", running);
}

void service_running(void *ctx, struct br_buf *out)
{
    const struct br_service *s = ctx;
    json_t *list = json_array();
    char *text;
    for (uint32_t m = 0; m < br_models_count(s->models); m++) {
        json_t *one = model_running(s, m);
        if (one)
            json_array_append_new(list, one);
    }
    text = json_dumps(list, JSON_COMPACT);
    br_buf_puts(out, text ? text : "[]");
    free(text);
    json_decref(list);
}
