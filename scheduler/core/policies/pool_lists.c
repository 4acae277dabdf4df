#include "scheduler/core/policies/pool_books.h"

static void list_link(struct br_pool *pool, struct br_pl_list *list, int32_t seq, int32_t after)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    q->prev = after;
    q->next = after < 0 ? list->first : pool->seqs[after].next;
    if (q->next >= 0)
        pool->seqs[q->next].prev = seq;
    else
        list->last = seq;
    if (after >= 0)
        pool->seqs[after].next = seq;
    else
        list->first = seq;
    list->n++;
}

/* From the end: what comes is almost always the youngest. */
void pl_insert(struct br_pool *pool, struct br_pl_list *list, uint32_t seq)
{
    int32_t after = list->last;
    while (after >= 0 && pool->seqs[after].arrival_s > pool->seqs[seq].arrival_s)
        after = pool->seqs[after].prev;
    list_link(pool, list, (int32_t)seq, after);
}

void pl_unlink(struct br_pool *pool, struct br_pl_list *list, uint32_t seq)
{
    struct br_pl_seq *q = &pool->seqs[seq];
    if (q->prev >= 0)
        pool->seqs[q->prev].next = q->next;
    else
        list->first = q->next;
    if (q->next >= 0)
        pool->seqs[q->next].prev = q->prev;
    else
        list->last = q->prev;
    list->n--;
}
