/* Answers to orders about models, from the turn thread to the loop. */
#ifndef BRIAREUS_WORKER_NODE_ANSWERS_H
#define BRIAREUS_WORKER_NODE_ANSWERS_H

#include "worker/turn/turn.h"

struct answers;

struct answers *answers_create(void);
void answers_free(struct answers *answers);
void answers_push(struct answers *answers, const struct br_turn_done *done); /* any thread; copies */
/* Calls fn with all that are there, in order. */
void answers_take(struct answers *answers, void (*fn)(void *ctx, const struct br_turn_done *done), void *ctx);

#endif
