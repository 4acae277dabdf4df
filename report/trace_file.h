/* A trace file that several processes write at the same time: whoever appends replaces the end of the JSON by its
 * events and a new end, in one write under a lock, so that the file is whole whenever nobody is in the middle of one,
 * and whoever finds an end missing (a process was killed in that moment) cuts back to the last whole event.
 * Private to report/. */
#ifndef BRIAREUS_REPORT_TRACE_FILE_H
#define BRIAREUS_REPORT_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct trace_file;

/* Begins a file where there is none (or an empty one); else goes on behind what another has written. origin_ns: the
 * monotonic time that times in it count from. BR_EIO: cannot be opened; BR_EINVAL: it is something else. */
int trace_file_join(const char *path, uint64_t max_bytes, struct trace_file **out, int64_t *origin_ns,
                    struct br_err *err);
/* Events, each with ",\n" in front. BR_ENOMEM: the file has its size, a note about that stands at its end. BR_EIO. */
int trace_file_append(struct trace_file *file, const char *events, size_t len);
void trace_file_close(struct trace_file *file);

#endif
