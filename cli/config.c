#include "cli/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "scheduler/models.h"
#include "worker/device/cuda/plugin.h"
#include "worker/node/gpu.h"

struct row {
    unsigned parts;
    struct br_option option;
};

#define ROW(parts, name, kind, field, fallback, min, max, help)                                                        \
    {                                                                                                                  \
        parts,                                                                                                         \
        {                                                                                                              \
            name, kind, offsetof(struct cli_config, field), fallback, min, max, help                                   \
        }                                                                                                              \
    }
#define SIM_HOST_KV_BYTES (64ull << 30)

/* How much one step may do. What a GPU does in a step is limited by time, by the policy. */
enum { CPU_CHUNK = 256, CPU_BATCH = 64, GPU_CHUNK = 8192, GPU_BATCH = 128 };
enum { S = CLI_SCHEDULER | CLI_SERVE, W = CLI_WORKER | CLI_SERVE, ALL = CLI_SCHEDULER | CLI_WORKER | CLI_SERVE };

/* Flags are named as in `vllm serve` where the meaning is the same. */
static const struct row g_rows[] = {
    ROW(ALL, "model", BR_OPT_LIST, scheduler.models, NULL, 0, 0, "NAME=DIR: a model's folder; may be repeated"),
    ROW(ALL, "models-from", BR_OPT_STRING, scheduler.models_from, NULL, 0, 0,
        "FILE: models by their shape alone, for sim devices (docs/sim-devices.md)"),
    ROW(S, "host", BR_OPT_STRING, scheduler.host, "127.0.0.1", 0, 0, "HOST: where clients connect"),
    ROW(S, "port", BR_OPT_UINT, scheduler.port, "8000", 0, 65535, "PORT: the same; 0: any"),
    ROW(ALL, "scheduler-address", BR_OPT_STRING, scheduler.worker_address, NULL, 0, 0,
        "ADDRESS: unix:/path or tcp:host:port where workers connect"),
    ROW(ALL, "worker-token", BR_OPT_STRING, scheduler.worker_token, NULL, 0, 0, "SECRET: workers must know it"),
    ROW(CLI_SCHEDULER, "redis", BR_OPT_STRING, scheduler.redis, "tcp:127.0.0.1:6379", 0, 0,
        "ADDRESS: unix:/path or tcp:host:port"),
    ROW(S, "redis-prefix", BR_OPT_STRING, scheduler.redis_prefix, "briareus:", 0, 0, "TEXT: in front of every key"),
    ROW(S, "chat-template", BR_OPT_STRING, scheduler.chat_template, NULL, 0, 0,
        "NAME: chatml or llama3, for models whose own is unknown"),
    ROW(ALL, "max-model-len", BR_OPT_UINT, scheduler.max_model_len, "0", 0, 1 << 20,
        "TOKENS: prompt and answer; 0: each model's own"),
    ROW(S, "ttft", BR_OPT_SECONDS, scheduler.ttft_s, "10s", 0.001, 86400, "TIME: SLO of the first token"),
    ROW(S, "tbt", BR_OPT_SECONDS, scheduler.tbt_s, "100ms", 0.0001, 3600, "TIME: SLO between tokens"),
    ROW(S, "model-terms", BR_OPT_LIST, scheduler.terms, NULL, 0, 0,
        "NAME=KEY=VALUE,...: of one model: ttft, tbt, weight (beside others; 1), pinned (stays loaded); may be "
        "repeated"),
    ROW(S, "placement", BR_OPT_STRING, scheduler.placement, "slack", 0, 0,
        "NAME: which device gets what: slack, spread"),
    ROW(S, "admission", BR_OPT_BOOL, scheduler.admission, "true", 0, 0,
        "429 for requests that would make too many tokens late, with the time to come back; --admission=false: never"),
    ROW(ALL, "hysteresis", BR_OPT_NUMBER, scheduler.hysteresis, ".35", .01, 2,
        "SHARE: slack's H, of TTFT: small is a low TTFT, large fewer bytes moved"),
    ROW(W, "load-chunk", BR_OPT_BYTES, load_chunk, "0", 0, 0x1p40,
        "BYTES: of a piece of a load of weights; 0: what the link carries in 20 ms"),
    ROW(S, "adopt", BR_OPT_SECONDS, scheduler.adopt_s, "3s", 0, 3600,
        "TIME: how long a lost device may take to come back with its sequences"),
    ROW(S, "group-commit", BR_OPT_SECONDS, scheduler.group_commit_s, "1ms", 0, 1, "TIME: tokens are stored together"),
    ROW(S, "keep-ended", BR_OPT_SECONDS, scheduler.keep_ended_s, "600s", 22, 30 * 86400,
        "TIME: how an ended sequence ended stays in Redis"),
    ROW(S, "keep-tokens", BR_OPT_BOOL, scheduler.keep_tokens, NULL, 0, 0,
        "prompt and tokens of an ended sequence stay as long: to look at"),
    ROW(S, "max-unfinished", BR_OPT_UINT, scheduler.max_unfinished, "4096", 1, 1 << 20,
        "N: accepted and not ended sequences; more get 429"),
    ROW(S, "max-devices", BR_OPT_UINT, scheduler.max_devices, "1024", 1, 65536, "N: of all workers"),
    ROW(S, "max-connections", BR_OPT_UINT, scheduler.max_connections, "8192", 1, 1000000, "N: clients at a time"),
    ROW(S, "max-choices", BR_OPT_UINT, scheduler.max_choices, "32", 1, 1024, "N: n x prompts of one request"),
    ROW(S, "max-body", BR_OPT_BYTES, scheduler.max_body_bytes, "8M", 1024, 1 << 30, "BYTES: of a request"),
    ROW(S, "max-head", BR_OPT_BYTES, scheduler.max_head_bytes, "16K", 1024, 16 << 20,
        "BYTES: of a request's first line and headers; more get 431"),
    ROW(S, "max-out", BR_OPT_BYTES, scheduler.max_out_bytes, "8M", 0, 0, "BYTES: waiting for a client that is slow"),
    ROW(S, "slow-out", BR_OPT_BYTES, scheduler.slow_out_bytes, "16K", 1024, 1 << 30,
        "BYTES: the same, above which tokens are kept instead of text"),
    ROW(S, "slow-tokens", BR_OPT_UINT, scheduler.slow_tokens, "1024", 1, 1 << 20,
        "N: kept for one request above which its sequences pause"),
    ROW(S, "request-timeout", BR_OPT_SECONDS, scheduler.request_timeout_s, "30s", 0.1, 3600,
        "TIME: for a request to arrive whole"),
    ROW(S, "generation-config", BR_OPT_STRING, scheduler.generation_config, "auto", 0, 0,
        "MODE: auto: sampling parameters that a request leaves out come from the model's folder; vllm: they do not"),
    ROW(S, "sse-ping-interval", BR_OPT_SECONDS, scheduler.ping_s, "30s", 0.1, 3600,
        "TIME: a silent stream gets a comment line this often"),
    ROW(S, "hung-after", BR_OPT_SECONDS, scheduler.hung_s, "60s", 0, 86400,
        "TIME: a device with work and no progress for so long is hung: /health/ready; 0: never"),
    ROW(S, "shutdown-timeout", BR_OPT_SECONDS, scheduler.shutdown_timeout_s, "10s", 0, 86400,
        "TIME: after SIGTERM, for answers under way; new requests get 503 meanwhile"),
    ROW(S, "idle-timeout", BR_OPT_SECONDS, scheduler.idle_timeout_s, "75s", 0.1, 86400, "TIME: of an idle connection"),
    ROW(W, "node", BR_OPT_STRING, node, NULL, 0, 0, "NAME: of this machine [its host name]"),
    ROW(W, "device", BR_OPT_STRING, device, "cpu", 0, 0,
        "KIND: cpu; cuda or cuda:N: a GPU, the N-th and following; or sim:GPU (sim:h20): one in all but its "
        "arithmetic"),
    ROW(W, "devices", BR_OPT_UINT, devices, "1", 1, 64, "N: device processes on this machine"),
    ROW(W, "tensor-parallel-size", BR_OPT_UINT, tensor_parallel, "1", 1, 8, "N: sim: GPUs that a device stands for"),
    ROW(W, "speed", BR_OPT_NUMBER, speed, "1", 0.01, 1000, "X: sim: how many times faster than the GPU it runs"),
    ROW(W, "threads", BR_OPT_UINT, threads, "1", 1, 256, "N: compute threads of each device"),
    ROW(W, "device-memory", BR_OPT_BYTES, device_memory, "0", 0, 0,
        "BYTES: of each device; 0: all weights, at most half of this machine's memory; cuda: what is free; sim: .9 of "
        "the GPU's less 1 GB"),
    ROW(W, "kv-memory", BR_OPT_BYTES, kv_memory, "0", 0, 0,
        "BYTES: of these for KV at most, under quota-rr; 0: what weights leave"),
    ROW(W, "host-kv-memory", BR_OPT_BYTES, host_kv_memory, "0", 0, 0,
        "BYTES: host memory for KV, for each device; 0: the worker's default"),
    ROW(W, "kv-disk", BR_OPT_STRING, kv_disk, NULL, 0, 0,
        "FILE: for KV that host memory has no room for; removed at the end [none]"),
    ROW(W, "kv-disk-size", BR_OPT_BYTES, kv_disk_size, "0", 0, 0, "BYTES: of it at most, for all devices together"),
    ROW(W, "enable-prefix-caching", BR_OPT_BOOL, prefix_caching, "true", 0, 0,
        "=false: KV of a prompt's beginning that is known is computed again"),
    ROW(W, "device-link", BR_OPT_BYTES, link_rate, "0", 0, 0,
        "BYTES: a second, host to device and back; 0: as fast as it goes; sim: as the GPU's"),
    ROW(W, "dtype", BR_OPT_STRING, dtype, "auto", 0, 0, "TYPE: auto, bfloat16 or float32"),
    ROW(W, "prefill-chunk", BR_OPT_UINT, prefill_chunk, "0", 0, 8192,
        "TOKENS: of one prompt in one step; 0: 256 on a CPU; on a GPU as many as take .3 s, 8192 at most"),
    ROW(W, "max-num-seqs", BR_OPT_UINT, max_batch, "0", 0, 256,
        "N: sequences in one step; 0: 64 on a CPU, 128 on a GPU"),
    ROW(W, "max-device-seqs", BR_OPT_UINT, max_seqs, "4096", 1, 65536, "N: sequences on one device, waiting included"),
    ROW(W, "policy", BR_OPT_STRING, policy, "slack", 0, 0, "NAME: slack, quota-rr, or another to compare with"),
    ROW(W, "quota-max", BR_OPT_SECONDS, quota_max_s, "4s", 0.001, 3600, "TIME: longest turn of a model (Q_MAX)"),
    ROW(W, "dedicated", BR_OPT_BOOL, dedicated, NULL, 0, 0, "device i serves only model i: to compare with"),
    ROW(ALL, "trace", BR_OPT_STRING, trace, NULL, 0, 0,
        "FILE: timeline of devices and requests for Perfetto; serve begins it anew, the others go on in it"),
    ROW(ALL, "trace-bytes", BR_OPT_BYTES, trace_bytes, "256M", 64 << 10, 0x1p40, "BYTES: no longer than that"),
    ROW(W, "switch-every-step", BR_OPT_BOOL, switch_every_step, NULL, 0, 0, "another model after every step: a test"),
    ROW(W, "cache-dir", BR_OPT_STRING, cache_dir, NULL, 0, 0, "DIR: host cache of weights [under /dev/shm]"),
    ROW(W, "host-cache", BR_OPT_BYTES, host_cache, "0", 0, 0,
        "BYTES: of weights in it; models beyond are read from disk; 0: half of this machine's memory"),
    ROW(W, "host-staging", BR_OPT_BYTES, host_staging, "0", 0, 0,
        "BYTES: host memory of each device that weights from disk pass through; 0: three layers"),
    ROW(W, "host-copies", BR_OPT_STRING, host_copies, "keep", 0, 0,
        "MODE: keep, or drop: weights on a device leave the cache when others need the room"),
    ROW(W, "pin-host-cache", BR_OPT_BOOL, pin_host_cache, NULL, 0, 0, "lock the cached weights in memory"),
    ROW(W, "huge-pages", BR_OPT_BOOL, huge_pages, NULL, 0, 0,
        "move the cached weights to huge pages, in the background"),
    ROW(W, "verify-after", BR_OPT_SECONDS, verify_after_s, "60s", 0, 1e9,
        "TIME: cached weights verified longer ago are verified before they are loaded"),
    ROW(W, "keep-cache", BR_OPT_BOOL, keep_cache, NULL, 0, 0, "leave the host cache for the next start"),
    ROW(CLI_SERVE, "data-dir", BR_OPT_STRING, data_dir, NULL, 0, 0,
        "DIR: of the private Redis [~/.local/state/briareus/PORT]"),
    ROW(CLI_SERVE, "run-dir", BR_OPT_STRING, run_dir, NULL, 0, 0, "DIR: for sockets [a temporary one]"),
    ROW(CLI_SERVE, "redis-server", BR_OPT_STRING, redis_server, "redis-server", 0, 0, "PROGRAM: to start"),
    ROW(CLI_SERVE, "redis-memory", BR_OPT_BYTES, redis_memory, "1G", 16 << 20, 0x1p50,
        "BYTES: of the private Redis; at that, new requests get 503"),
    ROW(CLI_SERVE, "port-file", BR_OPT_STRING, port_file, NULL, 0, 0, "FILE: the port is written here once it serves"),
    ROW(CLI_SERVE, "run-for", BR_OPT_SECONDS, run_for_s, "0s", 0, 1e9, "TIME: stop by itself after that; 0: never"),
    ROW(S, "api-keys", BR_OPT_STRING, scheduler.api_keys, NULL, 0, 0,
        "FILE: who may do what (docs/operations.md); read again when it changes. Made with `briareus key new`"),
    ROW(S, "otlp-traces-endpoint", BR_OPT_STRING, scheduler.traces, NULL, 0, 0,
        "URL: spans of requests go there as OTLP/JSON: http://host:4318/v1/traces, or file:PATH"),
    ROW(S, "log-content", BR_OPT_BOOL, scheduler.log_content, NULL, 0, 0,
        "prompts and answers go to the log; else they never do"),
    ROW(S, "tls-cert", BR_OPT_STRING, scheduler.tls_cert, NULL, 0, 0,
        "FILE: PEM, the server's certificate and those up to the root: HTTPS instead of HTTP"),
    ROW(S, "tls-key", BR_OPT_STRING, scheduler.tls_key, NULL, 0, 0, "FILE: PEM, its private key"),
    ROW(S, "admin-listen", BR_OPT_STRING, scheduler.admin_listen, NULL, 0, 0,
        "HOST:PORT: /metrics, /stats and /models/* only there"),
    ROW(ALL, "log-format", BR_OPT_STRING, log_format, "text", 0, 0, "FORMAT: text or json, a line an event"),
    ROW(ALL, "log-level", BR_OPT_STRING, log_level, "info", 0, 0, "LEVEL: debug, info, warn, error, off"),
};
enum { N_ROWS = sizeof g_rows / sizeof g_rows[0] };

