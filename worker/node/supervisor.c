/* The supervisor: fills the cache, starts one process a device, and starts it again when it dies. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "base/clock.h"
#include "scheduler/core/policies/policy.h"
#include "scheduler/core/policy.h"
#include "worker/node/cache.h"
#include "worker/node/gpu.h"
#include "worker/node/kv_file.h"
#include "worker/node/limits.h"
#include "worker/node/outline.h"
#include "worker/turn/parcels.h"

enum { REFUSAL_MS = 20000, REFUSALS_MAX = 5, STOP_MS = 2000 };

static const uint64_t KV_BYTES = 512ull << 20; /* that a device's memory is chosen to hold beside its weights */

struct supervisor;

struct device_child {
    struct supervisor *owner;
    uint32_t index;
    uv_process_t process;
    uv_timer_t retry;
    bool running, finished;
    uint32_t refusals; /* in a row: ended with an error of its own before it could have served */
    struct br_backoff backoff;
    int64_t started_ns;
};

struct supervisor {
    uv_loop_t loop;
    uv_signal_t term, intr;
    uv_timer_t kill;
    struct node_plan plan;
    struct device_child *children; /* [config.devices] */
    int parcels_fd;                /* -1: KV does not go from device to device */
    bool stopping;
    bool hopeless; /* a device's process does not start with this configuration */
};

static void child_start(struct device_child *c);

static void children_kill(struct supervisor *s, int signum)
{
    for (uint32_t i = 0; i < s->plan.config.devices; i++)
        if (s->children[i].running)
            uv_process_kill(&s->children[i].process, signum);
}

static void on_kill(uv_timer_t *timer)
{
    struct supervisor *s = timer->data;
    br_log(BR_WARN, "devices_killed", "after_ms=%d", STOP_MS);
    children_kill(s, SIGKILL);
}

/* A process that was stopped (SIGSTOP) hears SIGTERM once it goes on. */
static void children_end(struct supervisor *s)
{
    children_kill(s, SIGTERM);
    children_kill(s, SIGCONT);
    uv_timer_start(&s->kill, on_kill, STOP_MS, 0);
}

/* The loop ends when no child runs and none will be started. */
static void supervisor_settle(struct supervisor *s)
{
    bool left = false;
    for (uint32_t i = 0; i < s->plan.config.devices; i++)
        left = left || s->children[i].running || !(s->children[i].finished || s->stopping);
    if (!left)
        uv_stop(&s->loop);
}

static void on_retry(uv_timer_t *timer)
{
    child_start(timer->data);
}

static void child_retry(struct device_child *c)
{
    double wait_s = br_backoff_s(&c->backoff, (double)(br_now_ns() - c->started_ns) / BR_NS_PER_S);
    uv_timer_start(&c->retry, on_retry, (uint64_t)(wait_s * 1000), 0);
}

static void on_closed(uv_handle_t *handle)
{
    struct device_child *c = handle->data;
    c->running = false;
    if (!c->finished && !c->owner->stopping)
        child_retry(c);
    supervisor_settle(c->owner);
}

/* A process that is killed is started again for ever; one that says itself that it cannot start, a few times. */
static void count_refusal(struct device_child *c, int64_t status, int signum)
{
    struct supervisor *s = c->owner;
    bool refused = status != 0 && signum == 0 && br_now_ns() - c->started_ns < REFUSAL_MS * BR_NS_PER_MS;
    c->refusals = refused ? c->refusals + 1 : 0;
    if (c->refusals < REFUSALS_MAX || s->stopping)
        return;
    br_log(BR_ERROR, "device_given_up", "device=%u refusals=%u", c->index, c->refusals);
    s->stopping = s->hopeless = true;
    children_end(s);
}

static void on_exit_child(uv_process_t *process, int64_t status, int signum)
{
    struct device_child *c = process->data;
    c->finished = status == 0 && signum == 0;
    br_log(c->finished ? BR_INFO : BR_ERROR, "device_ended", "device=%u status=%" PRId64 " signal=%d", c->index, status,
           signum);
    count_refusal(c, status, signum);
    uv_close((uv_handle_t *)process, on_closed);
}

