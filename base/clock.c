#include "base/clock.h"

#include <time.h>

static int64_t clock_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * BR_NS_PER_S + ts.tv_nsec;
}

int64_t br_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

double br_now_s(void)
{
    return (double)br_now_ns() * 1e-9;
}

int64_t br_wall_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}
