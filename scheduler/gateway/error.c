#include "scheduler/gateway/error.h"

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

/* The escape of a byte in a JSON string; NULL: it stands for itself. */
static const char *json_escape(unsigned char c, char text[8])
{
    static const char *const named[0x20] = {
        ['\b'] = "\\b", ['\f'] = "\\f", ['\n'] = "\\n", ['\r'] = "\\r", ['\t'] = "\\t"};
    if (c == '"')
        return "\\\"";
    if (c == '\\')
        return "\\\\";
    if (c >= 0x20)
        return NULL;
    if (named[c])
        return named[c];
    snprintf(text, 8, "\\u%04X", c);
    return text;
}

static void json_string_put(struct br_buf *out, const char *text, size_t len)
{
    size_t from = 0;
    br_buf_reserve(out, len + 2);
    br_buf_add(out, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        char buf[8];
        const char *escape = json_escape((unsigned char)text[i], buf);
        if (!escape)
            continue;
        br_buf_add(out, text + from, i - from);
        br_buf_puts(out, escape);
        from = i + 1;
    }
    br_buf_add(out, text + from, len - from);
    br_buf_add(out, "\"", 1);
}

/* Not by jansson: this is done for every streamed token, and a value of its own would be allocated for each. */
void br_json_put(struct br_buf *out, const char *text, size_t len)
{
    struct br_buf repaired = {0};
    text = text ? text : "";
    if (br_utf8_valid_len(text, len) == len) {
        json_string_put(out, text, len);
        return;
    }
    br_utf8_lossy(&repaired, text, len);
    json_string_put(out, repaired.data, repaired.len);
    br_buf_free(&repaired);
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
