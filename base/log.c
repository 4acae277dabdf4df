#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/log_json.h"

static char g_comp[32] = "briareus";
static enum br_log_level g_level = BR_INFO;
static bool g_json;
static const char *const g_level_names[] = {"debug", "info", "warn", "error", "off"};

void br_log_init(const char *comp, enum br_log_level level)
{
    const char *format = getenv("BRIAREUS_LOG_FORMAT");
    g_level = level;
    snprintf(g_comp, sizeof g_comp, "%s", comp);
    g_json = format && strcmp(format, "json") == 0;
}

int br_log_level_parse(const char *name, enum br_log_level *out)
{
    for (int i = 0; i <= BR_LOG_OFF; i++)
        if (strcasecmp(name, g_level_names[i]) == 0)
            return *out = (enum br_log_level)i, 0;
    return -1;
}

static int log_prefix(char *line, size_t size, enum br_log_level level, const char *event)
{
    struct timespec ts;
    struct tm tm;
    char when[32];
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
    return snprintf(line, size, "ts=%s.%03ldZ level=%s comp=%s event=%s ", when, ts.tv_nsec / 1000000,
                    g_level_names[level], g_comp, event);
}

/* line has room for one more byte. Nothing sensible can be done when stderr itself is gone. */
static void line_write(char *line, size_t n)
{
    char json[8192];
    if (g_json) {
        line[n] = 0;
        n = br_log_json(line, json, sizeof json - 1);
        line = json;
    }
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        return;
}

void br_log(enum br_log_level level, const char *event, const char *fmt, ...)
{
    char line[2048];
    int n;
    if (level < g_level)
        return;
    n = log_prefix(line, sizeof line, level, event);
    if (fmt && n > 0 && (size_t)n < sizeof line - 1) {
        va_list ap;
        va_start(ap, fmt);
        n += vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
        va_end(ap);
    }
    if ((size_t)n > sizeof line - 2)
        n = (int)sizeof line - 2;
    line_write(line, (size_t)n);
}

const char *br_log_quote(char *buf, unsigned long size, const char *text)
{
    unsigned long n = 0;
    buf[n++] = '"';
    for (; *text && n + 6 < size; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            buf[n++] = '\\';
            buf[n++] = (char)c;
        } else if (c < 0x20) {
            n += (unsigned long)snprintf(buf + n, size - n, "\\x%02x", c);
        } else {
            buf[n++] = (char)c;
        }
    }
    buf[n++] = '"';
    buf[n] = 0;
    return buf;
}
