#include "base/backoff.h"

static const double g_first_s = 0.1, g_max_s = 5, g_healthy_s = 3;

double br_backoff_s(struct br_backoff *backoff, double alive_s)
{
    double wait_s = alive_s >= g_healthy_s ? 0 : backoff->next_s;
    backoff->next_s = wait_s == 0 ? g_first_s : wait_s * 2 < g_max_s ? wait_s * 2 : g_max_s;
    return wait_s;
}