static uint32_t rows_of(unsigned parts, struct br_option table[N_ROWS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_ROWS; i++)
        if (g_rows[i].parts & parts)
            table[n++] = g_rows[i].option;
    return n;
}

static const char *config_file(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--config=", 9) == 0)
            return argv[i] + 9;
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            return argv[i + 1];
    }
    return NULL;
}

static int parse(struct cli_config *config, unsigned parts, const char *program, const char *purpose, int argc,
                 char **argv, struct br_err *err)
{
    struct br_option table[N_ROWS];
    enum br_log_level level;
    int rc;
    memset(config, 0, sizeof *config);
    config->scheduler.ready_fd = -1;
    config->source = (struct cli_source){parts, program, purpose, argc, argv};
    config->scheduler.again = cli_config_again;
    config->scheduler.again_ctx = &config->source;
    config->scheduler.config_file = config_file(argc, argv);
    rc = br_options_read(table, rows_of(parts, table), config, program, purpose, argc, argv, err);
    if (rc)
        return rc;
    if (br_log_level_parse(config->log_level, &level))
        return br_err_set(err, BR_EINVAL, "log-level: '%s' is none of debug, info, warn, error, off",
                          config->log_level);
    if (strcmp(config->log_format, "text") != 0 && strcmp(config->log_format, "json") != 0)
        return br_err_set(err, BR_EINVAL, "log-format: '%s' is neither text nor json", config->log_format);
    config->scheduler.trace = config->trace;
    config->scheduler.trace_bytes = config->trace_bytes;
    return 0;
}

