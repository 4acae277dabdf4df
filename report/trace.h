/* Timelines in Chrome's trace-event format (JSON), as Perfetto and chrome://tracing read it. Events are written as they
 * come, so a run of any length needs no memory; the file is valid JSON after close, and readers take it without too. */
#ifndef BRIAREUS_REPORT_TRACE_H
#define BRIAREUS_REPORT_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct br_trace;

struct br_trace_arg {
    const char *name;
    const char *text; /* NULL: the number */
    double number;
};

/* BR_EIO: cannot be written. The file is replaced. */
int br_trace_open(const char *path, struct br_trace **out, struct br_err *err);
/* A file that several processes write while it grows: begun where there is none, else gone on with (an older trace, or
 * one of a sibling). It is valid JSON between any two flushes, also when its writers are killed. Events are kept back
 * until there are 64 KB or they are half a second old; the file becomes no longer than max_bytes. BR_EIO; BR_EINVAL:
 * the path is something else. */
int br_trace_join(const char *path, uint64_t max_bytes, struct br_trace **out, struct br_err *err);
/* Writes what is kept back. false: the file is full or cannot be written (logged once), and what comes is dropped. */
bool br_trace_flush(struct br_trace *trace);
/* Of a joined trace: a monotonic time (base/clock.h) as seconds from its origin. */
double br_trace_at_s(const struct br_trace *trace, int64_t monotonic_ns);
/* Finishes the file and frees. BR_EIO: something could not be written (disk full): the file is not whole. */
int br_trace_close(struct br_trace *trace, struct br_err *err);

/* Rows: a process is a group of rows (a device, the requests), a thread is one row of it. Shown by index. */
void br_trace_group(struct br_trace *trace, uint32_t group, const char *name);
void br_trace_row(struct br_trace *trace, uint32_t group, uint32_t row, const char *name);

/* Times in seconds from the run's start. Slices of one row nest or follow each other. */
void br_trace_slice(struct br_trace *trace, uint32_t group, uint32_t row, const char *name, const char *category,
                    double start_s, double duration_s, const struct br_trace_arg *args, uint32_t n_args);
/* Something that overlaps others of its row (a request): begun and ended with the same id and name. */
void br_trace_begin(struct br_trace *trace, uint32_t group, uint64_t id, const char *name, double at_s);
void br_trace_end(struct br_trace *trace, uint32_t group, uint64_t id, const char *name, double at_s);
/* A moment of such a one. */
void br_trace_mark(struct br_trace *trace, uint32_t group, uint64_t id, const char *name, double at_s);
void br_trace_instant(struct br_trace *trace, uint32_t group, uint32_t row, const char *name, double at_s);
void br_trace_counter(struct br_trace *trace, uint32_t group, const char *name, double at_s, double value);

#endif
