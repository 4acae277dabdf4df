/* Who was refused, and when each may come back: a queue at each device of those that have been told a time. One that
 * comes when it was told goes before whoever comes for the first time; who comes much later has lost its place.
 * Bounded; when all places are taken a time is told and no place kept. Internal to scheduler/core. */
#ifndef BRIAREUS_SCHEDULER_CORE_FLEET_PROMISE_H
#define BRIAREUS_SCHEDULER_CORE_FLEET_PROMISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fleet_promises;

size_t fleet_promises_bytes(uint32_t max_devices);
void fleet_promises_init(struct fleet_promises *p, uint32_t max_devices);
/* When it may come back, of one that is in a queue: seconds from now, below 0 when that is past. False: it is not. */
bool fleet_promised(struct fleet_promises *p, uint64_t key, double now_s, double *in_s);
/* It has come: its place is free. */
void fleet_promise_kept(struct fleet_promises *p, uint64_t key);
/* To the end of the device's queue, `gap_s` behind the one before it and `least_s` from now at least. Returns in how
 * many seconds. */
double fleet_promise(struct fleet_promises *p, uint64_t key, uint32_t device, double now_s, double gap_s,
                     double least_s);
/* How many have been told to come to the device within `within_s` and have not come yet. */
uint32_t fleet_promises_due(struct fleet_promises *p, uint32_t device, double now_s, double within_s);

#endif
