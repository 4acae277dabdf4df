/* Ends of steps and loads; called by pool.c alone. */
#ifndef BRIAREUS_SCHEDULER_CORE_POLICIES_POOL_EVENTS_H
#define BRIAREUS_SCHEDULER_CORE_POLICIES_POOL_EVENTS_H

#include "scheduler/core/policies/pool.h"

void pl_stepped(struct br_pool *pool, struct br_pl_device *d);
void pl_loaded(struct br_pool *pool, struct br_pl_device *d);

#endif
