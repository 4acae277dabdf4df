#include "traffic/draws.h"

#include <math.h>

#include "base/rng.h"

double br_draw_unit(struct br_draws *draws)
{
    return br_rng_unit(draws->seed, draws->model, draws->next++, draws->purpose);
}

double br_draw_exp(struct br_draws *draws)
{
    return -log1p(-br_draw_unit(draws));
}

double br_draw_normal(struct br_draws *draws)
{
    double radius = sqrt(2 * br_draw_exp(draws));
    return radius * cos(2 * M_PI * br_draw_unit(draws));
}

static double gamma_from_one(struct br_draws *draws, double shape)
{
    double d = shape - 1 / 3.0, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = br_draw_normal(draws), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        if (-br_draw_exp(draws) < x * x / 2 + d * (1 - v + log(v)))
            return d * v;
    }
}

double br_draw_gamma(struct br_draws *draws, double shape)
{
    if (shape >= 1)
        return gamma_from_one(draws, shape);
    double whole = gamma_from_one(draws, shape + 1);
    return whole * exp(-br_draw_exp(draws) / shape); /* U = exp(-E) */
}
