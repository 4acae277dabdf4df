#include "worker/device/cpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "worker/device/cpu/cpu.h"

enum { SPIN_ROUNDS = 4000 }; /* about 20-60 us: longer than the gap between two kernels of a step */

struct helper {
    struct cpu_pool *pool;
    pthread_t thread;
    void *scratch;
};

struct cpu_pool {
    uint32_t threads;
    uint64_t scratch_bytes;
    struct helper *helper; /* [threads]; helper[0] only lends its scratch to the caller */
    pthread_mutex_t job_lock;

    /* The job. state is (generation << 32 | next task): a thread owns a task when its compare-and-swap moves next on,
     * which fails if the generation has changed since it read the fields. */
    _Atomic uint64_t state;
    _Atomic uint32_t tasks, done;
    _Atomic(cpu_task_fn *) run;
    _Atomic(const void *) job;

    pthread_mutex_t sleep_lock;
    pthread_cond_t work, finished;
    atomic_uint sleepers;
    atomic_bool caller_sleeps, quit;
};

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static bool pool_has_work(struct cpu_pool *pool)
{
    return (uint32_t)atomic_load(&pool->state) < atomic_load(&pool->tasks);
}

static void pool_task_done(struct cpu_pool *pool, uint32_t tasks)
{
    if (atomic_fetch_add(&pool->done, 1) + 1 < tasks || !atomic_load(&pool->caller_sleeps))
        return;
    pthread_mutex_lock(&pool->sleep_lock);
    pthread_cond_signal(&pool->finished);
    pthread_mutex_unlock(&pool->sleep_lock);
}

/* Takes and runs tasks until none is left. */
static void pool_work(struct cpu_pool *pool, void *scratch)
{
    for (;;) {
        uint64_t state = atomic_load(&pool->state);
        uint32_t tasks = atomic_load(&pool->tasks), next = (uint32_t)state;
        cpu_task_fn *run = atomic_load(&pool->run);
        const void *job = atomic_load(&pool->job);
        if (next >= tasks)
            return;
        if (!atomic_compare_exchange_weak(&pool->state, &state, state + 1))
            continue;
        run(job, next, scratch);
        pool_task_done(pool, tasks);
    }
}

static void helper_sleep(struct cpu_pool *pool)
{
    pthread_mutex_lock(&pool->sleep_lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!pool_has_work(pool) && !atomic_load(&pool->quit))
        pthread_cond_wait(&pool->work, &pool->sleep_lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->sleep_lock);
}

static void *helper_main(void *arg)
{
    struct helper *helper = arg;
    struct cpu_pool *pool = helper->pool;
    while (!atomic_load(&pool->quit)) {
        pool_work(pool, helper->scratch);
        int spins = 0;
        while (!pool_has_work(pool) && spins++ < SPIN_ROUNDS)
            cpu_relax();
        if (spins > SPIN_ROUNDS)
            helper_sleep(pool);
    }
    return NULL;
}

static void pool_wake(struct cpu_pool *pool)
{
    if (!atomic_load(&pool->sleepers))
        return;
    pthread_mutex_lock(&pool->sleep_lock);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->sleep_lock);
}

static void pool_wait_finished(struct cpu_pool *pool, uint32_t tasks)
{
    for (int spins = 0; atomic_load(&pool->done) < tasks && spins < SPIN_ROUNDS; spins++)
        cpu_relax();
    if (atomic_load(&pool->done) == tasks)
        return;
    pthread_mutex_lock(&pool->sleep_lock);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->done) < tasks)
        pthread_cond_wait(&pool->finished, &pool->sleep_lock);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->sleep_lock);
}

/* Fields first, state last: while they change, next >= tasks of the old generation keeps helpers away. tasks shrinks
 * to 0 before anything else so that no mixture of old and new looks like work. */
static void pool_publish(struct cpu_pool *pool, cpu_task_fn *run, const void *job, uint32_t tasks)
{
    uint64_t generation = (atomic_load(&pool->state) >> 32) + 1;
    atomic_store(&pool->tasks, 0);
    atomic_store(&pool->state, generation << 32);
    atomic_store(&pool->done, 0);
    atomic_store(&pool->run, run);
    atomic_store(&pool->job, job);
    atomic_store(&pool->tasks, tasks);
}

void cpu_pool_run(struct cpu_pool *pool, cpu_task_fn *run, const void *job, uint32_t tasks)
{
    pthread_mutex_lock(&pool->job_lock);
    if (pool->threads == 1 || tasks == 1) {
        for (uint32_t i = 0; i < tasks; i++)
            run(job, i, pool->helper[0].scratch);
    } else if (tasks > 0) {
        pool_publish(pool, run, job, tasks);
        pool_wake(pool);
        pool_work(pool, pool->helper[0].scratch);
        pool_wait_finished(pool, tasks);
    }
    pthread_mutex_unlock(&pool->job_lock);
}

uint32_t cpu_pool_threads(const struct cpu_pool *pool)
{
    return pool->threads;
}

static void pool_stop(struct cpu_pool *pool, uint32_t started)
{
    pthread_mutex_lock(&pool->sleep_lock);
    atomic_store(&pool->quit, true);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->sleep_lock);
    for (uint32_t i = 1; i < started; i++)
        pthread_join(pool->helper[i].thread, NULL);
}

static void pool_free(struct cpu_pool *pool)
{
    for (uint32_t i = 0; i < pool->threads; i++)
        if (pool->helper[i].scratch)
            cpu_unmap(pool->helper[i].scratch, pool->scratch_bytes);
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->sleep_lock);
    pthread_mutex_destroy(&pool->job_lock);
    free(pool->helper);
    free(pool);
}

static struct cpu_pool *pool_alloc(uint32_t threads, uint64_t scratch_bytes)
{
    struct cpu_pool *pool = br_calloc(1, sizeof *pool);
    pool->threads = threads;
    pool->scratch_bytes = scratch_bytes;
    pool->helper = br_calloc(threads, sizeof *pool->helper);
    pthread_mutex_init(&pool->job_lock, NULL);
    pthread_mutex_init(&pool->sleep_lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->finished, NULL);
    return pool;
}

int cpu_pool_create(uint32_t threads, uint64_t scratch_bytes, struct cpu_pool **out, struct br_err *err)
{
    struct cpu_pool *pool = pool_alloc(threads, scratch_bytes);
    for (uint32_t i = 0; i < threads; i++) {
        struct helper *helper = &pool->helper[i];
        helper->pool = pool;
        helper->scratch = cpu_map(scratch_bytes, NULL);
        if (!helper->scratch || (i > 0 && pthread_create(&helper->thread, NULL, helper_main, helper))) {
            pool_stop(pool, i);
            pool_free(pool);
            return br_err_set(err, BR_ENOMEM, "cannot start compute thread %u of %u", i, threads);
        }
    }
    *out = pool;
    return 0;
}

void cpu_pool_destroy(struct cpu_pool *pool)
{
    pool_stop(pool, pool->threads);
    pool_free(pool);
}
