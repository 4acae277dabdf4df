/* A text file, line by line, within limits; then a CSV file by named columns. Private to traffic/.
 * Errors read "FILE:LINE: ...". After BR_EINVAL the next line can be read on; other errors end the reading. */
#ifndef BRIAREUS_TRAFFIC_LINES_H
#define BRIAREUS_TRAFFIC_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct lines {
    FILE *stream;     /* borrowed */
    const char *file; /* borrowed; for errors */
    uint64_t number;  /* of the line just read, from 1 */
    uint64_t bytes, max_bytes;
    size_t max_line;
    char *text; /* owned; the line without its end, NUL-terminated */
    size_t len, room;
};

void lines_init(struct lines *lines, FILE *stream, const char *file, uint64_t max_bytes, size_t max_line);
void lines_free(struct lines *lines);
/* 1: a line, which may be empty; 0: the end. BR_EINVAL: line too long (its rest is passed over) or with a zero byte;
 * BR_ENOTSUP: file too large; BR_EIO. */
int lines_next(struct lines *lines, struct br_err *err);
/* "FILE:LINE: ..." with BR_EINVAL. */
int lines_fail(const struct lines *lines, struct br_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

enum { CSV_MAX_COLUMNS = 64, CSV_MAX_NAMED = 16 };

struct csv {
    struct lines lines;
    const char *const *names; /* of the columns that are wanted; borrowed */
    int n_names, where[CSV_MAX_NAMED];
    char *fields[CSV_MAX_COLUMNS]; /* into lines.text */
    int n_fields;
};

/* Splits the current line at its commas (no quoting: none of the formats needs any); false: too many columns. */
bool csv_split(struct csv *csv);
bool csv_has(const struct csv *csv, const char *column); /* in the fields of the current line */
/* Takes the current line as the header and finds the named columns in it. */
int csv_header(struct csv *csv, const char *const *names, int n, struct br_err *err);
/* 1: a row that has all named columns, 0: the end; empty lines are passed over. */
int csv_next(struct csv *csv, struct br_err *err);
const char *csv_field(const struct csv *csv, int name);
/* "FILE:LINE: column NAME: 'VALUE' is not WHAT". */
int csv_fail(const struct csv *csv, int name, const char *what, struct br_err *err);
/* A whole number from 0 to max; a finite number from 0 to max. */
int csv_count(const struct csv *csv, int name, uint64_t max, uint64_t *out, struct br_err *err);
int csv_number(const struct csv *csv, int name, double max, double *out, struct br_err *err);

#endif
