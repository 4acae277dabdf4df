#include "worker/weights/huge.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "worker/weights/image_books.h"
#include "worker/weights/memory.h"

enum { IDLE_NICE = 19 };

struct br_huge_job {
    struct br_weight_store *store;
    pthread_t thread;
    _Atomic bool stop;
    uint64_t bytes, huge;
};

/* It must not be dropped meanwhile: its hole in the file would be filled again. */
static void unit_collapse(struct br_huge_job *job, const struct br_weight_image *image, uint32_t unit)
{
    uint64_t bytes = br_layout_unit_bytes(&image->layout, unit);
    if (bytes < BR_HUGE_PAGE || !image_use_begin(image, unit))
        return;
    job->bytes += bytes;
    job->huge += br_memory_collapse((unsigned char *)br_weight_image_unit(image, unit), bytes); // NOLINT: they stay
    image_use_end(image, unit);
}

static void image_collapse(struct br_huge_job *job, const struct br_weight_image *image)
{
    for (uint32_t u = 0; u < image->layout.units && !job->stop; u++)
        unit_collapse(job, image, u);
}

static void *job_main(void *arg)
{
    struct br_huge_job *job = arg;
    int64_t from = br_now_ns();
    setpriority(PRIO_PROCESS, 0, IDLE_NICE); /* on Linux: of this thread alone */
    for (const struct br_weight_image *i = job->store->images; i && !job->stop; i = i->books->next)
        if (!br_weight_image_huge_bytes(i))
            image_collapse(job, i);
    br_log(BR_INFO, "cache_huge_pages", "moved=%" PRIu64 " of=%" PRIu64 " seconds=%.3f%s", job->huge, job->bytes,
           (double)(br_now_ns() - from) / 1e9,
           job->bytes && !job->huge ? " why=\"the kernel (before 6.1) or the file system moves none\"" : "");
    return NULL;
}

struct br_huge_job *br_huge_start(struct br_weight_store *store)
{
    struct br_huge_job *job = br_calloc(1, sizeof *job);
    job->store = store;
    if (pthread_create(&job->thread, NULL, job_main, job) == 0)
        return job;
    free(job);
    return NULL;
}

uint64_t br_huge_end(struct br_huge_job *job, bool now)
{
    uint64_t huge;
    if (!job)
        return 0;
    job->stop = now;
    pthread_join(job->thread, NULL);
    huge = job->huge;
    free(job);
    return huge;
}
