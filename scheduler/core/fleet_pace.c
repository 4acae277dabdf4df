/* What devices and models have shown: how fast tokens come beside how fast they have to, how long answers are, how
 * often sequences end. None of it needs to know what a step costs. */
#include <math.h>

#include "scheduler/core/fleet_books.h"

/* A device is judged by its last seconds, once it has had work for some of them. */
static const double PACE_S = 5, PACE_LEAST_S = 1.5;
static const double LENGTH_SHARE = .05, GAP_SHARE = .1;
enum { LENGTH_UNKNOWN = 256 };

/* Up to now it had n sequences; what is long ago fades. */
static void pace_settle(struct fleet_device *d, double now_s)
{
    double gone_s = now_s - d->at_s, fade = exp(-gone_s / PACE_S);
    if (!(gone_s > 0))
        return;
    d->need_s = d->need_s * fade + d->n * PACE_S * (1 - fade);
    d->made_s *= fade;
    d->at_s = now_s;
}

void fleet_pace_count(struct br_fleet *fleet, int32_t device, double now_s, int by)
{
    struct fleet_device *d;
    if (device < 0)
        return;
    d = &fleet->devices[device];
    pace_settle(d, now_s);
    d->n += (uint32_t)by;
}

void fleet_pace_tokens(struct br_fleet *fleet, double now_s, uint32_t seq, uint32_t delivered)
{
    struct fleet_seq *q = &fleet->seqs[seq];
    if (delivered <= q->delivered)
        return;
    if (q->device >= 0) {
        pace_settle(&fleet->devices[q->device], now_s);
        fleet->devices[q->device].made_s += (delivered - q->delivered) * fleet->pool->seqs[seq].tbt_s;
    }
    q->delivered = delivered;
}

double fleet_pace_util(struct br_fleet *fleet, uint32_t device, double now_s)
{
    struct fleet_device *d = &fleet->devices[device];
    pace_settle(d, now_s);
    return d->need_s > PACE_LEAST_S && d->made_s > 0 ? d->need_s / d->made_s : INFINITY;
}

void fleet_pace_end(struct br_fleet *fleet, double now_s, uint32_t seq)
{
    const struct fleet_seq *q = &fleet->seqs[seq];
    struct fleet_model *m = &fleet->models[q->model];
    struct fleet_device *d = q->device >= 0 ? &fleet->devices[q->device] : NULL;
    if (q->delivered)
        m->length = m->length > 0 ? m->length + LENGTH_SHARE * (q->delivered - m->length) : q->delivered;
    if (!d)
        return;
    if (d->last_end_s > 0)
        d->gap_s = d->gap_s > 0 ? d->gap_s + GAP_SHARE * (now_s - d->last_end_s - d->gap_s) : now_s - d->last_end_s;
    d->last_end_s = now_s;
}

double fleet_length(const struct br_fleet *fleet, uint32_t model, uint32_t most)
{
    double length = fleet->models[model].length > 0 ? fleet->models[model].length : LENGTH_UNKNOWN;
    return most && most < length ? most : length;
}

/* Of one that is longer than usual already, a quarter of what is usual is still to come. */
double fleet_left(const struct br_fleet *fleet, uint32_t seq)
{
    const struct fleet_seq *q = &fleet->seqs[seq];
    double length = fleet_length(fleet, q->model, q->most), left = length - q->delivered;
    left = left > length / 4 ? left : length / 4;
    return q->most && left > q->most - q->delivered ? fmax(q->most - (double)q->delivered, 1) : fmax(left, 1);
}
