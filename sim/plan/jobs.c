#include "sim/plan/jobs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"

enum { MAX_THREADS = 64 };

struct jobs {
    uint32_t n;
    int (*run)(void *ctx, uint32_t index, struct br_err *err);
    void *ctx;
    atomic_uint next;
    atomic_bool failed;
    struct br_err *errs; /* [n]; code 0: well */
};

static void *work(void *arg)
{
    struct jobs *j = arg;
    uint32_t i;
    while (!atomic_load(&j->failed) && (i = atomic_fetch_add(&j->next, 1)) < j->n)
        if (j->run(j->ctx, i, &j->errs[i]) < 0)
            atomic_store(&j->failed, true);
        else
            j->errs[i].code = 0;
    return NULL;
}

/* The caller works too; a thread that cannot be had is not needed. */
static void work_together(struct jobs *j, uint32_t n_threads)
{
    pthread_t threads[MAX_THREADS];
    uint32_t n = 0;
    while (n + 1 < n_threads && n + 1 < j->n && n < MAX_THREADS && pthread_create(&threads[n], NULL, work, j) == 0)
        n++;
    work(j);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

int plan_jobs(uint32_t n, uint32_t n_threads, int (*run)(void *ctx, uint32_t index, struct br_err *err), void *ctx,
              struct br_err *err)
{
    struct jobs j = {.n = n, .run = run, .ctx = ctx, .errs = br_calloc(n + 1, sizeof *j.errs)};
    int rc = 0;
    work_together(&j, n_threads);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        if ((rc = j.errs[i].code) != 0)
            *err = j.errs[i];
    free(j.errs);
    return rc;
}
