/* `slack`, shared by its halves: the arithmetic of policy.md's chapter on it. */
#ifndef BRIAREUS_SCHEDULER_CORE_POLICIES_SLACK_H
#define BRIAREUS_SCHEDULER_CORE_POLICIES_SLACK_H

#include "scheduler/core/policies/pool_books.h"

/* Seconds until the slot will be needed: its key, or when it has no sequences a guess from its rate. */
double slack_next_use(const struct br_pool *pool, struct br_pl_slot *s, double now_s);

enum slack_force {
    SLACK_LATER, /* only from slots that are needed later */
    SLACK_ANY,   /* from any slot but the protected ones */
};
/* Evicts until `bytes` are free, for the slot; false, and nothing done, if that cannot be reached. Never from the slot
 * itself, the running slot, a chunk in flight or `spare` (may be NULL). */
bool slack_room(struct br_pool *pool, double now_s, struct br_pl_slot *target, int64_t bytes, enum slack_force force,
                const struct br_pl_slot *spare);

/* slack_load.c: the link of a device is idle. */
void slack_load(struct br_pool *pool, double now_s, uint32_t device);
/* Latest start of the slot's load, from now. */
double slack_lst(const struct br_pool *pool, struct br_pl_slot *s, double now_s);
/* slack_pick.c: a token boundary. */
void slack_pick(struct br_pool *pool, double now_s, uint32_t device);

#endif
