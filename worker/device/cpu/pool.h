/* Compute threads that share out the tasks of one job. Tasks write disjoint outputs, so who runs which does not
 * matter. Idle helpers spin for a moment, then sleep. */
#ifndef BRIAREUS_WORKER_DEVICE_CPU_POOL_H
#define BRIAREUS_WORKER_DEVICE_CPU_POOL_H

#include "base/err.h"

#include <stdint.h>

struct cpu_pool;
/* scratch: the running thread's own scratch memory. */
typedef void cpu_task_fn(const void *job, uint32_t task, void *scratch);

/* threads - 1 helpers are started: the caller of cpu_pool_run is the remaining one. */
int cpu_pool_create(uint32_t threads, uint64_t scratch_bytes, struct cpu_pool **out, struct br_err *err);
void cpu_pool_destroy(struct cpu_pool *pool);
uint32_t cpu_pool_threads(const struct cpu_pool *pool);
/* Runs tasks 0 .. tasks-1 and returns when all are done. Callable from several threads; one job runs at a time. */
void cpu_pool_run(struct cpu_pool *pool, cpu_task_fn *run, const void *job, uint32_t tasks);

#endif
