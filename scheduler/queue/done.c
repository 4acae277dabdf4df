#include "scheduler/queue/done.h"

#include <stdlib.h>

void br_done_call(const struct br_done *done)
{
    if (done->accept)
        done->accept(done->ctx, done->rc, done->arrival_us, done->fence);
    else if (done->lease)
        done->lease(done->ctx, done->rc, done->fence);
    else
        done->plain(done->ctx, done->rc);
}

void br_done_list_init(struct br_done_list *list, uv_loop_t *loop)
{
    uv_idle_init(loop, &list->idle);
    list->idle.data = list;
    list->head = NULL;
    list->tail = &list->head;
    list->n = 0;
}

/* Only what waits now: what the callbacks add waits for the next turn. One of them may close the list. */
static void list_deliver(struct br_done_list *list)
{
    for (uint32_t left = list->n; left && list->head; left--) {
        struct br_done *done = list->head;
        list->head = done->next;
        if (!list->head)
            list->tail = &list->head;
        list->n--;
        br_done_call(done);
        free(done);
    }
}

static void list_on_idle(uv_idle_t *idle)
{
    struct br_done_list *list = idle->data;
    list_deliver(list);
    if (!list->head)
        uv_idle_stop(idle);
}

void br_done_later(struct br_done_list *list, const struct br_done *done)
{
    struct br_done *copy = br_malloc(sizeof *copy);
    *copy = *done;
    copy->next = NULL;
    *list->tail = copy;
    list->tail = &copy->next;
    list->n++;
    if (!uv_is_closing((uv_handle_t *)&list->idle))
        uv_idle_start(&list->idle, list_on_idle);
}

void br_done_list_close(struct br_done_list *list, uv_close_cb on_closed)
{
    while (list->head)
        list_deliver(list);
    uv_close((uv_handle_t *)&list->idle, on_closed);
}
