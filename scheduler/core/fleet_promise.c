#include "scheduler/core/fleet_promise.h"

#include <math.h>

enum { PLACES = 16384, CHAINS = 16384 };

/* Not back so long after its time: it will not come. */
static const double GRACE_S = 5;
/* Clocks and rounding of clients. */
static const double EARLY_S = .25;

struct promise {
    uint64_t key;
    double due_s;
    uint32_t device;
    int32_t prev, next; /* of its device, in order of due_s; of free ones: next */
    int32_t chain;      /* of those with the same hash */
};

struct queue {
    int32_t first, last;
    double last_due_s; /* also of one that has come since */
};

struct fleet_promises {
    struct promise places[PLACES];
    int32_t chains[CHAINS];
    int32_t free;
    struct queue queues[];
};

size_t fleet_promises_bytes(uint32_t max_devices)
{
    return sizeof(struct fleet_promises) + max_devices * sizeof(struct queue);
}

void fleet_promises_init(struct fleet_promises *p, uint32_t max_devices)
{
    p->free = 0;
    for (int32_t i = 0; i < PLACES; i++)
        p->places[i].next = i + 1 < PLACES ? i + 1 : -1;
    for (int32_t i = 0; i < CHAINS; i++)
        p->chains[i] = -1;
    for (uint32_t d = 0; d < max_devices; d++)
        p->queues[d] = (struct queue){.first = -1, .last = -1};
}

static int32_t *chain_of(struct fleet_promises *p, uint64_t key)
{
    return &p->chains[(key ^ key >> 32) % CHAINS];
}

static int32_t find(struct fleet_promises *p, uint64_t key)
{
    int32_t i = *chain_of(p, key);
    while (i >= 0 && p->places[i].key != key)
        i = p->places[i].chain;
    return i;
}

static void leave(struct fleet_promises *p, int32_t i)
{
    struct promise *at = &p->places[i];
    struct queue *q = &p->queues[at->device];
    int32_t *link = chain_of(p, at->key);
    while (*link != i)
        link = &p->places[*link].chain;
    *link = at->chain;
    *(at->prev >= 0 ? &p->places[at->prev].next : &q->first) = at->next;
    *(at->next >= 0 ? &p->places[at->next].prev : &q->last) = at->prev;
    at->next = p->free;
    p->free = i;
}

static void expire(struct fleet_promises *p, uint32_t device, double now_s)
{
    const struct queue *q = &p->queues[device];
    while (q->first >= 0 && p->places[q->first].due_s + GRACE_S < now_s)
        leave(p, q->first);
}

bool fleet_promised(struct fleet_promises *p, uint64_t key, double now_s, double *in_s)
{
    int32_t i = find(p, key);
    if (i >= 0 && p->places[i].due_s + GRACE_S < now_s) {
        leave(p, i);
        i = -1;
    }
    if (i < 0)
        return false;
    *in_s = p->places[i].due_s - now_s;
    *in_s -= *in_s < EARLY_S ? EARLY_S : 0;
    return true;
}

void fleet_promise_kept(struct fleet_promises *p, uint64_t key)
{
    int32_t i = find(p, key);
    if (i >= 0)
        leave(p, i);
}

static void enter(struct fleet_promises *p, uint64_t key, uint32_t device, double due_s)
{
    struct queue *q = &p->queues[device];
    int32_t i = p->free, *chain = chain_of(p, key);
    if (i < 0)
        return;
    p->free = p->places[i].next;
    p->places[i] =
        (struct promise){.key = key, .due_s = due_s, .device = device, .prev = q->last, .next = -1, .chain = *chain};
    *chain = i;
    *(q->last >= 0 ? &p->places[q->last].next : &q->first) = i;
    q->last = i;
}

double fleet_promise(struct fleet_promises *p, uint64_t key, uint32_t device, double now_s, double gap_s,
                     double least_s)
{
    struct queue *q = &p->queues[device];
    double due_s;
    expire(p, device, now_s);
    due_s = fmax(now_s + least_s, q->first >= 0 ? q->last_due_s + gap_s : 0);
    q->last_due_s = due_s;
    enter(p, key, device, due_s);
    return due_s - now_s;
}

uint32_t fleet_promises_due(struct fleet_promises *p, uint32_t device, double now_s, double within_s)
{
    uint32_t n = 0;
    expire(p, device, now_s);
    for (int32_t i = p->queues[device].first; i >= 0 && p->places[i].due_s <= now_s + within_s; i = p->places[i].next)
        n++;
    return n;
}
