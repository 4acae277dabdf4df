#include "report/trace.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "report/trace_file.h"

enum { PENDING_BYTES = 1 << 16, PENDING_NS = 500 * BR_NS_PER_MS };

struct br_trace {
    FILE *file; /* NULL: joined */
    struct trace_file *joined;
    struct br_buf pending; /* of a joined one: not in the file yet */
    int64_t pending_since_ns, origin_ns;
    bool lost; /* full, or not to be written */
    char *path;
    struct br_buf line; /* of the event at hand */
    bool any;
};

int br_trace_open(const char *path, struct br_trace **out, struct br_err *err)
{
    struct br_trace *t = br_calloc(1, sizeof *t);
    t->file = fopen(path, "w");
    if (!t->file) {
        free(t);
        return br_err_errno(err, BR_EIO, "%s", path);
    }
    t->path = br_strdup(path);
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", t->file);
    *out = t;
    return 0;
}

int br_trace_join(const char *path, uint64_t max_bytes, struct br_trace **out, struct br_err *err)
{
    struct br_trace *t = br_calloc(1, sizeof *t);
    if (trace_file_join(path, max_bytes, &t->joined, &t->origin_ns, err)) {
        free(t);
        return err->code;
    }
    t->path = br_strdup(path);
    t->any = true;
    *out = t;
    return 0;
}

bool br_trace_flush(struct br_trace *t)
{
    int rc = t->lost || !t->joined ? 0 : trace_file_append(t->joined, t->pending.data, t->pending.len);
    if (rc)
        br_log(BR_WARN, "trace_ends", "file=%s why=%s", BR_Q(t->path),
               rc == BR_ENOMEM ? BR_Q("it has the size that it may have") : BR_Q("it cannot be written"));
    t->lost = t->lost || rc;
    br_buf_clear(&t->pending);
    return !t->lost;
}

double br_trace_at_s(const struct br_trace *t, int64_t monotonic_ns)
{
    return (double)(monotonic_ns - t->origin_ns) / 1e9;
}

static int close_joined(struct br_trace *t, struct br_err *err)
{
    br_trace_flush(t);
    int rc = t->lost ? br_err_set(err, BR_EIO, "%s: the end is not in it: full, or not to be written", t->path) : 0;
    trace_file_close(t->joined);
    br_buf_free(&t->pending);
    br_buf_free(&t->line);
    free(t->path);
    free(t);
    return rc;
}

int br_trace_close(struct br_trace *t, struct br_err *err)
{
    if (t->joined)
        return close_joined(t, err);
    fputs("\n]}\n", t->file);
    int bad = ferror(t->file), rc = 0;
    bad |= fclose(t->file);
    if (bad)
        rc = br_err_set(err, BR_EIO, "%s: not written whole; is the disk full?", t->path);
    br_buf_free(&t->line);
    free(t->path);
    free(t);
    return rc;
}

static void text(struct br_buf *b, const char *s)
{
    br_buf_puts(b, "\"");
    for (; s && *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x20 || c == '"' || c == '\\')
            br_buf_printf(b, "\\u%04x", c);
        else
            br_buf_add(b, s, 1);
    }
    br_buf_puts(b, "\"");
}

static void number(struct br_buf *b, double value)
{
    if (isfinite(value))
        br_buf_printf(b, "%.9g", value);
    else
        br_buf_puts(b, "null");
}

/* Microseconds with a resolution of one nanosecond. */
static void micros(struct br_buf *b, const char *member, double seconds)
{
    br_buf_printf(b, ",\"%s\":%.3f", member, isfinite(seconds) ? seconds * 1e6 : 0.);
}

static struct br_buf *event(struct br_trace *t, char phase, uint32_t group, const char *name)
{
    br_buf_clear(&t->line);
    br_buf_printf(&t->line, "%s{\"ph\":\"%c\",\"pid\":%u,\"name\":", t->any ? ",\n" : "", phase, group);
    text(&t->line, name);
    t->any = true;
    return &t->line;
}

