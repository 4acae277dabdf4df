/* Paths and methods. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gateway/access.h"
#include "scheduler/gateway/gateway_impl.h"
#include "scheduler/gateway/models_admin.h"

enum { ROUTE_GET = 1, ROUTE_POST = 2 };

static struct br_gateway *route_gateway(const struct br_http *http)
{
    return br_server_ctx(http);
}

static void route_json(struct br_http *http, int status, const char *headers, struct br_buf *body)
{
    br_http_answer(http, status, "application/json", headers, body->data, body->len);
    br_buf_free(body);
}

static void route_chat(struct br_http *http, const char *rest)
{
    (void)rest;
    br_call_start(route_gateway(http), http, BR_REQUEST_CHAT);
}

static void route_completions(struct br_http *http, const char *rest)
{
    (void)rest;
    br_call_start(route_gateway(http), http, BR_REQUEST_COMPLETION);
}

static void route_messages(struct br_http *http, const char *rest)
{
    (void)rest;
    br_call_start(route_gateway(http), http, BR_REQUEST_MESSAGES);
}

static void route_count(struct br_http *http, const char *rest)
{
    (void)rest;
    br_call_start(route_gateway(http), http, BR_REQUEST_COUNT);
}

static void route_tokenize(struct br_http *http, const char *rest)
{
    (void)rest;
    br_call_start(route_gateway(http), http, BR_REQUEST_TOKENIZE);
}

static void route_detokenize(struct br_http *http, const char *rest)
{
    (void)rest;
    br_call_start(route_gateway(http), http, BR_REQUEST_DETOKENIZE);
}

static void route_models(struct br_http *http, const char *rest)
{
    const struct br_gateway_backend *backend = &route_gateway(http)->backend;
    struct br_buf body = {0};
    uint32_t n = backend->n_models(backend->ctx);
    (void)rest;
    br_buf_puts(&body, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < n; i++) {
        br_buf_puts(&body, i ? "," : "");
        br_answer_model(backend->model_at(backend->ctx, i), &body);
    }
    br_buf_puts(&body, "]}");
    route_json(http, 200, "", &body);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %2F and so on; what is no escape stands for itself. */
static void percent_decode(const char *text, char *out, size_t size)
{
    size_t n = 0;
    while (*text && n + 1 < size) {
        int high = text[0] == '%' ? hex_value(text[1]) : -1;
        int low = high >= 0 ? hex_value(text[2]) : -1;
        if (low >= 0)
            out[n++] = (char)(high << 4 | low);
        else
            out[n++] = *text;
        text += low >= 0 ? 3 : 1;
    }
    out[n] = 0;
}

static void route_model(struct br_http *http, const char *rest)
{
    const struct br_gateway_backend *backend = &route_gateway(http)->backend;
    const struct br_gateway_model *model = NULL;
    char name[BR_MAX_MODEL_NAME];
    struct br_buf body = {0};
    struct br_problem problem;
    percent_decode(rest, name, sizeof name);
    if (strlen(rest) < 3 * sizeof name)
        model = backend->model(backend->ctx, name);
    if (!model) {
        br_problem_set(&problem, 404, "model_not_found", "model", "The model '%s' does not exist.", name);
        br_http_answer_problem(http, &problem, "");
        return;
    }
    br_answer_model(model, &body);
    route_json(http, 200, "", &body);
}

/* Alive: this process answers. A probe that restarted it because something else is away would help nobody. */
static void route_health(struct br_http *http, const char *rest)
{
    struct br_buf body = {0};
    (void)rest;
    br_buf_puts(&body, "{\"status\":\"ok\"}");
    route_json(http, 200, "", &body);
}

static const char *unready(const struct br_gateway_backend *backend)
{
    const char *why = "it is not healthy";
    if (backend->unready)
        return backend->unready(backend->ctx);
    return backend->healthy(backend->ctx, &why) ? NULL : why;
}

/* Ready: new requests will be served. Neither probe touches a model, so that none is kept loaded by them. */
static void route_ready(struct br_http *http, const char *rest)
{
    const char *why = http->draining ? "it is shutting down" : unready(&route_gateway(http)->backend);
    struct br_buf body = {0};
    struct br_problem problem;
    (void)rest;
    if (!why) {
        br_buf_puts(&body, "{\"status\":\"ready\"}");
        route_json(http, 200, "", &body);
        return;
    }
    br_problem_set(&problem, 503, "not_ready", NULL, "The server is not ready: %s.", why);
    problem.retry_after_s = 1;
    br_http_answer_problem(http, &problem, "");
}

