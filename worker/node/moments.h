/* What the turn thread tells of traced sequences, on its way to the loop. Bounded: what finds no room is lost, as
 * traces may be. */
#ifndef BRIAREUS_WORKER_NODE_MOMENTS_H
#define BRIAREUS_WORKER_NODE_MOMENTS_H

#include "proto/worker.pb-c.h"
#include "worker/turn/turn.h"

enum { MOMENTS_MAX = 4096 };

struct moments;

struct moments *moments_create(void);
void moments_free(struct moments *moments);
void moments_push(struct moments *moments, const struct br_turn_moment *moment); /* the turn thread */
/* Hands out what has come since, as one frame; nothing when there is none. The loop. */
void moments_send(struct moments *moments, void (*send)(void *ctx, const Briareus__Frame *frame), void *ctx);

#endif
