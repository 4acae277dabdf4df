/* The event heap: by time, and equal times in the order in which they were put in. */
#ifndef BRIAREUS_SIM_HEAP_H
#define BRIAREUS_SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct sim_event {
    double at_s;
    uint64_t serial; /* set by sim_heap_push */
    uint32_t kind, index;
};

struct sim_heap {
    struct sim_event *events; /* [room], the caller's */
    uint32_t n, room;
    uint64_t next;
};

void sim_heap_push(struct sim_heap *heap, double at_s, uint32_t kind, uint32_t index);
bool sim_heap_pop(struct sim_heap *heap, struct sim_event *out);

#endif
