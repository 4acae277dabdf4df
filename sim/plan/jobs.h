/* The same function over 0..n-1 on a few threads. Results go by index, so they do not depend on who was faster. */
#ifndef BRIAREUS_SIM_PLAN_JOBS_H
#define BRIAREUS_SIM_PLAN_JOBS_H

#include <stdint.h>

#include "base/err.h"

/* run returns 0 or < 0 with *err; after an error no new index begins and the first one's (by index) is returned. */
int plan_jobs(uint32_t n, uint32_t n_threads, int (*run)(void *ctx, uint32_t index, struct br_err *err), void *ctx,
              struct br_err *err);

#endif
