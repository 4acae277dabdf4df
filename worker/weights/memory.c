#include "worker/weights/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static uint64_t pages(uint64_t bytes)
{
    return (bytes + BR_PAGE - 1) / BR_PAGE * BR_PAGE;
}

unsigned char *br_memory_map(int fd, uint64_t at, uint64_t bytes, bool writable)
{
    unsigned char *space = br_pages_space(at, pages(bytes));
    if (!space)
        return NULL;
    if (mmap(space, pages(bytes), writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED, fd,
             (off_t)at) == MAP_FAILED) {
        int why = errno;
        munmap(space, pages(bytes));
        errno = why;
        return NULL;
    }
    madvise(space, pages(bytes), MADV_HUGEPAGE); /* refused where there are none */
    return space;
}

void br_memory_unmap(const void *at, uint64_t bytes)
{
    if (at)
        munmap((void *)at, pages(bytes)); // NOLINT: unmapping changes nothing that is pointed to
}

/* Kernels before 5.14: blocks of the file instead of pages of the mapping, which are never huge ones then. */
static int blocks_reserve(int fd, uint64_t offset, uint64_t bytes)
{
    int rc;
    do
        rc = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    while (rc == EINTR);
    return rc;
}

uint64_t br_memory_collapse(unsigned char *at, uint64_t bytes)
{
    uintptr_t from = ((uintptr_t)at + BR_HUGE_PAGE - 1) & ~(uintptr_t)(BR_HUGE_PAGE - 1);
    uintptr_t end = (uintptr_t)at + bytes;
    uint64_t huge = 0;
    for (; from + BR_HUGE_PAGE <= end; from += BR_HUGE_PAGE)
        if (madvise((void *)from, BR_HUGE_PAGE, MADV_COLLAPSE) == 0)
            huge += BR_HUGE_PAGE;
    return huge;
}

int br_memory_populate(int fd, uint64_t offset, void *at, uint64_t bytes, struct br_err *err)
{
    unsigned char *from = (unsigned char *)((uintptr_t)at & ~(uintptr_t)(BR_PAGE - 1));
    int rc;
    bytes = pages(bytes + (uint64_t)((unsigned char *)at - from));
    do
        rc = madvise(from, bytes, MADV_POPULATE_WRITE) ? errno : 0;
    while (rc == EINTR || rc == EAGAIN);
    if (rc == EINVAL || rc == ENOSYS)
        rc = blocks_reserve(fd, offset & ~(BR_PAGE - 1ull), bytes);
    if (rc == 0)
        return 0;
    errno = rc == EFAULT ? ENOSPC : rc; /* where a write would have raised SIGBUS */
    return br_err_errno(err, BR_ENOMEM, "taking %" PRIu64 " bytes of memory", bytes);
}

int br_memory_pin(const void *at, uint64_t bytes, struct br_err *err)
{
    struct rlimit limit = {0};
    int why;
    if (mlock2(at, bytes, 0) == 0)
        return 0;
    why = errno;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (why != ENOMEM && why != EPERM && why != EAGAIN)
        return br_err_set(err, BR_EIO, "locking %" PRIu64 " bytes in memory: %s", bytes, strerror(why));
    return br_err_set(err, BR_ENOMEM,
                      "%" PRIu64 " bytes more cannot be locked in memory: the limit is %" PRIu64
                      " bytes in all; raise it (ulimit -l, LimitMEMLOCK= of a systemd unit)",
                      bytes, (uint64_t)limit.rlim_cur);
}

uint64_t br_memory_huge_bytes(const void *at)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    char line[512];
    bool here = false;
    uint64_t from, to, kib, bytes = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2)
            here = from <= (uintptr_t)at && (uintptr_t)at < to;
        else if (here && (sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1 ||
                          sscanf(line, "FilePmdMapped: %" SCNu64, &kib) == 1 ||
                          sscanf(line, "AnonHugePages: %" SCNu64, &kib) == 1 ||
                          sscanf(line, "Private_Hugetlb: %" SCNu64, &kib) == 1))
            bytes += kib << 10;
    }
    if (maps)
        fclose(maps);
    return bytes;
}

/* "0-1,4" as bits; nodes from 64 on are left out. */
static uint64_t nodes_online(uint32_t *n)
{
    FILE *file = fopen("/sys/devices/system/node/has_memory", "re");
    unsigned from, to;
    uint64_t mask = 0;
    char next = ',';
    while (file && next == ',' && fscanf(file, "%u", &from) == 1) {
        to = from;
        if (fscanf(file, "-%u", &to) < 0)
            to = from;
        for (unsigned i = from; i <= to && i < 64; i++)
            mask |= 1ull << i;
        if (fscanf(file, "%c", &next) != 1)
            break;
    }
    if (file)
        fclose(file);
    *n = (uint32_t)__builtin_popcountll(mask);
    return mask;
}

uint32_t br_memory_spread(void *at, uint64_t bytes)
{
    uint32_t n;
    unsigned long mask = nodes_online(&n);
    if (n > 1)
        syscall(SYS_mbind, at, pages(bytes), MPOL_INTERLEAVE, &mask, 64ul + 1, 0); /* a wish: refused is no error */
    return n ? n : 1;
}

int br_file_write(int fd, uint64_t offset, const void *data, uint64_t bytes, struct br_err *err)
{
    const unsigned char *at = data;
    while (bytes) {
        ssize_t n = pwrite(fd, at, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int no_room = n == 0 || errno == ENOSPC || errno == EFBIG || errno == ENOMEM || errno == EDQUOT;
            return br_err_errno(err, no_room ? BR_ENOMEM : BR_EIO, "writing %" PRIu64 " bytes", bytes);
        }
        at += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}
