/* What a client is told when its request could not be accepted. */
#ifndef BRIAREUS_SCHEDULER_QUEUE_REFUSAL_H
#define BRIAREUS_SCHEDULER_QUEUE_REFUSAL_H

/* A sentence for what the callback of accept got as rc (not 0): whether the request is stored, why not, what to do. */
const char *br_queue_refusal(int rc);

#endif
