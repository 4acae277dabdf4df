/* Clocks. Inside a process: monotonic nanoseconds. Times that outlive a process come from Redis TIME. */
#ifndef BRIAREUS_BASE_CLOCK_H
#define BRIAREUS_BASE_CLOCK_H

#include <stdint.h>

#define BR_NS_PER_S 1000000000ll
#define BR_NS_PER_MS 1000000ll

int64_t br_now_ns(void);  /* CLOCK_MONOTONIC */
double br_now_s(void);    /* the same, in seconds */
int64_t br_wall_ns(void); /* CLOCK_REALTIME: for log lines and `created` fields only */

#endif
