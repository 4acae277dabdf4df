#include "report/trace_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

/* The first event makes every later one begin with a comma. */
static const char HEAD[] = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"monotonic_origin_ns\":\"%020" PRId64
                           "\"},\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"begin\",\"args\":{}}",
                  ORIGIN[] = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"monotonic_origin_ns\":\"%20" SCNd64,
                  TAIL[] = "\n]}\n", SEPARATOR[] = ",\n{\"ph\"",
                  FULL[] = ",\n{\"ph\":\"M\",\"pid\":0,\"name\":\"full\",\"args\":{\"what\":\"this file has the size "
                           "that it may have; what came later is not in it\"}}";
enum { TAIL_BYTES = sizeof TAIL - 1, SEPARATOR_BYTES = sizeof SEPARATOR - 1, HEAD_MAX = 256, WINDOW = 1 << 16 };

struct trace_file {
    int fd;
    uint64_t max_bytes;
};

static int write_at(int fd, const char *data, size_t len, off_t at)
{
    while (len) {
        ssize_t n = pwrite(fd, data, len, at);
        if (n <= 0)
            return BR_EIO;
        data += n;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Events and a new end at `at`, which is where the old end begins. */
static int put(int fd, const char *events, size_t len, off_t at)
{
    char *all = br_malloc(len + TAIL_BYTES);
    memcpy(all, events, len);
    memcpy(all + len, TAIL, TAIL_BYTES);
    int rc = write_at(fd, all, len + TAIL_BYTES, at);
    free(all);
    return rc;
}

/* The last place where an event begins; 0: none. */
static off_t last_event(int fd, off_t size)
{
    char *window = br_malloc(WINDOW);
    off_t found = 0;
    for (off_t end = size; end > 0 && !found;) {
        off_t from = end > WINDOW ? end - WINDOW : 0;
        ssize_t n = pread(fd, window, (size_t)(end - from), from);
        for (ssize_t i = n - SEPARATOR_BYTES; i >= 0 && !found; i--)
            if (memcmp(window + i, SEPARATOR, SEPARATOR_BYTES) == 0)
                found = from + i;
        end = from > 0 ? from + SEPARATOR_BYTES - 1 : 0;
    }
    free(window);
    return found;
}

static bool is_trace(int fd, int64_t *origin_ns)
{
    char head[HEAD_MAX] = "";
    return pread(fd, head, sizeof head - 1, 0) > 0 && sscanf(head, ORIGIN, origin_ns) == 1;
}

/* Where the end begins; a missing one is put there. < 0: it cannot be. */
static off_t end_find(int fd)
{
    struct stat st;
    char tail[TAIL_BYTES];
    if (fstat(fd, &st) || st.st_size <= TAIL_BYTES)
        return -1;
    if (pread(fd, tail, TAIL_BYTES, st.st_size - TAIL_BYTES) == TAIL_BYTES && memcmp(tail, TAIL, TAIL_BYTES) == 0)
        return st.st_size - TAIL_BYTES;
    off_t cut = last_event(fd, st.st_size);
    return cut > 0 && ftruncate(fd, cut) == 0 && write_at(fd, TAIL, TAIL_BYTES, cut) == 0 ? cut : -1;
}

static int begin(int fd, int64_t *origin_ns)
{
    char head[HEAD_MAX];
    *origin_ns = br_now_ns();
    int n = snprintf(head, sizeof head, HEAD, *origin_ns);
    return put(fd, head, (size_t)n, 0);
}

static int open_locked(int fd, const char *path, int64_t *origin_ns, struct br_err *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return br_err_errno(err, BR_EIO, "%s", path);
    if (!S_ISREG(st.st_mode))
        return br_err_set(err, BR_EINVAL, "trace: %s is no regular file", path);
    if (st.st_size == 0 && begin(fd, origin_ns))
        return br_err_errno(err, BR_EIO, "%s", path);
    if (!is_trace(fd, origin_ns))
        return br_err_set(err, BR_EINVAL, "trace: %s is there and no trace of briareus: give another name", path);
    return end_find(fd) < 0 ? br_err_set(err, BR_EIO, "trace: %s cannot be mended; remove it", path) : 0;
}

int trace_file_join(const char *path, uint64_t max_bytes, struct trace_file **out, int64_t *origin_ns,
                    struct br_err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644), rc; /* a FIFO must not keep us waiting */
    if (fd < 0)
        return br_err_errno(err, BR_EIO, "trace: %s", path);
    flock(fd, LOCK_EX);
    rc = open_locked(fd, path, origin_ns, err);
    flock(fd, LOCK_UN);
    if (rc) {
        close(fd);
        return rc;
    }
    *out = br_malloc(sizeof **out);
    **out = (struct trace_file){fd, max_bytes};
    return 0;
}

static int append_locked(struct trace_file *f, const char *events, size_t len)
{
    off_t end = end_find(f->fd);
    if (end < 0)
        return BR_EIO;
    if ((uint64_t)end + len + sizeof FULL + TAIL_BYTES <= f->max_bytes)
        return put(f->fd, events, len, end);
    if ((uint64_t)end + sizeof FULL + TAIL_BYTES <= f->max_bytes) {
        f->max_bytes = 0; /* once */
        int rc = put(f->fd, FULL, sizeof FULL - 1, end);
        return rc ? rc : BR_ENOMEM;
    }
    return BR_ENOMEM;
}

int trace_file_append(struct trace_file *f, const char *events, size_t len)
{
    if (len == 0)
        return 0;
    flock(f->fd, LOCK_EX);
    int rc = append_locked(f, events, len);
    flock(f->fd, LOCK_UN);
    return rc;
}

void trace_file_close(struct trace_file *f)
{
    close(f->fd);
    free(f);
}
