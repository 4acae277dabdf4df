/* One format's row. Private to traffic/. */
#ifndef BRIAREUS_TRAFFIC_TRACE_ROW_H
#define BRIAREUS_TRAFFIC_TRACE_ROW_H

#include "traffic/lines.h"
#include "traffic/trace.h"

struct trace_row {
    int64_t at_ns; /* azure: since 1970; else as the file counts */
    uint64_t prompt, output;
    const char *model; /* NULL: the format has none */
    uint64_t *blocks;  /* owned by the reader of rows, BR_TRACE_MAX_BLOCKS */
    uint32_t n_blocks;
};

/* By the fields of the first line; false: none of the formats. */
bool trace_csv_detect(const struct csv *csv, enum br_trace_format *out);
int trace_csv_header(struct csv *csv, enum br_trace_format format, struct br_err *err);
/* The current row of a CSV format. BR_EINVAL: malformed. */
int trace_csv_row(const struct csv *csv, enum br_trace_format format, struct trace_row *row, struct br_err *err);
/* The current line of mooncake. BR_EINVAL: malformed. */
int trace_json_row(const struct lines *lines, uint32_t block_tokens, struct trace_row *row, struct br_err *err);

#endif