static int child_spawn(struct device_child *c, int fd)
{
    char *argv[] = {program_invocation_name, (char *)BR_WORKER_DEVICE_PROCESS, (char *)"3", NULL};
    uv_stdio_container_t stdio[5] = {{.flags = UV_IGNORE},
                                     {.flags = UV_INHERIT_FD, .data.fd = 1},
                                     {.flags = UV_INHERIT_FD, .data.fd = 2},
                                     {.flags = UV_INHERIT_FD, .data.fd = fd},
                                     {.flags = UV_INHERIT_FD, .data.fd = c->owner->parcels_fd}};
    uv_process_options_t options = {.file = "/proc/self/exe",
                                    .args = argv,
                                    .exit_cb = on_exit_child,
                                    .stdio = stdio,
                                    .stdio_count = c->owner->parcels_fd < 0 ? 4 : 5};
    c->process.data = c;
    return uv_spawn(&c->owner->loop, &c->process, &options);
}

static void child_start(struct device_child *c)
{
    struct node_plan plan = c->owner->plan;
    struct br_err err;
    int fd, rc;
    plan.device = c->index;
    if (c->index) /* the first one speaks for the node */
        plan.spent = (struct br_transfers){0};
    c->started_ns = br_now_ns();
    if (node_plan_write(&plan, &fd, &err)) {
        br_log(BR_ERROR, "device_start_failed", "device=%u why=%s", c->index, BR_Q(err.msg));
        child_retry(c);
        return;
    }
    rc = child_spawn(c, fd);
    close(fd);
    if (rc == 0) {
        c->running = true;
        br_log(BR_INFO, "device_started", "device=%u pid=%d", c->index, c->process.pid);
        return;
    }
    br_log(BR_ERROR, "device_start_failed", "device=%u why=%s", c->index, BR_Q(uv_strerror(rc)));
    uv_close((uv_handle_t *)&c->process, on_closed);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct supervisor *s = handle->data;
    br_log(BR_INFO, "worker_stopping", "signal=%d", signum);
    s->stopping = true;
    children_end(s);
    supervisor_settle(s);
}

static void supervisor_init(struct supervisor *s)
{
    uint32_t n = s->plan.config.devices;
    uv_loop_init(&s->loop);
    uv_signal_init(&s->loop, &s->term);
    uv_signal_init(&s->loop, &s->intr);
    uv_timer_init(&s->loop, &s->kill);
    s->term.data = s->intr.data = s->kill.data = s;
    uv_signal_start(&s->term, on_signal, SIGTERM);
    uv_signal_start(&s->intr, on_signal, SIGINT);
    s->children = br_calloc(n, sizeof *s->children);
    for (uint32_t i = 0; i < n; i++) {
        struct device_child *c = &s->children[i];
        *c = (struct device_child){.owner = s, .index = i};
        uv_timer_init(&s->loop, &c->retry);
        c->retry.data = c;
    }
}

