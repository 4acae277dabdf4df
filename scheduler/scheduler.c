#include "scheduler/scheduler.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "report/trace.h"
#include "scheduler/gateway/auth.h"
#include "scheduler/reload.h"
#include "scheduler/service.h"

enum { SETTLE_S = 2 };

struct daemon {
    const struct br_scheduler_config *config;
    uv_loop_t loop;
    uv_signal_t term, interrupt;
    uv_timer_t retry;
    struct br_key_list keys; /* until the gateway has them */
    struct br_queue *queue;
    struct br_models *models;
    struct br_service *service;
    struct br_link_server *link;
    struct br_gateway *gateway;
    struct br_trace *trace; /* NULL: none */
    struct br_reload *reload;
    bool draining, stopping;
    int64_t drain_until_ns, settle_until_ns;
    int rc;
    struct br_err *err;
};

/* "unix:/path" or "tcp:host:port" into its parts; host is the caller's buffer. */
static int redis_address(const char *address, struct br_queue_redis_config *out, char host[256], struct br_err *err)
{
    const char *colon;
    if (strncmp(address, "unix:", 5) == 0 && address[5]) {
        out->unix_path = address + 5;
        return 0;
    }
    colon = strrchr(address, ':');
    if (strncmp(address, "tcp:", 4) != 0 || !colon || colon == address + 3 || colon - address - 4 >= 256)
        return br_err_set(err, BR_EINVAL, "redis: '%s' is neither unix:/path nor tcp:host:port", address);
    snprintf(host, 256, "%.*s", (int)(colon - address - 4), address + 4);
    out->host = host;
    out->port = atoi(colon + 1);
    if (out->port <= 0 || out->port > 65535)
        return br_err_set(err, BR_EINVAL, "redis: '%s' has no port from 1 to 65535", address);
    return 0;
}

static int open_queue(struct daemon *d, struct br_err *err)
{
    const struct br_scheduler_config *c = d->config;
    char host[256];
    struct br_queue_redis_config redis = {.prefix = c->redis_prefix,
                                          .group_commit_us = (uint32_t)(c->group_commit_s * 1e6),
                                          .finished_ttl_s = (uint32_t)c->keep_ended_s,
                                          .keep_tokens = c->keep_tokens,
                                          .max_pending = 4 * c->max_unfinished + 1024,
                                          .timeout_ms = 10000};
    if (redis_address(c->redis, &redis, host, err))
        return err->code;
    return br_queue_redis_create(&d->loop, &redis, &d->queue, err);
}

static void daemon_close(struct daemon *d)
{
    if (d->link)
        br_link_server_stop(d->link);
    if (d->service)
        br_service_close(d->service);
    if (d->queue)
        d->queue->ops->destroy(d->queue);
    br_reload_stop(d->reload);
    uv_close((uv_handle_t *)&d->term, NULL);
    uv_close((uv_handle_t *)&d->interrupt, NULL);
    uv_close((uv_handle_t *)&d->retry, NULL);
}

static void on_settle(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    if (br_service_settled(d->service) || br_now_ns() >= d->settle_until_ns) {
        uv_timer_stop(timer);
        daemon_close(d);
    }
}

/* The gateway tells its clients that it stops. Their sequences stay in the queue for the next start; what devices still
 * do for them is heard no more, so that what is under way to the queue comes to an end. */
static void daemon_stop(struct daemon *d)
{
    if (d->stopping)
        return;
    d->stopping = true;
    if (d->gateway)
        br_gateway_stop(d->gateway);
    if (d->link)
        br_link_server_stop(d->link);
    d->link = NULL;
    d->settle_until_ns = br_now_ns() + SETTLE_S * BR_NS_PER_S;
    if (d->service)
        uv_timer_start(&d->retry, on_settle, 0, 5);
    else
        daemon_close(d);
}

static void on_drain(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    uint32_t open = br_gateway_open_calls(d->gateway);
    if (open > 0 && br_now_ns() < d->drain_until_ns)
        return;
    br_log(BR_INFO, "drained", "open=%u", open);
    daemon_stop(d);
}

/* Answers under way get their time; false: there are none, or no time. */
static bool drain_begin(struct daemon *d)
{
    enum { LOOK_MS = 20 };
    double limit_s = d->config->shutdown_timeout_s;
    uint32_t open = d->gateway && !d->stopping ? br_gateway_open_calls(d->gateway) : 0;
    if (open == 0 || !(limit_s > 0))
        return false;
    br_log(BR_INFO, "draining", "open=%u limit_s=%.1f", open, limit_s);
    d->draining = true;
    d->drain_until_ns = br_now_ns() + (int64_t)(limit_s * 1e9);
    br_gateway_drain(d->gateway, limit_s);
    uv_timer_start(&d->retry, on_drain, LOOK_MS, LOOK_MS);
    return true;
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct daemon *d = handle->data;
    if (!d->draining && drain_begin(d))
        return;
    br_log(BR_INFO, "stopping", "signal=%d", signum);
    daemon_stop(d);
}

