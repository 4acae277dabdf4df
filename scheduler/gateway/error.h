/* What a client is told when something is wrong: OpenAI's error object. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_ERROR_H
#define BRIAREUS_SCHEDULER_GATEWAY_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct br_problem {
    int status;           /* of HTTP */
    const char *code;     /* static string, or NULL */
    char param[96];       /* the field at fault; "" for none */
    double retry_after_s; /* 0: no Retry-After header */
    bool anthropic;       /* said in the shape of Anthropic's errors */
    char message[640];
};

/* Fills *problem and returns -1, so that callers write `return br_problem_set(...)`. param may be NULL. */
int br_problem_set(struct br_problem *problem, int status, const char *code, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Appends {"error":{"message","type","param","code"}}, or {"type":"error","error":{"type","message"}}. */
void br_problem_body(const struct br_problem *problem, struct br_buf *out);

/* Appends a JSON string, quotes included. Ill-formed UTF-8 is repaired. */
void br_json_put(struct br_buf *out, const char *text, size_t len);

#endif
