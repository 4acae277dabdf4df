/* Parts of the pool that share its inside; no policy calls them. */
#ifndef BRIAREUS_SCHEDULER_CORE_POLICIES_POOL_EVENTS_H
#define BRIAREUS_SCHEDULER_CORE_POLICIES_POOL_EVENTS_H

#include "scheduler/core/policies/pool_books.h"

/* pool_step.c: the step is over; `all`: every item ran. */
void pl_stepped(struct br_pool *pool, struct br_pl_device *d, bool all);
void pl_item_stepped(struct br_pool *pool, const struct br_pl_event *event);
/* The sequence leaves the step that is being done, as if it had not been in it. */
void pl_item_remove(struct br_pool *pool, uint32_t seq);
/* pool_load.c: the chunk of weights or, without whole_kv, of KV is over; `came` bytes of it at most are there. */
void pl_loaded(struct br_pool *pool, struct br_pl_device *d, int64_t came);
void pl_load_abort(struct br_pool *pool, struct br_pl_device *d);
/* whole_kv: a sequence whose KV was coming is not expected any more. */
void pl_coming_over(struct br_pool *pool, const struct br_pl_seq *q);

/* pool.c: the policy assigns a queued sequence, refuses it, or leaves it. */
void pl_place(struct br_pool *pool, uint32_t seq);
/* pool_move.c */
void pl_take(struct br_pool *pool, uint32_t seq);
void pl_put(struct br_pool *pool, uint32_t seq, struct br_pl_slot *s, enum br_pl_state state);
void pl_count(struct br_pool *pool, struct br_pl_slot *s, const struct br_pl_seq *q, int by); /* its part in counts */
void pl_hold(struct br_pool *pool, struct br_pl_slot *s); /* after any change of the slot */
int64_t pl_kv_bytes(const struct br_pool *pool, const struct br_pl_seq *q);
void pl_shrink(struct br_pool *pool, struct br_pl_slot *s,
               int64_t bytes); /* KV that was on the device is not any more */

/* pool_told.c, pool_change.c: events; false: not theirs. */
bool pl_told(struct br_pool *pool, const struct br_pl_event *event);
bool pl_changed(struct br_pool *pool, const struct br_pl_event *event);
/* What still has to be done of earlier changes. */
void pl_change_go_on(struct br_pool *pool);
void pl_serve_update(struct br_pool *pool, uint32_t device);
/* Which slots are served depends on which pinned weights are there. */
void pl_pin_changed(struct br_pool *pool, const struct br_pl_slot *s);

#endif
