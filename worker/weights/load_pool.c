#include "worker/weights/load_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"

enum { MIN_THREADS = 4, MAX_THREADS = 16 };

struct br_load_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct br_load_job *head, *tail; /* jobs with items that nobody has taken */
    pthread_t *threads;
    uint32_t n_threads;
    bool quit;
};

/* Takes an item of the oldest job; NULL: the end. Holds the lock. */
static struct br_load_job *item_take(struct br_load_pool *p, uint32_t *item)
{
    struct br_load_job *job;
    while (!p->head && !p->quit)
        pthread_cond_wait(&p->work, &p->lock);
    job = p->head;
    if (!job)
        return NULL;
    *item = job->taken++;
    if (job->taken == job->items) {
        p->head = job->next;
        if (!p->head)
            p->tail = NULL;
    }
    return job;
}

static void *pool_main(void *arg)
{
    struct br_load_pool *p = arg;
    struct br_load_buffers buffers = {0};
    struct br_load_job *job;
    uint32_t item;
    pthread_mutex_lock(&p->lock);
    while ((job = item_take(p, &item))) {
        bool last;
        pthread_mutex_unlock(&p->lock);
        job->run(job, item, &buffers);
        pthread_mutex_lock(&p->lock);
        last = ++job->done == job->items;
        if (!last)
            continue;
        pthread_mutex_unlock(&p->lock);
        job->finish(job);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    br_read_buffer_free(&buffers.in);
    br_read_buffer_free(&buffers.out);
    return NULL;
}

static uint32_t threads_choose(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = cores > 0 ? 2 * (uint32_t)cores : MIN_THREADS;
    return n < MIN_THREADS ? MIN_THREADS : n > MAX_THREADS ? MAX_THREADS : n;
}

int br_load_pool_create(uint32_t threads, struct br_load_pool **out, struct br_err *err)
{
    struct br_load_pool *p = br_calloc(1, sizeof *p);
    uint32_t want = threads ? threads : threads_choose();
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    p->threads = br_calloc(want, sizeof *p->threads);
    while (p->n_threads < want && pthread_create(&p->threads[p->n_threads], NULL, pool_main, p) == 0)
        p->n_threads++;
    if (p->n_threads == 0) {
        br_load_pool_destroy(p);
        return br_err_set(err, BR_ENOMEM, "cannot start a thread that reads weights: raise the limit of processes");
    }
    *out = p;
    return 0;
}

void br_load_pool_destroy(struct br_load_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_threads; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->threads);
    free(p);
}

uint32_t br_load_pool_threads(const struct br_load_pool *p)
{
    return p->n_threads;
}

void br_load_pool_submit(struct br_load_pool *p, struct br_load_job *job, bool first)
{
    job->next = NULL;
    job->taken = job->done = 0;
    pthread_mutex_lock(&p->lock);
    if (first) {
        job->next = p->head;
        p->head = job;
        if (!p->tail)
            p->tail = job;
    } else {
        if (p->tail)
            p->tail->next = job;
        else
            p->head = job;
        p->tail = job;
    }
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}
