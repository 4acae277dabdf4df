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

/* Heavier ones come first, with request-sjf shorter ones in the queues, then older ones. */
static bool after_it(const struct br_pool *pool, const struct br_pl_seq *a, const struct br_pl_seq *b)
{
    if (a->weight < b->weight || a->weight > b->weight)
        return a->weight < b->weight;
    if (pool->policy->by_length && b->state == BR_PL_QUEUED && a->output != b->output)
        return a->output > b->output;
    return a->arrival_s > b->arrival_s;
}

/* From the end: what comes is almost always the youngest. */
void pl_insert(struct br_pool *pool, struct br_pl_list *list, uint32_t seq)
{
    int32_t after = list->last;
    while (after >= 0 && after_it(pool, &pool->seqs[after], &pool->seqs[seq]))
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
