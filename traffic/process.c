#include "traffic/process.h"

#include <math.h>
#include <string.h>

#include "base/options.h"

static const double MAX_RATE = 1e6, MIN_SHAPE = .01, MAX_SHAPE = 1000;

static const char *const g_names[] = {
    [BR_PROCESS_POISSON] = "poisson", [BR_PROCESS_GAMMA] = "gamma",       [BR_PROCESS_WEIBULL] = "weibull",
    [BR_PROCESS_MMPP] = "mmpp",       [BR_PROCESS_CONSTANT] = "constant", [BR_PROCESS_RAMP] = "ramp",
    [BR_PROCESS_WINDOWS] = "windows",
};
enum { N_KINDS = sizeof g_names / sizeof g_names[0] };

int br_process_kind_parse(const char *name, enum br_process_kind *out, struct br_err *err)
{
    const char *near;
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(name, g_names[i]) == 0) {
            *out = (enum br_process_kind)i;
            return 0;
        }
    near = br_nearest(name, g_names, N_KINDS);
    return br_err_set(err, BR_EINVAL, "no arrival process '%.40s'; %s%s%s", name,
                      near ? "did you mean '" : "there are ",
                      near ? near : "poisson, gamma, weibull, mmpp, constant, ramp, windows", near ? "'?" : "");
}

const char *br_process_kind_name(enum br_process_kind kind)
{
    return g_names[kind];
}

static int field_check(const char *name, double value, double min, double max, struct br_err *err)
{
    if (value >= min && value <= max)
        return 0;
    return br_err_set(err, BR_EINVAL, "%s = %g: must be a number from %g to %g", name, value, min, max);
}

/* Far fewer than one request a cycle is Poisson to the eye, and every state in between would have to be drawn. */
static int mmpp_check(const struct br_process *p, struct br_err *err)
{
    int rc = field_check("burst length in s", p->burst_s, 1e-3, 1e9, err);
    if (!rc)
        rc = field_check("calm length in s", p->calm_s, 1e-3, 1e9, err);
    if (!rc)
        rc = field_check("peak (rate in a burst over the mean rate)", p->peak, 1, 1 + p->calm_s / p->burst_s, err);
    if (!rc && p->rate > 0 && p->rate * (p->burst_s + p->calm_s) < 1e-4)
        rc = br_err_set(err, BR_EINVAL, "%g requests in a calm and a burst together: fewer than 1e-4; use poisson",
                        p->rate * (p->burst_s + p->calm_s));
    return rc;
}

static int window_check(const struct br_process *p, uint32_t i, struct br_err *err)
{
    const struct br_window *w = &p->windows[i];
    double earliest = i ? w[-1].end_s : 0;
    int rc;
    if (!(w->start_s >= earliest && w->end_s > w->start_s && w->end_s <= 1e12))
        return br_err_set(err, BR_EINVAL,
                          "window %u from %g s to %g s: has to end after its start, which is not before %g s", i,
                          w->start_s, w->end_s, earliest);
    if (w->kind != BR_PROCESS_POISSON && w->kind != BR_PROCESS_GAMMA && w->kind != BR_PROCESS_WEIBULL &&
        w->kind != BR_PROCESS_CONSTANT)
        return br_err_set(err, BR_EINVAL, "window %u: must be poisson, gamma, weibull or constant", i);
    rc = field_check("rate in requests/s", w->rate, 0, MAX_RATE, err);
    if (!rc && (w->kind == BR_PROCESS_GAMMA || w->kind == BR_PROCESS_WEIBULL))
        rc = field_check("shape", w->shape, MIN_SHAPE, MAX_SHAPE, err);
    return rc ? br_err_wrap(err, "window %u", i) : 0;
}

static int windows_check(const struct br_process *p, struct br_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < p->n_windows; i++)
        rc = window_check(p, i, err);
    return rc;
}

int br_process_check(const struct br_process *p, struct br_err *err)
{
    int rc;
    if (p->kind == BR_PROCESS_WINDOWS)
        return windows_check(p, err);
    rc = field_check("rate in requests/s", p->rate, 0, MAX_RATE, err);
    if (!rc && (p->kind == BR_PROCESS_GAMMA || p->kind == BR_PROCESS_WEIBULL))
        rc = field_check("shape (burstiness)", p->shape, MIN_SHAPE, MAX_SHAPE, err);
    if (!rc && p->kind == BR_PROCESS_RAMP)
        rc = field_check("end rate in requests/s", p->end_rate, 0, MAX_RATE, err);
    if (!rc && p->kind == BR_PROCESS_RAMP)
        rc = field_check("ramp in s", p->ramp_s, 1e-3, 1e9, err);
    if (!rc && p->kind == BR_PROCESS_MMPP)
        rc = mmpp_check(p, err);
    return rc;
}

/* Integral of the rate: a t + (b - a) t^2 / 2T up to T, then b. */
static double ramp_count(const struct br_process *p, double t_s)
{
    double t = fmin(t_s, p->ramp_s);
    return p->rate * t + (p->end_rate - p->rate) * t * t / (2 * p->ramp_s) + p->end_rate * (t_s - t);
}

static double windows_count(const struct br_process *p, double t_s)
{
    double n = 0;
    for (uint32_t i = 0; i < p->n_windows && p->windows[i].start_s < t_s; i++)
        n += p->windows[i].rate * (fmin(p->windows[i].end_s, t_s) - p->windows[i].start_s);
    return n;
}

double br_process_count(const struct br_process *p, double t_s)
{
    if (p->kind == BR_PROCESS_RAMP)
        return ramp_count(p, t_s);
    return p->kind == BR_PROCESS_WINDOWS ? windows_count(p, t_s) : p->rate * t_s;
}

void br_process_scale(struct br_process *p, double factor)
{
    p->rate *= factor;
    p->end_rate *= factor;
}
