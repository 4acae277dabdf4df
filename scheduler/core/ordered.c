#include "scheduler/core/ordered.h"

static uint32_t priority(int32_t i)
{
    uint32_t x = (uint32_t)i + 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

int ordered_compare(const struct ordered_key *a, const struct ordered_key *b)
{
    if (a->at < b->at || a->at > b->at)
        return a->at < b->at ? -1 : 1;
    return a->serial < b->serial ? -1 : a->serial > b->serial;
}

/* Puts `with` (may be -1) where i hangs below its parent. */
static void replace(struct ordered *set, struct ordered_node *nodes, int32_t i, int32_t with)
{
    int32_t parent = nodes[i].parent;
    if (parent < 0)
        set->root = with;
    else if (nodes[parent].left == i)
        nodes[parent].left = with;
    else
        nodes[parent].right = with;
    if (with >= 0)
        nodes[with].parent = parent;
}

/* Turns i above its parent. */
static void rotate_up(struct ordered *set, struct ordered_node *nodes, int32_t i)
{
    int32_t parent = nodes[i].parent, inner;
    replace(set, nodes, parent, i);
    if (nodes[parent].left == i) {
        inner = nodes[i].right;
        nodes[parent].left = inner;
        nodes[i].right = parent;
    } else {
        inner = nodes[i].left;
        nodes[parent].right = inner;
        nodes[i].left = parent;
    }
    nodes[parent].parent = i;
    if (inner >= 0)
        nodes[inner].parent = parent;
}

void ordered_init(struct ordered *set)
{
    *set = (struct ordered){.root = -1};
}

void ordered_add(struct ordered *set, struct ordered_node *nodes, int32_t i, struct ordered_key key)
{
    int32_t *link = &set->root, parent = -1;
    while (*link >= 0) {
        parent = *link;
        link = ordered_compare(&key, &nodes[parent].key) < 0 ? &nodes[parent].left : &nodes[parent].right;
    }
    *link = i;
    nodes[i] = (struct ordered_node){.left = -1, .right = -1, .parent = parent, .key = key};
    while (nodes[i].parent >= 0 && priority(nodes[i].parent) < priority(i))
        rotate_up(set, nodes, i);
    set->n++;
}

void ordered_remove(struct ordered *set, struct ordered_node *nodes, int32_t i)
{
    while (nodes[i].left >= 0 && nodes[i].right >= 0) {
        int32_t left = nodes[i].left, right = nodes[i].right;
        rotate_up(set, nodes, priority(left) > priority(right) ? left : right);
    }
    replace(set, nodes, i, nodes[i].left >= 0 ? nodes[i].left : nodes[i].right);
    set->n--;
}

int32_t ordered_first(const struct ordered *set, const struct ordered_node *nodes)
{
    int32_t i = set->root;
    while (i >= 0 && nodes[i].left >= 0)
        i = nodes[i].left;
    return i;
}

int32_t ordered_last(const struct ordered *set, const struct ordered_node *nodes)
{
    int32_t i = set->root;
    while (i >= 0 && nodes[i].right >= 0)
        i = nodes[i].right;
    return i;
}

int32_t ordered_next(const struct ordered_node *nodes, int32_t i)
{
    int32_t parent;
    if (nodes[i].right >= 0) {
        for (i = nodes[i].right; nodes[i].left >= 0;)
            i = nodes[i].left;
        return i;
    }
    for (parent = nodes[i].parent; parent >= 0 && nodes[parent].right == i; parent = nodes[i].parent)
        i = parent;
    return parent;
}

int32_t ordered_prev(const struct ordered_node *nodes, int32_t i)
{
    int32_t parent;
    if (nodes[i].left >= 0) {
        for (i = nodes[i].left; nodes[i].right >= 0;)
            i = nodes[i].right;
        return i;
    }
    for (parent = nodes[i].parent; parent >= 0 && nodes[parent].left == i; parent = nodes[i].parent)
        i = parent;
    return parent;
}