int cli_config_read(struct cli_config *config, unsigned parts, const char *program, const char *purpose, int argc,
                    char **argv, struct br_err *err)
{
    enum br_log_level level;
    int rc = parse(config, parts, program, purpose, argc, argv, err);
    if (rc)
        return rc;
    br_log_level_parse(config->log_level, &level);
    setenv("BRIAREUS_LOG_FORMAT", config->log_format, 1); /* for this process and those that it starts */
    br_log_init(strrchr(program, ' ') ? strrchr(program, ' ') + 1 : program, level);
    return 0;
}

int cli_config_reread(const struct cli_source *from, struct cli_config *out, struct br_err *err)
{
    return parse(out, from->parts, from->program, from->purpose, from->argc, from->argv, err);
}

int cli_config_again(void *ctx, int (*use)(void *use_ctx, const struct br_scheduler_config *config, struct br_err *err),
                     void *use_ctx, struct br_err *err)
{
    struct cli_config fresh;
    int rc = cli_config_reread(ctx, &fresh, err);
    if (rc == 0)
        rc = use(use_ctx, &fresh.scheduler, err);
    cli_config_free(&fresh);
    return rc;
}

void cli_config_free(struct cli_config *config)
{
    struct br_option table[N_ROWS];
    br_options_free(table, rows_of(CLI_SCHEDULER | CLI_WORKER | CLI_SERVE, table), config);
}

