/* Ordered sets over one array of nodes; a node is in at most one of them. O(log n) each. A treap whose priorities are
 * a hash of the index, so that the same calls give the same tree. Internal to scheduler/core. */
#ifndef BRIAREUS_SCHEDULER_CORE_ORDERED_H
#define BRIAREUS_SCHEDULER_CORE_ORDERED_H

#include <stdint.h>

struct ordered_key {
    double at;       /* by time, then */
    uint64_t serial; /* by number; no two nodes of a set have the same */
};

struct ordered_node {
    int32_t left, right, parent; /* -1: none */
    struct ordered_key key;
};

struct ordered {
    int32_t root;
    uint32_t n;
};

void ordered_init(struct ordered *set);
void ordered_add(struct ordered *set, struct ordered_node *nodes, int32_t i, struct ordered_key key);
void ordered_remove(struct ordered *set, struct ordered_node *nodes, int32_t i);
/* -1: none. */
int32_t ordered_first(const struct ordered *set, const struct ordered_node *nodes);
int32_t ordered_last(const struct ordered *set, const struct ordered_node *nodes);
int32_t ordered_next(const struct ordered_node *nodes, int32_t i);
int32_t ordered_prev(const struct ordered_node *nodes, int32_t i);
/* < 0: a comes before b. */
int ordered_compare(const struct ordered_key *a, const struct ordered_key *b);

#endif
