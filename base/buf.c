#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static void *or_abort(void *p, size_t size)
{
    if (p || size == 0)
        return p;
    br_log(BR_ERROR, "out_of_memory", "bytes=%zu", size);
    abort();
}

void *br_malloc(size_t size)
{
    return or_abort(malloc(size), size);
}

void *br_calloc(size_t count, size_t size)
{
    return or_abort(calloc(count, size), count * size);
}

void *br_realloc(void *old, size_t size)
{
    return or_abort(realloc(old, size), size);
}

char *br_strdup(const char *text)
{
    return or_abort(strdup(text), 1);
}

void br_buf_free(struct br_buf *buf)
{
    free(buf->data);
    *buf = (struct br_buf){0};
}

void br_buf_clear(struct br_buf *buf)
{
    buf->len = 0;
    if (buf->data)
        buf->data[0] = 0;
}

void br_buf_reserve(struct br_buf *buf, size_t extra)
{
    size_t need = buf->len + extra + 1;
    if (need <= buf->cap)
        return;
    buf->cap = need < 64 ? 64 : need + need / 2;
    buf->data = br_realloc(buf->data, buf->cap);
}

void br_buf_add(struct br_buf *buf, const void *data, size_t len)
{
    br_buf_reserve(buf, len);
    if (len)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = 0;
}

void br_buf_puts(struct br_buf *buf, const char *text)
{
    br_buf_add(buf, text, strlen(text));
}

void br_buf_printf(struct br_buf *buf, const char *fmt, ...)
{
    va_list ap;
    size_t room;
    int n;
    br_buf_reserve(buf, 32); /* most fits at once */
    room = buf->cap - buf->len;
    va_start(ap, fmt);
    n = vsnprintf(buf->data + buf->len, room, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n >= room) {
        br_buf_reserve(buf, (size_t)n);
        va_start(ap, fmt);
        vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    if (n < 0)
        buf->data[buf->len] = 0;
    else
        buf->len += (size_t)n;
}

void br_buf_put_u64(struct br_buf *buf, uint64_t value)
{
    char digits[20];
    size_t n = sizeof digits;
    do
        digits[--n] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    br_buf_add(buf, digits + n, sizeof digits - n);
}

void br_buf_consume(struct br_buf *buf, size_t n)
{
    if (n >= buf->len) {
        br_buf_clear(buf);
        return;
    }
    memmove(buf->data, buf->data + n, buf->len - n + 1);
    buf->len -= n;
}

/* Non-blocking, or a FIFO without a writer would hang the open; regular files do not mind. */
FILE *br_open_regular(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), saved = EINVAL;
    struct stat st;
    FILE *f = NULL;
    if (fd < 0) {
        errno = errno == ENXIO ? EINVAL : errno; /* a socket, or a device without its driver */
        return NULL;
    }
    if (fstat(fd, &st) < 0 || (S_ISREG(st.st_mode) && !(f = fdopen(fd, "rb"))))
        saved = errno;
    if (!f) {
        close(fd);
        errno = saved;
    }
    return f;
}

int br_buf_read_file(struct br_buf *buf, const char *path, size_t max)
{
    char chunk[16384];
    size_t n;
    int rc = 0;
    FILE *f = br_open_regular(path);
    if (!f)
        return -1;
    while (rc == 0 && (n = fread(chunk, 1, sizeof chunk, f)) > 0) {
        br_buf_add(buf, chunk, n);
        if (buf->len > max) {
            errno = EFBIG;
            rc = -1;
        }
    }
    if (ferror(f))
        rc = -1;
    fclose(f);
    return rc;
}

int br_buf_read_error(struct br_err *err, int code, const char *fmt, ...)
{
    int saved = errno;
    char what[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (saved == EINVAL)
        return br_err_set(err, code, "%s: not a regular file", what);
    errno = saved;
    return br_err_errno(err, code, "%s", what);
}