static int start_link(struct daemon *d)
{
    struct br_link_limits limits = {.max_peers = d->config->max_devices + 16,
                                    .max_out_bytes = 256u << 20,
                                    .register_ms = 5000,
                                    .silence_ms = 15000,
                                    .token = d->config->worker_token};
    struct br_link_server_cb cb = br_service_link(d->service);
    return br_link_server_start(&d->loop, d->config->worker_address, &limits, &cb, &d->link, d->err);
}

static int start_gateway(struct daemon *d)
{
    const struct br_scheduler_config *c = d->config;
    struct br_gateway_config gateway = {.host = c->host,
                                        .port = (int)c->port,
                                        .max_connections = c->max_connections,
                                        .max_header_bytes = (uint32_t)c->max_head_bytes,
                                        .max_body_bytes = (uint32_t)c->max_body_bytes,
                                        .max_choices = c->max_choices,
                                        .header_timeout_ms = (uint32_t)(c->request_timeout_s * 1000),
                                        .idle_timeout_ms = (uint32_t)(c->idle_timeout_s * 1000),
                                        .ping_ms = (uint32_t)(c->ping_s * 1000),
                                        .max_out_bytes = c->max_out_bytes,
                                        .slow_out_bytes = c->slow_out_bytes,
                                        .slow_tokens = c->slow_tokens,
                                        .admin_listen = c->admin_listen,
                                        .tls_cert = c->tls_cert,
                                        .tls_key = c->tls_key,
                                        .traces = c->traces,
                                        .log_content = c->log_content};
    struct br_gateway_backend backend = br_service_backend(d->service);
    if (br_gateway_start(&d->loop, &gateway, &backend, &d->gateway, d->err))
        return d->err->code;
    if (d->keys.n)
        br_gateway_set_keys(d->gateway, &d->keys);
    return 0;
}

/* A file that cannot be used changes nothing: the keys of before go on. */
static void on_keys(void *ctx)
{
    struct daemon *d = ctx;
    struct br_key_list keys;
    struct br_err err;
    if (br_keys_read(d->config->api_keys, &keys, &err)) {
        br_log(BR_ERROR, "keys_refused", "why=%s", BR_Q(err.msg));
        return;
    }
    br_log(BR_INFO, "keys_read", "n=%u", keys.n);
    if (d->gateway && !d->stopping) {
        br_gateway_set_keys(d->gateway, &keys);
        return;
    }
    br_keys_free(&d->keys);
    d->keys = keys;
}

static void on_tls(void *ctx)
{
    struct daemon *d = ctx;
    struct br_err err;
    if (!d->gateway || d->stopping)
        return;
    if (br_gateway_reload_tls(d->gateway, &err))
        br_log(BR_ERROR, "tls_refused", "why=%s", BR_Q(err.msg));
    else
        br_log(BR_INFO, "tls_read", "cert=%s", BR_Q(d->config->tls_cert));
}

static int open_keys(struct daemon *d, struct br_err *err)
{
    d->reload = br_reload_start(&d->loop);
    if (d->config->tls_cert && br_reload_add(d->reload, d->config->tls_cert, on_tls, d, err))
        return err->code;
    if (!d->config->api_keys)
        return 0;
    if (br_keys_read(d->config->api_keys, &d->keys, err))
        return err->code = BR_EINVAL; /* whatever it is, the configuration has to change */
    return br_reload_add(d->reload, d->config->api_keys, on_keys, d, err);
}

static void tell_ready(struct daemon *d)
{
    int port = br_gateway_port(d->gateway);
    br_log(BR_INFO, "serving", "host=%s port=%d workers=%s admin_port=%d", d->config->host, port,
           d->config->worker_address, br_gateway_admin_port(d->gateway));
    if (d->config->ready_fd < 0)
        return;
    dprintf(d->config->ready_fd, "%d\n", port);
    close(d->config->ready_fd);
}

static void on_retry(uv_timer_t *timer);

static void on_recovered(void *ctx, int rc)
{
    struct daemon *d = ctx;
    if (d->stopping)
        return;
    if (rc) {
        uv_timer_start(&d->retry, on_retry, 500, 0);
        return;
    }
    if ((d->rc = start_link(d)) || (d->rc = start_gateway(d)))
        daemon_stop(d);
    else
        tell_ready(d);
}

static void on_retry(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    br_service_recover(d->service, on_recovered, d);
}

