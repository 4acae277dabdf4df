/* Requests in a trace (report/trace.h): from acceptance to end, a row each; inside, its wait for the first token and
 * its stream; marks say to which device it went. */
#include <stdio.h>

#include "report/trace.h"
#include "scheduler/service_impl.h"

enum { GROUP = 1000 }; /* behind the devices */
static const char WAITS[] = "waits for its first token", STREAMS[] = "streams";

static void name_of(const struct sched_seq *seq, char *out, size_t room)
{
    snprintf(out, room, "%s, %u in, at most %u out", seq->spec.model, seq->spec.n_prompt, seq->spec.max_tokens);
}

void service_trace_begin(struct br_service *s)
{
    if (!s->config.trace)
        return;
    br_trace_group(s->config.trace, GROUP, "requests");
    br_trace_flush(s->config.trace);
}

void service_trace_accepted(struct br_service *s, const struct sched_seq *seq)
{
    char name[BR_MAX_MODEL_NAME + 64];
    if (!s->config.trace)
        return;
    double at_s = br_trace_at_s(s->config.trace, seq->arrived_ns);
    name_of(seq, name, sizeof name);
    br_trace_begin(s->config.trace, GROUP, seq->spec.id, name, at_s);
    br_trace_begin(s->config.trace, GROUP, seq->spec.id, seq->n_tokens ? STREAMS : WAITS, at_s);
}

void service_trace_assigned(struct br_service *s, const struct sched_seq *seq)
{
    char name[96];
    if (!s->config.trace)
        return;
    const struct sched_device *d = &s->devices[seq->device];
    snprintf(name, sizeof name, "to device %u of %s", d->number, d->node);
    br_trace_mark(s->config.trace, GROUP, seq->spec.id, name, br_trace_at_s(s->config.trace, br_now_ns()));
}

void service_trace_streams(struct br_service *s, const struct sched_seq *seq)
{
    if (!s->config.trace)
        return;
    double now_s = br_trace_at_s(s->config.trace, br_now_ns());
    br_trace_end(s->config.trace, GROUP, seq->spec.id, WAITS, now_s);
    br_trace_begin(s->config.trace, GROUP, seq->spec.id, STREAMS, now_s);
}

void service_trace_ended(struct br_service *s, const struct sched_seq *seq)
{
    char name[BR_MAX_MODEL_NAME + 64];
    if (!s->config.trace)
        return;
    double now_s = br_trace_at_s(s->config.trace, br_now_ns());
    name_of(seq, name, sizeof name);
    br_trace_end(s->config.trace, GROUP, seq->spec.id, seq->n_tokens ? STREAMS : WAITS, now_s);
    br_trace_mark(s->config.trace, GROUP, seq->spec.id, br_end_name(seq->end), now_s);
    br_trace_end(s->config.trace, GROUP, seq->spec.id, name, now_s);
}
