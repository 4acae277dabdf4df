/* Threads that share out jobs of many items, oldest job first: the items of the next job fill in while the last ones of
 * the one before still run. More threads than cores, since items wait for the disk. */
#ifndef BRIAREUS_WORKER_WEIGHTS_LOAD_POOL_H
#define BRIAREUS_WORKER_WEIGHTS_LOAD_POOL_H

#include "worker/weights/source.h"

struct br_load_pool;

/* A thread's own: what it reads, and what it makes of that. */
struct br_load_buffers {
    struct br_read_buffer in, out;
};

/* The caller's, and to stay where it is until `finish` is called. */
struct br_load_job {
    uint32_t items;                                                                       /* 1.. */
    void (*run)(struct br_load_job *job, uint32_t item, struct br_load_buffers *buffers); /* on any thread */
    void (*finish)(struct br_load_job *job); /* once, on the thread of the last item; may submit, and free the job */
    struct br_load_job *next;                /* the pool's, as are all below */
    uint32_t taken, done;
};

/* threads 0: twice as many as there are cores, 4 to 16. BR_ENOMEM: no thread could be started. */
int br_load_pool_create(uint32_t threads, struct br_load_pool **out, struct br_err *err);
void br_load_pool_destroy(struct br_load_pool *pool); /* after every job has finished */
uint32_t br_load_pool_threads(const struct br_load_pool *pool);

/* first: in front of what is waiting. Never blocks. */
void br_load_pool_submit(struct br_load_pool *pool, struct br_load_job *job, bool first);

#endif
