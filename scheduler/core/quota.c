#include "scheduler/core/quota.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* alpha - S without the cancellation. */
static double spare(const struct quota_round *round, double quota_max_s)
{
    return larger(round->c / (round->min_n * quota_max_s), 0.5 - round->sum);
}

void quota_add(struct quota_round *round, double n, double load_s)
{
    round->c += load_s;
    round->sum += 1 / n;
    if (round->min_n <= 0 || n < round->min_n)
        round->min_n = n;
}

double quota_alpha(const struct quota_round *round, double quota_max_s)
{
    return round->sum + spare(round, quota_max_s);
}

double quota_turn_s(const struct quota_round *round, double quota_max_s, double n, double step_s)
{
    if (round->c <= 0)
        return step_s;
    return larger(round->c / (n * spare(round, quota_max_s)), step_s);
}