static void route_running(struct br_http *http, const char *rest)
{
    const struct br_gateway_backend *backend = &route_gateway(http)->backend;
    struct br_buf body = {0};
    (void)rest;
    br_buf_puts(&body, "{\"running\":");
    if (backend->running)
        backend->running(backend->ctx, &body);
    else
        br_buf_puts(&body, "[]");
    br_buf_puts(&body, "}");
    route_json(http, 200, "", &body);
}

static void route_stats(struct br_http *http, const char *rest)
{
    const struct br_gateway_backend *backend = &route_gateway(http)->backend;
    struct br_buf body = {0};
    struct br_problem problem;
    (void)rest;
    if (!backend->stats) {
        br_problem_set(&problem, 404, "unknown_path", NULL, "This server keeps no statistics.");
        br_http_answer_problem(http, &problem, "");
        return;
    }
    backend->stats(backend->ctx, &body);
    route_json(http, 200, "", &body);
}

static void route_metrics(struct br_http *http, const char *rest)
{
    struct br_gateway *gateway = route_gateway(http);
    struct br_buf body = {0};
    (void)rest;
    br_metrics_put(&gateway->metrics, &body);
    if (gateway->auth)
        br_auth_metrics(gateway->auth, &body);
    if (gateway->otlp)
        br_otlp_metrics(gateway->otlp, &body);
    if (gateway->backend.metrics)
        gateway->backend.metrics(gateway->backend.ctx, &body);
    br_http_answer(http, 200, "text/plain; version=0.0.4; charset=utf-8", "", body.data, body.len);
    br_buf_free(&body);
}

static const struct route {
    const char *path; /* ending in '/': a prefix, the rest goes to the handler */
    unsigned methods;
    void (*handle)(struct br_http *http, const char *rest);
} routes[] = {
    {"/v1/chat/completions", ROUTE_POST, route_chat},
    {"/v1/completions", ROUTE_POST, route_completions},
    {"/v1/messages", ROUTE_POST, route_messages},
    {"/v1/messages/count_tokens", ROUTE_POST, route_count},
    {"/tokenize", ROUTE_POST, route_tokenize},
    {"/detokenize", ROUTE_POST, route_detokenize},
    {"/v1/models", ROUTE_GET, route_models},
    {"/v1/models/", ROUTE_GET, route_model},
    {"/models", ROUTE_GET, br_route_models_state},
    {"/models/", ROUTE_POST, br_route_model_order},
    {"/health", ROUTE_GET, route_health},
    {"/health/ready", ROUTE_GET, route_ready},
    {"/running", ROUTE_GET, route_running},
    {"/stats", ROUTE_GET, route_stats},
    {"/metrics", ROUTE_GET, route_metrics},
};

static const struct route *route_find(const char *path, const char **rest)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        size_t len = strlen(routes[i].path);
        bool prefix = routes[i].path[len - 1] == '/';
        if (strncmp(path, routes[i].path, len) != 0 || (prefix ? !path[len] : path[len]))
            continue;
        *rest = path + len;
        return &routes[i];
    }
    return NULL;
}

static const char *route_allow(const struct route *route)
{
    return route->methods & ROUTE_POST ? "Allow: POST, OPTIONS\r\n" : "Allow: GET, HEAD, OPTIONS\r\n";
}

static bool route_takes(const struct route *route, unsigned method)
{
    if (method == HTTP_POST)
        return route->methods & ROUTE_POST;
    return (method == HTTP_GET || method == HTTP_HEAD) && (route->methods & ROUTE_GET);
}

static void route_refuse(struct br_http *http, int status, const char *code, const char *headers)
{
    const char *method = llhttp_method_name((llhttp_method_t)http->method);
    struct br_problem problem;
    if (status == 404)
        br_problem_set(&problem, status, code, NULL, "Unknown path: %s %.200s.", method, http->target.data);
    else
        br_problem_set(&problem, status, code, NULL, "%s is not allowed for %.200s.", method, http->target.data);
    br_http_answer_problem(http, &problem, headers);
}

void br_route(struct br_http *http)
{
    const struct route *route;
    const char *rest = "";
    char *query = strchr(http->target.data, '?');
    if (query)
        *query = 0;
    http->anthropic = strncmp(http->target.data, "/v1/messages", 12) == 0;
    if (!br_access(http))
        return;
    route = route_find(http->target.data, &rest);
    if (http->method == HTTP_OPTIONS && (route || strcmp(http->target.data, "*") == 0))
        br_http_answer(http, 204, NULL, route ? route_allow(route) : "Allow: GET, HEAD, POST, OPTIONS\r\n", "", 0);
    else if (!route)
        route_refuse(http, 404, "unknown_path", "");
    else if (!route_takes(route, http->method))
        route_refuse(http, 405, "method_not_allowed", route_allow(route));
    else
        route->handle(http, rest);
}