/* ---- the worker's view ---- */

static int parse_copies(const char *text, bool *drop, struct br_err *err)
{
    *drop = strcmp(text, "drop") == 0;
    if (*drop || strcmp(text, "keep") == 0)
        return 0;
    return br_err_set(err, BR_EINVAL, "host-copies: '%s' is neither keep nor drop", text);
}

static int parse_dtype(const char *text, enum br_numeric *out, struct br_err *err)
{
    static const char *const names[] = {"auto", "bfloat16", "float32"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0)
            return *out = (enum br_numeric)i, 0;
    return br_err_set(err, BR_EINVAL, "dtype: '%s' is none of auto, bfloat16, float32", text);
}

/* A sim device takes a folder's shape only. */
static int folder_model(const char *arg, bool sim, struct br_worker_model *m, struct br_err *err)
{
    char name[BR_MAX_MODEL_NAME];
    struct br_model_entry *outline;
    if (br_model_arg_split(arg, name, &m->dir, err))
        return err->code;
    m->name = br_strdup(name);
    if (!sim)
        return 0;
    m->outline = outline = br_calloc(1, sizeof *outline);
    return br_model_entry_of_dir(name, m->dir, outline, err) ? err->code = BR_EINVAL : 0;
}

/* The entries of the file become the models'. */
static int file_models(const char *path, struct br_worker_model **models, uint32_t *n, struct br_err *err)
{
    struct br_model_list list;
    if (br_model_list_read(path, &list, err))
        return err->code = BR_EINVAL; /* whatever it is, the configuration has to change */
    *models = br_realloc(*models, (*n + list.n) * sizeof **models);
    for (uint32_t i = 0; i < list.n; i++) {
        struct br_model_entry *outline = br_malloc(sizeof *outline);
        *outline = list.entries[i];
        (*models)[(*n)++] = (struct br_worker_model){.name = br_strdup(outline->name), .outline = outline};
    }
    free(list.entries);
    return 0;
}

