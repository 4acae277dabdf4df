#include "cli/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* There, and not only waiting to be reaped. */
static bool is_alive(pid_t pid)
{
    char path[32], text[256], *end;
    FILE *f;
    size_t n;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (!f)
        return kill(pid, 0) == 0 || errno == EPERM;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    end = strrchr(text, ')'); /* "PID (NAME) STATE ...", and NAME may hold anything */
    return end && strncmp(end, ") Z", 3) != 0;
}

static int lock_held(const char *path, int fd, struct br_err *err)
{
    char text[32] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    long pid = n > 0 ? atol(text) : 0;
    if (pid > 0 && pid <= 1 << 22 && is_alive((pid_t)pid))
        return br_err_set(err, BR_EBUSY, "%s is in use by process %ld", path, pid);
    return br_err_set(err, BR_EBUSY, "%s is in use by an unknown process (process %ld took it and is gone)", path, pid);
}

/* A lock's release cannot be awaited with a time limit, so it is tried again every 20 ms. */
int cli_lock_take(const char *path, double wait_s, int *fd, struct br_err *err)
{
    const struct timespec pause = {.tv_nsec = 20 * BR_NS_PER_MS};
    double end_s = br_now_s() + wait_s;
    int rc;
    *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (*fd < 0)
        return br_err_errno(err, BR_EIO, "cannot open %s", path);
    while ((rc = flock(*fd, LOCK_EX | LOCK_NB)) && errno == EWOULDBLOCK && br_now_s() < end_s)
        nanosleep(&pause, NULL);
    if (rc)
        rc = errno == EWOULDBLOCK ? lock_held(path, *fd, err) : br_err_errno(err, BR_EIO, "cannot lock %s", path);
    else if (ftruncate(*fd, 0) || dprintf(*fd, "%d\n", (int)getpid()) < 0)
        rc = br_err_errno(err, BR_EIO, "cannot write %s", path);
    if (rc) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}
