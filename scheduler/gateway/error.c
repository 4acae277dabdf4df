#include "scheduler/gateway/error.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

int br_problem_set(struct br_problem *problem, int status, const char *code, const char *param, const char *fmt, ...)
{
    va_list args;
    memset(problem, 0, sizeof *problem);
    problem->status = status;
    problem->code = code;
    snprintf(problem->param, sizeof problem->param, "%s", param ? param : "");
    va_start(args, fmt);
    vsnprintf(problem->message, sizeof problem->message, fmt, args);
    va_end(args);
    return -1;
}

static const char *problem_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 503:
        return "service_unavailable";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

static const char *problem_type_anthropic(int status)
{
    static const struct {
        int status;
        const char *type;
    } table[] = {{401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
                 {413, "request_too_large"},    {429, "rate_limit_error"}, {503, "overloaded_error"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].status == status)
            return table[i].type;
    return status >= 500 ? "api_error" : "invalid_request_error";
}

static int json_append(const char *data, size_t len, void *out)
{
    br_buf_add(out, data, len);
    return 0;
}

void br_json_put(struct br_buf *out, const char *text, size_t len)
{
    json_t *string = json_stringn(text ? text : "", len);
    if (!string) {
        struct br_buf repaired = {0};
        br_utf8_lossy(&repaired, text, len);
        string = json_stringn_nocheck(repaired.data ? repaired.data : "", repaired.len);
        br_buf_free(&repaired);
    }
    if (!string || json_dump_callback(string, json_append, out, JSON_ENCODE_ANY | JSON_COMPACT) < 0)
        br_buf_puts(out, "\"\"");
    json_decref(string);
}

static void problem_field(struct br_buf *out, const char *value)
{
    if (value && *value)
        br_json_put(out, value, strlen(value));
    else
        br_buf_puts(out, "null");
}

void br_problem_body(const struct br_problem *problem, struct br_buf *out)
{
    if (problem->anthropic) {
        br_buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                      problem_type_anthropic(problem->status));
        br_json_put(out, problem->message, strlen(problem->message));
        br_buf_puts(out, "}}");
        return;
    }
    br_buf_puts(out, "{\"error\":{\"message\":");
    br_json_put(out, problem->message, strlen(problem->message));
    br_buf_printf(out, ",\"type\":\"%s\",\"param\":", problem_type(problem->status));
    problem_field(out, problem->param);
    br_buf_puts(out, ",\"code\":");
    problem_field(out, problem->code);
    br_buf_puts(out, "}}");
}
