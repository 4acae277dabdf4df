/* What the device does, for a trace (report/trace.h): steps by model, copies in and out, and when it stood still. All
 * of it on the turn thread; nothing is done without a trace. */
#include <stdio.h>

#include "report/trace.h"
#include "worker/turn/internal.h"

enum turn_trace_row { ROW_STEPS, ROW_WEIGHTS, ROW_KV_IN, ROW_KV_OUT, ROW_STALLS };
static const char *const row_names[] = {"steps", "weights in", "KV in", "KV out", "stalls"};
static const int64_t SHORTEST_STALL_NS = 100000, SAME_STALL_NS = BR_NS_PER_MS;

static double at_s(const struct br_turn *t, int64_t ns)
{
    return br_trace_at_s(t->config.trace, ns);
}

static const char *model_name(const struct br_turn *t, uint32_t slot)
{
    return t->models[slot].info.name;
}

void turn_trace_begin(struct br_turn *t)
{
    char name[64];
    if (!t->config.trace)
        return;
    snprintf(name, sizeof name, "device %u: %s", t->config.trace_group, t->config.device.kind);
    br_trace_group(t->config.trace, t->config.trace_group, name);
    for (uint32_t row = 0; row < sizeof row_names / sizeof *row_names; row++)
        br_trace_row(t->config.trace, t->config.trace_group, row, row_names[row]);
    turn_trace_idle(t);
}

static uint32_t decodes_of(const struct turn_step *step)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < step->n; i++)
        n += step->items[i].n_ids == 1 && step->items[i].pos > 0;
    return n;
}

/* Before turn_count_step, which takes its slot for the last one's. */
void turn_trace_step(struct br_turn *t, double wall_s)
{
    const struct turn_step *step = &t->step;
    bool switched = t->last_slot >= 0 && t->last_slot != (int32_t)step->slot;
    if (!t->config.trace)
        return;
    uint32_t decodes = decodes_of(step);
    const struct br_trace_arg args[] = {{"decodes", NULL, decodes},
                                        {"prompt rows", NULL, step->rows - decodes},
                                        {"switched", switched ? "yes" : "no", 0},
                                        {"began before its weights were in", step->cold ? "yes" : "no", 0}};
    br_trace_slice(t->config.trace, t->config.trace_group, ROW_STEPS, model_name(t, step->slot),
                   step->rows > decodes ? "prefill" : "decode", at_s(t, step->start_ns), wall_s, args,
                   sizeof args / sizeof *args);
}

/* One direction carries one copy at a time, in the order in which they were asked for. */
static void copy(struct br_turn *t, enum turn_trace_row row, const char *what, uint32_t slot, int64_t from_ns,
                 uint64_t bytes)
{
    int64_t now_ns = br_now_ns(), *last_ns = &t->trace.copied_ns[row];
    const struct br_trace_arg arg = {"MB", NULL, (double)bytes / 1e6};
    char name[BR_MAX_MODEL_NAME + 16];
    if (!t->config.trace)
        return;
    from_ns = from_ns > *last_ns ? from_ns : *last_ns;
    *last_ns = now_ns;
    snprintf(name, sizeof name, "%s %s", what, model_name(t, slot));
    br_trace_slice(t->config.trace, t->config.trace_group, row, name, "link", at_s(t, from_ns),
                   (double)(now_ns - from_ns) / 1e9, &arg, 1);
}

void turn_trace_load(struct br_turn *t, const struct turn_load *load)
{
    copy(t, ROW_WEIGHTS, "load", load->slot, load->from_ns, load->moving_bytes);
}

void turn_trace_swap(struct br_turn *t, const struct turn_swap *swap)
{
    copy(t, swap->out ? ROW_KV_OUT : ROW_KV_IN, swap->out ? "swap out" : "swap in", swap->slot, swap->from_ns,
         swap->bytes);
}

void turn_trace_evict(struct br_turn *t, uint32_t slot)
{
    char name[BR_MAX_MODEL_NAME + 16];
    if (!t->config.trace)
        return;
    snprintf(name, sizeof name, "evict %s", model_name(t, slot));
    br_trace_instant(t->config.trace, t->config.trace_group, ROW_WEIGHTS, name, at_s(t, br_now_ns()));
}

static void stall_end(struct br_turn *t)
{
    struct turn_trace *s = &t->trace;
    char name[BR_MAX_MODEL_NAME + 16] = "waits for KV";
    if (s->stall_to_ns - s->stall_from_ns >= SHORTEST_STALL_NS) {
        if (s->stall_slot >= 0)
            snprintf(name, sizeof name, "waits for %s", model_name(t, (uint32_t)s->stall_slot));
        br_trace_slice(t->config.trace, t->config.trace_group, ROW_STALLS, name, "stall", at_s(t, s->stall_from_ns),
                       (double)(s->stall_to_ns - s->stall_from_ns) / 1e9, NULL, 0);
    }
    s->stall_from_ns = s->stall_to_ns = 0;
}

/* The thread waits in pieces; what follows each other for the same reason is one stall. */
void turn_trace_wait(struct br_turn *t, int64_t from_ns, int64_t to_ns)
{
    struct turn_trace *s = &t->trace;
    int32_t slot = t->n_loads ? (int32_t)t->loads[0].slot : -1;
    if (!t->config.trace)
        return;
    if (slot != s->stall_slot || from_ns - s->stall_to_ns > SAME_STALL_NS)
        stall_end(t);
    if (!t->n_loads && !t->n_swaps && !t->moving)
        return; /* nothing is under way: it only looks again later */
    if (!s->stall_from_ns)
        s->stall_from_ns = from_ns;
    s->stall_slot = slot;
    s->stall_to_ns = to_ns;
}

/* Nothing is to be done: what is known is written down, since it may be long before more comes. */
void turn_trace_idle(struct br_turn *t)
{
    if (!t->config.trace)
        return;
    stall_end(t);
    br_trace_flush(t->config.trace);
}
