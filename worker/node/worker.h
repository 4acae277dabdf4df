/* The worker of a machine: one supervisor that keeps the models' weights in the host cache, and one process a device
 * that computes. A device process that dies is started again; its siblings and the cached weights stay. */
#ifndef BRIAREUS_WORKER_NODE_WORKER_H
#define BRIAREUS_WORKER_NODE_WORKER_H

#include "base/err.h"
#include "base/log.h"
#include "cost/model_list.h"

struct br_worker_model {
    const char *name;                     /* as requests call it */
    const char *dir;                      /* Hugging Face folder; NULL with an outline */
    const struct br_model_entry *outline; /* sim: sizes in the place of weights; NULL: weights in dir */
};

struct br_worker_config {
    const char *node;            /* name of this machine, unique at the scheduler */
    const char *scheduler;       /* "unix:/path" or "tcp:host:port" */
    const char *token;           /* shared secret; NULL: none */
    const char *cache_dir;       /* NULL: /dev/shm/briareus-<uid>-<node> */
    bool keep_cache;             /* leave the cached weights behind for the next start */
    uint64_t host_cache_bytes;   /* of cached weights; 0: half of this machine's memory, or what the folder holds */
    uint64_t host_staging_bytes; /* of each device, for weights that are not cached; 0: three of the largest units */
    bool drop_host_copies;       /* weights on a device give up their place in the cache when others need it */
    bool pin_host_cache;         /* lock the cached weights in memory */
    bool huge_pages;             /* move them to huge pages, in the background */
    double verify_after_s;       /* cached weights verified longer ago are verified before they are loaded */

    const struct br_worker_model *models;
    uint32_t n_models;

    const char *device_kind; /* "cpu"; "sim:GPU": every model needs an outline */
    uint32_t devices;
    uint64_t memory_bytes;  /* of each device; 0: all weights, but at most half of this machine's memory, and KV; sim:
                               0.9  of the GPUs' less 1 GB each */
    uint64_t kv_bytes;      /* of these, for KV at most, under quota-rr; 0: whatever weights leave */
    uint64_t host_kv_bytes; /* host memory for KV, for each device; sim: a size, no memory */
    const char *kv_disk;    /* file for KV that host memory has no room for, of all devices; NULL: none */
    uint64_t kv_disk_bytes; /* of it at most */
    bool prefix_cache;      /* KV of a prompt's beginning that is known is shared, not computed again */
    uint64_t link_bytes_per_s; /* host<->device; 0: as fast as it goes; sim: as the catalogue says */
    uint32_t tensor_parallel;  /* sim: GPUs that a device stands for: 1, 2, 4, 8 */
    double speed;              /* sim: everything takes 1/speed of its time */
    uint32_t threads;          /* compute threads of each device */
    enum br_numeric numeric;

    uint32_t prefill_chunk, max_batch, max_context;
    uint32_t max_seqs; /* on one device, waiting ones included; more fail: at least the scheduler's max_unfinished */
    const char *policy;
    double quota_max_s;
    double hysteresis;         /* of slack; 0: its default */
    uint64_t load_chunk_bytes; /* of a load, of slack; 0: what the link carries in 20 ms */
    const char *trace;         /* file that the devices write what they do to (report/trace.h); NULL: none */
    uint64_t trace_bytes;
    bool dedicated;         /* device i serves only the models i, i + devices, ...: to compare with sharing */
    bool switch_every_step; /* tests: another model after every step */
    enum br_log_level log_level;
};

void br_worker_config_init(struct br_worker_config *config); /* every default but node, scheduler and models */

/* What can be told before anything starts: 0, or BR_EINVAL with the option's name. */
int br_worker_config_check(const struct br_worker_config *config, struct br_err *err);

/* Runs the worker until SIGTERM, SIGINT, or until every device has been drained; 0 then. Device processes die with the
 * calling thread (PR_SET_PDEATHSIG), so call it from the main thread. Fails when the configuration is wrong or none of
 * the models could be loaded; one model's failure is logged and reported to the scheduler, others are served. */
int br_worker_run(const struct br_worker_config *config, struct br_err *err);

/* The supervisor starts /proc/self/exe again with "device-process" as its first argument. The program's main() must
 * therefore begin with
 *     if (argc > 1 && strcmp(argv[1], BR_WORKER_DEVICE_PROCESS) == 0)
 *         return br_worker_device_process(argc, argv);
 * argv[2] is the number of an inherited descriptor with the configuration. */
#define BR_WORKER_DEVICE_PROCESS "device-process"
int br_worker_device_process(int argc, char **argv);

#endif
