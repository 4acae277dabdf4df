#include "scheduler/queue/refusal.h"

#include "base/err.h"

const char *br_queue_refusal(int rc)
{
    switch (rc) {
    case BR_ENOMEM:
        return "the request was not stored: the queue (Redis) is full; try again later, or raise its maxmemory "
               "(briareus serve: --redis-memory)";
    case BR_EBUSY:
        return "the request was not stored: too many calls of the queue (Redis) wait for their answers; try again "
               "later, or raise --max-unfinished";
    case BR_EIO:
        return "it is not known whether the request was stored: the queue (Redis) did not answer; its answer cannot be "
               "had any more, so send it again";
    default:
        return "the request was not stored: the queue (Redis) refused it; the scheduler's log says why";
    }
}
