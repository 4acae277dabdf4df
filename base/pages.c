#include "base/pages.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

const char *br_pages_name(enum br_pages pages)
{
    static const char *const names[] = {"small", "transparent", "reserved"};
    return names[pages];
}

void *br_pages_space(uint64_t offset, uint64_t bytes)
{
    uint64_t room = bytes + 2ull * BR_HUGE_PAGE, head;
    char *at = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    head = (BR_HUGE_PAGE - (uintptr_t)at % BR_HUGE_PAGE) % BR_HUGE_PAGE + offset % BR_HUGE_PAGE;
    if (head)
        munmap(at, head);
    if (room - head > bytes)
        munmap(at + head + bytes, room - head - bytes);
    return at + head;
}

/* The setting in force stands in brackets. */
bool br_pages_transparent(bool shmem)
{
    FILE *file = fopen(shmem ? "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
                             : "/sys/kernel/mm/transparent_hugepage/enabled",
                       "re");
    char text[200] = "";
    bool off = !file || !fgets(text, sizeof text, file) || strstr(text, "[never]") || strstr(text, "[deny]");
    if (file)
        fclose(file);
    return !off;
}

static uint64_t whole(uint64_t bytes)
{
    return (bytes + BR_HUGE_PAGE - 1) / BR_HUGE_PAGE * BR_HUGE_PAGE;
}

void *br_pages_alloc(uint64_t bytes, enum br_pages *got)
{
    int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    void *space = br_pages_space(0, whole(bytes));
    enum br_pages pages = BR_PAGES_RESERVED;
    if (!space)
        return NULL;
    if (mmap(space, whole(bytes), access, flags | MAP_HUGETLB, -1, 0) == MAP_FAILED) {
        if (mmap(space, whole(bytes), access, flags | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
            munmap(space, whole(bytes));
            return NULL;
        }
        bool advised = madvise(space, whole(bytes), MADV_HUGEPAGE) == 0 && br_pages_transparent(false);
        pages = advised ? BR_PAGES_TRANSPARENT : BR_PAGES_SMALL;
    }
    if (got)
        *got = pages;
    return space;
}

void br_pages_free(void *at, uint64_t bytes)
{
    if (at)
        munmap(at, whole(bytes));
}
