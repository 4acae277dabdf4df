#include "scheduler/gateway/gateway.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "scheduler/gateway/gateway_impl.h"
#include "scheduler/gateway/models_admin.h"

enum { ADMIN_CONNECTIONS = 64 };

enum { SLOW_OUT_BYTES = 16 << 10, SLOW_TOKENS = 1024 };

static void gateway_free_if_done(struct br_gateway *gateway)
{
    if (!gateway->stopping || gateway->server || gateway->admin || gateway->ping_open || gateway->n_jobs > 0)
        return;
    br_auth_destroy(gateway->auth);
    br_metrics_free(&gateway->metrics);
    br_tls_context_free(gateway->tls);
    free(gateway->tls_cert);
    free(gateway->tls_key);
    free(gateway);
}

static void on_server_closed(void *ctx)
{
    struct br_gateway *gateway = ctx;
    gateway->server = NULL;
    gateway_free_if_done(gateway);
}

static void on_admin_closed(void *ctx)
{
    struct br_gateway *gateway = ctx;
    gateway->admin = NULL;
    gateway_free_if_done(gateway);
}

void br_gateway_job_done(struct br_gateway *gateway)
{
    gateway_free_if_done(gateway);
}

static void on_ping(uv_timer_t *timer)
{
    struct br_gateway *gateway = timer->data;
    for (struct br_gateway_call *call = gateway->calls; call; call = call->next)
        if (call->http && call->http->state == BR_HTTP_STREAM)
            br_sse_ping(call);
}

static void on_ping_closed(uv_handle_t *handle)
{
    struct br_gateway *gateway = handle->data;
    gateway->ping_open = false;
    gateway_free_if_done(gateway);
}

static void gateway_ping(struct br_gateway *gateway)
{
    uint64_t every_ms = gateway->config.ping_ms ? gateway->config.ping_ms : 30000;
    uv_timer_init(gateway->loop, &gateway->ping);
    gateway->ping.data = gateway;
    gateway->ping_open = true;
    uv_timer_start(&gateway->ping, on_ping, every_ms, every_ms);
    uv_unref((uv_handle_t *)&gateway->ping);
}

static void on_gone(struct br_http *http)
{
    if (http->call)
        br_call_abandon(http->call);
    if (http->admin)
        br_admin_abandon(http->admin);
}

static bool on_slow(struct br_http *http, bool slow)
{
    return http->call ? br_call_pace(http->call, slow) : false;
}

static int gateway_tls(struct br_gateway *gateway, struct br_server_config *server, struct br_err *err)
{
    const struct br_gateway_config *config = &gateway->config;
    if (!config->tls_cert && !config->tls_key)
        return 0;
    if (!config->tls_cert || !config->tls_key)
        return br_err_set(err, BR_EINVAL, "tls-cert and tls-key belong together: both PEM files are needed");
    gateway->tls_cert = br_strdup(config->tls_cert);
    gateway->tls_key = br_strdup(config->tls_key);
    if (br_tls_context_load(gateway->tls_cert, gateway->tls_key, &gateway->tls, err))
        return err->code;
    server->tls = gateway->tls;
    return 0;
}

int br_gateway_reload_tls(struct br_gateway *gateway, struct br_err *err)
{
    struct br_tls_context *tls;
    if (!gateway->tls || gateway->stopping)
        return 0;
    if (br_tls_context_load(gateway->tls_cert, gateway->tls_key, &tls, err))
        return err->code;
    br_server_set_tls(gateway->server, tls);
    br_tls_context_free(gateway->tls);
    gateway->tls = tls;
    return 0;
}

/* The operators' listener: few connections, the same limits. */
static int gateway_admin(struct br_gateway *gateway, struct br_server_config server,
                         const struct br_server_handler *handler, struct br_err *err)
{
    const char *text = gateway->config.admin_listen, *colon = text ? strrchr(text, ':') : NULL;
    char host[64], *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    if (!text)
        return 0;
    if (!colon || colon == text || colon - text >= (long)sizeof host || !end || *end || end == colon + 1 || port < 0 ||
        port > 65535)
        return br_err_set(err, BR_EINVAL, "admin-listen: '%s' is not host:port, e.g. 127.0.0.1:9090", text);
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    server.host = host;
    server.port = (int)port;
    server.max_connections = ADMIN_CONNECTIONS;
    return br_server_start(gateway->loop, &server, handler, &gateway->admin, err) ? br_err_wrap(err, "admin-listen")
                                                                                  : 0;
}

