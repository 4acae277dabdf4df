/* Answers to orders about models, from the turn thread to the loop. */
#ifndef BRIAREUS_WORKER_NODE_ANSWERS_H
#define BRIAREUS_WORKER_NODE_ANSWERS_H

#include "proto/convert.h"
#include "worker/turn/turn.h"

struct answers;

struct answers *answers_create(void);
void answers_free(struct answers *answers);
void answers_push(struct answers *answers, const struct br_turn_done *done); /* any thread; copies */
/* Sends all that are there, in order; one that cannot be sent is lost: who asked knows that the connection broke. */
void answers_send(struct answers *answers, void (*send)(void *ctx, const Briareus__Frame *frame), void *ctx);

#endif