static void keep_back(struct br_trace *t)
{
    int64_t now_ns = br_now_ns();
    if (t->lost)
        return;
    if (t->pending.len == 0)
        t->pending_since_ns = now_ns;
    br_buf_add(&t->pending, t->line.data, t->line.len);
    if (t->pending.len >= PENDING_BYTES || now_ns - t->pending_since_ns >= PENDING_NS)
        br_trace_flush(t);
}

static void done(struct br_trace *t)
{
    br_buf_puts(&t->line, "}");
    if (t->joined)
        keep_back(t);
    else
        fwrite(t->line.data, 1, t->line.len, t->file);
}

static void metadata(struct br_trace *t, uint32_t group, int64_t row, const char *kind, const char *name)
{
    struct br_buf *b = event(t, 'M', group, kind);
    if (row >= 0)
        br_buf_printf(b, ",\"tid\":%lld", (long long)row);
    br_buf_puts(b, ",\"args\":{\"name\":");
    text(b, name);
    br_buf_puts(b, "}");
    done(t);
}

static void sort_index(struct br_trace *t, uint32_t group, int64_t row, const char *kind, uint32_t index)
{
    struct br_buf *b = event(t, 'M', group, kind);
    if (row >= 0)
        br_buf_printf(b, ",\"tid\":%lld", (long long)row);
    br_buf_printf(b, ",\"args\":{\"sort_index\":%u}", index);
    done(t);
}

void br_trace_group(struct br_trace *t, uint32_t group, const char *name)
{
    metadata(t, group, -1, "process_name", name);
    sort_index(t, group, -1, "process_sort_index", group);
}

void br_trace_row(struct br_trace *t, uint32_t group, uint32_t row, const char *name)
{
    metadata(t, group, row, "thread_name", name);
    sort_index(t, group, row, "thread_sort_index", row);
}

static void add_args(struct br_buf *b, const struct br_trace_arg *args, uint32_t n)
{
    br_buf_puts(b, ",\"args\":{");
    for (uint32_t i = 0; i < n; i++) {
        br_buf_puts(b, i ? "," : "");
        text(b, args[i].name);
        br_buf_puts(b, ":");
        if (args[i].text)
            text(b, args[i].text);
        else
            number(b, args[i].number);
    }
    br_buf_puts(b, "}");
}

void br_trace_slice(struct br_trace *t, uint32_t group, uint32_t row, const char *name, const char *category,
                    double start_s, double duration_s, const struct br_trace_arg *args, uint32_t n_args)
{
    struct br_buf *b = event(t, 'X', group, name);
    br_buf_printf(b, ",\"tid\":%u,\"cat\":", row);
    text(b, category);
    micros(b, "ts", start_s);
    micros(b, "dur", duration_s > 0 ? duration_s : 0);
    if (n_args)
        add_args(b, args, n_args);
    done(t);
}

static void async(struct br_trace *t, char phase, uint32_t group, uint64_t id, const char *name, double at_s)
{
    struct br_buf *b = event(t, phase, group, name);
    br_buf_printf(b, ",\"tid\":0,\"cat\":\"request\",\"id\":\"0x%llx\"", (unsigned long long)id);
    micros(b, "ts", at_s);
    done(t);
}

void br_trace_begin(struct br_trace *t, uint32_t group, uint64_t id, const char *name, double at_s)
{
    async(t, 'b', group, id, name, at_s);
}

void br_trace_end(struct br_trace *t, uint32_t group, uint64_t id, const char *name, double at_s)
{
    async(t, 'e', group, id, name, at_s);
}

void br_trace_mark(struct br_trace *t, uint32_t group, uint64_t id, const char *name, double at_s)
{
    async(t, 'n', group, id, name, at_s);
}

void br_trace_instant(struct br_trace *t, uint32_t group, uint32_t row, const char *name, double at_s)
{
    struct br_buf *b = event(t, 'i', group, name);
    br_buf_printf(b, ",\"tid\":%u,\"s\":\"t\"", row);
    micros(b, "ts", at_s);
    done(t);
}

void br_trace_counter(struct br_trace *t, uint32_t group, const char *name, double at_s, double value)
{
    struct br_buf *b = event(t, 'C', group, name);
    micros(b, "ts", at_s);
    br_buf_puts(b, ",\"args\":{\"value\":");
    number(b, value);
    br_buf_puts(b, "}");
    done(t);
}