int br_gateway_start(uv_loop_t *loop, const struct br_gateway_config *config, const struct br_gateway_backend *backend,
                     struct br_gateway **out, struct br_err *err)
{
    struct br_gateway *gateway = br_calloc(1, sizeof *gateway);
    struct br_server_config server = {
        .host = config->host,
        .port = config->port,
        .max_connections = config->max_connections,
        .limits = {.max_header_bytes = config->max_header_bytes, .max_body_bytes = config->max_body_bytes},
        .header_timeout_ms = config->header_timeout_ms,
        .idle_timeout_ms = config->idle_timeout_ms,
        .max_out_bytes = config->max_out_bytes,
        .slow_out_bytes = config->slow_out_bytes ? config->slow_out_bytes : SLOW_OUT_BYTES};
    struct br_server_handler handler = {.ctx = gateway, .request = br_route, .gone = on_gone, .slow = on_slow};
    json_object_seed(0); /* before threads parse */
    gateway->loop = loop;
    gateway->config = *config;
    gateway->config.slow_tokens = config->slow_tokens ? config->slow_tokens : SLOW_TOKENS;
    gateway->backend = *backend;
    if (gateway_tls(gateway, &server, err) || br_server_start(loop, &server, &handler, &gateway->server, err) < 0) {
        gateway->stopping = true;
        gateway_free_if_done(gateway);
        return err->code;
    }
    server.tls = NULL;
    gateway_ping(gateway);
    if ((config->traces && br_otlp_start(loop, config->traces, &gateway->otlp, err)) ||
        gateway_admin(gateway, server, &handler, err)) {
        br_gateway_stop(gateway);
        return err->code;
    }
    gateway->config.host = gateway->config.admin_listen = gateway->config.traces =
        NULL; /* the caller's; not needed again */
    gateway->config.tls_cert = gateway->config.tls_key = NULL;
    *out = gateway;
    return 0;
}

void br_gateway_drain(struct br_gateway *gateway, double retry_after_s)
{
    gateway->retry_after_s = retry_after_s;
    br_server_wind_down(gateway->server);
}

bool br_gateway_uses(const struct br_gateway *gateway, const struct br_gateway_model *model)
{
    for (const struct br_gateway_call *call = gateway->calls; call; call = call->next)
        if (call->model == model)
            return true;
    return false;
}

uint32_t br_gateway_open_calls(const struct br_gateway *gateway)
{
    uint32_t n = 0;
    for (const struct br_gateway_call *call = gateway->calls; call; call = call->next)
        n++;
    return n;
}

void br_gateway_stop(struct br_gateway *gateway)
{
    struct br_gateway_call *next;
    gateway->stopping = true;
    br_server_drain(gateway->server);
    for (struct br_gateway_call *call = gateway->calls; call; call = next) {
        next = call->next;
        if (call->http)
            br_call_stop(call);
    }
    br_admin_stop(gateway);
    br_otlp_stop(gateway->otlp);
    gateway->otlp = NULL;
    uv_close((uv_handle_t *)&gateway->ping, on_ping_closed);
    if (gateway->admin)
        br_server_stop(gateway->admin, on_admin_closed, gateway);
    br_server_stop(gateway->server, on_server_closed, gateway);
}

int br_gateway_port(const struct br_gateway *gateway)
{
    return br_server_port(gateway->server);
}

int br_gateway_admin_port(const struct br_gateway *gateway)
{
    return gateway->admin ? br_server_port(gateway->admin) : -1;
}

void br_gateway_set_keys(struct br_gateway *gateway, struct br_key_list *keys)
{
    if (!gateway->auth)
        gateway->auth = br_auth_create();
    br_auth_set(gateway->auth, keys, br_now_s());
}
