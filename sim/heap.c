#include "sim/heap.h"

#include <assert.h>

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_s != b->at_s ? a->at_s < b->at_s : a->serial < b->serial;
}

void sim_heap_push(struct sim_heap *heap, double at_s, uint32_t kind, uint32_t index)
{
    assert(heap->n < heap->room);
    struct sim_event e = {at_s, heap->next++, kind, index};
    uint32_t i = heap->n++;
    for (; i > 0 && before(&e, &heap->events[(i - 1) / 2]); i = (i - 1) / 2)
        heap->events[i] = heap->events[(i - 1) / 2];
    heap->events[i] = e;
}

bool sim_heap_pop(struct sim_heap *heap, struct sim_event *out)
{
    if (heap->n == 0)
        return false;
    *out = heap->events[0];
    struct sim_event e = heap->events[--heap->n];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n && before(&heap->events[child + 1], &heap->events[child]))
            child++;
        if (!before(&heap->events[child], &e))
            break;
        heap->events[i] = heap->events[child];
    }
    heap->events[i] = e;
    return true;
}
