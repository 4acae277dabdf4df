#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int br_err_set(struct br_err *err, int code, const char *fmt, ...)
{
    va_list ap;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return code;
}

int br_err_wrap(struct br_err *err, const char *fmt, ...)
{
    char inner[sizeof err->msg];
    va_list ap;
    int n;
    memcpy(inner, err->msg, sizeof inner);
    va_start(ap, fmt);
    n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->msg)
        snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s", inner);
    return err->code;
}

int br_err_errno(struct br_err *err, int code, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    int n;
    err->code = code;
    va_start(ap, fmt);
    n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->msg)
        snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s", strerror(saved));
    return code;
}

const char *br_err_name(int code)
{
    static const char *const names[] = {"ok",    "invalid", "not_found",     "no_room", "io",
                                        "stale", "busy",    "not_supported", "corrupt"};
    size_t i = (size_t)-code;
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown";
}
