/* The iterator over a process. */
#include <math.h>

#include "traffic/process.h"

/* A gap of mean 1. Weibull: E^(1/shape) / Gamma(1 + 1/shape). */
static double unit_gap(struct br_draws *draws, enum br_process_kind kind, double shape)
{
    int sign;
    switch (kind) {
    case BR_PROCESS_GAMMA:
        return br_draw_gamma(draws, shape) / shape;
    case BR_PROCESS_WEIBULL:
        return exp(log(br_draw_exp(draws)) / shape - lgamma_r(1 + 1 / shape, &sign));
    case BR_PROCESS_CONSTANT:
        return 1;
    default:
        return br_draw_exp(draws);
    }
}

/* The gap that covers t = 0, of which a uniform share is still to come: its density is x f(x) / mean. For gamma that is
 * gamma of shape + 1; for Weibull, x = scale * Y^(1/shape), Y is gamma of shape 1 + 1/shape. */
static double unit_covering_gap(struct br_draws *draws, enum br_process_kind kind, double shape)
{
    int sign;
    switch (kind) {
    case BR_PROCESS_GAMMA:
        return br_draw_gamma(draws, shape + 1) / shape;
    case BR_PROCESS_WEIBULL:
        return exp(log(br_draw_gamma(draws, 1 + 1 / shape)) / shape - lgamma_r(1 + 1 / shape, &sign));
    case BR_PROCESS_CONSTANT:
        return 1;
    default:
        return br_draw_gamma(draws, 2);
    }
}

static double first_gap(struct br_draws *draws, enum br_process_kind kind, double shape)
{
    double gap = unit_covering_gap(draws, kind, shape);
    return gap * br_draw_unit(draws);
}

static double next_renewal(struct br_arrivals *a)
{
    const struct br_process *p = &a->process;
    double gap = a->started ? unit_gap(&a->draws, p->kind, p->shape) : first_gap(&a->draws, p->kind, p->shape);
    a->started = true;
    return a->at_s + gap / p->rate;
}

/* Inversion: the t at which the integral of the rate has grown by an exponential of mean 1. */
static double next_ramp(struct br_arrivals *a)
{
    const struct br_process *p = &a->process;
    double target = br_process_count(p, a->at_s) + br_draw_exp(&a->draws);
    double whole = br_process_count(p, p->ramp_s), slope = (p->end_rate - p->rate) / p->ramp_s, t;
    if (target < whole)
        t = 2 * target / (p->rate + sqrt(fmax(0, p->rate * p->rate + 2 * slope * target)));
    else
        t = p->end_rate > 0 ? p->ramp_s + (target - whole) / p->end_rate : INFINITY;
    return fmax(t, a->at_s);
}

static double mmpp_rate(const struct br_process *p, bool burst)
{
    double calm = p->rate * (p->burst_s + p->calm_s - p->peak * p->burst_s) / p->calm_s;
    return burst ? p->rate * p->peak : fmax(0, calm);
}

/* The exponential gap has no memory: one that crosses a change of state is drawn anew from there. */
static double next_mmpp(struct br_arrivals *a)
{
    const struct br_process *p = &a->process;
    double at_s = a->at_s;
    if (!a->started) {
        a->burst = br_draw_unit(&a->draws) < p->burst_s / (p->burst_s + p->calm_s);
        a->until_s = br_draw_exp(&a->draws) * (a->burst ? p->burst_s : p->calm_s);
        a->started = true;
    }
    for (;;) {
        double next_s = at_s + br_draw_exp(&a->draws) / mmpp_rate(p, a->burst);
        if (next_s < a->until_s)
            return next_s;
        at_s = a->until_s;
        a->burst = !a->burst;
        a->until_s += br_draw_exp(&a->draws) * (a->burst ? p->burst_s : p->calm_s);
    }
}

static double next_windows(struct br_arrivals *a)
{
    for (; a->window < a->process.n_windows; a->window++, a->started = false) {
        const struct br_window *w = &a->process.windows[a->window];
        double gap, next_s;
        if (w->rate <= 0)
            continue;
        gap = a->started ? unit_gap(&a->draws, w->kind, w->shape) : first_gap(&a->draws, w->kind, w->shape);
        next_s = (a->started ? a->at_s : w->start_s) + gap / w->rate;
        a->started = true;
        if (next_s < w->end_s)
            return next_s;
    }
    return INFINITY;
}

void br_arrivals_init(struct br_arrivals *arrivals, const struct br_process *process, uint64_t seed, uint32_t model)
{
    *arrivals =
        (struct br_arrivals){.process = *process, .draws = {.seed = seed, .model = model, .purpose = BR_DRAW_ARRIVAL}};
}

double br_arrivals_next(struct br_arrivals *a)
{
    const struct br_process *p = &a->process;
    if (p->kind == BR_PROCESS_WINDOWS)
        a->at_s = next_windows(a);
    else if (p->kind == BR_PROCESS_RAMP)
        a->at_s = next_ramp(a);
    else if (p->rate <= 0)
        a->at_s = INFINITY;
    else
        a->at_s = p->kind == BR_PROCESS_MMPP ? next_mmpp(a) : next_renewal(a);
    return a->at_s;
}

uint32_t br_arrivals_fill(struct br_arrivals *arrivals, double until_s, double *at_s, uint32_t room)
{
    uint32_t n = 0;
    while (n < room) {
        double next_s = br_arrivals_next(arrivals);
        if (next_s >= until_s)
            break;
        at_s[n++] = next_s;
    }
    return n;
}
