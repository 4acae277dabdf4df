/* Recorded traffic, read line by line. What a file is, its first line says:
 *   azure:    CSV TIMESTAMP,ContextTokens,GeneratedTokens; date and time, 100 ns; t = 0 is the first request
 *   mooncake: JSON lines {"timestamp": ms, "input_length", "output_length", "hash_ids": [ids of 512-token blocks]}
 *   aegaeon:  CSV Request Time,Model Name,Input Length,Output Length; HH:MM:SS.mmm
 *   burstgpt: CSV Timestamp,Model,Request tokens,Response tokens,...; seconds
 *   servegen: rates by window; not requests: see market.h
 * Columns go by name, more columns are ignored. Requests without prompt or output (failed ones, in BurstGPT) are left
 * out and counted. Gaps are fine. */
#ifndef BRIAREUS_TRAFFIC_TRACE_H
#define BRIAREUS_TRAFFIC_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "traffic/workload.h"

enum br_trace_format {
    BR_TRACE_AUTO,
    BR_TRACE_AZURE,
    BR_TRACE_MOONCAKE,
    BR_TRACE_AEGAEON,
    BR_TRACE_BURSTGPT,
    BR_TRACE_SERVEGEN,
};
enum { BR_TRACE_MAX_LINE = 1 << 20, BR_TRACE_MAX_BLOCKS = 1 << 16 };
#define BR_TRACE_MAX_BYTES (4ull << 30)

/* Zeroes: everything as it is in the file, stop at the first bad line. */
struct br_trace_options {
    enum br_trace_format format;
    bool skip_bad;         /* leave out and count malformed lines instead of stopping */
    bool sort;             /* times that go back: sort instead of refusing */
    double from_s;         /* what is before is left out; then t = 0 */
    double duration_s;     /* what is at or after from_s + duration_s is left out; 0: to the end */
    double time_scale;     /* times are multiplied by it after the cut: .5 = twice the load; 0: 1 */
    double prompt_scale;   /* lengths are multiplied by it, rounded, at least 1; 0: 1 */
    double output_scale;   /* the same */
    uint32_t block_tokens; /* mooncake: tokens of a hash_ids block; 0: 512 */
    const char *model;     /* name for traces without one; NULL: "trace" */
    uint64_t max_bytes;    /* of the file; 0: BR_TRACE_MAX_BYTES */
};

struct br_trace_report {
    enum br_trace_format format;
    uint64_t lines;      /* read, header included */
    uint64_t requests;   /* taken */
    uint64_t skipped;    /* malformed */
    uint64_t empty;      /* without prompt or output */
    uint64_t outside;    /* before from_s or after the end */
    uint64_t back;       /* times before their predecessor's */
    struct br_err first; /* the first malformed line; code 0: none */
};

/* "auto", "azure", "mooncake", "aegaeon", "burstgpt", "servegen"; BR_EINVAL names the nearest one. */
int br_trace_format_parse(const char *name, enum br_trace_format *out, struct br_err *err);
const char *br_trace_format_name(enum br_trace_format format);
/* By the file's first line; BR_EINVAL shows it and lists the formats. */
int br_trace_detect(const char *path, enum br_trace_format *out, struct br_err *err);

/* The whole trace as a workload, sorted. Errors: "FILE:LINE: column GeneratedTokens: 'abc' is not a whole number ...".
 * On failure *out is empty; *report (may be NULL) is filled either way. */
int br_trace_load(const char *path, const struct br_trace_options *options, struct br_workload *out,
                  struct br_trace_report *report, struct br_err *err);
/* The same from an open stream, which is read to its end and stays the caller's; `file` names it in errors. */
int br_trace_read(FILE *stream, const char *file, const struct br_trace_options *options, struct br_workload *out,
                  struct br_trace_report *report, struct br_err *err);

#endif
