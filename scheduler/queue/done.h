/* One call's answer on its way back to the caller. Private to scheduler/queue. */
#ifndef BRIAREUS_SCHEDULER_QUEUE_DONE_H
#define BRIAREUS_SCHEDULER_QUEUE_DONE_H

#include "scheduler/queue/queue.h"

struct br_done {
    struct br_done *next;
    br_queue_accept_cb accept; /* one of these three is set */
    br_queue_lease_cb lease;
    br_queue_cb plain;
    void *ctx;
    int rc;
    int64_t arrival_us;
    uint64_t fence;
};

void br_done_call(const struct br_done *done);

/* Answers that are known inside the call and must come from the loop: bounded by what is called within one turn. */
struct br_done_list {
    uv_idle_t idle;
    struct br_done *head, **tail;
    uint32_t n;
};

void br_done_list_init(struct br_done_list *list, uv_loop_t *loop);
void br_done_later(struct br_done_list *list, const struct br_done *done); /* copied */
/* Delivers what waits, then closes the handle; on_closed may be NULL. */
void br_done_list_close(struct br_done_list *list, uv_close_cb on_closed);

#endif
