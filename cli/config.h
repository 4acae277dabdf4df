/* What `serve`, `scheduler` and `worker` can be told: one struct, one table of options; each command offers its part.
 */
#ifndef BRIAREUS_CLI_CONFIG_H
#define BRIAREUS_CLI_CONFIG_H

#include "scheduler/scheduler.h"
#include "worker/node/worker.h"

/* How it was read: for reading it again. */
struct cli_source {
    unsigned parts;
    const char *program, *purpose;
    int argc;
    char **argv;
};

struct cli_config {
    struct cli_source source;
    struct br_scheduler_config scheduler; /* its models list serves both */
    char *log_level, *log_format;
    /* worker */
    char *node, *device, *dtype, *policy, *cache_dir, *host_copies;
    bool keep_cache, pin_host_cache, huge_pages, dedicated, switch_every_step;
    uint32_t devices, threads, prefill_chunk, max_batch, max_seqs;
    uint64_t load_chunk, device_memory, kv_memory, host_kv_memory, link_rate;
    uint32_t tensor_parallel;
    double quota_max_s, speed;
    char *trace; /* the scheduler's too */
    uint64_t trace_bytes;
    /* serve */
    char *data_dir, *run_dir, *redis_server, *port_file;
    uint64_t host_cache, host_staging;
    bool prefix_caching;
    char *kv_disk;
    uint64_t kv_disk_size;
    double verify_after_s;
    uint64_t redis_memory;
    double run_for_s;
};

enum cli_part { CLI_SCHEDULER = 1, CLI_WORKER = 2, CLI_SERVE = 4 };

/* Reads the options of these parts; 1 when --help was printed. Sets the log up. */
int cli_config_read(struct cli_config *config, unsigned parts, const char *program, const char *purpose, int argc,
                    char **argv, struct br_err *err);
/* The same again; the log stays as it is. *out is to be freed, whatever comes of it. */
int cli_config_reread(const struct cli_source *from, struct cli_config *out, struct br_err *err);
/* br_scheduler_config.again; ctx is a struct cli_source. */
int cli_config_again(void *ctx, int (*use)(void *use_ctx, const struct br_scheduler_config *config, struct br_err *err),
                     void *use_ctx, struct br_err *err);
void cli_config_free(struct cli_config *config);

/* The worker's view: *out borrows from config and models (n of them, malloc'ed: the caller frees *models and each
 * name). */
int cli_worker_config(const struct cli_config *config, struct br_worker_config *out, struct br_worker_model **models,
                      struct br_err *err);
void cli_worker_models_free(struct br_worker_model *models, uint32_t n);

#endif
