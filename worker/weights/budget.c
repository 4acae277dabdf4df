#include "worker/weights/budget.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

struct br_budget {
    _Atomic uint64_t limit, used;
};

static int file_open(const char *dir, bool first, struct br_err *err)
{
    char path[512];
    struct stat sb;
    int fd;
    snprintf(path, sizeof path, "%s/" BR_BUDGET_FILE, dir);
    fd = open(path, O_RDWR | (first ? O_CREAT : 0) | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return br_err_errno(err, BR_EIO, "%s", path);
    if (fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_uid == geteuid() && !(sb.st_mode & 077) &&
        (first ? ftruncate(fd, sizeof(struct br_budget)) == 0 : sb.st_size == sizeof(struct br_budget)))
        return fd;
    close(fd);
    return br_err_set(err, BR_EINVAL, "%s is not a file of this user's cache: remove it", path);
}

int br_budget_open(const char *dir, bool first, uint64_t limit_bytes, struct br_budget **out, struct br_err *err)
{
    int fd = file_open(dir, first, err), rc;
    struct br_budget *b;
    if (fd < 0)
        return fd;
    rc = first ? posix_fallocate(fd, 0, sizeof *b) : 0;
    b = rc ? MAP_FAILED : mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (b == MAP_FAILED) {
        errno = rc ? rc : errno;
        return br_err_errno(err, BR_ENOMEM, "%s/" BR_BUDGET_FILE, dir);
    }
    if (first) {
        atomic_store(&b->limit, limit_bytes ? limit_bytes : UINT64_MAX);
        atomic_store(&b->used, 0);
    }
    *out = b;
    return 0;
}

void br_budget_close(struct br_budget *b)
{
    if (b)
        munmap(b, sizeof *b);
}

bool br_budget_take(struct br_budget *b, uint64_t bytes)
{
    uint64_t used = atomic_load(&b->used), limit = atomic_load(&b->limit);
    do
        if (used > limit || bytes > limit - used)
            return false;
    while (!atomic_compare_exchange_weak(&b->used, &used, used + bytes));
    return true;
}

void br_budget_force(struct br_budget *b, uint64_t bytes)
{
    atomic_fetch_add(&b->used, bytes);
}

/* Never below nothing: what a killed process had taken may have been counted out already. */
void br_budget_give(struct br_budget *b, uint64_t bytes)
{
    uint64_t used = atomic_load(&b->used);
    while (!atomic_compare_exchange_weak(&b->used, &used, used > bytes ? used - bytes : 0))
        ;
}

uint64_t br_budget_limit(const struct br_budget *b)
{
    return atomic_load(&b->limit);
}

uint64_t br_budget_used(const struct br_budget *b)
{
    return atomic_load(&b->used);
}