static void close_open(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void supervisor_release(struct supervisor *s)
{
    uv_walk(&s->loop, close_open, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    free(s->children);
}

void br_worker_config_init(struct br_worker_config *config)
{
    *config = (struct br_worker_config){
        .device_kind = "cpu",
        .devices = 1,
        .host_kv_bytes = 1ull << 30,
        .prefix_cache = true,
        .verify_after_s = 60,
        .threads = 1,
        .tensor_parallel = 1,
        .speed = 1,
        .prefill_chunk = 256,
        .max_batch = 32,
        .max_context = 32768,
        .max_seqs = 8192,
        .policy = "slack",
        .quota_max_s = 4,
        .log_level = BR_INFO,
    };
}

static bool address_known(const char *address)
{
    return strncmp(address, "unix:", 5) == 0 ||
           (strncmp(address, "tcp:", 4) == 0 && strrchr(address, ':') > address + 3);
}

int br_worker_config_check(const struct br_worker_config *c, struct br_err *err)
{
    const char *policies, *others;
    if (!c->node || !*c->node || strchr(c->node, '/') || strlen(c->node) > 64)
        return br_err_set(err, BR_EINVAL, "the node needs a name of 1 to 64 characters without '/'");
    if (!c->scheduler)
        return br_err_set(err, BR_EINVAL, "no address of a scheduler");
    if (!address_known(c->scheduler))
        return br_err_set(err, BR_EINVAL, "scheduler-address: '%s' is neither unix:/path nor tcp:host:port",
                          c->scheduler);
    if (!dev_policy_find(c->policy, &policies) && !pl_policy_find(c->policy, &others))
        return br_err_set(err, BR_EINVAL, "policy: '%s' is not known; there are: %s, %s", c->policy, policies, others);
    if (c->devices == 0 || c->devices > 64)
        return br_err_set(err, BR_EINVAL, "%u devices: 1..64", c->devices);
    if (node_limits_check(c, node_memory_bytes(), err) || node_kv_file_check(c, err))
        return err->code;
    if (c->n_models == 0)
        return br_err_set(err, BR_EINVAL, "no models to serve");
    for (uint32_t i = 0; i < c->n_models; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(c->models[i].name, c->models[k].name) == 0)
                return br_err_set(err, BR_EINVAL, "two models are called %s", c->models[i].name);
    return node_outlines_check(c, err);
}

static uint64_t half_of_memory(void)
{
    return node_memory_bytes() / 2;
}

static int memory_choose(struct br_worker_config *c, uint64_t weights, struct br_err *err)
{
    uint64_t most = half_of_memory() / c->devices;
    uint32_t index;
    if (c->memory_bytes)
        return 0;
    if (br_cuda_kind(c->device_kind, &index))
        return node_gpu_memory(index, &c->memory_bytes, err);
    c->memory_bytes = (weights < most ? weights : most) + (c->kv_bytes ? c->kv_bytes : KV_BYTES) + (1ull << 20);
    br_log(BR_INFO, "device_memory", "bytes=%" PRIu64 " weights_bytes=%" PRIu64, c->memory_bytes, weights);
    return 0;
}

static void images_free(struct node_image *images, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free(images[i].path);
        free(images[i].error);
    }
    free(images);
}

static int supervisor_run(struct supervisor *s, struct br_err *err)
{
    supervisor_init(s);
    for (uint32_t i = 0; i < s->plan.config.devices; i++)
        child_start(&s->children[i]);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    supervisor_release(s);
    if (!s->hopeless)
        return 0;
    return br_err_set(err, BR_EINVAL, "a device's process does not start with this configuration: its log says why");
}

/* Simulated devices: no weights, so no cache. */
static int outlines_run(struct supervisor *s, struct br_err *err)
{
    uint32_t n = s->plan.config.n_models;
    int rc;
    s->plan.images = br_calloc(n, sizeof *s->plan.images);
    node_outlines_settle(&s->plan.config, s->plan.images);
    rc = supervisor_run(s, err);
    images_free(s->plan.images, n);
    return rc;
}

/* Memory is taken when KV passes through it, a quarter of what a device has for KV on the host at most. */
static void parcels_make(struct supervisor *s)
{
    const struct br_worker_config *c = &s->plan.config;
    struct br_err err;
    if (c->devices < 2 || c->dedicated || !c->host_kv_bytes)
        return;
    if (br_parcels_create(c->host_kv_bytes / 4, c->devices, &s->parcels_fd, &err)) {
        s->parcels_fd = -1;
        br_log(BR_WARN, "kv_parcels_failed", "why=%s", BR_Q(err.msg));
    }
    s->plan.parcels = s->parcels_fd >= 0;
}

int br_worker_run(const struct br_worker_config *config, struct br_err *err)
{
    struct supervisor s = {.plan = {.config = *config, .parent = getpid()}, .parcels_fd = -1};
    struct node_cache cache;
    struct node_kv_file kv_file;
    uint64_t bytes;
    uint32_t n;
    int rc = br_worker_config_check(config, err);
    if (rc == 0 && node_outlines(config))
        return outlines_run(&s, err);
    if (rc == 0)
        rc = node_cache_open(&cache, config, err);
    if (rc)
        return rc;
    s.plan.config.cache_dir = cache.dir;
    s.plan.images = br_calloc(config->n_models, sizeof *s.plan.images);
    rc = node_cache_fill(&cache, config, s.plan.images, &bytes, &n, &s.plan.spent, err);
    if (rc == 0 && n == 0)
        rc = br_err_set(err, BR_EINVAL, "none of %u models can be served; the first: %s: %s", config->n_models,
                        config->models[0].name, s.plan.images[0].error);
    else if (rc == 0 && (rc = memory_choose(&s.plan.config, bytes, err)) == 0 &&
             (rc = node_kv_file_open(&kv_file, config, err)) == 0) {
        parcels_make(&s);
        rc = supervisor_run(&s, err);
        node_kv_file_close(&kv_file);
    }
    if (s.parcels_fd >= 0)
        close(s.parcels_fd);
    images_free(s.plan.images, config->n_models);
    node_cache_close(&cache, config->keep_cache);
    return rc;
}
