/* What every implementation of the queue must do. */
#ifndef BRIAREUS_TESTS_QUEUE_CONFORMANCE_H
#define BRIAREUS_TESTS_QUEUE_CONFORMANCE_H

#include <uv.h>

#include "scheduler/queue/queue.h"

/* Makes an empty queue on the loop. */
typedef struct br_queue *(*conformance_create)(uv_loop_t *loop);
int conformance_run(conformance_create create);

#endif
