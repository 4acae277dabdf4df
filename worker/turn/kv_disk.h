/* KV on disk: a part of one file, and a thread that reads and writes it. Every block's checksum is kept in memory when
 * it is written and compared when it is read: what comes back is what went, or is said to be damaged. What the file
 * holds means nothing to another process. */
#ifndef BRIAREUS_WORKER_TURN_KV_DISK_H
#define BRIAREUS_WORKER_TURN_KV_DISK_H

#include "kvcache/kvcache.h"

struct kv_disk;

struct kv_disk_config {
    const char *path; /* made, mode 0600, if it is not there */
    uint64_t offset;  /* of this process's part of it */
    uint64_t bytes;
    uint64_t least_block;    /* bytes of the smallest block */
    unsigned char *host;     /* what the copies' host offsets count from */
    void (*done)(void *ctx); /* a job is done: called on the thread; must not block */
    void *ctx;
};

struct kv_disk_job {
    bool write;
    const struct br_kv_copy *copies; /* borrowed until it is done */
    uint32_t n;
    uint64_t block_bytes;
    /* once it is done: */
    int rc; /* 0, BR_EIO, or BR_ECORRUPT: a block is not what was written; err says which */
    struct br_err err;
    double seconds;
    bool over; /* atomic */
    struct kv_disk_job *next;
};

/* BR_EIO: the file cannot be opened; BR_EINVAL: it is too small a part for any block. */
int kv_disk_open(const struct kv_disk_config *config, struct kv_disk **out, struct br_err *err);
/* Waits for the job that runs; others are not begun. */
void kv_disk_close(struct kv_disk *disk);
/* Jobs are done one after the other. The job is the caller's and stays where it is until it is done. */
void kv_disk_start(struct kv_disk *disk, struct kv_disk_job *job);
bool kv_disk_done(const struct kv_disk_job *job);

#endif
