/* Traces from texts and from the shared folder. */
#ifndef BRIAREUS_TESTS_TRAFFIC_TRACE_TEXT_H
#define BRIAREUS_TESTS_TRAFFIC_TRACE_TEXT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traffic/trace.h"

static inline int trace_text(const char *text, size_t len, const struct br_trace_options *options,
                             struct br_workload *out, struct br_trace_report *report, struct br_err *err)
{
    FILE *stream = fmemopen((void *)(uintptr_t)text, len, "r");
    int rc = br_trace_read(stream, "f", options, out, report, err);
    fclose(stream);
    return rc;
}

static inline const char *shared_trace(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/data/traces/%s", getenv("BRIAREUS_SHARED"), name);
    return path;
}

#endif
