#include "worker/turn/kv_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/buf.h"
#include "base/clock.h"

enum { MOST_BYTES = 8 << 20 /* of one read or write */ };

struct kv_disk {
    struct kv_disk_config config;
    char *path;
    int fd;
    uint64_t *sums; /* by a block's offset / least_block */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    struct kv_disk_job *first, **last;
    bool stopping;
};

static int transfer(struct kv_disk *d, bool write, unsigned char *at, uint64_t offset, uint64_t bytes,
                    struct br_err *err)
{
    while (bytes) {
        size_t most = bytes < MOST_BYTES ? bytes : MOST_BYTES;
        off_t where = (off_t)(d->config.offset + offset);
        ssize_t n = write ? pwrite(d->fd, at, most, where) : pread(d->fd, at, most, where);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            return br_err_set(err, BR_EIO, "%s ends at byte %lld, where KV was written", d->path, (long long)where);
        if (n < 0)
            return br_err_errno(err, BR_EIO, "%s %" PRIu64 " bytes of KV at byte %lld of %s",
                                write ? "writing" : "reading", bytes, (long long)where, d->path);
        at += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

static uint64_t *sum_of(struct kv_disk *d, uint64_t offset)
{
    return &d->sums[offset / d->config.least_block];
}

static int blocks_verify(struct kv_disk *d, const struct kv_disk_job *job, const struct br_kv_copy *c,
                         struct br_err *err)
{
    for (uint64_t at = 0; at < c->bytes; at += job->block_bytes) {
        uint64_t sum = XXH3_64bits(d->config.host + c->host + at, job->block_bytes);
        if (sum != *sum_of(d, c->disk + at))
            return br_err_set(err, BR_ECORRUPT,
                              "a block of KV at byte %" PRIu64 " of %s has checksum %016" PRIx64
                              ", it was written with %016" PRIx64,
                              d->config.offset + c->disk + at, d->path, sum, *sum_of(d, c->disk + at));
    }
    return 0;
}

static void blocks_sum(struct kv_disk *d, const struct kv_disk_job *job, const struct br_kv_copy *c)
{
    for (uint64_t at = 0; at < c->bytes; at += job->block_bytes)
        *sum_of(d, c->disk + at) = XXH3_64bits(d->config.host + c->host + at, job->block_bytes);
}

static void job_do(struct kv_disk *d, struct kv_disk_job *job)
{
    int64_t from_ns = br_now_ns();
    for (uint32_t i = 0; i < job->n && job->rc == 0; i++) {
        const struct br_kv_copy *c = &job->copies[i];
        if (job->write)
            blocks_sum(d, job, c);
        job->rc = transfer(d, job->write, d->config.host + c->host, c->disk, c->bytes, &job->err);
        if (job->rc == 0 && !job->write)
            job->rc = blocks_verify(d, job, c, &job->err);
    }
    job->seconds = (double)(br_now_ns() - from_ns) / 1e9;
    __atomic_store_n(&job->over, true, __ATOMIC_RELEASE);
    d->config.done(d->config.ctx);
}

static struct kv_disk_job *job_take(struct kv_disk *d)
{
    struct kv_disk_job *job;
    pthread_mutex_lock(&d->mutex);
    while (!d->first && !d->stopping)
        pthread_cond_wait(&d->filled, &d->mutex);
    job = d->stopping ? NULL : d->first;
    if (job) {
        d->first = job->next;
        d->last = d->first ? d->last : &d->first;
    }
    pthread_mutex_unlock(&d->mutex);
    return job;
}

static void *disk_main(void *arg)
{
    struct kv_disk *d = arg;
    struct kv_disk_job *job;
    while ((job = job_take(d)))
        job_do(d, job);
    return NULL;
}

static void disk_free(struct kv_disk *d)
{
    if (d->fd >= 0)
        close(d->fd);
    free(d->sums);
    free(d->path);
    free(d);
}

int kv_disk_open(const struct kv_disk_config *config, struct kv_disk **out, struct br_err *err)
{
    struct kv_disk *d;
    int rc = 0;
    if (config->least_block == 0 || config->bytes < config->least_block)
        return br_err_set(err, BR_EINVAL, "%" PRIu64 " bytes of %s for KV hold no block of %" PRIu64 " bytes",
                          config->bytes, config->path, config->least_block);
    d = br_calloc(1, sizeof *d);
    d->config = *config;
    d->path = br_strdup(config->path);
    d->last = &d->first;
    d->sums = br_calloc(config->bytes / config->least_block + 1, sizeof *d->sums);
    d->fd = open(config->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (d->fd < 0)
        rc = br_err_errno(err, BR_EIO, "opening %s for KV", config->path);
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->filled, NULL);
    if (rc == 0 && pthread_create(&d->thread, NULL, disk_main, d))
        rc = br_err_set(err, BR_EIO, "no thread for KV on disk");
    if (rc)
        disk_free(d);
    else
        *out = d;
    return rc;
}

void kv_disk_close(struct kv_disk *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->mutex);
    d->stopping = true;
    pthread_cond_signal(&d->filled);
    pthread_mutex_unlock(&d->mutex);
    pthread_join(d->thread, NULL);
    pthread_mutex_destroy(&d->mutex);
    pthread_cond_destroy(&d->filled);
    disk_free(d);
}

void kv_disk_start(struct kv_disk *d, struct kv_disk_job *job)
{
    job->rc = 0;
    job->next = NULL;
    job->over = false;
    pthread_mutex_lock(&d->mutex);
    *d->last = job;
    d->last = &job->next;
    pthread_cond_signal(&d->filled);
    pthread_mutex_unlock(&d->mutex);
}

bool kv_disk_done(const struct kv_disk_job *job)
{
    return __atomic_load_n(&job->over, __ATOMIC_ACQUIRE);
}