static int worker_models(const struct cli_config *c, bool sim, struct br_worker_model **out, uint32_t *n_out,
                         struct br_err *err)
{
    const struct br_option_list *list = &c->scheduler.models;
    struct br_worker_model *models = br_calloc(list->n + 1, sizeof *models);
    uint32_t n = 0;
    int rc = 0;
    while (rc == 0 && n < list->n) {
        rc = folder_model(list->items[n], sim, &models[n], err);
        n++;
    }
    if (rc == 0 && c->scheduler.models_from)
        rc = file_models(c->scheduler.models_from, &models, &n, err);
    if (rc) {
        cli_worker_models_free(models, n);
        return rc;
    }
    *out = models;
    *n_out = n;
    return 0;
}

void cli_worker_models_free(struct br_worker_model *models, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free((char *)models[i].name);
        if (models[i].outline)
            free(models[i].outline->tokenizer);
        free((void *)models[i].outline);
    }
    free(models);
}

static void set_if(uint64_t *out, uint64_t value)
{
    if (value)
        *out = value;
}

/* Before anything is started: no driver, no such GPU. */
static int check_gpu(const struct cli_config *c, uint32_t index, struct br_err *err)
{
    struct br_err why;
    uint64_t bytes;
    for (uint32_t i = 0; i < c->devices; i++)
        if (node_gpu_memory(index + i, &bytes, &why))
            return br_err_set(err, BR_EINVAL, "device: '%s': %s", c->device, why.msg);
    return 0;
}

