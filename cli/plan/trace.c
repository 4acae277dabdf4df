#include "cli/plan/trace.h"

#include <math.h>
#include <stdio.h>

#include "cli/plan/write.h"
#include "report/trace.h"

enum { ROW_STEPS, ROW_LINK, ROW_STALLS, N_ROWS };

static void rows_name(struct br_trace *trace, const struct plan_timeline *t)
{
    char name[160];
    for (uint32_t d = 0; d < t->n_devices; d++) {
        snprintf(name, sizeof name, "device %u: %u x %s", d, t->kind.tp, t->kind.gpu->name);
        br_trace_group(trace, d, name);
        br_trace_row(trace, d, ROW_STEPS, "steps");
        br_trace_row(trace, d, ROW_LINK, "link");
        br_trace_row(trace, d, ROW_STALLS, "stalls");
    }
    snprintf(name, sizeof name, "requests (%s)", t->policy);
    br_trace_group(trace, t->n_devices, name);
}

static void step_write(struct br_trace *trace, const struct plan_span *s, const char *model)
{
    const struct br_trace_arg args[] = {{"decodes", NULL, s->decodes},
                                        {"prompt rows", NULL, s->prefill},
                                        {"switched", s->switched ? "yes" : "no", 0},
                                        {"began before its weights were in", s->streamed ? "yes" : "no", 0}};
    br_trace_slice(trace, s->device, ROW_STEPS, model, s->prefill ? "prefill" : "decode", s->from_s,
                   s->to_s - s->from_s, args, sizeof args / sizeof *args);
}

static void span_write(struct br_trace *trace, const struct plan_span *s, const char *model)
{
    static const char *const kinds[] = {"step", "load", "swap in", "evict", "swap out", "waits for"};
    const struct br_trace_arg bytes = {"GB", NULL, s->bytes / 1e9};
    char name[128];
    if (s->kind == PLAN_SPAN_STEP) {
        step_write(trace, s, model);
        return;
    }
    snprintf(name, sizeof name, "%s %s", kinds[s->kind], model);
    if (s->kind == PLAN_SPAN_STALL)
        br_trace_slice(trace, s->device, ROW_STALLS, name, "stall", s->from_s, s->to_s - s->from_s, NULL, 0);
    else if (s->kind == PLAN_SPAN_LOAD || s->kind == PLAN_SPAN_SWAP)
        br_trace_slice(trace, s->device, ROW_LINK, name, "link", s->from_s, s->to_s - s->from_s, &bytes, 1);
    else
        br_trace_instant(trace, s->device, ROW_LINK, name, s->from_s);
}

/* What goes on at an end of the window is cut there. */
static void part_write(struct br_trace *trace, const struct plan_timeline *t, uint64_t id, const char *name,
                       double from_s, double to_s)
{
    from_s = fmax(from_s, t->from_s);
    to_s = fmin(to_s, t->to_s); /* NAN: the window's end */
    if (!(from_s < to_s))
        return;
    br_trace_begin(trace, t->n_devices, id, name, from_s);
    br_trace_end(trace, t->n_devices, id, name, to_s);
}

static void life_write(struct br_trace *trace, const struct plan_timeline *t, uint64_t id, const struct plan_life *life,
                       const char *model)
{
    char name[160];
    double from_s = fmax(life->arrived_s, t->from_s), to_s = fmin(life->ended_s, t->to_s);
    double first_s = fmin(life->first_s, life->ended_s);
    if (!(from_s < to_s))
        return;
    snprintf(name, sizeof name, "%s, %u in, %u out%s", model, life->prompt, life->output, life->lost ? ", lost" : "");
    br_trace_begin(trace, t->n_devices, id, name, from_s);
    part_write(trace, t, id, "waits for its first token", life->arrived_s, first_s);
    if (isfinite(life->first_s))
        part_write(trace, t, id, "streams", life->first_s, life->ended_s);
    br_trace_end(trace, t->n_devices, id, name, to_s);
}

int plan_trace_write(const struct plan_ask *ask, const struct plan_timeline *t, const char *path, struct br_err *err)
{
    struct br_trace *trace;
    struct plan_out out;
    plan_out_begin(path, &out);
    int rc = br_trace_open(out.part, &trace, err);
    if (rc < 0)
        return rc;
    rows_name(trace, t);
    for (uint32_t i = 0; i < t->n_spans; i++)
        span_write(trace, &t->spans[i], ask->models[t->spans[i].model].name);
    for (uint32_t i = 0; i < t->n_lives; i++)
        life_write(trace, t, i + 1, &t->lives[i], ask->models[t->lives[i].model].name);
    return plan_out_end(&out, br_trace_close(trace, err), err);
}