static void daemon_handles(struct daemon *d)
{
    uv_signal_init(&d->loop, &d->term);
    uv_signal_init(&d->loop, &d->interrupt);
    uv_timer_init(&d->loop, &d->retry);
    d->term.data = d->interrupt.data = d->retry.data = d;
    uv_signal_start(&d->term, on_signal, SIGTERM);
    uv_signal_start(&d->interrupt, on_signal, SIGINT);
}

/* A trace that cannot be written is no reason not to serve. */
static void trace_open(struct daemon *d)
{
    struct br_err err;
    if (d->config->trace && br_trace_join(d->config->trace, d->config->trace_bytes, &d->trace, &err))
        br_log(BR_WARN, "no_trace", "why=%s", BR_Q(err.msg));
}

static int generation_mode(const struct br_scheduler_config *c, struct br_err *err)
{
    if (strcmp(c->generation_config, "auto") == 0 || strcmp(c->generation_config, "vllm") == 0)
        return 0;
    return br_err_set(err, BR_EINVAL, "generation-config: '%.64s' is neither auto nor vllm", c->generation_config);
}

static struct br_models_config models_of(const struct br_scheduler_config *c, const struct br_model_list *outlines)
{
    return (struct br_models_config){.models = &c->models,
                                     .outlines = outlines,
                                     .chat_template = c->chat_template,
                                     .max_model_len = c->max_model_len,
                                     .ttft_s = c->ttft_s,
                                     .tbt_s = c->tbt_s,
                                     .terms = &c->terms,
                                     .plain_sampling = strcmp(c->generation_config, "auto") != 0};
}

static int models_take(void *ctx, const struct br_scheduler_config *c, struct br_err *err)
{
    struct daemon *d = ctx;
    struct br_model_list outlines = {0};
    struct br_models_config models = models_of(c, &outlines);
    int rc = c->models_from ? br_model_list_read(c->models_from, &outlines, err) : 0;
    if (rc == 0)
        rc = br_service_reload(d->service, &models, err);
    br_model_list_free(&outlines);
    return rc;
}

/* What is wrong with it is told, and the models stay as they were. */
static void on_models(void *ctx)
{
    struct daemon *d = ctx;
    struct br_err err;
    if (d->gateway && !d->stopping && d->config->again(d->config->again_ctx, models_take, d, &err))
        br_log(BR_ERROR, "reload_failed", "why=%s", BR_Q(err.msg));
}

static int models_watch(struct daemon *d, struct br_err *err)
{
    const struct br_scheduler_config *c = d->config;
    int rc = c->again ? br_reload_add(d->reload, c->config_file, on_models, d, err) : 0;
    if (rc == 0 && c->again && c->models_from)
        rc = br_reload_add(d->reload, c->models_from, on_models, d, err);
    return rc;
}

static bool uses(void *ctx, const struct br_gateway_model *model)
{
    const struct daemon *d = ctx;
    return d->gateway && br_gateway_uses(d->gateway, model);
}

static int daemon_open(struct daemon *d, struct br_err *err)
{
    const struct br_scheduler_config *c = d->config;
    struct br_model_list outlines = {0};
    struct br_models_config models = models_of(c, &outlines);
    struct br_service_config service = {.max_unfinished = c->max_unfinished,
                                        .max_devices = c->max_devices,
                                        .policy = c->placement,
                                        .hysteresis = c->hysteresis,
                                        .admission = c->admission,
                                        .hung_s = c->hung_s,
                                        .uses = uses,
                                        .uses_ctx = d,
                                        .adopt_s = c->adopt_s};
    int rc = generation_mode(c, err);
    if (rc)
        return rc;
    trace_open(d);
    service.trace = d->trace;
    rc = c->models_from ? br_model_list_read(c->models_from, &outlines, err) : 0;
    if (rc)
        rc = err->code = BR_EINVAL; /* whatever it is, the configuration has to change */
    else
        rc = br_models_create(&models, &d->models, err);
    br_model_list_free(&outlines);
    if (rc || open_keys(d, err) || models_watch(d, err) || open_queue(d, err))
        return err->code;
    return br_service_create(&d->loop, &service, d->queue, d->models, &d->service, err);
}

int br_scheduler_run(const struct br_scheduler_config *config, struct br_err *err)
{
    struct daemon d = {.config = config, .err = err};
    int rc;
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&d.loop);
    daemon_handles(&d);
    rc = daemon_open(&d, err);
    if (rc)
        daemon_stop(&d);
    else
        br_service_recover(d.service, on_recovered, &d);
    uv_run(&d.loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&d.loop))
        br_log(BR_WARN, "loop_busy", "why=%s", BR_Q("handles were still open at the end"));
    if (d.service)
        br_service_destroy(d.service);
    if (d.trace)
        br_trace_close(d.trace, &(struct br_err){0});
    br_models_destroy(d.models);
    br_keys_free(&d.keys);
    return rc ? rc : d.rc;
}
