/* A growable byte buffer, always NUL-terminated so that it can be printed. Growth failure aborts the process: sizes
 * are bounded by the callers' limits long before memory runs out. */
#ifndef BRIAREUS_BASE_BUF_H
#define BRIAREUS_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct br_buf {
    char *data; /* owned; NULL until first use */
    size_t len, cap;
};

void br_buf_free(struct br_buf *buf);
void br_buf_clear(struct br_buf *buf);
void br_buf_reserve(struct br_buf *buf, size_t extra);
void br_buf_add(struct br_buf *buf, const void *data, size_t len);
void br_buf_puts(struct br_buf *buf, const char *text);
void br_buf_printf(struct br_buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void br_buf_put_u64(struct br_buf *buf, uint64_t value); /* in decimal: where printf would be felt */
/* Drops the first n bytes. */
void br_buf_consume(struct br_buf *buf, size_t n);
/* Appends a whole file of at most max bytes; -1 and errno (EFBIG if larger, EINVAL if it is a folder, FIFO, device or
 * socket; never waits for a writer). */
int br_buf_read_file(struct br_buf *buf, const char *path, size_t max);
/* Opens a file for reading, to be read in pieces; NULL and errno as above. */
FILE *br_open_regular(const char *path);
/* br_err_errno for a read that failed: EINVAL becomes "not a regular file". */
int br_buf_read_error(struct br_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* malloc family that aborts with a message instead of returning NULL. */
void *br_malloc(size_t size);
void *br_calloc(size_t count, size_t size);
void *br_realloc(void *old, size_t size);
char *br_strdup(const char *text);

#endif