int cli_worker_config(const struct cli_config *c, struct br_worker_config *out, struct br_worker_model **models,
                      struct br_err *err)
{
    uint32_t gpu;
    bool cuda = br_cuda_kind(c->device, &gpu), sim = strcmp(c->device, "cpu") != 0 && !cuda;
    br_worker_config_init(out);
    if (c->scheduler.models.n == 0 && !c->scheduler.models_from)
        return br_err_set(err, BR_EINVAL, "no model given: --model NAME=DIR, once for each");
    if (!c->scheduler.worker_address)
        return br_err_set(err, BR_EINVAL, "--scheduler-address is needed: unix:/path or tcp:host:port");
    if (cuda && check_gpu(c, gpu, err))
        return err->code;
    if (parse_dtype(c->dtype, &out->numeric, err) || parse_copies(c->host_copies, &out->drop_host_copies, err) ||
        worker_models(c, sim, models, &out->n_models, err))
        return err->code;
    out->node = c->node;
    out->scheduler = c->scheduler.worker_address;
    out->token = c->scheduler.worker_token;
    out->cache_dir = c->cache_dir;
    out->keep_cache = c->keep_cache;
    out->host_cache_bytes = c->host_cache;
    out->host_staging_bytes = c->host_staging;
    out->pin_host_cache = c->pin_host_cache;
    out->huge_pages = c->huge_pages;
    out->verify_after_s = c->verify_after_s;
    out->models = *models;
    out->device_kind = c->device;
    out->devices = c->devices;
    out->threads = c->threads;
    out->dedicated = c->dedicated;
    out->tensor_parallel = c->tensor_parallel;
    out->speed = c->speed;
    if (sim) { /* chosen from the models; nothing of it is taken from this machine */
        out->kv_bytes = 0;
        out->host_kv_bytes = SIM_HOST_KV_BYTES;
    }
    set_if(&out->memory_bytes, c->device_memory);
    set_if(&out->kv_bytes, c->kv_memory);
    set_if(&out->host_kv_bytes, c->host_kv_memory);
    out->prefix_cache = c->prefix_caching;
    out->kv_disk = c->kv_disk;
    out->kv_disk_bytes = c->kv_disk_size;
    out->link_bytes_per_s = c->link_rate;
    out->prefill_chunk = c->prefill_chunk ? c->prefill_chunk : sim || cuda ? GPU_CHUNK : CPU_CHUNK;
    out->max_batch = c->max_batch ? c->max_batch : sim || cuda ? GPU_BATCH : CPU_BATCH;
    out->max_seqs = c->max_seqs;
    if (c->scheduler.max_model_len)
        out->max_context = c->scheduler.max_model_len;
    out->policy = c->policy;
    out->quota_max_s = c->quota_max_s;
    out->hysteresis = c->scheduler.hysteresis;
    out->load_chunk_bytes = c->load_chunk;
    out->switch_every_step = c->switch_every_step;
    out->trace = c->trace;
    out->trace_bytes = c->trace_bytes;
    br_log_level_parse(c->log_level, &out->log_level);
    out->node = c->node ? c->node : "unnamed"; /* the caller names it before it runs */
    if (br_worker_config_check(out, err)) {
        cli_worker_models_free(*models, out->n_models);
        return err->code;
    }
    return 0;
}
