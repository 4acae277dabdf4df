/* A pool's timeline as a trace for Perfetto. Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_TRACE_H
#define BRIAREUS_CLI_PLAN_TRACE_H

#include "sim/plan/timeline.h"

/* A group of three rows a device (steps by model; loads, swaps and evictions; stalls) and a group with a row a request,
 * from arrival to end, its wait for the first token and its stream inside. The file is there whole or not at all. */
int plan_trace_write(const struct plan_ask *ask, const struct plan_timeline *timeline, const char *path,
                     struct br_err *err);

#endif
