/* One direction of the capped host<->device link, shared by all streams: chunks reserve time on it one after another.
 */
#ifndef BRIAREUS_WORKER_DEVICE_CPU_LINK_H
#define BRIAREUS_WORKER_DEVICE_CPU_LINK_H

#include <pthread.h>
#include <stdint.h>

struct cpu_link {
    pthread_mutex_t lock;
    double bytes_per_ns; /* 0: no cap */
    double free_at_ns;   /* when everything reserved so far has passed */
};

void cpu_link_init(struct cpu_link *link, uint64_t bytes_per_s);
void cpu_link_destroy(struct cpu_link *link);
/* Copies at the link's rate; it must be capped. */
void cpu_link_copy(struct cpu_link *link, char *dst, const char *src, uint64_t bytes);

#endif
