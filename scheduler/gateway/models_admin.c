#include "scheduler/gateway/models_admin.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BODY_BYTES = 64 << 10 };

struct br_gateway_admin {
    struct br_gateway *gateway;
    struct br_http *http;
    struct br_gateway_admin *prev, *next;
};

static void admin_free(struct br_gateway_admin *a)
{
    if (a->prev)
        a->prev->next = a->next;
    else
        a->gateway->admins = a->next;
    if (a->next)
        a->next->prev = a->prev;
    a->http->admin = NULL;
    free(a);
}

static struct br_gateway_admin *admin_open(struct br_gateway *gateway, struct br_http *http)
{
    struct br_gateway_admin *a = br_calloc(1, sizeof *a);
    a->gateway = gateway;
    a->http = http;
    a->next = gateway->admins;
    if (a->next)
        a->next->prev = a;
    gateway->admins = http->admin = a;
    return a;
}

void br_admin_abandon(struct br_gateway_admin *a)
{
    const struct br_gateway_backend *backend = &a->gateway->backend;
    backend->order_forget(backend->ctx, a);
    admin_free(a);
}

void br_gateway_ordered(struct br_gateway_admin *a, const char *json)
{
    struct br_http *http = a->http;
    admin_free(a);
    br_http_answer(http, 200, "application/json", "", json, strlen(json));
}

void br_gateway_order_refused(struct br_gateway_admin *a, int status, double retry_after_s, const char *message)
{
    struct br_http *http = a->http;
    struct br_problem problem;
    const char *code = status == 404 ? "model_not_found" : status == 409 ? "model_busy" : NULL;
    admin_free(a);
    br_problem_set(&problem, status, code, status == 404 ? "model" : NULL, "%s", message);
    problem.retry_after_s = retry_after_s;
    br_http_answer_problem(http, &problem, "");
}

void br_admin_stop(struct br_gateway *gateway)
{
    while (gateway->admins) {
        struct br_gateway_admin *a = gateway->admins;
        gateway->backend.order_forget(gateway->backend.ctx, a);
        br_gateway_order_refused(a, 503, 1, "The server stops.");
    }
}

/* ---- requests ---- */

static int order_what(const char *word, struct br_gateway_order *out, struct br_problem *problem)
{
    static const char *const words[] = {"load", "unload", "pin", "unpin"};
    for (int i = 0; i < 4; i++)
        if (strcmp(word, words[i]) == 0) {
            out->what = (enum br_gateway_order_what)i;
            return 0;
        }
    return br_problem_set(problem, 404, "unknown_path", NULL,
                          "Unknown path: /models/%.64s. There are load, unload, pin and unpin.", word);
}

static int flag_read(json_t *body, const char *name, bool *out, struct br_problem *problem)
{
    json_t *value = json_object_get(body, name);
    if (!value)
        return 0;
    if (!json_is_boolean(value))
        return br_problem_set(problem, 400, NULL, name, "'%s' must be true or false.", name);
    *out = json_is_true(value);
    return 0;
}

/* A misspelt member would do less, or more, than was meant. */
static int members_known(json_t *body, const char *const *known, size_t n, struct br_problem *problem)
{
    const char *name;
    json_t *value;
    json_object_foreach(body, name, value)
    {
        bool found = false;
        for (size_t i = 0; i < n; i++)
            found = found || strcmp(name, known[i]) == 0;
        if (!found)
            return br_problem_set(problem, 400, NULL, name, "Unknown member '%.64s': there are model, host and wait.",
                                  name);
    }
    return 0;
}

static int body_read(json_t *body, struct br_gateway_order *out, struct br_problem *problem)
{
    static const char *const known[] = {"model", "host", "wait"};
    json_t *model = json_object_get(body, "model");
    if (!json_is_object(body))
        return br_problem_set(problem, 400, NULL, NULL, "The body must be a JSON object: {\"model\": NAME}.");
    if (members_known(body, known, 3, problem))
        return -1;
    if (!json_is_string(model) || !json_string_length(model) || json_string_length(model) >= BR_MAX_MODEL_NAME)
        return br_problem_set(problem, 400, NULL, "model", "'model' must be a string of 1 to %d bytes.",
                              BR_MAX_MODEL_NAME - 1);
    out->model = json_string_value(model);
    out->wait = out->what == BR_GATEWAY_LOAD;
    return flag_read(body, "host", &out->host, problem) ? -1 : flag_read(body, "wait", &out->wait, problem);
}

static json_t *body_parse(const struct br_http *http, struct br_problem *problem)
{
    json_error_t error;
    json_t *body;
    if (http->body.len > MAX_BODY_BYTES) {
        br_problem_set(problem, 413, NULL, NULL, "The body has %zu bytes; at most %d are taken here.", http->body.len,
                       MAX_BODY_BYTES);
        return NULL;
    }
    body = json_loadb(http->body.data ? http->body.data : "", http->body.len, 0, &error);
    if (!body)
        br_problem_set(problem, 400, NULL, NULL, "The body is not JSON: %.200s (line %d, column %d).", error.text,
                       error.line, error.column);
    return body;
}

void br_route_model_order(struct br_http *http, const char *rest)
{
    struct br_gateway *gateway = br_server_ctx(http);
    struct br_gateway_order order = {0};
    struct br_problem problem;
    json_t *body = NULL;
    int rc = gateway->backend.order ? order_what(rest, &order, &problem)
                                    : br_problem_set(&problem, 404, "unknown_path", NULL, "This server's models stay.");
    if (rc == 0)
        rc = (body = body_parse(http, &problem)) ? body_read(body, &order, &problem) : -1;
    if (rc)
        br_http_answer_problem(http, &problem, "");
    else
        gateway->backend.order(gateway->backend.ctx, admin_open(gateway, http), &order);
    json_decref(body);
}

void br_route_models_state(struct br_http *http, const char *rest)
{
    const struct br_gateway *gateway = br_server_ctx(http);
    struct br_buf body = {0};
    struct br_problem problem;
    (void)rest;
    if (!gateway->backend.models_state) {
        br_problem_set(&problem, 404, "unknown_path", NULL, "This server does not say. See /v1/models.");
        br_http_answer_problem(http, &problem, "");
        return;
    }
    gateway->backend.models_state(gateway->backend.ctx, &body);
    br_http_answer(http, 200, "application/json", "", body.data, body.len);
    br_buf_free(&body);
}
