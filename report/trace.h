/* Timelines in Chrome's trace-event format (JSON), as Perfetto and chrome://tracing read it. Events are written as they
 * come, so a run of any length needs no memory; the file is valid JSON after close, and readers take it without too. */
#ifndef BRIAREUS_REPORT_TRACE_H
#define BRIAREUS_REPORT_TRACE_H

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
void br_trace_instant(struct br_trace *trace, uint32_t group, uint32_t row, const char *name, double at_s);
void br_trace_counter(struct br_trace *trace, uint32_t group, const char *name, double at_s, double value);

#endif
